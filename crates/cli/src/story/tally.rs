//! What a job came to, in numbers.

use super::units;
use hookwright_core::chain::HookOutcome;
use hookwright_core::history::Record;
use hookwright_core::job::{Command, Fact, ToolOutcome};
use hookwright_core::subagent;
use std::collections::HashSet;

/// Counts over a job's records.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub(crate) struct Tally {
    /// Model turns that were begun.
    pub(crate) turns: u64,
    /// Calls that were made, or may have been.
    pub(crate) calls: u64,
    /// Answers of hooks, failures among them.
    pub(crate) hooks_asked: u64,
    /// Answers that were `modify`.
    pub(crate) modified: u64,
    /// Answers that were `deny`.
    pub(crate) denied: u64,
    /// Answers that were `escalate`.
    pub(crate) escalated: u64,
    /// Hooks that gave no valid decision.
    pub(crate) hooks_failed: u64,
    /// Compactions of the conversation.
    pub(crate) compactions: u64,
    /// Answers of lifecycle hooks, failures among them.
    pub(crate) lifecycle_asked: u64,
    /// Lifecycle hooks that had something to say.
    pub(crate) advised: u64,
    /// Calls that started a subagent's job: what those jobs came to is not counted here.
    pub(crate) children: u64,
    /// Approvals that were asked for.
    pub(crate) approvals: u64,
    /// Tokens of requests, as providers reported them.
    pub(crate) input_tokens: u64,
    /// Tokens of answers.
    pub(crate) output_tokens: u64,
    /// Milliseconds from the first record to the last, waiting included.
    pub(crate) took_ms: u64,
    #[serde(skip)]
    first_ms: Option<u64>,
    /// Calls under way that start subagents, by effect.
    #[serde(skip)]
    starts: HashSet<String>,
}

impl Tally {
    /// Counts a history.
    pub(crate) fn of<'a>(records: impl IntoIterator<Item = &'a Record>) -> Self {
        let mut tally = Self::default();
        records.into_iter().for_each(|record| tally.count(record));
        tally
    }

    /// Counts one record more.
    pub(crate) fn count(&mut self, record: &Record) {
        let first = *self.first_ms.get_or_insert(record.at_ms);
        self.took_ms = record.at_ms.saturating_sub(first);
        match &record.fact {
            Fact::Begun { command } => match command {
                // A turn whose request was too long is asked for again.
                Command::CallModel { turn, .. } => self.turns = self.turns.max(u64::from(*turn)),
                Command::CallTool { effect, tool, .. } => {
                    self.calls += 1;
                    if subagent::is_start(tool) {
                        self.children += 1;
                        self.starts.insert(effect.clone());
                    }
                }
                Command::LetCall { .. } => self.calls += 1,
                Command::OpenApproval { .. } => self.approvals += 1,
                Command::Ask { .. }
                | Command::Admit { .. }
                | Command::Answer { .. }
                | Command::SendBack { .. }
                | Command::Compact { .. }
                | Command::AskLifecycle { .. }
                | Command::CloseApproval { .. }
                | Command::Finish { .. } => {}
            },
            Fact::ToolReturned { effect, outcome, .. } => {
                let started = self.starts.remove(effect);
                // It was begun, and then not made after all.
                if matches!(outcome, ToolOutcome::NotMade { .. }) {
                    self.calls = self.calls.saturating_sub(1);
                    self.children = self.children.saturating_sub(u64::from(started));
                }
            }
            Fact::HookAnswered { outcome, .. } => {
                self.hooks_asked += 1;
                match outcome {
                    HookOutcome::Allow { .. } => {}
                    HookOutcome::Modify { .. } => self.modified += 1,
                    HookOutcome::Deny { .. } => self.denied += 1,
                    HookOutcome::Escalate { .. } => self.escalated += 1,
                    HookOutcome::TimedOut | HookOutcome::Failed { .. } => self.hooks_failed += 1,
                }
            }
            Fact::LifecycleAnswered { answers, .. } | Fact::SessionEnded { answers } => {
                self.lifecycle_asked += answers.len() as u64;
                self.advised += answers.iter().filter(|a| a.body().is_some()).count() as u64;
            }
            Fact::Compacted { usage, .. } => {
                self.compactions += 1;
                let usage = usage.unwrap_or_default();
                self.input_tokens = self.input_tokens.saturating_add(usage.input_tokens);
                self.output_tokens = self.output_tokens.saturating_add(usage.output_tokens);
            }
            Fact::ModelAnswered { usage: Some(usage), .. } => {
                self.input_tokens = self.input_tokens.saturating_add(usage.input_tokens);
                self.output_tokens = self.output_tokens.saturating_add(usage.output_tokens);
            }
            _ => {}
        }
    }

    /// In words, in rows of at most `width` columns: `2 turns, 3 calls, 5 hooks asked (1 denied), 1 approval, 3.2 s, 1,203 + 88 tokens`.
    pub(crate) fn rows(&self, width: usize) -> Vec<String> {
        let mut rows: Vec<String> = vec![];
        for part in self.parts() {
            match rows.last_mut() {
                Some(row) if row.len() + 2 + part.len() < width => *row = format!("{row}, {part}"),
                Some(row) => {
                    row.push(',');
                    rows.push(part);
                }
                None => rows.push(part),
            }
        }
        rows
    }

    fn parts(&self) -> Vec<String> {
        let parts: Vec<String> = [
            (self.denied, "denied"),
            (self.modified, "modified"),
            (self.escalated, "escalated"),
            (self.hooks_failed, "failed"),
        ]
        .iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, word)| format!("{} {word}", units::count(*n)))
        .collect();
        let mut asked = format!("{} asked", units::plural(self.hooks_asked, "hook"));
        if !parts.is_empty() {
            asked = format!("{asked} ({})", parts.join(", "));
        }
        let mut out = vec![units::plural(self.turns, "turn"), units::plural(self.calls, "call")];
        if self.children > 0 {
            out.push(format!("{} (counted apart)", units::plural(self.children, "subagent's job")));
        }
        if self.hooks_asked > 0 || self.lifecycle_asked == 0 {
            out.push(asked);
        }
        if self.lifecycle_asked > 0 {
            out.push(format!("{} asked", units::plural(self.lifecycle_asked, "lifecycle hook")));
        }
        if self.compactions > 0 {
            out.push(units::plural(self.compactions, "compaction"));
        }
        if self.advised > 0 {
            out.push(format!("{} heard", units::plural(self.advised, "lifecycle text")));
        }
        if self.approvals > 0 {
            out.push(units::plural(self.approvals, "approval"));
        }
        out.push(units::took_whole(self.took_ms));
        if self.input_tokens > 0 || self.output_tokens > 0 {
            out.push(format!("{} + {} tokens", units::count(self.input_tokens), units::count(self.output_tokens)));
        }
        out
    }
}
