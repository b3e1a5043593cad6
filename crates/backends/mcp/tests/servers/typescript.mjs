// Hook functions on the TypeScript SDK, which is found in the folder that the first argument names.
import { createRequire } from "node:module";

const require = createRequire(`${process.argv[2]}/package.json`);
const { McpServer } = require("@modelcontextprotocol/sdk/server/mcp.js");
const { StdioServerTransport } = require("@modelcontextprotocol/sdk/server/stdio.js");
const { z } = require("zod");

const server = new McpServer({ name: "typescript", version: "1" });
const inputSchema = { event: z.record(z.string(), z.any()) };

server.registerTool("text", { inputSchema }, async () => ({ content: [{ type: "text", text: '{"decision":"allow"}' }] }));
server.registerTool("structured", { inputSchema, outputSchema: { decision: z.string() } }, async () => ({
  structuredContent: { decision: "allow" },
}));
server.registerTool("plain", { inputSchema }, async ({ event }) => ({ decision: "allow", event: event.event }));
server.registerTool("raises", { inputSchema }, async () => {
  throw new Error("the cause");
});

await server.connect(new StdioServerTransport());
