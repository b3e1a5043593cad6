//! When a conversation is compacted, and what becomes of it (SPEC §8; [`crate::compaction`] has the sizes).
//!
//! Invariant: between two answers of the model at most one compaction for its own sake, and two in all: the second and third request of a
//! turn are shorter than the one before, then the job fails. So nothing goes in circles.
//! Invariant: the job's input is the conversation's first message before and after.

use super::{Machine, Phase};
use crate::compaction::{self, Meter, Needs, Part, Plan, Rate};
use crate::job::{Command, Fact, JobError, JobSpec, Sent};
use crate::json;
use crate::lifecycle::is_delivery;
use crate::message::{Message, Usage};
use crate::stored::Stored;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The version of the logic that compacts.
const SINCE: u32 = 2;
/// Compactions without an answer between.
const IN_A_ROW: u32 = 2;

/// What a job remembers of its conversation's size.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Compacting {
    meter: Meter,
    /// Compactions of the job.
    count: u32,
    /// Compactions since the model answered.
    in_a_row: u32,
    /// Requests of this turn that were refused as too long.
    refused: u32,
    /// The turn was begun and has no answer: the next request is its own again.
    owed: bool,
    /// Messages after the job's input that stand for what was replaced.
    frame: usize,
    /// Results, by position, that are given to the model shorter than usual.
    cut: BTreeMap<usize, u64>,
}

impl Compacting {
    /// A job at its start; it may go on with a conversation whose tokens were reported.
    pub(super) fn of(spec: &JobSpec) -> Self {
        let tokens = spec.continues.as_ref().and_then(|c| c.tokens);
        Self { meter: Meter::of(tokens), ..Self::default() }
    }
}

impl Machine {
    /// Bytes of each message's result that the model is given, for the messages of [`Machine::conversation`]; those of earlier jobs of
    /// the session, and of all in a job without a window, have the first: [`Machine::result_bytes`].
    pub fn result_limits(&self) -> Vec<u64> {
        let usual = self.result_bytes();
        let limit = |(i, message)| match self.compacting.cut.get(&i) {
            _ if is_advice(message) => u64::MAX,
            Some(cut) => usual.min(*cut),
            None => usual,
        };
        self.messages.iter().enumerate().map(limit).collect()
    }

    /// Bytes of a result that the model is given: the limit, less where the model's window is small.
    pub fn result_bytes(&self) -> u64 {
        // By the usual rate, not the one that was seen: what was sent once must not change, or providers' caches are of no use.
        compaction::result_limit(self.spec.limits.result_bytes, self.window(), Rate::default())
    }

    /// Tokens for each byte, as the provider's reports show.
    pub fn rate(&self) -> Rate {
        self.compacting.meter.rate()
    }

    /// About how many tokens the next request has.
    pub fn tokens(&self) -> u64 {
        self.compacting.meter.tokens(self.bytes().saturating_add(self.earlier_bytes()))
    }

    fn compacts(&self) -> bool {
        self.spec.logic >= SINCE
    }

    fn window(&self) -> Option<u64> {
        self.spec.agent.context_window.filter(|_| self.compacts())
    }

    fn parts(&self) -> Vec<Part> {
        let limits = self.result_limits();
        compaction::parts(&self.messages, |i| limits.get(i).copied().unwrap_or(u64::MAX))
    }

    fn bytes(&self) -> u64 {
        self.parts().iter().fold(0, |sum, part| sum.saturating_add(part.bytes))
    }

    fn earlier_bytes(&self) -> u64 {
        self.spec.continues.as_ref().filter(|_| self.carried.stands).map_or(0, |earlier| {
            // Results are given shortened; of what earlier jobs had only sizes in all are known.
            earlier.bytes.min(u64::from(earlier.messages).saturating_mul(self.result_bytes()))
        })
    }

    /// Something was said; `at` is its position.
    pub(super) fn grew(&mut self, at: usize) {
        if let Some(message) = self.messages.get(at) {
            self.compacting.meter.grew(compaction::weight(message, self.result_bytes()));
        }
    }

    /// The model answered, and its answer stands in the conversation.
    pub(super) fn measured(&mut self, usage: Option<Usage>, sent: Option<Sent>) {
        let state = &mut self.compacting;
        state.meter.answered(usage, sent.map(|s| s.bytes), sent.map(|s| s.overhead_bytes));
        (state.in_a_row, state.refused) = (0, 0);
    }

    /// Whether the turn that comes next was begun before, and its number stays.
    pub(super) fn owes_turn(&self) -> bool {
        self.compacting.owed
    }

    /// The id of the next model turn's effect.
    pub(super) fn model_effect(&mut self) -> String {
        self.compacting.owed = false;
        match self.compacting.refused {
            0 => format!("t{}.model", self.turn),
            n => format!("t{}.model{}", self.turn, n + 1),
        }
    }

