//! Runs one job: feeds its machine, writes its history, and does what it commands.
//!
//! Invariant: facts and the beginnings of the effects that follow from them are committed together, before those effects.
//! Invariant: dropping the future of [`run`] ends everything under way, child jobs too; the histories say what was.

mod built_in;
mod catalogue;
mod children;
mod earlier;
mod effects;
mod harness;
pub(crate) mod journal;
mod runner;
mod start;
mod talk;
mod under_way;

pub use catalogue::ToolTraits;
pub use earlier::{Earlier, walk};
pub use harness::{Helpers, Opened};

use crate::lifecycle::Standing;
use crate::observe::Observer;
use crate::outside::Arrivals;
use crate::ports::clock::Clock;
use crate::ports::model::Model;
use crate::ports::store::{NewJob, Store, StoreError};
use crate::ports::subagents::Subagents;
use crate::ports::tools::Tools;
use futures_util::future::BoxFuture;
use hookwright_core::history::ReplayError;
use hookwright_core::job::{Command, JobSpec, Outcome};
use hookwright_core::stored::Blob;
use std::collections::HashMap;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// What a job needs of the world.
#[derive(Clone)]
pub struct Deps {
    /// Where histories stand.
    pub store: Arc<dyn Store>,
    /// The tenant's tools.
    pub tools: Arc<dyn Tools>,
    /// The agent's model.
    pub model: Arc<dyn Model>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// What manifests say of tools, by tool id.
    pub traits: HashMap<String, ToolTraits>,
    /// The agents that the job's agent may start; none: none can be started here.
    pub subagents: Option<Arc<dyn Subagents>>,
    /// How patient this process is with each server; shared by all jobs that share `tools`.
    pub standing: Arc<Standing>,
    /// Called around every effect; for tests that end the process there.
    pub checkpoint: Option<Checkpoint>,
}

/// Called before an effect is done (its beginning is durable) and after (its end is not).
pub type Checkpoint = Arc<dyn Fn(When, &Command) + Send + Sync>;

/// A side of an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Before it is done.
    Before,
    /// After it is done.
    After,
}

/// Which job to run.
pub enum Which {
    /// A new one.
    New(Box<NewRun>),
    /// One that was begun.
    Resume {
        /// Its id.
        job: String,
        /// This process, for people.
        process: String,
    },
    /// One that paused (see [`run_segment`]): as `Resume`, but that it was taken up is recorded only where something was under way.
    GoOn {
        /// Its id.
        job: String,
        /// This process, for people.
        process: String,
    },
}

/// A job to start.
#[derive(Debug)]
pub struct NewRun {
    /// Its row.
    pub job: NewJob,
    /// What decides how it goes on.
    pub spec: JobSpec,
    /// Values that the spec names and that are too large for its record.
    pub blobs: Vec<Blob>,
}

/// How to run it.
#[derive(Clone)]
pub struct Options {
    /// Return where only people are awaited, instead of waiting with them.
    pub detach: bool,
    /// Cancels the job.
    pub cancel: CancellationToken,
    /// Who cancels through `cancel`, for the history.
    pub cancelled_by: String,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub enum End {
    /// The job is over.
    Finished(Outcome),
    /// Only people are awaited, and `detach` was asked for.
    Detached,
}

/// Why a job could not be run on. Its history says how far it came.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The store failed, or another process has the job.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The history can't be replayed.
    #[error("job {job} can't go on: {why}")]
    Replay {
        /// The job.
        job: String,
        /// Why.
        why: ReplayError,
    },
    /// A fact did not fit the machine: a fault of ours.
    #[error("job {job} can't go on: {why} (a fault in Hookwright; its history is intact)")]
    Machine {
        /// The job.
        job: String,
        /// What did not fit.
        why: hookwright_core::job::Mismatch,
    },
}

