// @ts-check
// The hooks of the plugin {{name}}. Change `check`; mcp-stdio.mjs speaks the protocol.
import { serve } from "./mcp-stdio.mjs";

/**
 * Ask a person before anything is done to the branch `main`.
 * @param {import("./types").Event} event
 * @returns {import("./types").Answer}
 */
function check(event) {
  if (event.event === "pre_tool_call" && event.arguments.branch === "main") {
    return { decision: "escalate", reason: `${event.tool} on main` };
  }
  return { decision: "allow" };
}

serve("{{name}}", { check });
