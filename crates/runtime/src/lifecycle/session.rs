//! The end of a session.

use super::{Hooks, Round, Watched};
use crate::job::journal::Journal;
use crate::job::{Deps, RunError};
use crate::observe::{Event, Observer};
use crate::replayed::replayed;
use crate::values::Values;
use hookwright_core::job::Fact;
use hookwright_core::lifecycle::{Context, Point};
use std::sync::Arc;

/// Asks `_SessionEnd`, and records what was said in the history of the session's last job. Called by the door that closes the session,
/// when that job is over; says whether anybody was to be asked.
///
/// Takes as long as `lifecycle.timeout` twice at most: servers are not waited for. A session that was ended already is not ended again.
pub async fn session_end(deps: &Deps, job: &str, observer: &dyn Observer) -> Result<bool, RunError> {
    let lease = deps.store.take_lease(job).await?;
    let ended = end(deps, job, lease.clone(), observer).await;
    let _ = deps.store.release(&lease).await;
    ended
}

async fn end(
    deps: &Deps,
    job: &str,
    lease: crate::ports::store::Lease,
    observer: &dyn Observer,
) -> Result<bool, RunError> {
    let texts = Arc::new(deps.store.records(job, 0).await?);
    let (mut machine, head) = replayed(&texts).await.map_err(|why| RunError::Replay { job: job.to_owned(), why })?;
    if machine.outcome().is_none() || machine.session_ended() {
        return Ok(false);
    }
    let spec = machine.spec().clone();
    let Some(lifecycle) = spec.lifecycle.as_ref().filter(|l| !l.servers.is_empty()) else { return Ok(false) };
    let context = Context { prompt: machine.prompt().cloned(), ..Context::default() };
    let prompt = match &context.prompt {
        Some(prompt) => Values::new(deps.store.clone()).load(prompt).await.ok(),
        None => None,
    };
    let tools = Watched::new(deps.tools.clone(), deps.standing.clone());
    let round = Round {
        tools: &*tools,
        standing: &deps.standing,
        hooks: &Hooks::of_process(&deps.standing),
        spec: &spec,
        lifecycle,
        point: Point::SessionEnd,
        context: &context,
        prompt: prompt.as_deref(),
    };
    let (answers, blobs) = round.ask(&lifecycle.servers).await;
    if answers.is_empty() {
        return Ok(false);
    }
    let mut journal = Journal::new(deps.store.clone(), Some(lease), head, None);
    let fact = Fact::SessionEnded { answers };
    let record = journal.record(deps.clock.now_ms(), fact);
    machine.handle(record.at_ms, &record.fact).map_err(|why| RunError::Machine { job: job.to_owned(), why })?;
    journal.blobs(blobs);
    for record in journal.commit().await? {
        observer.event(Event::Recorded(&record));
    }
    Ok(true)
}
