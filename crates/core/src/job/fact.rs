//! What happened, as a machine is told and as a history records it.

use super::command::Command;
use super::spec::{JobSpec, Outcome};
use crate::chain::HookOutcome;
use crate::lifecycle::LifecycleAnswer;
use crate::message::{StopReason, Usage};
use crate::stored::Stored;
use serde::{Deserialize, Serialize};

/// One thing that happened to a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Fact {
    /// A node took the job. Always the first.
    Started {
        /// What decides how it goes on.
        spec: Box<JobSpec>,
    },
    /// An effect begins. Durable before the effect.
    Begun {
        /// The command, its values by digest.
        command: Command,
    },
    /// A hook answered, or did not.
    HookAnswered {
        /// The effect.
        effect: String,
        /// What it said.
        outcome: HookOutcome,
        /// Milliseconds from the ask to the answer.
        ms: f64,
        /// Further keys of the answer; recorded and ignored.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        other: Option<Stored>,
    },
    /// A hook answered after its timeout: discarded.
    HookLate {
        /// The effect.
        effect: String,
        /// Milliseconds from the ask to the answer.
        after_ms: u64,
    },
    /// A call's answer came after its time limit: discarded. Changes nothing for the machine.
    ToolLate {
        /// The effect.
        effect: String,
        /// Milliseconds from the call to the answer.
        after_ms: u64,
    },
    /// The model's turn.
    ModelAnswered {
        /// The effect.
        effect: String,
        /// Its text, a JSON string.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<Stored>,
        /// The calls that it asks for.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<RequestedCall>,
        /// Why it ended.
        stop: StopReason,
        /// Tokens.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Usage>,
        /// What was sent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sent: Option<Sent>,
        /// What the provider wants back.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        provider_state: Option<Stored>,
        /// For an agent with an output schema: the text read as JSON.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<Stored>,
        /// For an agent with an output schema: why the text is not such an output.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output_fault: Option<String>,
        /// Milliseconds from the request to the end of the answer.
        ms: f64,
    },
    /// The model gave no turn.
    ModelFailed {
        /// The effect.
        effect: String,
        /// Which kind of fault.
        fault: ModelFault,
        /// For people.
        message: String,
        /// What was sent, or would have been.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sent: Option<Sent>,
    },
    /// The conversation was compacted: what stands from now on is in the command, and this.
    Compacted {
        /// The effect.
        effect: String,
        /// The message that stands for what was replaced. Absent where nothing was replaced (results were cut alone), or no summary
        /// could be had: then what was to be replaced is left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        summary: Option<Stored>,
        /// Why no summary could be had.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fault: Option<String>,
        /// Turns of the model that were replaced, those of earlier compactions included.
        turns: u32,
        /// The message behind the summary where it holds the session's first prompt too; absent: the usual one, or that prompt was deleted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        go_on: Option<Stored>,
        /// Tokens of the request for the summary.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Usage>,
        /// Milliseconds from the request to the end of the answer.
        ms: f64,
    },
    /// A call ended.
    ToolReturned {
        /// The effect.
        effect: String,
        /// How.
        outcome: ToolOutcome,
        /// Milliseconds from the call to its end.
        ms: f64,
    },
    /// A person decided.
    ApprovalDecided {
        /// The effect.
        effect: String,
        /// The approval's id.
        approval: String,
        /// Yes or no.
        approve: bool,
        /// The person's name.
        by: String,
        /// Whether the name was verified or only claimed.
        verified: bool,
        /// What they added.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<String>,
        /// The digest that they were shown.
        digest: String,
        /// When they decided, Unix milliseconds.
        decided_ms: u64,
    },
    /// An approval's time ran out.
    ApprovalExpired {
        /// The effect.
        effect: String,
        /// The approval's id.
        approval: String,
    },
    /// A decision stood in the store that does not fit what was asked, or came when nothing waited for it. It decides nothing:
    /// changes nothing for the machine.
    DecisionIgnored {
        /// The approval's id, as the decision names it.
        approval: String,
        /// What it said.
        approve: bool,
        /// The person that it names.
        by: String,
        /// Whether it says that the name was verified.
        verified: bool,
        /// Why it does not count, for people.
        why: String,
    },
    /// Another process took the job up again. Changes nothing for the machine.
    Resumed {
        /// The process, for people.
        process: String,
    },
    /// A tool's server changed its state. Changes nothing for the machine.
    ToolState {
        /// The tool's id.
        tool: String,
        /// `starting`, `ready`, `restarting` or `failed`.
        state: String,
        /// Why, for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
    /// Servers were asked for advice.
    LifecycleAnswered {
        /// The effect.
        effect: String,
        /// What came of it, in the order of the command; servers that don't list the function are left out.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        answers: Vec<LifecycleAnswer>,
    },
    /// An agent that somebody else runs asks for a call.
    CallRequested {
        /// The call's id within the job; that of an earlier call where this is the same one asked for again.
        id: String,
        /// What it asks for.
        call: RequestedCall,
    },
    /// Such an agent no longer waits for the answer to a call that waits for a person. The question stays open, and the answer is kept
    /// until the agent asks for the same call again.
    CallLeft {
        /// The call's id.
        call: String,
    },
    /// Such an agent no longer wants a call: nothing more is asked or done for it. A call under way may have taken effect.
    CallCancelled {
        /// The call's id.
        call: String,
    },
    /// Such an agent ends its work with this output.
    OutputOffered {
        /// The output.
        output: Stored,
    },
    /// Such an agent is gone, without an output.
    AgentLeft {
        /// Who or what went, for people.
        by: String,
        /// Whether that is how its work ends; else it was broken off.
        done: bool,
        /// What went wrong with it, where that is why; then the job failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failed: Option<String>,
    },
    /// Somebody cancelled the job.
    Cancelled {
        /// Who.
        by: String,
    },
    /// The job is over. Only the beginning of the ask at the session's end, and [`Fact::SessionEnded`], may follow.
    Finished {
        /// How.
        outcome: Outcome,
    },
    /// The session was closed whose last job this is: what `_SessionEnd` said. Changes nothing for the job; stands once at most, since
    /// logic 3 after its beginning (an `ask_lifecycle` of its own).
    SessionEnded {
        /// What came of it, in the order of the job's `lifecycle.servers`; servers that don't list the function are left out.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        answers: Vec<LifecycleAnswer>,
    },
}

