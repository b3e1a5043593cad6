//! What a job is made of, and how it ends.

use crate::Limits;
use crate::hooks::HookSet;
use crate::lifecycle::LifecycleSpec;
use crate::stored::Stored;
use crate::subagent::SubagentSpec;
use serde::{Deserialize, Serialize};

/// The version of the machine's logic. Older histories replay with the logic they were made with (SPEC §8).
///
/// 3 knows agents that somebody else runs, and keeps an output that a lifecycle hook objects to until another one stands, and begins the ask at a session's end; 2 asks lifecycle hooks, compacts, and binds a result's structured content to an approval; 1
/// does none of these.
pub const LOGIC_VERSION: u32 = 3;

/// Everything that decides how a job goes on, read once when it starts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct JobSpec {
    /// The version of the machine's logic.
    pub logic: u32,
    /// The job's id.
    pub job: String,
    /// The tenant's id.
    pub tenant: String,
    /// The home node's id.
    pub node: String,
    /// The session's id.
    pub session: String,
    /// The jobs above it, outermost first, for a subagent's job.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parent_jobs: Vec<String>,
    /// The job of the same session whose conversation this one goes on with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<Continues>,
    /// The agent.
    pub agent: AgentSpec,
    /// The input: text, or any JSON where the agent declares a schema.
    pub input: Stored,
    /// The hooks that may be asked.
    pub hooks: HookSet,
    /// Functions that any hook of the tenant names under `call`: hidden from models unless an agent lists them by full name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hook_functions: Vec<String>,
    /// The limits.
    pub limits: Limits,
    /// Whose lifecycle hooks are asked; absent: nobody's. Since logic 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifecycle: Option<LifecycleSpec>,
}

/// The conversation before a job: that of the session's earlier jobs, which the machine never looks into.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Continues {
    /// The session's job before this one.
    pub job: String,
    /// The running digest over the conversation at that job's end.
    pub conversation: String,
    /// How many messages it has.
    pub messages: u32,
    /// Bytes of their values.
    pub bytes: u64,
    /// Tokens of it, as the provider reported them with that job's last turn (its request and its answer).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// What the session began with, where that is short: compactions keep it word for word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<FirstPrompt>,
}

/// The prompt that a session began with. Its words stand in the history of its own job alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct FirstPrompt {
    /// The job whose input it is.
    pub job: String,
    /// Its bytes.
    pub bytes: u64,
}

impl JobSpec {
    /// Whether an output that a lifecycle hook objects to may still be the job's: where the agent can't go on.
    pub fn keeps_objected(&self) -> bool {
        self.logic >= 3
    }

    /// Whether a record says that the ask at the session's end begins.
    pub fn begins_session_end(&self) -> bool {
        self.logic >= 3
    }

    /// A job of an agent without hooks, by the present logic and with the default limits, in the tenant `default` and a session of its
    /// own. Whoever has more to say sets the fields.
    pub fn new(job: impl Into<String>, agent: AgentSpec, input: Stored) -> Self {
        let job = job.into();
        Self {
            logic: LOGIC_VERSION,
            tenant: "default".into(),
            node: "localhost".into(),
            session: format!("session of {job}"),
            job,
            parent_jobs: vec![],
            continues: None,
            agent,
            input,
            hooks: HookSet::default(),
            hook_functions: vec![],
            limits: Limits::default(),
            lifecycle: None,
        }
    }
}

impl AgentSpec {
    /// An agent that sees no functions, without instructions and schemas, for so many model turns.
    pub fn new(id: impl Into<String>, plugin: impl Into<String>, model: impl Into<String>, max_turns: u32) -> Self {
        Self {
            id: id.into(),
            plugin: plugin.into(),
            model: model.into(),
            instructions: None,
            tools: None,
            own_tools: vec![],
            input_schema: None,
            output_schema: None,
            max_turns,
            max_tokens: None,
            context_window: None,
            subagents: vec![],
            external: None,
        }
    }
}

/// An agent, as it was when the job started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct AgentSpec {
    /// Its id.
    pub id: String,
    /// The plugin that it comes from.
    pub plugin: String,
    /// The model, e.g. `anthropic/claude-sonnet-4-5`; for an agent that somebody else runs, what runs it, e.g. `harness/claude-code`.
    pub model: String,
    /// The system prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<Stored>,
    /// Tool ids or patterns over full names; absent: all functions of its own plugin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// Ids of its own plugin's tools: what it sees where `tools` is absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub own_tools: Vec<String>,
    /// JSON Schema of the input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<Stored>,
    /// JSON Schema of the output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Stored>,
    /// Model turns of the job.
    pub max_turns: u32,
    /// Output tokens of a model turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// Tokens of the model's window: what the manifest says, else what the provider told when the job started. Absent: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    /// The agents of its tenant that it may start, as they were then. Empty: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subagents: Vec<SubagentSpec>,
    /// Somebody else runs it: no model is asked here, its calls and outputs come from outside. Since logic 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<External>,
}

/// An agent that somebody else runs: a harness, or a client of the gateway.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct External {
    /// Whether it makes its calls itself, once they are allowed; else they are made here.
    #[serde(default)]
    pub makes_calls: bool,
    /// How often a denied output sends it back to work; the next denial ends the job.
    #[serde(default)]
    pub holds: u32,
}

/// How a job ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum Outcome {
    /// With an output.
    Completed {
        /// The output.
        output: Stored,
    },
    /// Without.
    Failed {
        /// Why.
        error: JobError,
    },
    /// Somebody cancelled it.
    Cancelled {
        /// Who.
        by: String,
    },
}

/// Why a job failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct JobError {
    /// `HookDenied`, `ModelFailed`, `ContextFull`, `MaxTokens`, `Refused`, `MaxTurns`, `BadOutput`, `HarnessFailed`, `CallLimit` or `TokenLimit`.
    #[serde(rename = "type")]
    pub kind: String,
    /// For people.
    pub message: String,
    /// The hook that denied, for `HookDenied`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hook: Option<String>,
    /// Its reason, for `HookDenied`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl JobError {
    /// An error without a hook.
    pub(crate) fn plain(kind: &str, message: impl Into<String>) -> Self {
        Self { kind: kind.to_owned(), message: message.into(), hook: None, reason: None }
    }
}
