//! What a job may use up in all: its calls and its tokens (`calls_per_job`, `tokens_per_job`; docs/decisions/0180).
//!
//! Invariant: a job without these limits goes as it went before there were any; so histories without them replay unchanged.

use super::Machine;
use crate::job::{Fact, JobError};
use crate::stored::Stored;
use serde::{Deserialize, Serialize};

/// What a job has used up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Spent {
    /// Calls that were asked for, made or not.
    calls: u64,
    tokens: u64,
}

impl Spent {
    pub(super) fn calls(&mut self, more: usize) {
        self.calls = self.calls.saturating_add(more as u64);
    }
}

impl Machine {
    /// Counts what a model's answer, or a summary, cost. Where a provider does not report it, its bytes are counted at the rate that is known:
    /// what is not reported is not free.
    pub(super) fn spend(&mut self, fact: &Fact) {
        let tokens = match fact {
            Fact::ModelAnswered { usage: Some(usage), .. } | Fact::Compacted { usage: Some(usage), .. }
                if usage.input_tokens > 0 || usage.output_tokens > 0 =>
            {
                usage.input_tokens.saturating_add(usage.output_tokens)
            }
            Fact::ModelAnswered { text, calls, sent, .. } => {
                let bytes = |stored: &Stored| stored.bytes;
                let said = text.iter().map(bytes).chain(calls.iter().map(|call| call.arguments.bytes));
                let all = said.fold(sent.map_or(0, |sent| sent.bytes), u64::saturating_add);
                self.rate().tokens(all)
            }
            _ => 0,
        };
        self.spent.tokens = self.spent.tokens.saturating_add(tokens);
    }

    /// Why nothing more is begun that costs tokens.
    pub(super) fn tokens_used_up(&self) -> Option<JobError> {
        let limit = self.spec.limits.tokens_per_job.filter(|limit| self.spent.tokens >= *limit)?;
        let message =
            format!("the job used {} of the {limit} tokens that it may use (tokens_per_job)", self.spent.tokens);
        Some(JobError::plain("TokenLimit", message))
    }

    /// Why so many further calls are not begun: none of them is, where not all may be.
    pub(super) fn calls_used_up(&self, more: usize) -> Option<JobError> {
        let limit = self.spec.limits.calls_per_job?;
        let left = u64::from(limit).saturating_sub(self.spent.calls);
        if more as u64 <= left {
            return None;
        }
        let message = format!(
            "the agent asked for {more} more, and {left} of the {limit} calls that the job may make are left (calls_per_job)"
        );
        Some(JobError::plain("CallLimit", message))
    }
}
