//! What a door is told while a job runs.

use hookwright_core::approval::Approval;
use hookwright_core::history::Record;
use hookwright_core::job::JobSpec;
use std::sync::Arc;

/// Watches one job. Called from the job's task: must not block.
pub trait Observer: Send + Sync {
    /// Something happened.
    fn event(&self, event: Event<'_>);

    /// A subagent's job begins, or is taken up again with these records: who watches it. Its approvals come as its own events, with
    /// the whole line of jobs in `parent_jobs`.
    fn child(&self, spec: &JobSpec, earlier: &[Record]) -> Arc<dyn Observer>;
}

/// What happened.
#[derive(Debug)]
pub enum Event<'a> {
    /// A record is durable.
    Recorded(&'a Record),
    /// A piece of the model's text, as it streams. Not sent where a `job_end` hook may still change the output.
    Text(&'a str),
    /// An approval waits (again, where a process took the job up).
    Waiting {
        /// What is asked, its values loaded.
        approval: &'a Approval,
        /// When it counts as a no, Unix milliseconds.
        expires_ms: u64,
    },
    /// Something people should know that is no record: a retry, a wait.
    Notice(&'a str),
}

/// Watches nothing.
#[derive(Debug, Default, Clone, Copy)]
pub struct Silent;

impl Observer for Silent {
    fn event(&self, _: Event<'_>) {}

    fn child(&self, _: &JobSpec, _: &[Record]) -> Arc<dyn Observer> {
        Arc::new(Self)
    }
}
