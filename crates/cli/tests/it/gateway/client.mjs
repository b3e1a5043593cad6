// Drives `hookwright gateway` with the official TypeScript SDK, over stdin and stdout or, where a URL is named, over HTTP; prints what
// it saw as JSON lines.
//   node client.mjs FOLDER COMMAND [ARG …]
//   node client.mjs URL
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(process.env.HOOKWRIGHT_TEST_TOOLS + "/node/package.json");
const sdk = (path) => import(pathToFileURL(require.resolve("@modelcontextprotocol/sdk/" + path)).href);
const { Client } = await sdk("client/index.js");
const { StdioClientTransport } = await sdk("client/stdio.js");
const { StreamableHTTPClientTransport } = await sdk("client/streamableHttp.js");

const [first, command, ...args] = process.argv.slice(2);
const transport = command
  ? new StdioClientTransport({ command, args, cwd: first, stderr: "ignore" })
  : new StreamableHTTPClientTransport(new URL(first));
const client = new Client({ name: "typescript client", version: "1" });
const show = (kind, value) => console.log(JSON.stringify({ [kind]: value }));
await client.connect(transport);
show("tools", (await client.listTools()).tools.map((tool) => tool.name));
const told = [];
const onprogress = (progress) => told.push(progress);
for (const [name, a] of [["work.echo", { a: 0 }], ["work.echo", { a: 1 }], ["work.rich", {}], ["work.nothing", {}]]) {
  show("result", await client.callTool({ name, arguments: a }, undefined, { onprogress }));
}
show("progress", told);
const many = Array.from({ length: 64 }, (_, n) => client.callTool({ name: "work.echo", arguments: { n } }));
show("many", (await Promise.all(many)).map((result) => result.structuredContent.n));
await client.close();
