// A server that offers what the MCP conformance suite asks of one, on the official TypeScript SDK:
//   node conforming.mjs              over stdin and stdout
//   node conforming.mjs --http       over Streamable HTTP on a free port of loopback, which is the first line on stdout
// The suite names functions, resources and prompts; what they give back is ours.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { createServer } from "node:http";
import { randomUUID } from "node:crypto";

const require = createRequire(process.env.HOOKWRIGHT_TEST_TOOLS + "/node/package.json");
const sdk = (path) => import(pathToFileURL(require.resolve("@modelcontextprotocol/sdk/" + path)).href);
const { Server } = await sdk("server/index.js");
const { StdioServerTransport } = await sdk("server/stdio.js");
const { StreamableHTTPServerTransport } = await sdk("server/streamableHttp.js");
const types = await sdk("types.js");

const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";
const WAV = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";
const pause = (ms) => new Promise((done) => setTimeout(done, ms));
const text = (text) => ({ type: "text", text });
const image = { type: "image", data: PNG, mimeType: "image/png" };
const plain = { type: "object", properties: {} };
const needs = (name) => ({ type: "object", properties: { [name]: { type: "string" } }, required: [name] });

// name: [schema of the arguments, what a call does]
const tools = {
  test_simple_text: [plain, () => [text("This is a simple text response for testing.")]],
  test_image_content: [plain, () => [image]],
  test_audio_content: [plain, () => [{ type: "audio", data: WAV, mimeType: "audio/wav" }]],
  test_embedded_resource: [plain, () => [
    { type: "resource", resource: { uri: "test://embedded-resource", mimeType: "text/plain", text: "An embedded resource." } },
  ]],
  test_multiple_content_types: [plain, () => [
    text("Several kinds of content:"), image,
    { type: "resource", resource: { uri: "test://mixed-content-resource", mimeType: "application/json", text: '{"value":123}' } },
  ]],
  test_tool_with_logging: [plain, async (_, { server }) => {
    for (const data of ["Tool execution started", "Tool processing data", "Tool execution completed"]) {
      await server.notification({ method: "notifications/message", params: { level: "info", data } });
      await pause(50);
    }
    return [text("logged")];
  }],
  test_tool_with_progress: [plain, async (_, { extra }) => {
    const progressToken = extra._meta?.progressToken;
    for (const progress of [0, 50, 100]) {
      if (progressToken !== undefined) {
        await extra.sendNotification({ method: "notifications/progress", params: { progressToken, progress, total: 100 } });
      }
      await pause(50);
    }
    return [text("done")];
  }],
  test_error_handling: [plain, () => { throw new Error("This tool intentionally returns an error for testing"); }],
  test_sampling: [needs("prompt"), async ({ prompt }, { extra }) => {
    const said = await extra.sendRequest(
      { method: "sampling/createMessage", params: { messages: [{ role: "user", content: text(prompt) }], maxTokens: 100 } },
      types.CreateMessageResultSchema,
    );
    return [text("LLM response: " + said.content.text)];
  }],
  test_elicitation: [needs("message"), ({ message }, how) => elicit(how, message, {
    username: { type: "string", description: "User's response" },
    email: { type: "string", description: "User's email address" },
  }, ["username", "email"])],
  test_elicitation_sep1034_defaults: [plain, (_, how) => elicit(how, "With defaults", {
    name: { type: "string", default: "John Doe" },
    age: { type: "integer", default: 30 },
    score: { type: "number", default: 95.5 },
    status: { type: "string", enum: ["active", "inactive", "pending"], default: "active" },
    verified: { type: "boolean", default: true },
  })],
  test_elicitation_sep1330_enums: [plain, (_, how) => elicit(how, "All kinds of choices", {
    untitledSingle: { type: "string", enum: ["option1", "option2", "option3"] },
    titledSingle: { type: "string", oneOf: [1, 2, 3].map((n) => ({ const: "value" + n, title: "Option " + n })) },
    legacyEnum: { type: "string", enum: ["opt1", "opt2", "opt3"], enumNames: ["Option One", "Option Two", "Option Three"] },
    untitledMulti: { type: "array", items: { type: "string", enum: ["option1", "option2", "option3"] } },
    titledMulti: { type: "array", items: { anyOf: [1, 2, 3].map((n) => ({ const: "value" + n, title: "Choice " + n })) } },
  })],
  // The suite looks at the form of the stream; this server never closes one early.
  test_reconnection: [plain, () => [text("The stream stays open.")]],
  json_schema_2020_12_tool: [{
    $schema: "https://json-schema.org/draft/2020-12/schema",
    type: "object",
    $defs: { address: { type: "object", properties: { street: { type: "string" }, city: { type: "string" } } } },
    properties: { name: { type: "string" }, address: { $ref: "#/$defs/address" } },
    additionalProperties: false,
  }, () => [text("ok")]],
};

