//! Lifecycle hooks: functions whose bare name starts with `_`, asked for advice at set points of a job (SPEC §9).
//!
//! What a server says is text. It goes to the model as the result of a call (so it has no more weight than a tool's result), in a JSON
//! object that names the hook and the server: no text can pose as another server's.
//!
//! Invariant: advice never binds. Whatever goes wrong with a server is an outcome of that server, and the agent goes on.
//! Invariant: a hook is a point and a server; names are never joined to look one up.

mod deliver;
mod input;
mod patience;
mod said;

pub(crate) use deliver::pair;
pub use deliver::{is_delivery, provider_id};
pub use input::input;
pub use patience::{Patience, Strike};
pub use said::{Delivered, body, text_of};

use crate::message::StopReason;
use crate::stored::Stored;
use serde::{Deserialize, Serialize};

/// A moment at which servers may be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Point {
    /// Before the first model turn of a session.
    SessionStart,
    /// Before the first model turn of a prompt.
    UserPromptSubmit,
    /// Before the first model turn of a subagent's job, into that job's conversation.
    SubagentStart,
    /// The model ended its turn; what is said is an objection.
    Stop,
    /// After a compaction, before the next model turn.
    PostCompact,
    /// The session was closed; what is said is recorded only.
    SessionEnd,
}

impl Point {
    /// All points, in the order of a session.
    pub const ALL: [Self; 6] = [
        Self::SessionStart,
        Self::UserPromptSubmit,
        Self::SubagentStart,
        Self::Stop,
        Self::PostCompact,
        Self::SessionEnd,
    ];

    /// The bare name of the function that is called, e.g. `_Stop`.
    pub const fn function(self) -> &'static str {
        match self {
            Self::SessionStart => "_SessionStart",
            Self::UserPromptSubmit => "_UserPromptSubmit",
            Self::SubagentStart => "_SubagentStart",
            Self::Stop => "_Stop",
            Self::PostCompact => "_PostCompact",
            Self::SessionEnd => "_SessionEnd",
        }
    }

    /// The point at which a function of that bare name is called, if any.
    pub fn of_function(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|point| point.function() == name)
    }

    /// The point at which an effect of that id asks, if it does: `t3.stop` asks at [`Point::Stop`].
    pub fn of_effect(effect: &str) -> Option<Self> {
        match effect {
            "session_start" => Some(Self::SessionStart),
            "prompt_submit" => Some(Self::UserPromptSubmit),
            "subagent_start" => Some(Self::SubagentStart),
            "session_end" => Some(Self::SessionEnd),
            _ => match effect.rsplit_once('.')?.1 {
                "stop" => Some(Self::Stop),
                last if last.starts_with("post_compact") => Some(Self::PostCompact),
                _ => None,
            },
        }
    }

    /// The point's part of ids, short and of letters.
    pub(crate) const fn short(self) -> &'static str {
        match self {
            Self::SessionStart => "start",
            Self::UserPromptSubmit => "prompt",
            Self::SubagentStart => "agent",
            Self::Stop => "stop",
            Self::PostCompact => "compact",
            Self::SessionEnd => "end",
        }
    }
}

/// The lifecycle hooks of a job, as they were configured when it started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LifecycleSpec {
    /// Ids of the tools whose lifecycle hooks are asked, in the tenant's order. Empty: none, and the rest goes on with the session.
    pub servers: Vec<String>,
    /// Milliseconds that one hook may take.
    pub timeout_ms: u64,
    /// Rejections of one session that are heeded; 0 disables `_Stop`.
    pub max_rejections: u32,
    /// Rejections that earlier jobs of the session used up.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rejections_used: u32,
    /// Whether this is the first job of its session.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub session_start: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// What a hook may be told, where its own schema declares the property. `agent`, `job` and `session` stand in the job's spec.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Context {
    /// The job's input, as the hooks at its start left it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<Stored>,
    /// How often the point was reached in this job, this time included; 1-based.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// Rejections that the session has left, before this ask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejections_left: Option<u32>,
    /// Why the model's turn ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<StopReason>,
}

/// Why nobody is asked although servers are allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Skip {
    /// The session's rejections are used up.
    BudgetUsedUp,
    /// The objection was heard, and the model ended its turn again without calling anything.
    Declined,
    /// The agent's `max_turns` leaves no turn in which an objection could be heeded.
    NoTurnLeft,
    /// After an objection the agent could not go on: the output that was objected to stands.
    Kept,
}

/// What came of one server's hook.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LifecycleAnswer {
    /// The tool's id.
    pub server: String,
    /// What it said.
    pub outcome: LifecycleOutcome,
    /// Milliseconds from the ask to the answer; the start of a server does not count.
    pub ms: f64,
}

/// Outcomes of a lifecycle hook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum LifecycleOutcome {
    /// It has something to say.
    Text {
        /// What the model is given: a string that holds the JSON object `{"hook":…,"server":…,"text":…}`.
        body: Stored,
    },
    /// It has nothing to say.
    Nothing,
    /// It failed, or said something that is no text: nothing to say.
    Failed {
        /// Why, for people.
        why: String,
    },
    /// It did not answer in time: nothing to say.
    TimedOut {
        /// The limit.
        after_ms: u64,
        /// Whether its server was killed for it: the second time in a row.
        killed: bool,
    },
}

impl LifecycleAnswer {
    /// What is delivered, where the server has something to say.
    pub fn body(&self) -> Option<&Stored> {
        match &self.outcome {
            LifecycleOutcome::Text { body } => Some(body),
            LifecycleOutcome::Nothing | LifecycleOutcome::Failed { .. } | LifecycleOutcome::TimedOut { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests;
