//! What a job has of the session's earlier jobs, and what it hands on to the next one.
//!
//! Invariant: the conversation that is handed on is well-formed, however the job ended: every call has its result.

use super::{Machine, Phase};
use crate::job::{Continues, Fact, FirstPrompt, JobSpec};
use crate::json;
use crate::message::Message;
use crate::stored::Stored;
use serde::{Deserialize, Serialize};

/// Bytes of a session's first prompt that is kept word for word over its jobs.
const FIRST_BYTES: u64 = 16 * 1024;

/// The conversation of earlier jobs, as far as a machine knows of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Carried {
    /// Whether it still stands before this job's own conversation.
    pub(super) stands: bool,
    /// Tokens of the whole conversation, as they were reported last.
    tokens: Option<u64>,
}

impl Carried {
    pub(super) fn of(spec: &JobSpec) -> Self {
        Self { stands: spec.continues.is_some(), tokens: spec.continues.as_ref().and_then(|c| c.tokens) }
    }

    /// The digest that the job's running digest starts from.
    pub(super) fn digest(spec: &JobSpec) -> String {
        spec.continues.as_ref().map_or_else(|| json::sha256_hex(b""), |c| c.conversation.clone())
    }

    /// A compaction took the conversation before this job into its summary; what was reported of it counts no longer.
    pub(super) fn replaced(&mut self) {
        *self = Self::default();
    }
}

impl Machine {
    /// Whether the conversation of the session's earlier jobs ([`JobSpec::continues`]) stands before this job's own.
    pub fn carries_earlier(&self) -> bool {
        self.carried.stands
    }

    /// What the session's next job goes on with: the conversation as it stands now. Meant for a job that is over.
    pub fn session_state(&self) -> Continues {
        let earlier = self.spec.continues.as_ref().filter(|_| self.carried.stands);
        Continues {
            job: self.spec.job.clone(),
            conversation: self.conversation.clone(),
            messages: u32::try_from(self.messages.len())
                .unwrap_or(u32::MAX)
                .saturating_add(earlier.map_or(0, |e| e.messages)),
            bytes: self.messages.iter().map(bytes).sum::<u64>().saturating_add(earlier.map_or(0, |e| e.bytes)),
            tokens: self.carried.tokens,
            first: self.first_prompt(),
        }
    }

    /// What the session began with, where it is short enough to be kept: an earlier job's input, or this one's.
    fn first_prompt(&self) -> Option<FirstPrompt> {
        if let Some(earlier) = self.spec.continues.as_ref().filter(|c| c.messages > 0) {
            return earlier.first.clone();
        }
        match self.messages.first()? {
            Message::User { content } if content.bytes <= FIRST_BYTES => {
                Some(FirstPrompt { job: self.spec.job.clone(), bytes: content.bytes })
            }
            Message::User { .. } | Message::Assistant { .. } | Message::Tool { .. } => None,
        }
    }

    /// What the model reads of a call of the last turn that made calls (`t2.c0`), once that stands: its content, and whether it failed.
    pub fn call_end(&self, call: &str) -> Option<(&Stored, bool)> {
        if let Phase::Calls(calls) = &self.phase
            && let Some(call) = calls.iter().find(|c| c.id() == call)
        {
            return call.end().map(|end| (&end.content, end.is_error));
        }
        // All calls of the turn are over: their results stand in order behind the turn that asked for them.
        let (turn, index) = call.strip_prefix('t')?.split_once(".c")?;
        let (turn, index): (u32, usize) = (turn.parse().ok()?, index.parse().ok()?);
        let asked = self.messages.iter().rposition(|m| matches!(m, Message::Assistant { .. }))?;
        if turn > self.turn || turn + 1 < self.turn {
            return None;
        }
        match self.messages.get(asked + 1 + index)? {
            Message::Tool { content, is_error, .. } => Some((content, *is_error)),
            Message::User { .. } | Message::Assistant { .. } => None,
        }
    }

    pub(super) fn note_tokens(&mut self, fact: &Fact) {
        if let Fact::ModelAnswered { usage: Some(usage), .. } = fact {
            self.carried.tokens = Some(usage.input_tokens.saturating_add(usage.output_tokens));
        }
    }

    /// Gives the calls of a turn that is cut off their results: those that stand, and for the others that they do not.
    pub(super) fn close_calls(&mut self) {
        let Phase::Calls(calls) = &self.phase else { return };
        let results: Vec<Message> = calls
            .iter()
            .map(|call| {
                let end = call.cut_off("the job was cancelled");
                Message::Tool {
                    provider_id: call.provider_id().to_owned(),
                    tool: call.tool().to_owned(),
                    content: end.content,
                    is_error: end.is_error,
                }
            })
            .collect();
        for message in results {
            self.say(message);
        }
    }
}

/// Bytes of a message's values.
fn bytes(message: &Message) -> u64 {
    match message {
        Message::User { content } | Message::Tool { content, .. } => content.bytes,
        Message::Assistant { text, calls, .. } => {
            text.as_ref().map_or(0, |t| t.bytes) + calls.iter().map(|c| c.arguments.bytes).sum::<u64>()
        }
    }
}