async function elicit({ extra }, message, properties, required) {
  const requestedSchema = { type: "object", properties, ...(required && { required }) };
  const said = await extra.sendRequest({ method: "elicitation/create", params: { message, requestedSchema } }, types.ElicitResultSchema);
  return [text(`Elicitation completed: action=${said.action}, content=${JSON.stringify(said.content)}`)];
}

const resources = {
  "test://static-text": { mimeType: "text/plain", text: "This is the content of the static text resource." },
  "test://static-binary": { mimeType: "image/png", blob: PNG },
  "test://watched-resource": { mimeType: "text/plain", text: "Watched." },
};

const user = (content) => ({ role: "user", content });
const prompts = {
  test_simple_prompt: [[], () => [user(text("This is a simple prompt for testing."))]],
  test_prompt_with_arguments: [["arg1", "arg2"], (a) => [user(text(`Prompt with arguments: arg1='${a.arg1}', arg2='${a.arg2}'`))]],
  test_prompt_with_embedded_resource: [["resourceUri"], (a) => [
    user({ type: "resource", resource: { uri: a.resourceUri, mimeType: "text/plain", text: "Embedded." } }),
    user(text("Please process the embedded resource above.")),
  ]],
  test_prompt_with_image: [[], () => [user(image), user(text("Please analyze the image above."))]],
};

function conforming() {
  const server = new Server({ name: "conforming", version: "1.0.0" }, {
    capabilities: { tools: { listChanged: true }, resources: { subscribe: true, listChanged: true }, prompts: { listChanged: true }, logging: {}, completions: {} },
  });
  const on = (schema, handler) => server.setRequestHandler(schema, handler);
  on(types.ListToolsRequestSchema, () => ({
    tools: Object.entries(tools).map(([name, [inputSchema]]) => ({ name, description: `The function ${name}`, inputSchema })),
  }));
  on(types.CallToolRequestSchema, async ({ params }, extra) => {
    const tool = tools[params.name];
    if (!tool) throw new types.McpError(types.ErrorCode.InvalidParams, `unknown tool ${params.name}`);
    try {
      return { content: await tool[1](params.arguments ?? {}, { server, extra }) };
    } catch (error) {
      return { content: [text(error.message)], isError: true };
    }
  });
  on(types.ListResourcesRequestSchema, () => ({
    resources: Object.entries(resources).map(([uri, { mimeType }]) => ({ uri, name: uri.slice(7), description: "A resource", mimeType })),
  }));
  on(types.ListResourceTemplatesRequestSchema, () => ({
    resourceTemplates: [{ uriTemplate: "test://template/{id}/data", name: "template", mimeType: "application/json" }],
  }));
  on(types.ReadResourceRequestSchema, ({ params: { uri } }) => {
    const id = /^test:\/\/template\/([^/]+)\/data$/.exec(uri)?.[1];
    const found = id ? { mimeType: "application/json", text: JSON.stringify({ id, data: `Data for ID: ${id}` }) } : resources[uri];
    if (!found) throw new types.McpError(-32002, `no resource ${uri}`, { uri });
    return { contents: [{ uri, ...found }] };
  });
  on(types.SubscribeRequestSchema, () => ({}));
  on(types.UnsubscribeRequestSchema, () => ({}));
  on(types.ListPromptsRequestSchema, () => ({
    prompts: Object.entries(prompts).map(([name, [names]]) => ({
      name, description: `The prompt ${name}`, arguments: names.map((name) => ({ name, description: "An argument", required: true })),
    })),
  }));
  on(types.GetPromptRequestSchema, ({ params }) => {
    const prompt = prompts[params.name];
    if (!prompt) throw new types.McpError(types.ErrorCode.InvalidParams, `no prompt ${params.name}`);
    return { messages: prompt[1](params.arguments ?? {}) };
  });
  on(types.CompleteRequestSchema, () => ({ completion: { values: ["paris", "park"], total: 2, hasMore: false } }));
  on(types.SetLevelRequestSchema, () => ({}));
  return server;
}

if (process.argv[2] !== "--http") {
  await conforming().connect(new StdioServerTransport());
} else {
  const sessions = new Map();
  const http = createServer(async (request, response) => {
    const known = sessions.get(request.headers["mcp-session-id"]);
    if (known) return known.handleRequest(request, response);
    const port = http.address().port;
    const transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (id) => sessions.set(id, transport),
      enableDnsRebindingProtection: true,
      allowedHosts: [`127.0.0.1:${port}`, `localhost:${port}`],
      allowedOrigins: [`http://127.0.0.1:${port}`, `http://localhost:${port}`],
    });
    await conforming().connect(transport);
    await transport.handleRequest(request, response);
  });
  http.listen(0, "127.0.0.1", () => console.log(http.address().port));
}
