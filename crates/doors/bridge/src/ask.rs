//! What a harness asks and what it is told, in words of no harness. These shapes travel between a bridge process and its node.

use crate::harness::Harness;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::PathBuf;

/// One hook event of a harness.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ask {
    /// Who asks.
    pub harness: Harness,
    /// The harness's id of the conversation; that of a subagent where the harness gives it one of its own.
    pub session: String,
    /// The harness's id of the turn that belongs to one prompt, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<String>,
    /// The folder that the harness works in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The subagent that it happens in; none: the main agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<Agent>,
    /// What happens.
    pub what: What,
}

/// A subagent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agent {
    /// The harness's id of it.
    pub id: String,
    /// What kind of subagent, as the harness calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The conversation or subagent that started it, where that is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
}

/// What happens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum What {
    /// A conversation begins or is taken up again.
    Started {
        /// How, in the harness's word.
        source: Option<String>,
    },
    /// A person, or the harness itself, gives the agent something to do.
    Prompt {
        /// The words.
        text: String,
    },
    /// A call is about to be made.
    Before {
        /// The call.
        #[serde(flatten)]
        call: Call,
    },
    /// A call was made.
    After {
        /// The call.
        #[serde(flatten)]
        call: Call,
        /// A string, or a list of MCP content blocks.
        result: Value,
        /// The result as the harness has it, where that is neither.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        structured: Option<Value>,
        /// Whether it failed.
        is_error: bool,
    },
    /// The agent ends its turn; `agent` says whether it is a subagent.
    Stop {
        /// Its last words, where the harness tells them.
        output: Option<String>,
        /// The stop before this one was held, and nobody has said anything since.
        already_held: bool,
        /// A file of the harness's that holds them, where it tells that instead, and the stop's time as it stands there. Not for the node.
        #[serde(skip)]
        transcript: Option<(PathBuf, u64)>,
    },
    /// A subagent begins.
    SubagentStart,
    /// The conversation ends.
    Ended {
        /// Why, in the harness's word.
        reason: Option<String>,
    },
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// The harness's id of the call. Some have none: calls are told apart by what they are then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The tool, as the harness calls it.
    pub tool: String,
    /// `server.function`, where it is an MCP call. Where the harness's name can be split in several ways, all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// The arguments.
    pub arguments: Value,
}

/// Who decides what hooks escalate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Escalate {
    /// Whoever may decide approvals; the harness waits.
    #[default]
    Wait,
    /// The person at the harness, by its own prompt.
    Ask,
}

/// One line from a bridge process to its node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// The event.
    pub ask: Ask,
    /// Who decides what hooks escalate.
    #[serde(default)]
    pub escalate: Escalate,
    /// How long the bridge waits for the reply, in milliseconds.
    pub wait_ms: u64,
    /// The tenant whose hooks are asked, where the bridge was installed for one. Absent: the node's first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
}

/// What becomes of it: one line from the node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case", deny_unknown_fields)]
pub enum Reply {
    /// It goes on as it is.
    Allow,
    /// It does not happen.
    Deny {
        /// What the model reads.
        text: String,
    },
    /// The call is made with these arguments.
    Rewrite {
        /// They.
        arguments: Value,
    },
    /// The person at the harness decides.
    AskPerson {
        /// What they are asked.
        text: String,
        /// The call is made with these arguments, where hooks changed them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arguments: Option<Value>,
    },
    /// The model reads this instead of the result.
    Replace {
        /// A string, or a list of MCP content blocks.
        result: Value,
    },
    /// The model does not read the result.
    Withhold {
        /// What it reads instead.
        text: String,
    },
    /// The agent goes on instead of stopping.
    Hold {
        /// What it reads.
        text: String,
    },
}