    /// Compacts before the next turn where the request would be too long; false where it goes out as it is.
    pub(super) fn compacts_first(&mut self, out: &mut Vec<Command>) -> bool {
        let Some(window) = self.window().filter(|_| self.compacting.in_a_row == 0) else { return false };
        if self.tokens() < compaction::trigger(window, self.spec.agent.max_tokens) {
            return false;
        }
        let Some(plan) = self.plan(None) else { return false };
        self.compact(plan, out);
        true
    }

    fn plan(&self, refused_bytes: Option<u64>) -> Option<Plan> {
        let needs = Needs {
            window: self.window(),
            refused_bytes,
            rate: self.compacting.meter.rate(),
            overhead_bytes: self.compacting.meter.overhead_bytes(),
            earlier_bytes: self.earlier_bytes(),
            first_bytes: self.spec.continues.as_ref().and_then(|c| c.first.as_ref()).map_or(0, |first| first.bytes),
            frame: self.compacting.frame,
            level: self.compacting.in_a_row,
        };
        compaction::plan(&self.parts(), &needs)
    }

    fn compact(&mut self, plan: Plan, out: &mut Vec<Command>) {
        self.compacting.count += 1;
        self.compacting.in_a_row += 1;
        let effect = match self.compacting.count {
            1 => format!("t{}.compact", self.turn),
            n => format!("t{}.compact{n}", self.turn),
        };
        out.push(Command::Compact { effect, turn: self.turn, plan, conversation: self.conversation.clone() });
        self.phase = Phase::Compacting(plan);
    }

    /// The provider, or a look at the sizes before it was asked, found the request too long.
    pub(super) fn context_full(&mut self, message: &str, sent: Option<Sent>, out: &mut Vec<Command>) {
        self.compacting.meter.sent(sent.map(|s| s.overhead_bytes));
        let again = self.compacts() && self.compacting.in_a_row < IN_A_ROW;
        if let Some(plan) = again.then(|| self.plan(sent.map(|s| s.bytes))).flatten() {
            self.compacting.refused += 1;
            self.compacting.owed = true;
            return self.compact(plan, out);
        }
        let mut message = message.to_owned();
        if let Some(sent) = sent.filter(|_| self.compacts()) {
            let tokens = |bytes| self.compacting.meter.rate().tokens(bytes);
            let task = self.parts().first().map_or(0, |p| p.bytes);
            message = format!(
                "{message} (nothing more can be left out: of about {} tokens, {} are the agent's instructions and functions, {} the job's input)",
                tokens(sent.bytes),
                tokens(sent.overhead_bytes),
                tokens(task),
            );
        }
        self.fail_turn(JobError::plain("ContextFull", message), out);
    }

    /// The conversation was compacted: what stands now, and who is asked about it.
    pub(super) fn compaction_done(&mut self, fact: &Fact, out: &mut Vec<Command>) {
        let (Phase::Compacting(plan), Fact::Compacted { summary, turns, go_on, .. }) = (&self.phase, fact) else {
            return;
        };
        let plan = *plan;
        self.spend(fact);
        if let Some(bytes) = plan.result_bytes {
            self.compacting.cut.extend((plan.keep_from..self.messages.len()).map(|i| (i, bytes)));
        }
        let mut said = vec![];
        if plan.summary_tokens > 0 {
            let stand_in = summary.clone().unwrap_or_else(|| text(&compaction::left_out(*turns)));
            said.push(stand_in.sha256.clone());
            said.extend(go_on.iter().map(|said| said.sha256.clone()));
            let tail = self.messages.split_off(plan.keep_from.min(self.messages.len()));
            self.messages.truncate(1);
            self.messages.push(Message::Assistant { text: Some(stand_in), calls: vec![], provider_state: None });
            self.messages.push(Message::User { content: go_on.clone().unwrap_or_else(|| text(compaction::GO_ON)) });
            let (from, to) = (plan.keep_from, self.messages.len());
            let kept = std::mem::take(&mut self.compacting.cut).into_iter().filter(|(i, _)| *i >= from);
            self.compacting.cut = kept.map(|(i, bytes)| (i - from + to, bytes)).collect();
            self.compacting.frame = 2;
            self.messages.extend(tail);
            self.carried.replaced();
        }
        let cut = plan.result_bytes.unwrap_or_default();
        let digest = format!("{}\ncompacted {} {cut} {}", self.conversation, plan.keep_from, said.concat());
        self.conversation = json::sha256_hex(digest.as_bytes());
        self.compacting.meter.restarted();
        self.compacted(out);
    }
}

fn text(text: &str) -> Stored {
    Stored::inline(Value::String(text.to_owned()))
}

/// Whether a result is a hook's advice, which is never cut.
fn is_advice(message: &Message) -> bool {
    matches!(message, Message::Tool { provider_id, tool, .. } if is_delivery(provider_id, tool))
}
