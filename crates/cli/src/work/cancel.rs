//! Cancels a job that no process runs: takes it up without servers and without a model, and ends it.
//!
//! Invariant: nothing is asked or called; the cancel is read from the inbox before anything is carried out.

use crate::exit::{CliError, CliResult};
use crate::next::Next;
use crate::story::family;
use crate::terminal::note;
use hookwright_core::job::Outcome;
use hookwright_mcp::{HostConfig, McpHost};
use hookwright_runtime::job::{Deps, End, Options, RunError, Which, run};
use hookwright_runtime::observe::Silent;
use hookwright_runtime::ports::clock::{Clock as _, SystemClock};
use hookwright_runtime::ports::model::{Model, ModelError, Turn, TurnRequest, TurnSink};
use hookwright_runtime::ports::sessions::Sessions;
use hookwright_runtime::ports::store::{JobRow, JobStatus, StoreError};
use std::collections::HashMap;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// No model, and why.
pub(crate) struct NoModel(pub(crate) &'static str);

#[async_trait::async_trait]
impl Model for NoModel {
    async fn turn(&self, _: TurnRequest<'_>, _: &dyn TurnSink) -> Result<Turn, ModelError> {
        Err(ModelError::Config(self.0.into()))
    }
    fn label(&self) -> String {
        "none".into()
    }
    fn is_scripted(&self) -> bool {
        false
    }
}

/// Ends a job whose inbox holds a cancel. None: another process took it up meanwhile, and reads that cancel; else how it ended, which
/// may be by itself.
pub(crate) async fn cancel_idle(store: Arc<dyn Sessions>, job: &str, by: &str) -> CliResult<Option<Outcome>> {
    let cancel = CancellationToken::new();
    cancel.cancel();
    let deps = Deps {
        store,
        tools: McpHost::start(vec![], HostConfig::default()),
        model: Arc::new(NoModel("the job is only taken up to be cancelled")),
        clock: Arc::new(SystemClock),
        traits: HashMap::new(),
        subagents: None,
        standing: Arc::default(),
        checkpoint: None,
    };
    let which = Which::Resume { job: job.to_owned(), process: format!("process {}", std::process::id()) };
    let options = Options { detach: false, cancel, cancelled_by: by.to_owned() };
    match run(deps, which, options, Arc::new(Silent)).await {
        Ok(End::Finished(outcome)) => Ok(Some(outcome)),
        Ok(End::Detached) | Err(RunError::Store(StoreError::Leased { .. })) => Ok(None),
        Err(e) => Err(crate::exit::CliError::failed(format!("the job can't be cancelled: {e}"))),
    }
}

/// Cancels a job whose inbox holds the cancel, and says what came of it: it may have ended by itself at the same moment.
pub(crate) async fn cancelled(store: &Arc<dyn Sessions>, row: &JobRow, by: &str, next: &Next) -> CliResult<String> {
    let job = &row.job.id;
    if !row.running
        && let Some(outcome) = cancel_idle(store.clone(), job, by).await?
    {
        return match outcome {
            Outcome::Cancelled { .. } => Ok(format!("{job} is cancelled")),
            Outcome::Completed { .. } | Outcome::Failed { .. } => Err(ended_before(job, next)),
        };
    }
    match store.job(job).await?.status {
        JobStatus::Cancelled => Ok(format!("{job} is cancelled")),
        JobStatus::Completed | JobStatus::Failed => Err(ended_before(job, next)),
        JobStatus::Running | JobStatus::Waiting => Ok(format!("the process that runs {job} is asked to cancel it")),
    }
}

fn ended_before(job: &str, next: &Next) -> CliError {
    CliError::failed(format!("{job} ended by itself before it could be cancelled"))
        .hint(format!("look at it with `{}`", next.command(&format!("jobs show {job}"))))
}

/// Cancels what a job started and is not over, down to the last.
pub(crate) async fn cancel_below(store: &Arc<dyn Sessions>, job: &str, by: &str, next: &Next) -> CliResult<()> {
    let rows = store.jobs(true, u32::MAX).await?;
    for row in family::below(job, &rows) {
        store.request_cancel(&row.job.id, by, SystemClock.now_ms()).await?;
        match cancelled(store, row, by, next).await {
            Ok(what) => note(&what),
            // It ended meanwhile; the others are cancelled all the same.
            Err(error) => note(&error.message),
        }
    }
    Ok(())
}
