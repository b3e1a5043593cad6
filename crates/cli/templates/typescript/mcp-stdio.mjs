// @ts-check
// The Model Context Protocol on the standard streams, as far as a hook server needs it: nothing to install. What a function
// logs goes to standard error, since standard output belongs to the protocol.
import { createInterface } from "node:readline";
import { Console } from "node:console";

const VERSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
const INPUT = { type: "object", properties: { event: { type: "object" } }, required: ["event"] };

/** @typedef {(event: import("./types").Event) => import("./types").Answer | Promise<import("./types").Answer>} Hook */

/** A request that gets a JSON-RPC error. */
class Refused extends Error {
  /** @param {number} code @param {string} message */
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

/**
 * The result of `tools/call`. A function that throws is a failed call, so the manifest's `on_timeout` applies.
 * @param {Map<string, Hook>} functions @param {any} params
 */
async function call(functions, params) {
  const hook = functions.get(params.name);
  if (!hook) throw new Refused(-32602, `unknown function: ${params.name}`);
  try {
    const answer = await hook(params.arguments.event);
    return { content: [{ type: "text", text: JSON.stringify(answer) }], structuredContent: answer };
  } catch (error) {
    console.error(params.name, error);
    return { content: [{ type: "text", text: String(error) }], isError: true };
  }
}

/**
 * The result of a request.
 * @param {string} name @param {Map<string, Hook>} functions @param {string} method @param {any} params
 */
async function answer(name, functions, method, params) {
  switch (method) {
    case "initialize":
      return {
        protocolVersion: VERSIONS.includes(params.protocolVersion) ? params.protocolVersion : VERSIONS.at(-1),
        capabilities: { tools: {} },
        serverInfo: { name, version: "1.0.0" },
      };
    case "ping":
      return {};
    case "tools/list":
      return { tools: [...functions.keys()].map((key) => ({ name: key, description: `Hook ${key}.`, inputSchema: INPUT })) };
    case "tools/call":
      return call(functions, params);
    default:
      throw new Refused(-32601, `unknown method: ${method}`);
  }
}

/**
 * What is sent back for a line; nothing for a notification.
 * @param {string} name @param {Map<string, Hook>} functions @param {string} line
 */
async function reply(name, functions, line) {
  let message;
  try {
    message = JSON.parse(line);
  } catch {
    message = null;
  }
  if (typeof message?.method !== "string") {
    return { jsonrpc: "2.0", id: null, error: { code: -32700, message: "not a JSON-RPC request" } };
  }
  if (message.id === undefined || message.id === null) return undefined;
  try {
    return { jsonrpc: "2.0", id: message.id, result: await answer(name, functions, message.method, message.params ?? {}) };
  } catch (error) {
    const { code, text } = error instanceof Refused ? { code: error.code, text: error.message } : { code: -32603, text: String(error) };
    return { jsonrpc: "2.0", id: message.id, error: { code, message: text } };
  }
}

/**
 * Answers requests, also several at once, until standard input ends.
 * @param {string} name @param {Record<string, Hook>} functions
 */
export function serve(name, functions) {
  globalThis.console = new Console(process.stderr);
  const byName = new Map(Object.entries(functions));
  createInterface({ input: process.stdin, crlfDelay: Infinity }).on("line", async (line) => {
    const sent = line.trim() ? await reply(name, byName, line) : undefined;
    if (sent) process.stdout.write(JSON.stringify(sent) + "\n");
  });
}
