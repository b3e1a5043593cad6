//! Jobs whose agent is a harness that is run here: its session beside the job, and jobs of its own subagents below it.
//!
//! Invariant: a session that ends without an output ends its job as failed; one whose process was killed is not begun again.
//! Invariant: no subagent's job is open, or opened, below a job that is over.

use super::runner::Runner;
use super::{Deps, End, NewRun, Options, RunError, Which};
use crate::observe::Observer;
use crate::outside::{Outside, channel};
use crate::ports::harness::{Harness, Order};
use crate::ports::store::{JobStatus, NewJob, StoreError};
use crate::values::Values;
use futures_util::future::FutureExt as _;
use hookwright_core::history::Record;
use hookwright_core::job::{Fact, JobSpec};
use hookwright_core::stored::Stored;
use hookwright_core::subagent;
use serde_json::Value;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Why a job fails whose session says no more.
const NO_OUTPUT: &str = "its session ended without an output";
/// How often a subagent may go on after its end.
const ROUNDS: u32 = 256;

#[derive(Default)]
struct Open {
    jobs: Vec<Outside>,
    runs: JoinSet<()>,
    /// The parent is over.
    is_ended: bool,
}

/// Opens jobs for the subagents of a job's agent.
pub struct Helpers {
    deps: Deps,
    spec: JobSpec,
    observer: Arc<dyn Observer>,
    open: Mutex<Open>,
}

/// The job of a subagent.
pub struct Opened {
    /// The door's end of it.
    pub outside: Outside,
    /// What its history held, where another process had begun it.
    pub earlier: Vec<Record>,
    /// The digest of its input.
    pub input_sha256: String,
}

impl Helpers {
    /// For the subagents of this job.
    pub fn new(deps: Deps, spec: JobSpec, observer: Arc<dyn Observer>) -> Self {
        Self { deps, spec, observer, open: Mutex::default() }
    }

    /// The job of a subagent, which the parent's agent runs itself. `id` is the agent's own id of it; hooks see the parent's agent. A
    /// subagent that goes on after its output has a further job; one that was denied or cancelled has none.
    pub async fn open(&self, id: &str, input: Value) -> Result<Opened, StoreError> {
        if let Some(why) = subagent::too_deep(&self.spec) {
            return Err(StoreError::Failed(why));
        }
        let parent = self.deps.store.job(&self.spec.job).await?;
        if parent.status.is_final() {
            return Err(self.is_over());
        }
        let (job, is_begun) = self.round(id).await?;
        let (input, blob) = Stored::new(input);
        let mut input_sha256 = input.sha256.clone();
        let spec = JobSpec {
            job: job.clone(),
            parent_jobs: self.spec.parent_jobs.iter().chain([&self.spec.job]).cloned().collect(),
            continues: None,
            input,
            lifecycle: None,
            ..self.spec.clone()
        };
        let row = NewJob {
            id: job,
            tenant: spec.tenant.clone(),
            agent: spec.agent.id.clone(),
            session: spec.session.clone(),
            parent: Some(self.spec.job.clone()),
            created_ms: self.deps.clock.now_ms(),
            origin: parent.job.origin,
        };
        let observer = self.observer.child(&spec, &[]);
        let name = row.id.clone();
        // One that another process had begun and that is not over goes on.
        let (which, earlier) = if is_begun {
            let texts = self.deps.store.records(&row.id, 0).await?;
            let earlier: Vec<Record> = texts.iter().map_while(|text| serde_json::from_str(text).ok()).collect();
            if let Some(Record { fact: Fact::Started { spec }, .. }) = earlier.first() {
                input_sha256.clone_from(&spec.input.sha256);
            }
            let process = format!("process {}", std::process::id());
            (Which::Resume { job: row.id, process }, earlier)
        } else {
            (Which::New(Box::new(NewRun { job: row, spec, blobs: blob.into_iter().collect() })), vec![])
        };
        let options = Options { detach: false, cancel: CancellationToken::new(), cancelled_by: String::new() };
        let (outside, arrivals) = channel();
        let run = super::run_external(self.deps.clone(), which, options, observer, arrivals);
        let run = async move {
            if let Err(error) = run.await {
                tracing::error!(job = name, "the job of a subagent can't go on: {error}");
            }
        };
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.is_ended {
            return Err(self.is_over());
        }
        open.jobs.retain(|outside| !outside.is_over());
        open.jobs.push(outside.clone());
        while open.runs.try_join_next().is_some() {}
        open.runs.spawn(run);
        Ok(Opened { outside, earlier, input_sha256 })
    }