/// Runs a job until it ends, or waits where `detach` is asked for.
///
/// Children that it starts run beside it: cancelling it cancels them, dropping this future stops them too.
pub async fn run(deps: Deps, which: Which, options: Options, observer: Arc<dyn Observer>) -> Result<End, RunError> {
    run_tied(deps, which, options, observer, None).await
}

/// How a segment ended.
#[derive(Debug, Clone, PartialEq)]
pub enum SegmentEnd {
    /// As a run ends.
    End(End),
    /// Before a model turn, or after one: nothing is under way, and what comes next is not begun.
    Paused,
}

/// Runs a job up to its next boundary: before a model turn (or a compaction) and after it. So a turn is a segment, and all calls of one
/// turn, with everything that is asked about them, are one. For an engine that keeps histories elsewhere too. Jobs whose agents somebody
/// else runs have no boundaries.
///
/// A segment always gets on: what it begins with is never a boundary.
pub async fn run_segment(
    deps: Deps,
    which: Which,
    options: Options,
    observer: Arc<dyn Observer>,
) -> Result<SegmentEnd, RunError> {
    if deps.model.harness().is_some() {
        return run(deps, which, options, observer).await.map(SegmentEnd::End);
    }
    let mut runner = runner::Runner::open(deps, which, observer).await?.with_boundaries();
    let end = runner.run(options, None).await;
    let paused = runner.is_paused();
    runner.close().await;
    Ok(if paused && end.as_ref().is_ok_and(|end| *end == End::Detached) {
        SegmentEnd::Paused
    } else {
        SegmentEnd::End(end?)
    })
}

/// Runs the job of an agent that somebody else runs, until it ends; what the agent does comes through `arrivals`. Where nobody holds the
/// other end any more it returns as detached, and the job can be taken up again.
pub async fn run_external(
    deps: Deps,
    which: Which,
    options: Options,
    observer: Arc<dyn Observer>,
    arrivals: Arrivals,
) -> Result<End, RunError> {
    let mut runner = runner::Runner::open(deps, which, observer).await?.with_outside(arrivals);
    let end = runner.run(options, None).await;
    runner.close().await;
    end
}

/// Takes up the job of an agent that somebody else runs and that another process had begun. What is given back is its spec, and the run
/// itself, as of [`run_external`].
pub async fn resume_external(
    deps: Deps,
    job: &str,
    options: Options,
    observer: Arc<dyn Observer>,
    arrivals: Arrivals,
) -> Result<(JobSpec, BoxFuture<'static, Result<End, RunError>>), RunError> {
    let process = format!("process {}", std::process::id());
    let which = Which::Resume { job: job.to_owned(), process };
    let mut runner = runner::Runner::open(deps, which, observer).await?.with_outside(arrivals);
    let spec = runner.spec().clone();
    let run = Box::pin(async move {
        let end = runner.run(options, None).await;
        runner.close().await;
        end
    });
    Ok((spec, run))
}

/// As [`run`], for a job that another one started: `ties` lead to it.
///
/// Its type is written out: a job's future holds those of the effects that start other jobs.
fn run_tied(
    deps: Deps,
    which: Which,
    options: Options,
    observer: Arc<dyn Observer>,
    ties: Option<children::Ties>,
) -> BoxFuture<'static, Result<End, RunError>> {
    Box::pin(async move {
        let is_new = matches!(which, Which::New(_));
        let mut runner = runner::Runner::open(deps.clone(), which, observer.clone()).await?;
        // A session whose process ended is not begun again: what it did is not known here.
        let harness = deps.model.harness().filter(|_| is_new && runner.spec().agent.external.is_some());
        let end = match harness {
            Some(harness) => {
                let (ran, end) = harness::run(deps, harness, runner, options, observer, ties).await;
                runner = ran;
                end
            }
            None => runner.run(options, ties).await,
        };
        runner.close().await;
        end
    })
}

#[cfg(test)]
pub(crate) mod tests;
