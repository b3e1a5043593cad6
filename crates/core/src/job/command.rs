//! What a machine wants done.

use super::spec::{JobError, Outcome};
use crate::FunctionName;
use crate::approval::{Approval, Grant};
use crate::compaction::Plan;
use crate::event::EventHead;
use crate::lifecycle::{Context, Point, Skip};
use crate::stored::Stored;
use crate::verdict::Escalation;
use serde::{Deserialize, Serialize};

/// One effect, or the end of the job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Command {
    /// Ask a hook. Its result is [`super::Fact::HookAnswered`].
    Ask {
        /// The effect's id.
        effect: String,
        /// Position in the hook set.
        hook: usize,
        /// The function to call.
        call: FunctionName,
        /// The event without its values.
        head: EventHead,
        /// The value under the event's key.
        value: Stored,
        /// The call's arguments, after a call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arguments: Option<Stored>,
        /// The result's `structuredContent`, after a call, where it has one and no hook changed the result.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        structured: Option<Stored>,
        /// Whether the call failed, after a call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<bool>,
    },
    /// Call a function. Its result is [`super::Fact::ToolReturned`].
    CallTool {
        /// The effect's id.
        effect: String,
        /// The call's id within the job.
        call: String,
        /// The function.
        tool: FunctionName,
        /// The arguments, as the chain left them.
        arguments: Stored,
        /// Whether it may be called again where it is not known whether it was called.
        idempotent: bool,
        /// The yes that allows it, where a person was asked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        grant: Option<Grant>,
    },
    /// Tell an agent that makes its calls itself that it may make this one. Its result is [`super::Fact::ToolReturned`], once the agent
    /// has said how it ended.
    LetCall {
        /// The effect's id.
        effect: String,
        /// The call's id within the job.
        call: String,
        /// The function.
        tool: FunctionName,
        /// The arguments, as the chain left them.
        arguments: Stored,
        /// Whether the chain changed them.
        #[serde(default)]
        changed: bool,
        /// The yes that allows it, where a person was asked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        grant: Option<Grant>,
        /// Who asked for a person and why, where the agent is to ask the one at it before it makes the call.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        asked: Vec<Escalation>,
    },
    /// An agent that somebody else runs may begin: the hooks at the job's start have passed this input.
    Admit {
        /// The input.
        input: Stored,
    },
    /// What such an agent reads of a call that it asked for.
    Answer {
        /// The call's id within the job.
        call: String,
        /// What it reads.
        reply: CallReply,
    },
    /// The output of such an agent was denied: it is told so and goes on.
    SendBack {
        /// The hook that denied, e.g. `policy.check`.
        hook: String,
        /// Its reason.
        reason: String,
    },
    /// Ask the model for a turn. Its result is [`super::Fact::ModelAnswered`] or [`super::Fact::ModelFailed`].
    CallModel {
        /// The effect's id.
        effect: String,
        /// 1-based number of the turn.
        turn: u32,
        /// Running digest over the conversation so far, so that a replay notices another conversation.
        conversation: String,
    },
    /// Compact the conversation: ask the model for a summary of what the plan takes out, where it takes something out. Its result is
    /// [`super::Fact::Compacted`].
    Compact {
        /// The effect's id.
        effect: String,
        /// Number of the model turn that was last, or whose request was too long.
        turn: u32,
        /// What stays, and how long the rest may be.
        plan: Plan,
        /// Running digest over the conversation so far.
        conversation: String,
    },
    /// Ask a person. Its result is [`super::Fact::ApprovalDecided`] or [`super::Fact::ApprovalExpired`].
    OpenApproval {
        /// The effect's id.
        effect: String,
        /// What they are asked.
        approval: Box<Approval>,
    },
    /// Ask servers for advice, all at the same time. Its result is [`super::Fact::LifecycleAnswered`].
    AskLifecycle {
        /// The effect's id.
        effect: String,
        /// The moment.
        point: Point,
        /// Ids of the tools, in the tenant's order; those are asked whose servers list the function.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        servers: Vec<String>,
        /// What those may be told that declare it.
        context: Context,
        /// Why nobody is asked; then `servers` is empty.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        skip: Option<Skip>,
        /// What would have failed the job, where an output stands that was objected to (`skip` is `kept`). Since logic 3.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failure: Option<Box<JobError>>,
    },
    /// Nobody needs to decide this any more.
    CloseApproval {
        /// The approval's id.
        approval: String,
    },
    /// The job is over.
    Finish {
        /// How.
        outcome: Outcome,
    },
}

