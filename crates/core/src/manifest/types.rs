//! What a manifest says, normalized: defaults filled in, durations in milliseconds.

use crate::FunctionName;
use crate::event::Moment;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// A plugin's manifest.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Manifest {
    /// The plugin's id; default: its folder's name.
    pub id: String,
    /// SHA-256 of the manifest's text as it was read, 64 hex digits.
    pub sha256: String,
    /// Its MCP servers.
    pub tools: Vec<ToolDecl>,
    /// Its hooks, in manifest order.
    pub hooks: Vec<HookDecl>,
    /// Its agents.
    pub agents: Vec<AgentDecl>,
}

/// An MCP server that a plugin declares.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ToolDecl {
    /// Its id, unique within a tenant.
    pub id: String,
    /// How it is reached.
    pub mcp: McpDecl,
    /// One server for the node or one for each session. Absent: `session` for servers on the lifecycle allowlist, else `node`.
    pub scope: Option<Scope>,
    /// Bare names of functions that may be called again where it is not known whether a call was made.
    pub idempotent: Vec<String>,
    /// Whether the server's own readOnly/idempotent hints are believed.
    pub trust_annotations: bool,
    /// Milliseconds that the server may take to start. Default 30,000.
    pub start_timeout_ms: u64,
    /// What goes to and fro between it and a client of the gateway without any hook being asked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub passes: Vec<Pass>,
}

/// A part of MCP beside calls of functions, which hooks don't see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Pass {
    /// Resources, their templates and subscriptions to them.
    Resources,
    /// Prompts.
    Prompts,
    /// Completions of arguments of prompts and resource templates.
    Completions,
    /// The server's log messages.
    Logging,
    /// The server asks the client's model.
    Sampling,
    /// The server asks the client's user.
    Elicitation,
    /// The server asks for the client's folders.
    Roots,
}

impl Pass {
    /// All of them, by their names in a manifest.
    pub const NAMED: [(&'static str, Self); 7] = [
        ("resources", Self::Resources),
        ("prompts", Self::Prompts),
        ("completions", Self::Completions),
        ("logging", Self::Logging),
        ("sampling", Self::Sampling),
        ("elicitation", Self::Elicitation),
        ("roots", Self::Roots),
    ];

    /// Whether it comes from the server: then it can only be passed where the server belongs to one session.
    pub fn is_of_server(self) -> bool {
        matches!(self, Self::Logging | Self::Sampling | Self::Elicitation | Self::Roots)
    }
}

/// How an MCP server is reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "transport", rename_all = "snake_case")]
pub enum McpDecl {
    /// A child process that speaks on its standard streams, started in the plugin's folder.
    Stdio {
        /// Program and arguments; never empty.
        command: Vec<String>,
        /// Variables beside PATH, HOME, LANG and TMPDIR.
        env: BTreeMap<String, Secret>,
    },
    /// Streamable HTTP.
    Http {
        /// `http://` or `https://`.
        url: String,
        /// Headers sent with every request.
        headers: BTreeMap<String, Secret>,
    },
}

/// A value that a manifest gives as text, or names by a variable of the node's environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Secret {
    /// The text itself.
    Plain(String),
    /// Taken from the node's environment when the server starts; never stored.
    From {
        /// The variable.
        from: String,
    },
}

/// How many servers a tool has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// One for the node.
    Node,
    /// One for each session.
    Session,
}

/// One `hooks:` entry.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HookDecl {
    /// The moment at which it is asked.
    pub on: Moment,
    /// The function that is called.
    pub call: FunctionName,
    /// What it watches.
    #[serde(rename = "match")]
    pub matches: Match,
    /// Milliseconds from the ask to the complete answer. 1–30,000, default 2,000.
    pub timeout_ms: u64,
    /// What counts where it does not answer.
    pub on_timeout: OnTimeout,
    /// Milliseconds until an approval that it asks for counts as a no. Default 86,400,000 (24 h).
    pub expires_ms: u64,
    /// Who may decide: names of people or groups. Empty: anybody.
    pub approvers: Vec<String>,
    /// 1-based line in the manifest, for messages.
    pub line: u32,
}

/// Which events a hook watches: those that fit both lists; an absent list fits everything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Match {
    /// Patterns over functions' full names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// Patterns over agents' ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agents: Option<Vec<String>>,
}

/// What counts as the answer of a hook that gave none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnTimeout {
    /// Deny: fail closed.
    #[default]
    Deny,
    /// The previous value goes on.
    Allow,
    /// A person decides.
    Escalate,
}

/// An agent.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AgentDecl {
    /// Its id.
    pub id: String,
    /// For people and for agents that start it.
    pub description: Option<String>,
    /// What runs it.
    pub runs: AgentRuns,
    /// The system prompt.
    pub instructions: Option<String>,
    /// Tool ids, or full function names with `*`. Absent: all functions of its own plugin.
    pub tools: Option<Vec<String>>,
    /// JSON Schema of its input; absent: text.
    pub input_schema: Option<Value>,
    /// JSON Schema of its output; absent: text.
    pub output_schema: Option<Value>,
    /// Model turns of a job.
    pub max_turns: Option<u32>,
    /// Output tokens of a model turn.
    pub max_tokens: Option<u32>,
    /// Tokens of the model's window, where the provider does not tell, or tells wrongly.
    pub context_window: Option<u32>,
    /// Agents of its tenant that it may start.
    pub subagents: Vec<String>,
}

/// What runs an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentRuns {
    /// Hookwright's own loop over a model, e.g. `anthropic/claude-sonnet-4-5` or `script/demo.yaml`.
    Model(String),
    /// Somebody else's runtime.
    Harness(HarnessDecl),
}

/// A harness as an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HarnessDecl {
    /// Which one, e.g. `claude-agent-sdk`.
    pub harness: String,
    /// Program and first arguments; absent: the harness's usual program, as PATH finds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// Variables beside PATH, HOME, LANG and TMPDIR.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, Secret>,
}
