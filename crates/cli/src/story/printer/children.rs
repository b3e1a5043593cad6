//! The stories of child jobs within that of the job above them: each line behind the agent's name.
//!
//! Invariant: a child's story comes in whole lines, so that those of parallel children never run into each other.

use super::super::line::{columns, fit};
use super::super::look::{Look, Role};
use super::super::teller::{Approvals, Teller};
use crate::next::Next;
use hookwright_core::history::Record;
use hookwright_core::job::{Fact, JobSpec};
use hookwright_runtime::observe::Event;
use std::collections::HashMap;

/// Columns of an agent's name before its lines.
const NAME: usize = 14;

/// Levels that are indented further.
const LEVELS: usize = 3;

/// The children whose stories are being told, by job.
#[derive(Default)]
pub(super) struct Children {
    telling: HashMap<String, Child>,
    /// Jobs of each agent so far, so that two of one agent can be told apart.
    numbers: HashMap<String, Vec<String>>,
}

struct Child {
    teller: Teller,
    prefix: String,
    /// The start of a line that is not whole yet.
    rest: String,
}

impl Children {
    /// Begins a child's story, or goes on with it after these records.
    pub(super) fn begin(
        &mut self,
        spec: &JobSpec,
        earlier: &[Record],
        look: Look,
        (approvals, next): (Approvals, Next),
    ) -> String {
        let jobs = self.numbers.entry(spec.agent.id.clone()).or_default();
        let number = jobs.iter().position(|job| *job == spec.job).unwrap_or(jobs.len());
        if number == jobs.len() {
            jobs.push(spec.job.clone());
        }
        let name = if number == 0 { spec.agent.id.clone() } else { format!("{}:{}", spec.agent.id, number + 1) };
        let indent = " ".repeat(2 * spec.parent_jobs.len().clamp(1, LEVELS));
        let plain = format!("{indent}{} {}", fit(&name, NAME, look), look.bar());
        let narrower = Look { width: look.width.saturating_sub(columns(&plain)).max(Look::NARROWEST), ..look };
        let mut child = Child {
            teller: Teller::new(narrower, approvals).with_next(next),
            prefix: look.paint(Role::Dim, &plain),
            rest: String::new(),
        };
        let header = if earlier.is_empty() { String::new() } else { child.teller.catch_up(earlier) };
        let text = child.lines(&header);
        self.telling.insert(spec.job.clone(), child);
        text
    }

    /// What an event of a child adds to the story.
    pub(super) fn event(&mut self, job: &str, event: &Event<'_>) -> String {
        let Some(child) = self.telling.get_mut(job) else { return String::new() };
        let told = child.teller.event(event);
        let mut text = child.lines(&told);
        if matches!(event, Event::Recorded(record) if matches!(record.fact, Fact::Finished { .. })) {
            text.push_str(&child.end());
            self.telling.remove(job);
        }
        text
    }

    /// What waits for the end of its line.
    pub(super) fn end(&mut self) -> String {
        self.telling.drain().map(|(_, mut child)| child.end()).collect()
    }
}

impl Child {
    fn lines(&mut self, told: &str) -> String {
        self.rest.push_str(told);
        let Some(last) = self.rest.rfind('\n') else { return String::new() };
        let rest = self.rest.split_off(last + 1);
        let whole = std::mem::replace(&mut self.rest, rest);
        whole.split_inclusive('\n').flat_map(|line| [self.prefix.as_str(), line]).collect()
    }

    fn end(&mut self) -> String {
        if self.rest.is_empty() { String::new() } else { self.lines("\n") }
    }
}