/// What an agent that somebody else runs reads of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "reply", rename_all = "snake_case")]
pub enum CallReply {
    /// The call was not made (or, where it was cut off, may have been): a sentence says why.
    NotMade {
        /// The sentence.
        text: String,
    },
    /// The call was made; its result is withheld: a sentence says why.
    Withheld {
        /// The sentence.
        text: String,
    },
    /// The call was made, and this is its result.
    Result {
        /// A string, or a list of content blocks.
        content: Stored,
        /// Its `structuredContent`; none where a hook changed the result.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        structured: Option<Stored>,
        /// What else the server's result held, as [`super::ToolOutcome::Returned`] has it; none where a hook changed the result.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rest: Option<Stored>,
        /// Whether it failed.
        is_error: bool,
        /// Whether a hook changed it.
        #[serde(default)]
        changed: bool,
    },
}

impl Command {
    /// The effect's id; none for what has no result.
    pub fn effect(&self) -> Option<&str> {
        match self {
            Self::Ask { effect, .. }
            | Self::CallTool { effect, .. }
            | Self::LetCall { effect, .. }
            | Self::CallModel { effect, .. }
            | Self::AskLifecycle { effect, .. }
            | Self::Compact { effect, .. }
            | Self::OpenApproval { effect, .. } => Some(effect),
            Self::CloseApproval { .. }
            | Self::Admit { .. }
            | Self::Answer { .. }
            | Self::SendBack { .. }
            | Self::Finish { .. } => None,
        }
    }

    /// The command as it stands in a record: values by digest only, as the facts before it hold them.
    #[must_use]
    pub fn digest_only(&self) -> Self {
        let mut command = self.clone();
        match &mut command {
            Self::Ask { value, arguments, structured, .. } => {
                *value = value.digest_only();
                for v in [arguments, structured].into_iter().flatten() {
                    *v = v.digest_only();
                }
            }
            Self::AskLifecycle { context, .. } => {
                context.prompt = context.prompt.as_ref().map(Stored::digest_only);
            }
            Self::CallTool { arguments, .. } | Self::LetCall { arguments, .. } => *arguments = arguments.digest_only(),
            Self::Admit { input } => *input = input.digest_only(),
            Self::Answer { reply: CallReply::Result { content, structured, rest, .. }, .. } => {
                for value in [Some(content), structured.as_mut(), rest.as_mut()].into_iter().flatten() {
                    *value = value.digest_only();
                }
            }
            Self::OpenApproval { approval, .. } => {
                for value in approval.values_mut() {
                    *value = value.digest_only();
                }
            }
            Self::Finish { outcome: Outcome::Completed { output } } => *output = output.digest_only(),
            Self::CallModel { .. }
            | Self::Compact { .. }
            | Self::CloseApproval { .. }
            | Self::Answer { .. }
            | Self::SendBack { .. }
            | Self::Finish { .. } => {}
        }
        command
    }
}

/// What to do with an effect that was begun and has no recorded end, when a process takes the job up again (SPEC §8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settlement {
    /// Do it again, under the same id: it has no effect of its own, or the function is idempotent.
    Again,
    /// It goes on waiting; nothing was lost.
    Wait,
    /// It may have happened: the model is told so.
    Unknown,
}

/// Settles an interrupted effect.
pub fn settle(command: &Command) -> Settlement {
    match command {
        Command::CallTool { idempotent: false, .. } => Settlement::Unknown,
        // The agent may still be there, and say how its call ended.
        Command::OpenApproval { .. } | Command::LetCall { .. } => Settlement::Wait,
        Command::CallTool { idempotent: true, .. }
        | Command::Ask { .. }
        | Command::CallModel { .. }
        | Command::Compact { .. }
        | Command::AskLifecycle { .. }
        | Command::CloseApproval { .. }
        | Command::Admit { .. }
        | Command::Answer { .. }
        | Command::SendBack { .. }
        | Command::Finish { .. } => Settlement::Again,
    }
}
