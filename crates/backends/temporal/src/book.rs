//! What the workflow knows: the job's machine, rebuilt from the records that the home node returned, and what people said.
//!
//! Pure: the workflow asks it what comes next. It looks at no clock; times are arguments.
//!
//! Invariant: the machine takes each record as `replay` does, so that a node's records are verified before anything follows from them.
//! Values stay outside: the machine never looks into one, and what is carried over stays small.

use crate::wire::{Answer, Below, Item, Mark, SegmentOutput};
use hookwright_core::approval::Approval;
use hookwright_core::history::{Replay, ReplayError, without_values};
use hookwright_core::job::{JobError, Machine, Outcome};
use hookwright_runtime::ports::store::{Decision, InboxKind};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The shortest wait, in milliseconds: the home node's clock may be behind, and what the workflow holds for expired is not yet so there.
const SHORTEST_MS: u64 = 1_000;

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Book {
    replay: Replay,
    /// The last segment ended because only people are awaited.
    people: bool,
    /// Approvals of jobs below.
    #[serde(default)]
    below: Vec<Below>,
    /// What the home node has not taken yet, in order.
    said: Vec<Item>,
    /// Counts what was said.
    items: u64,
    /// The decisions that were taken here: the first counts.
    decided: BTreeMap<String, Decision>,
    /// Segments so far.
    pub(crate) segments: u32,
    /// A wait is over by time.
    woken: bool,
    /// It is over without the home node, and why.
    failed: Option<JobError>,
    /// A segment is under way.
    #[serde(skip)]
    pub(crate) in_flight: bool,
}

/// What comes next.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Next {
    /// The home node is to go on.
    Segment,
    /// Only people are awaited; for so long.
    Wait {
        ms: u64,
    },
    Over(Outcome),
}

#[derive(Deserialize)]
struct Place {
    seq: u64,
}

impl Book {
    /// Takes in records; those that are there already are passed over.
    pub(crate) fn take(&mut self, texts: &[String]) -> Result<(), ReplayError> {
        for text in texts {
            let seq = serde_json::from_str::<Place>(text).map_or(u64::MAX, |place| place.seq);
            if seq < self.replay.head().records {
                continue;
            }
            let slim = without_values(text);
            self.replay.take(slim.as_deref().unwrap_or(text))?;
        }
        Ok(())
    }

    /// Takes in what a segment under way tells.
    pub(crate) fn progress(&mut self, so_far: SegmentOutput) -> Result<(), ReplayError> {
        self.take(&so_far.records)?;
        self.below = so_far.below;
        Ok(())
    }

    /// Takes in what came of a segment that was given these items.
    pub(crate) fn segment_ended(&mut self, output: SegmentOutput, given: &[Item]) -> Result<(), ReplayError> {
        self.take(&output.records)?;
        (self.people, self.below) = (output.people, output.below);
        self.said.retain(|item| !given.iter().any(|g| g.id == item.id));
        self.woken = false;
        Ok(())
    }

    pub(crate) fn acknowledged(&self) -> Mark {
        let head = self.replay.head();
        Mark { records: head.records, hash: head.hash.clone() }
    }

    pub(crate) fn items(&self) -> Vec<Item> {
        self.said.clone()
    }

    pub(crate) fn next(&self, now_ms: u64) -> Next {
        if let Some(outcome) = self.outcome() {
            return Next::Over(outcome);
        }
        if self.woken || !self.waits_for_people() {
            return Next::Segment;
        }
        let expires = self.open().map(|(approval, opened_ms)| approval.expires_ms(opened_ms)).min();
        Next::Wait { ms: expires.unwrap_or(0).saturating_sub(now_ms).max(SHORTEST_MS) }
    }

    /// Whether nothing is to be done until somebody says something.
    pub(crate) fn waits_for_people(&self) -> bool {
        self.people && self.said.is_empty()
    }

    /// A wait is over by time.
    pub(crate) fn wake(&mut self) {
        self.woken = true;
    }

