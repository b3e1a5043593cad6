//! A chain: the hooks that match one event, asked in order, and the verdict (SPEC §5, §6).
//!
//! Invariant: nothing is asked after a deny. Invariant: the same answers give the same verdict; time plays no part.

use crate::hooks::Hook;
use crate::manifest::OnTimeout;
use crate::stored::Stored;
use crate::text;
use crate::verdict::{Denial, Escalation, Verdict};
use serde::{Deserialize, Serialize};

/// What one hook said, or why it said nothing valid. Reasons are already fit to show.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "decision", rename_all = "snake_case")]
pub enum HookOutcome {
    /// Go ahead.
    Allow {
        /// Its reason, if it gave one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Go ahead with another value.
    Modify {
        /// The new value.
        value: Stored,
        /// Its reason, if it gave one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Do not.
    Deny {
        /// Its reason.
        reason: String,
    },
    /// A person decides.
    Escalate {
        /// Its reason.
        reason: String,
    },
    /// No complete answer within its timeout.
    TimedOut,
    /// It failed, was not reachable, or gave no valid decision.
    Failed {
        /// Why.
        why: String,
    },
}

impl HookOutcome {
    /// For people: why there is no answer. None where there is one.
    pub fn failure(&self, hook: &Hook) -> Option<String> {
        match self {
            Self::TimedOut => Some(format!("did not answer within {}", text::duration(hook.timeout_ms))),
            Self::Failed { why } => Some(format!("failed: {why}")),
            Self::Allow { .. } | Self::Modify { .. } | Self::Deny { .. } | Self::Escalate { .. } => None,
        }
    }
}

/// A change that a hook made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Change {
    /// The hook's function.
    pub hook: String,
    /// The value that it got.
    pub from: Stored,
    /// The value that it gave.
    pub to: Stored,
}

/// A chain under way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Chain {
    hooks: Vec<usize>,
    next: usize,
    original: Stored,
    value: Stored,
    changes: Vec<Change>,
    escalations: Vec<(usize, Escalation)>,
    denial: Option<Denial>,
}

/// What a chain wants next.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Ask this hook (its position in the hook set).
    Ask(usize),
    /// The verdict stands.
    Done(Verdict),
}

impl Chain {
    /// A chain of these hooks (positions in the hook set, in order) over a value.
    pub fn new(hooks: Vec<usize>, value: Stored) -> Self {
        Self { hooks, next: 0, original: value.clone(), value, changes: vec![], escalations: vec![], denial: None }
    }

    /// What to do next.
    pub fn step(&self) -> Step {
        if let Some(denial) = &self.denial {
            return Step::Done(Verdict::Deny(denial.clone()));
        }
        if let Some(&hook) = self.hooks.get(self.next) {
            return Step::Ask(hook);
        }
        let verdict = if !self.escalations.is_empty() {
            let reasons = self.escalations.iter().map(|(_, e)| e.clone()).collect();
            Verdict::Escalate { value: self.value.clone(), reasons }
        } else if self.value.same(&self.original) {
            Verdict::Allow
        } else {
            Verdict::Modify { value: self.value.clone() }
        };
        Step::Done(verdict)
    }

    /// Takes the outcome of the hook that [`Chain::step`] named. A failure counts as the hook's `on_timeout` says (SPEC §6).
    pub fn answered(&mut self, hook: &Hook, outcome: &HookOutcome) {
        let Some(&position) = self.hooks.get(self.next) else { return };
        if self.denial.is_some() {
            return;
        }
        self.next += 1;
        let name = hook.call.to_string();
        match outcome {
            HookOutcome::Allow { .. } => {}
            HookOutcome::Modify { value, .. } => {
                if !value.same(&self.value) {
                    self.changes.push(Change { hook: name, from: self.value.clone(), to: value.clone() });
                    self.value = value.clone();
                }
            }
            HookOutcome::Deny { reason } => self.denial = Some(Denial { hook: name, reason: reason.clone() }),
            HookOutcome::Escalate { reason } => {
                self.escalations.push((position, Escalation { hook: name, reason: reason.clone() }));
            }
            HookOutcome::TimedOut | HookOutcome::Failed { .. } => {
                let reason = outcome.failure(hook).unwrap_or_default();
                match hook.on_timeout {
                    OnTimeout::Allow => {}
                    OnTimeout::Deny => self.denial = Some(Denial { hook: name, reason }),
                    OnTimeout::Escalate => self.escalations.push((position, Escalation { hook: name, reason })),
                }
            }
        }
    }

    /// The value as it stands.
    pub fn value(&self) -> &Stored {
        &self.value
    }

    /// The value before the first hook.
    pub fn original(&self) -> &Stored {
        &self.original
    }

    /// Each change on the way, in order.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// The positions of the hooks that asked for a person, in order.
    pub fn escalated_by(&self) -> impl Iterator<Item = usize> + '_ {
        self.escalations.iter().map(|(i, _)| *i)
    }
}

#[cfg(test)]
mod tests;
