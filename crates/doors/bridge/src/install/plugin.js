// Asks Hookwright's hooks before and after each call; MARK.
// `hookwright uninstall opencode` removes it.
//
// Whatever goes wrong is a no: before a call and at a prompt it throws, after a call the result is replaced.
import { spawn } from "node:child_process"

const COMMAND = "COMMAND"
const TIMEOUT_MS = "TIMEOUT_MS"
const MAX_ANSWER = 32 * 1024 * 1024

const failed = (why) => "Hookwright let nothing through, because its bridge failed (" + why + ")."

// One event to the bridge, one answer back. Never rejects.
function ask(event, payload) {
  return new Promise((resolve) => {
    const no = (why) => resolve({ decision: "deny", text: failed(why) })
    let child
    try {
      const words = COMMAND.map((word) => (word === "EVENT" ? event : word))
      child = spawn(words[0], words.slice(1), { stdio: ["pipe", "pipe", "ignore"] })
    } catch (error) {
      return no(String(error && error.message))
    }
    const timer = setTimeout(() => {
      child.kill("SIGKILL")
      no("it did not answer in time")
    }, TIMEOUT_MS)
    const chunks = []
    let size = 0
    child.stdout.on("data", (chunk) => {
      size += chunk.length
      if (size > MAX_ANSWER) child.kill("SIGKILL")
      else chunks.push(chunk)
    })
    child.on("error", (error) => {
      clearTimeout(timer)
      no(String(error && error.message))
    })
    child.on("close", (code) => {
      clearTimeout(timer)
      try {
        const answer = JSON.parse(Buffer.concat(chunks).toString("utf8"))
        if (answer === null || typeof answer !== "object" || typeof answer.decision !== "string") return no("no answer")
        if (answer.decision === "allow" && code !== 0) return no("it ended with code " + code)
        resolve(answer)
      } catch (error) {
        no("it ended with code " + code + " and no answer")
      }
    })
    child.stdin.on("error", () => {})
    child.stdin.end(JSON.stringify({ event, ...payload }), "utf8")
  })
}

export const Hookwright = async ({ directory }) => {
  const parents = new Map()
  const said = new Map()
  let servers = []
  const about = (session) => ({ session, parent: parents.get(session) ?? null, cwd: directory })

  return {
    config: async (config) => {
      servers = Object.keys((config && config.mcp) || {})
    },
    event: async ({ event }) => {
      const properties = event.properties || {}
      const session = properties.sessionID || (properties.info && properties.info.id)
      if (event.type === "session.created" && properties.info && properties.info.parentID) {
        parents.set(properties.info.id, properties.info.parentID)
      } else if (event.type === "session.idle" && session) {
        await ask("session.idle", { ...about(session), output: said.get(session) ?? null })
      } else if (event.type === "session.deleted" && session) {
        await ask("session.deleted", about(session))
        parents.delete(session)
        said.delete(session)
      }
    },
    "chat.message": async (input, output) => {
      const parts = (output && output.parts) || []
      const prompt = parts.filter((part) => part.type === "text").map((part) => part.text).join("\n")
      const answer = await ask("chat.message", { ...about(input.sessionID), prompt })
      if (answer.decision !== "allow") throw new Error(answer.text || failed("no reason"))
    },
    "experimental.text.complete": async (input, output) => {
      said.set(input.sessionID, output.text)
    },
    "tool.execute.before": async (input, output) => {
      const call = { call: input.callID, tool: input.tool, servers, arguments: output.args ?? {} }
      const answer = await ask("tool.execute.before", { ...about(input.sessionID), ...call })
      if (answer.decision === "allow") return
      if (answer.decision === "rewrite" && answer.arguments !== null && typeof answer.arguments === "object") {
        // Only what is changed in place counts.
        for (const key of Object.keys(output.args)) if (!(key in answer.arguments)) delete output.args[key]
        Object.assign(output.args, answer.arguments)
        return
      }
      throw new Error(answer.text || failed("no reason"))
    },
    "tool.execute.after": async (input, output) => {
      const result = output.content ?? output.output ?? ""
      const call = { call: input.callID, tool: input.tool, servers, arguments: input.args ?? {}, result }
      const answer = await ask("tool.execute.after", { ...about(input.sessionID), ...call })
      if (answer.decision === "allow") return
      const text = answer.text || failed("no reason")
      if (output.content !== undefined) output.content = [{ type: "text", text }]
      if (output.output !== undefined || output.content === undefined) output.output = text
      if (output.metadata && typeof output.metadata.output === "string") output.metadata.output = text
      if (output.structuredContent !== undefined) delete output.structuredContent
    },
  }
}
