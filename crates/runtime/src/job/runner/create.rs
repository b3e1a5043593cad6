//! Begins a job.
//!
//! Invariant: its first records, the beginnings of its first effects among them, are durable with the job itself.

use super::Runner;
use crate::job::journal::Journal;
use crate::job::{Deps, NewRun, RunError, earlier, talk};
use crate::observe::{Event, Observer};
use crate::ports::store::{Batch, Follows};
use hookwright_core::history::Head;
use hookwright_core::job::{Fact, Machine};
use std::sync::Arc;

impl Runner {
    pub(super) async fn create(deps: Deps, mut run: NewRun, observer: Arc<dyn Observer>) -> Result<Self, RunError> {
        if run.spec.agent.context_window.is_none() {
            run.spec.agent.context_window = talk::window(&*deps.model).await;
        }
        let now = deps.clock.now_ms();
        let job = run.spec.job.clone();
        let (machine, commands) =
            Machine::new(run.spec.clone()).map_err(|why| RunError::Machine { job: job.clone(), why })?;
        let mut journal = Journal::new(deps.store.clone(), None, Head::default(), None);
        let follows = Follows::of(&run.spec);
        journal.record(now, Fact::Started { spec: Box::new(run.spec) });
        journal.blobs(run.blobs);
        let earlier = earlier::of(&*deps.store, &machine).await?;
        let mut runner = Self::assemble(deps, machine, earlier, journal, observer);
        runner.emit(now, commands)?;
        runner.status();
        let (batch, fresh) = runner.journal.take();
        let lease = runner.journal.store.create_job(run.job, Batch { follows, ..batch }).await?;
        runner.journal.lease = Some(lease);
        for record in &fresh {
            runner.workshop.observer.event(Event::Recorded(record));
        }
        Ok(runner)
    }
}
