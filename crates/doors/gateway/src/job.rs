//! The job of a client's session.

use crate::approvals::Watch;
use crate::wiring::Wiring;
use hookwright_core::job::Outcome;
use hookwright_core::text;
use hookwright_runtime::job::{self, End, NewRun, Options, RunError, Which};
use hookwright_runtime::outside::{self, Outside};
use hookwright_runtime::ports::tools::Tools;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// How long a job may take to be over when its client has gone.
const LAST_WORK: Duration = Duration::from_secs(5);

/// A job that runs.
pub(crate) struct Job {
    pub(crate) outside: Outside,
    pub(crate) watch: Arc<Watch>,
    run: Mutex<Option<JoinHandle<()>>>,
    /// Why it can't go on.
    why: Arc<Mutex<Option<String>>>,
    cancel: CancellationToken,
}

impl Job {
    /// Begins it, on a task of its own.
    pub(crate) fn start(wiring: &dyn Wiring, tools: Arc<dyn Tools>, run: NewRun) -> Self {
        let (outside, arrivals) = outside::channel();
        let (watch, cancel) = (Watch::new(), CancellationToken::new());
        let options =
            Options { detach: false, cancel: cancel.clone(), cancelled_by: "the gateway, which ends".to_owned() };
        let why: Arc<Mutex<Option<String>>> = Arc::default();
        let id = run.job.id.clone();
        let (deps, which) = (wiring.deps(tools), Which::New(Box::new(run)));
        let (observer, told) = (watch.clone(), why.clone());
        let run = tokio::spawn(async move {
            if let Some(said) = over(job::run_external(deps, which, options, observer, arrivals).await) {
                tracing::error!(job = id, "{said}");
                *told.lock().unwrap_or_else(PoisonError::into_inner) = Some(said);
            }
        });
        Self { outside, watch, run: Mutex::new(Some(run)), why, cancel }
    }

    /// Why it takes no calls.
    pub(crate) fn why(&self) -> String {
        if let outside::Stand::Over(outcome) = self.outside.stand() {
            return match outcome {
                Outcome::Failed { error } => match error.hook {
                    Some(hook) => format!("the session was denied: hook {hook} denied it: {}", error.message),
                    None => format!("the session's job failed: {}", error.message),
                },
                Outcome::Cancelled { by } => format!("the session's job was cancelled by {by}"),
                Outcome::Completed { .. } => "the session's job is over".to_owned(),
            };
        }
        let why = self.why.lock().unwrap_or_else(PoisonError::into_inner).clone();
        why.unwrap_or_else(|| "the session's job does not run any more".to_owned())
    }

    /// The client is gone. Returns when the job is over, or does not get over.
    pub(crate) async fn end(&self, by: &str, done: bool) {
        let left = timeout(LAST_WORK, self.outside.leave(by, done)).await;
        if left.is_err() {
            self.cancel.cancel();
        }
        let run = self.run.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut run) = run
            && timeout(LAST_WORK, &mut run).await.is_err()
        {
            run.abort();
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if let Some(run) = self.run.lock().unwrap_or_else(PoisonError::into_inner).take() {
            run.abort();
        }
    }
}

fn over(end: Result<End, RunError>) -> Option<String> {
    match end {
        Ok(End::Finished(_) | End::Detached) => None,
        Err(error) => Some(text::shown(&format!("the session's job can't go on: {error}"), 1_000)),
    }
}