    pub(crate) fn outcome(&self) -> Option<Outcome> {
        if let Some(error) = &self.failed {
            return Some(Outcome::Failed { error: error.clone() });
        }
        self.replay.machine().and_then(Machine::outcome).cloned()
    }

    /// It ends without the home node.
    pub(crate) fn fail(&mut self, kind: &str, why: &str) {
        if self.outcome().is_none() {
            let message = format!("{why}{}", self.may_have_been_made());
            self.failed = Some(JobError { kind: kind.to_owned(), message, hook: None, reason: None });
        }
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// What the acknowledged records say to be under way.
    fn may_have_been_made(&self) -> String {
        use hookwright_core::job::Command;
        let tool = |command: &Command| match command {
            Command::CallTool { tool, .. } => Some(tool.to_string()),
            _ => None,
        };
        let pending = self.replay.machine().into_iter().flat_map(Machine::pending);
        let calls: Vec<String> = pending.filter_map(|(command, _)| tool(command)).collect();
        if calls.is_empty() {
            "; what its home node did after its last acknowledged record is not known".to_owned()
        } else {
            format!("; these calls may have been made: {}", calls.join(", "))
        }
    }

    /// The approvals that wait.
    pub(crate) fn open(&self) -> impl Iterator<Item = (&Approval, u64)> {
        let machine = self.replay.machine();
        let own = machine.into_iter().flat_map(|machine| {
            machine
                .waiting()
                .filter_map(|a| machine.opened(&a.id))
                .map(|(_, approval, opened_ms)| (approval, opened_ms))
        });
        own.chain(self.below.iter().map(|below| (&below.approval, below.opened_ms)))
    }

    /// The ids of approvals that wait for a decision.
    pub(crate) fn undecided(&self) -> Vec<String> {
        let undecided = self.open().filter(|(approval, _)| !self.decided.contains_key(&approval.id));
        undecided.map(|(approval, _)| approval.id.clone()).collect()
    }

    /// Why a decision is refused; none: it may be taken. What was asked comes from the history, the rules from the core.
    pub(crate) fn refuses(&self, id: &str, decision: &Decision) -> Option<Answer> {
        if let Some(first) = self.decided.get(id) {
            return Some(Answer::Already { decision: Some(first.clone()) });
        }
        let Some((asked, _)) = self.open().find(|(approval, _)| approval.id == id) else {
            return Some(Answer::Unknown);
        };
        if decision.digest != asked.digest {
            return Some(Answer::Digest);
        }
        (!asked.may_decide(&decision.by)).then_some(Answer::NotAllowed)
    }

    /// Takes a decision at a time of the workflow; the item, or why not.
    pub(crate) fn decide(&mut self, id: &str, mut decision: Decision, now_ms: u64) -> Result<Item, Answer> {
        if let Some(answer) = self.refuses(id, &decision) {
            return Err(answer);
        }
        let opened = self.open().find(|(approval, _)| approval.id == id);
        if opened.is_none_or(|(approval, opened_ms)| now_ms >= approval.expires_ms(opened_ms)) {
            return Err(Answer::Expired);
        }
        decision.at_ms = now_ms;
        self.decided.insert(id.to_owned(), decision.clone());
        Ok(self.say(InboxKind::Decided { approval: id.to_owned(), decision }))
    }

    /// Notes something for the job's runner.
    pub(crate) fn say(&mut self, what: InboxKind) -> Item {
        self.items += 1;
        let item = Item { id: self.items, what };
        self.said.push(item.clone());
        item
    }

    /// The word for how the job stands, for lists.
    pub(crate) fn status(&self) -> &'static str {
        match self.outcome() {
            Some(Outcome::Completed { .. }) => "completed",
            Some(Outcome::Failed { .. }) => "failed",
            Some(Outcome::Cancelled { .. }) => "cancelled",
            None if self.waits_for_people() => "waiting",
            None => "running",
        }
    }
}

#[cfg(test)]
mod tests;
