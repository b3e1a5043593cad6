//! Takes a job up again: its lease, its history, and what was under way when the last process ended (SPEC §8).
//!
//! Invariant: a take-up that fails leaves the job to nobody.

use super::Runner;
use crate::approvals;
use crate::job::journal::Journal;
use crate::job::{Deps, RunError};
use crate::observe::{Event, Observer};
use crate::ports::store::{ApprovalState, Lease, Store, StoreError};
use crate::replayed::replayed;
use hookwright_core::history::ReplayError;
use hookwright_core::job::{Command, Fact, JobSpec, Mismatch, Settlement, ToolOutcome, settle};
use hookwright_core::text;
use std::sync::Arc;

impl Runner {
    pub(super) async fn resume(
        deps: Deps,
        job: &str,
        process: String,
        observer: Arc<dyn Observer>,
        tells: bool,
    ) -> Result<Self, RunError> {
        let lease = deps.store.take_lease(job).await?;
        let (store, held) = (deps.store.clone(), lease.clone());
        let taken = Self::take_up(deps, lease, job, process, observer, tells).await;
        if taken.is_err() {
            // Nobody runs it now: whoever mends the cause must not have to wait for this process to end.
            let _ = store.release(&held).await;
        }
        taken
    }

    async fn take_up(
        deps: Deps,
        lease: Lease,
        job: &str,
        process: String,
        observer: Arc<dyn Observer>,
        tells: bool,
    ) -> Result<Self, RunError> {
        let texts = Arc::new(deps.store.records(job, 0).await?);
        let (machine, head) = replayed(&texts).await.map_err(|why| RunError::Replay { job: job.to_owned(), why })?;
        if machine.spec().job != job {
            // Another job's history under this one's name: its calls must not be made again.
            let mismatch = Mismatch::Unexpected(format!("this is the history of job {}", machine.spec().job));
            let why = ReplayError::Mismatch { seq: 0, mismatch };
            return Err(RunError::Replay { job: job.to_owned(), why });
        }
        let tenant = match deps.store.job(job).await {
            Ok(row) => Some(row.job.tenant),
            // A store without rows says nothing else.
            Err(StoreError::NotFound { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        if tenant.is_some_and(|tenant| tenant != machine.spec().tenant) {
            // The row decides whose servers and secrets it gets.
            let whose = text::shown(&machine.spec().tenant, 100);
            let mismatch = Mismatch::Unexpected(format!("by its history it is a job of the tenant {whose}"));
            let why = ReplayError::Mismatch { seq: 0, mismatch };
            return Err(RunError::Replay { job: job.to_owned(), why });
        }
        let journal = Journal::new(deps.store.clone(), Some(lease), head, None);
        let earlier =
            if machine.outcome().is_some() { vec![] } else { crate::job::earlier::of(&*deps.store, &machine).await? };
        let mut runner = Self::assemble(deps, machine, earlier, journal, observer);
        if runner.machine.outcome().is_some() {
            runner.status();
            return Ok(runner);
        }
        let now = runner.now();
        // Whoever paused broke nothing off.
        if tells || runner.machine.pending().any(|(command, begun)| begun && settle(command) != Settlement::Wait) {
            runner.journal.record(now, Fact::Resumed { process });
        }
        runner.settle_all(now).await?;
        let (store, spec) = (runner.journal.store.clone(), runner.machine.spec().clone());
        runner.parent_over = parent_over(&*store, &spec).await?;
        runner.status();
        Ok(runner)
    }

    /// Looks whether the store's row of an approval that waits is what the history says, and puts it right where not.
    async fn check_row(&mut self, id: &str) -> Result<(), RunError> {
        let Some((_, asked, opened_ms)) = self.machine.opened(id) else { return Ok(()) };
        let why = match self.journal.store.approval(id).await {
            Ok(row) => match approvals::difference(&row, asked, opened_ms) {
                None => return Ok(()),
                Some(why) => why,
            },
            Err(StoreError::NotFound { .. }) => "it was gone",
            Err(error) => return Err(error.into()),
        };
        let what =
            format!("the row of the approval {id} in the store is not what the history says: {why}; it is put right");
        tracing::warn!("{what}");
        self.workshop.observer.event(Event::Notice(&what));
        self.journal.restored(asked, opened_ms);
        Ok(())
    }

    /// What was under way when the last process ended (SPEC §8).
    async fn settle_all(&mut self, now: u64) -> Result<(), RunError> {
        if let Some(outcome) = self.machine.due_outcome().cloned() {
            for row in self.journal.store.approvals(true).await? {
                if row.job == self.machine.spec().job {
                    self.journal.closed(row.id, ApprovalState::Closed);
                }
            }
            return self.finish(now, outcome);
        }
        let pending: Vec<(Command, bool)> = self.machine.pending().map(|(c, begun)| (c.clone(), begun)).collect();
        for (command, begun) in pending {
            if let Command::OpenApproval { approval, .. } = &command
                && begun
            {
                self.check_row(&approval.id).await?;
            }
            if !begun {
                self.emit(now, vec![command])?;
                continue;
            }
            match settle(&command) {
                Settlement::Again | Settlement::Wait => {
                    self.again.extend(command.effect().map(str::to_owned));
                    self.next.push(command);
                }
                Settlement::Unknown => {
                    let effect = command.effect().unwrap_or_default().to_owned();
                    let why = "the process ended while it was under way".to_owned();
                    let outcome = ToolOutcome::Unknown { why };
                    self.take(now, Fact::ToolReturned { effect, outcome, ms: 0.0 })?;
                }
            }
        }
        Ok(())
    }
}

/// The job that started this one, where it is over: nobody waits for this one any more.
async fn parent_over(store: &dyn Store, spec: &JobSpec) -> Result<Option<String>, StoreError> {
    let Some(parent) = spec.parent_jobs.last() else { return Ok(None) };
    match store.job(parent).await {
        Ok(row) => Ok(row.status.is_final().then_some(row.job.id)),
        Err(StoreError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
