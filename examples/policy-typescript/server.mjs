// @ts-check
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { z } from "zod";

/** @typedef {{ event: string, arguments?: Record<string, unknown>, output?: unknown }} Event */
/** @typedef {{ decision: "allow" | "modify" | "deny" | "escalate", reason?: string, output?: string }} Answer */

const server = new McpServer({ name: "policy", version: "1.0.0" });

/** @param {Event} event @returns {Answer} */
export function check(event) {
  if (event.event === "pre_tool_call" && event.arguments?.branch === "main") {
    return { decision: "escalate", reason: "a push to main" };
  }
  if (event.event === "job_end") {
    return { decision: "modify", output: event.output + "\n\nChecked by policy." };
  }
  return { decision: "allow" };
}

server.registerTool(
  "check",
  // `looseObject`: the event's further keys come through too.
  { description: "Decide on a call or a job.", inputSchema: { event: z.looseObject({ event: z.string() }) } },
  async ({ event }) => ({ content: [], structuredContent: check(event) }),
);

await server.connect(new StdioServerTransport());
