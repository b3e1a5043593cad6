//! What a job that nobody watches tells: to standard error, which is the node's log.

use crate::next::Next;
use crate::terminal::note;
use hookwright_core::history::Record;
use hookwright_core::job::JobSpec;
use hookwright_core::text::{escape, shown};
use hookwright_runtime::observe::{Event, Observer};
use std::sync::Arc;

/// Watches one job, and those that it starts.
pub(super) struct Told {
    job: String,
    next: Next,
}

impl Told {
    pub(super) fn new(job: &str, next: Next) -> Arc<Self> {
        Arc::new(Self { job: escape(job), next })
    }

    /// Says something of the job.
    pub(super) fn say(&self, what: &str) {
        note(&format!("{}: {}", self.job, shown(what, 2_000)));
    }
}

impl Observer for Told {
    fn event(&self, event: Event<'_>) {
        match event {
            Event::Waiting { approval, .. } => {
                let look = self.next.command(&format!("approvals show {}", approval.id));
                self.say(&format!("a person is awaited: {look}"));
            }
            Event::Notice(what) => self.say(what),
            Event::Recorded(_) | Event::Text(_) => {}
        }
    }

    fn child(&self, spec: &JobSpec, _: &[Record]) -> Arc<dyn Observer> {
        Self::new(&spec.job, self.next.clone())
    }
}