/// The size of a request to a model, as compaction counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Sent {
    /// Bytes of messages, instructions and schemas.
    pub bytes: u64,
    /// Of these, instructions and schemas.
    pub overhead_bytes: u64,
}

/// A call that a model asks for, with what the driver found out about the function.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RequestedCall {
    /// The provider's id of the call.
    pub provider_id: String,
    /// The function's full name, or what the model made up.
    pub tool: String,
    /// Another name of the function that hooks may match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    /// Further ones, where a harness's name of an MCP function can be read in several ways. Hooks match any; events name the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub further_aliases: Vec<String>,
    /// The arguments as the model wrote them.
    pub arguments: Stored,
    /// Why it is refused without asking anybody (`unknown tool: …`, no JSON). No hook is asked and nothing is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// Whether the function may be called again where it is not known whether it was called.
    #[serde(default)]
    pub idempotent: bool,
    /// SHA-256 of the function's input schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_sha256: Option<String>,
    /// Whether whoever runs the agent asks the person at it about what hooks escalate before the call.
    #[serde(default, skip_serializing_if = "AsksThere::is_no")]
    pub asks_there: AsksThere,
}

/// Whether whoever runs an agent asks the person at it about what hooks escalate before a call: then no approval is opened, the agent is told
/// to ask, and whether it made the call shows when it says how that ended (docs/decisions/0119).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AsksThere {
    /// No: an approval is opened.
    #[default]
    No,
    /// Only about arguments that no hook changed: others can't be shown there.
    Unchanged,
    /// About changed ones too.
    Any,
}

impl AsksThere {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
    fn is_no(&self) -> bool {
        *self == Self::No
    }
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "end", rename_all = "snake_case")]
pub enum ToolOutcome {
    /// The server answered with a result.
    Returned {
        /// A string where it is one text block, else the list of content blocks.
        result: Stored,
        /// Its `structuredContent`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        structured: Option<Stored>,
        /// Whether the server says that it failed.
        is_error: bool,
        /// What else the server's result held, an object: its other members (`_meta`, …), and `content` where `result` does not tell
        /// all of it. Kept for agents that somebody else runs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rest: Option<Stored>,
    },
    /// The server answered with a protocol error, or in no readable way: the call was made.
    Failed {
        /// Why.
        why: String,
    },
    /// No complete answer in time: the call was made, and may go on.
    TimedOut {
        /// The limit.
        after_ms: u64,
    },
    /// It is not known whether the call was made: the process or the server died meanwhile.
    Unknown {
        /// Why.
        why: String,
    },
    /// The call was certainly not made.
    NotMade {
        /// Why.
        why: String,
    },
}

/// Kinds of faults of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ModelFault {
    /// The conversation is longer than the model's window.
    ContextFull,
    /// What can't be left out is longer than the model's window. Nothing was sent.
    WindowTooSmall,
    /// Anything else.
    Failed,
}
