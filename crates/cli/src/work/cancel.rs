//! Cancels a job that no process runs: takes it up without servers and without a model, and ends it.
//!
//! Invariant: nothing is asked or called; the cancel is read from the inbox before anything is carried out.

use crate::exit::CliResult;
use crate::story::family;
use crate::terminal::note;
use hookwright_mcp::{HostConfig, McpHost};
use hookwright_runtime::job::{Deps, Options, Which, run};
use hookwright_runtime::observe::Silent;
use hookwright_runtime::ports::clock::{Clock as _, SystemClock};
use hookwright_runtime::ports::model::{Model, ModelError, Turn, TurnRequest, TurnSink};
use hookwright_runtime::ports::store::Store as _;
use hookwright_sqlite::SqliteStore;
use std::collections::HashMap;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

struct NoModel;

#[async_trait::async_trait]
impl Model for NoModel {
    async fn turn(&self, _: TurnRequest<'_>, _: &dyn TurnSink) -> Result<Turn, ModelError> {
        Err(ModelError::Config("the job is only taken up to be cancelled".into()))
    }
    fn label(&self) -> String {
        "none".into()
    }
    fn is_scripted(&self) -> bool {
        false
    }
}

/// Ends a job whose inbox holds a cancel.
pub(crate) async fn cancel_idle(store: Arc<SqliteStore>, job: &str, by: &str) -> CliResult<()> {
    let cancel = CancellationToken::new();
    cancel.cancel();
    let deps = Deps {
        store,
        tools: McpHost::start(vec![], HostConfig::default()),
        model: Arc::new(NoModel),
        clock: Arc::new(SystemClock),
        traits: HashMap::new(),
        subagents: None,
        standing: Arc::default(),
        checkpoint: None,
    };
    let which = Which::Resume { job: job.to_owned(), process: format!("process {}", std::process::id()) };
    let options = Options { detach: false, cancel, cancelled_by: by.to_owned() };
    run(deps, which, options, Arc::new(Silent))
        .await
        .map(drop)
        .map_err(|e| crate::exit::CliError::failed(format!("the job can't be cancelled: {e}")))
}

/// Cancels what a job started and is not over, down to the last.
pub(crate) async fn cancel_below(store: &Arc<SqliteStore>, job: &str, by: &str) -> CliResult<()> {
    let rows = store.jobs(true, u32::MAX).await?;
    for row in family::below(job, &rows) {
        store.request_cancel(&row.job.id, by, SystemClock.now_ms()).await?;
        if row.running {
            note(&format!("the process that runs {} cancels it", row.job.id));
        } else {
            cancel_idle(store.clone(), &row.job.id, by).await?;
            note(&format!("{} is cancelled", row.job.id));
        }
    }
    Ok(())
}
