//! Goes on with a job where nobody watches: in the node. Approvals are decided elsewhere; while only people are awaited, nothing is held.

use super::{Household, Prepared, approved, cancel_below};
use crate::exit::{CliError, CliResult};
use crate::settings::Settings;
use crate::story::family;
use hookwright_core::job::{Fact, Outcome};
use hookwright_runtime::job::{End, Options, RunError};
use hookwright_runtime::observe::{Event, Observer};
use hookwright_runtime::ports::clock::{Clock as _, SystemClock};
use hookwright_runtime::ports::store::StoreError;
use hookwright_runtime::ports::tools::Tools as _;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// How a job is left.
#[derive(Debug, PartialEq)]
pub(crate) enum Rest {
    /// It is over.
    Over(Outcome),
    /// It waits for people alone.
    Waits,
    /// Another process took it up first.
    Elsewhere,
    /// Its tenant has as many jobs under way as it may.
    NoPlace,
    /// The node ends.
    Stopped,
}

/// Runs a job that was begun on, until it is over or waits for people alone, or `stop`. With `shared` servers where they are its own.
pub(crate) async fn unattended(
    settings: &Settings,
    prepared: Prepared,
    shared: Option<&Household>,
    ends_session: bool,
    observer: Arc<dyn Observer>,
    stop: CancellationToken,
) -> CliResult<Rest> {
    let Prepared { tenant, store, model, spec, which, earlier } = prepared;
    let started;
    let (own, household) = if let Some(shared) = shared.filter(|shared| shared.serves(&tenant)) {
        (None, shared)
    } else {
        let tenant = Arc::new(tenant);
        let host = tenant.start(&settings.env);
        started = Household::new(tenant, host.clone());
        (Some(host), &started)
    };
    let earlier_is_over = earlier.iter().any(|r| matches!(r.fact, Fact::Finished { .. }));
    let deps = household.deps(&settings.env, store.clone(), model);
    let going_on = async {
        let job = &spec.job;
        if !earlier_is_over
            && let Some(why) = approved::cannot_be_made(&*store, &*household.host, job, SystemClock.now_ms()).await?
        {
            let resume = settings.next().command(&format!("jobs resume {}", family::first(job, Some(&spec))));
            return Err(CliError::failed(why).hint(format!("the yes still stands; when the cause is mended: {resume}")));
        }
        let options = Options { detach: true, cancel: CancellationToken::new(), cancelled_by: String::new() };
        let run = Box::pin(hookwright_runtime::job::run(deps.clone(), which, options, observer.clone()));
        let outcome = match run.await {
            Ok(End::Finished(outcome)) => outcome,
            Ok(End::Detached) => return Ok(Rest::Waits),
            Err(RunError::Store(StoreError::Leased { .. } | StoreError::LeaseLost { .. })) => {
                return Ok(Rest::Elsewhere);
            }
            Err(RunError::Store(StoreError::Full { .. })) => return Ok(Rest::NoPlace),
            Err(error) => return Err(CliError::failed(error.to_string())),
        };
        if ends_session && !earlier_is_over && spec.parent_jobs.is_empty() {
            // What its hooks say is recorded; that they could not be asked changes nothing for the job, which is over.
            if let Err(error) = hookwright_runtime::lifecycle::session_end(&deps, job, &*observer).await {
                observer.event(Event::Notice(&format!("_SessionEnd could not be asked: {error}")));
            }
        }
        if let Outcome::Cancelled { by } = &outcome {
            cancel_below(&store, job, by, &settings.next()).await?;
        }
        Ok(Rest::Over(outcome))
    };
    let rest = tokio::select! {
        rest = going_on => rest,
        () = stop.cancelled() => Ok(Rest::Stopped),
    };
    if let Some(host) = own {
        host.shutdown().await;
    }
    rest
}
