//! The end of a session.
//!
//! Invariant: that servers are asked is durable before they are; what they said is asked for once.

use super::{Hooks, Round, Watched};
use crate::job::journal::Journal;
use crate::job::{Deps, RunError, When};
use crate::observe::{Event, Observer};
use crate::ports::store::{Lease, Store};
use crate::replayed::replayed;
use crate::values::Values;
use hookwright_core::job::{Fact, Machine};
use hookwright_core::lifecycle::{Context, Point};
use std::sync::Arc;

/// Asks `_SessionEnd`, and records what was said in the history of the session's last job. Called by the door that closes the session,
/// when that job is over; says whether anybody was to be asked.
///
/// Takes as long as `lifecycle.timeout` twice at most: servers are not waited for. A session that was ended already is not ended again.
pub async fn session_end(deps: &Deps, job: &str, observer: &dyn Observer) -> Result<bool, RunError> {
    ended(deps, job, observer, false).await
}

/// Asks again where a process ended between the ask and its answers; else does nothing.
pub async fn session_end_again(deps: &Deps, job: &str, observer: &dyn Observer) -> Result<bool, RunError> {
    ended(deps, job, observer, true).await
}

/// Whether a process ended between the ask at a session's end and its answers.
pub async fn session_end_is_left(store: &dyn Store, job: &str) -> Result<bool, RunError> {
    let texts = Arc::new(store.records(job, 0).await?);
    let (machine, _) = replayed(&texts).await.map_err(|why| RunError::Replay { job: job.to_owned(), why })?;
    Ok(machine.session_ends().is_some() && !machine.session_ended())
}

async fn ended(deps: &Deps, job: &str, observer: &dyn Observer, only_begun: bool) -> Result<bool, RunError> {
    let lease = deps.store.take_lease(job).await?;
    let ended = end(deps, job, lease.clone(), observer, only_begun).await;
    let _ = deps.store.release(&lease).await;
    ended
}

async fn end(
    deps: &Deps,
    job: &str,
    lease: Lease,
    observer: &dyn Observer,
    only_begun: bool,
) -> Result<bool, RunError> {
    let texts = Arc::new(deps.store.records(job, 0).await?);
    let (machine, head) = replayed(&texts).await.map_err(|why| RunError::Replay { job: job.to_owned(), why })?;
    if machine.outcome().is_none() || machine.session_ended() || only_begun && machine.session_ends().is_none() {
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
    let again = machine.session_ends().map(<[String]>::to_vec);
    let found = round.find(again.as_ref().unwrap_or(&lifecycle.servers)).await;
    if found.is_empty() && again.is_none() {
        return Ok(false);
    }
    let servers: Vec<String> = found.iter().map(|(server, _)| (*server).clone()).collect();
    let journal = Journal::new(deps.store.clone(), Some(lease), head, None);
    let mut history = History { deps, machine, journal, observer };
    let begins = history.machine.session_end(&servers);
    if let Some(command) = &begins {
        history.write(Fact::Begun { command: command.clone() }).await?;
    }
    let checkpoint = |when| {
        if let (Some(checkpoint), Some(command)) = (&deps.checkpoint, &begins) {
            checkpoint(when, command);
        }
    };
    checkpoint(When::Before);
    let (answers, blobs) = round.ask_found(found).await;
    checkpoint(When::After);
    history.journal.blobs(blobs);
    history.write(Fact::SessionEnded { answers }).await?;
    Ok(true)
}

/// The history of a job that is over, to which the end of its session is added.
struct History<'a> {
    deps: &'a Deps,
    machine: Machine,
    journal: Journal,
    observer: &'a dyn Observer,
}

impl History<'_> {
    async fn write(&mut self, fact: Fact) -> Result<(), RunError> {
        let record = self.journal.record(self.deps.clock.now_ms(), fact);
        if let Err(why) = self.machine.handle(record.at_ms, &record.fact) {
            return Err(RunError::Machine { job: self.machine.spec().job.clone(), why });
        }
        for record in self.journal.commit().await? {
            self.observer.event(Event::Recorded(&record));
        }
        Ok(())
    }
}
