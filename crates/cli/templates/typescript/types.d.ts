/** What a hook is asked about, and what it may answer. Keys may be added in later versions. */

interface Common {
  job: string;
  agent: string;
  tenant: string;
  node: string;
  /** The job that started this one, for a subagent's. */
  parent_job?: string;
}

interface Call extends Common {
  /** The call's id within the job. */
  call: string;
  /** The function's full name, e.g. `github.merge`. */
  tool: string;
  arguments: Record<string, unknown>;
}

export interface JobStart extends Common {
  event: "job_start";
  /** Text, or any JSON where the agent declares a schema. */
  input: unknown;
}

export interface PreToolCall extends Call {
  event: "pre_tool_call";
}

export interface PostToolCall extends Call {
  event: "post_tool_call";
  /** Text where the call gave one text block, else the list of MCP content blocks. */
  result: string | { type: string; [key: string]: unknown }[];
  structured?: unknown;
  error: boolean;
}

export interface JobEnd extends Common {
  event: "job_end";
  /** Text, or any JSON where the agent declares a schema. */
  output: unknown;
}

export type Event = JobStart | PreToolCall | PostToolCall | JobEnd;

export type Answer =
  | { decision: "allow"; reason?: string }
  | { decision: "deny"; reason?: string }
  | { decision: "escalate"; reason?: string }
  | { decision: "modify"; reason?: string; input: unknown }
  | { decision: "modify"; reason?: string; arguments: Record<string, unknown> }
  | { decision: "modify"; reason?: string; result: PostToolCall["result"] }
  | { decision: "modify"; reason?: string; output: unknown };