    fn is_over(&self) -> StoreError {
        StoreError::Failed(format!("the job {} is over", self.spec.job))
    }

    /// The id of a subagent's job, and whether it was begun and goes on.
    async fn round(&self, id: &str) -> Result<(String, bool), StoreError> {
        for round in 0..ROUNDS {
            let job = subagent::own_child_job(&self.spec.job, id, round);
            let row = match self.deps.store.job(&job).await {
                Ok(row) if row.job.id == job => row,
                Ok(_) | Err(StoreError::NotFound { .. }) => return Ok((job, false)),
                Err(error) => return Err(error),
            };
            match row.status {
                JobStatus::Completed => {}
                JobStatus::Running | JobStatus::Waiting => return Ok((job, true)),
                JobStatus::Failed => return Err(StoreError::Failed(format!("the subagent's job {job} was denied"))),
                JobStatus::Cancelled => {
                    return Err(StoreError::Failed(format!("the subagent's job {job} was cancelled")));
                }
            }
        }
        Err(StoreError::Failed(format!("a subagent went on after its end {ROUNDS} times")))
    }

    /// Drives the job itself; what its subagents have open ends with it. Where it is left unfinished, they are too: whoever takes it up takes
    /// them up.
    pub async fn beside(&self, run: impl Future<Output = Result<End, RunError>>) -> Result<End, RunError> {
        let end = run.await;
        if matches!(end, Ok(End::Detached)) {
            let mut left = self.take_all();
            left.runs.detach_all();
        } else {
            self.end().await;
        }
        end
    }

    fn take_all(&self) -> Open {
        let ended = Open { is_ended: true, ..Open::default() };
        std::mem::replace(&mut *self.open.lock().unwrap_or_else(PoisonError::into_inner), ended)
    }

    /// Ends the jobs that are open, and opens none any more: the parent is over, or left.
    pub async fn end(&self) {
        let Open { jobs, mut runs, .. } = self.take_all();
        let by = format!("the end of {}", self.spec.job);
        for outside in jobs {
            let _ = outside.leave(&by, false).await;
        }
        while runs.join_next().await.is_some() {}
    }
}

/// Runs a job with the session of a harness.
pub(super) async fn run(
    deps: Deps,
    harness: Arc<dyn Harness>,
    runner: Runner,
    options: Options,
    observer: Arc<dyn Observer>,
    ties: Option<super::children::Ties>,
) -> (Runner, Result<End, RunError>) {
    let (spec, silent) = (runner.spec().clone(), runner.holds_output());
    let order = match order(&spec, silent, &Values::new(deps.store.clone())).await {
        Ok(order) => order,
        Err(error) => return (runner, Err(error.into())),
    };
    let (outside, arrivals) = channel();
    let mut runner = runner.with_outside(arrivals);
    let helpers = Helpers::new(deps, spec, observer.clone());
    let end = {
        let kept = outside.clone();
        let session = async {
            harness.run(order, outside, &helpers, &*observer).await;
            let _ = kept.fail(&harness.label(), NO_OUTPUT).await;
        };
        let mut session = pin!(session.fuse());
        let mut run = pin!(runner.run(options, ties));
        loop {
            tokio::select! {
                end = &mut run => break end,
                () = &mut session => {}
            }
        }
    };
    helpers.end().await;
    (runner, end)
}

async fn order(spec: &JobSpec, silent: bool, values: &Values) -> Result<Order, StoreError> {
    let instructions = match &spec.agent.instructions {
        Some(stored) => values.load(stored).await?.as_str().map(str::to_owned),
        None => None,
    };
    let output_schema = match &spec.agent.output_schema {
        Some(stored) => Some((*values.load(stored).await?).clone()),
        None => None,
    };
    Ok(Order { job: spec.job.clone(), instructions, output_schema, max_turns: spec.agent.max_turns, silent })
}
