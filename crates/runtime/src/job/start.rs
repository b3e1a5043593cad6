//! The effect of a call that starts a subagent: its job, from its beginning or from where an earlier process left it, to its end.
//!
//! Invariant: a child that was begun is taken up again, never begun a second time: its id follows from the call.

use super::children::Stands;
use super::effects::Workshop;
use super::{Deps, End, NewRun, Options, RunError, Which};
use crate::ports::store::{NewJob, StoreError};
use crate::ports::subagents::{Child, Subagents};
use crate::replayed::replayed;
use hookwright_core::approval::Grant;
use hookwright_core::event::{self, Moment};
use hookwright_core::history::Record;
use hookwright_core::job::{JobSpec, LOGIC_VERSION, Machine, Outcome, ToolOutcome};
use hookwright_core::lifecycle::LifecycleSpec;
use hookwright_core::stored::{Blob, Stored};
use hookwright_core::{FunctionName, subagent, text};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How often a child is looked at that another process runs.
const LOOK: Duration = Duration::from_secs(1);

/// A call that starts a subagent.
#[derive(Clone, Copy)]
pub(super) struct Start<'a> {
    pub(super) effect: &'a str,
    pub(super) call: &'a str,
    pub(super) tool: &'a FunctionName,
    pub(super) arguments: &'a Stored,
    pub(super) grant: Option<&'a Grant>,
}

/// A child that was begun.
struct Begun {
    machine: Machine,
    texts: Arc<Vec<String>>,
}

impl Workshop {
    /// Runs the child of a call until it is over. Where it waits for people and its parent lets it go, this never ends.
    pub(super) async fn start_child(&self, start: Start<'_>, blobs: &mut Vec<Blob>) -> Result<ToolOutcome, StoreError> {
        let job = subagent::child_job(&self.spec.job, start.call);
        let Some(subagents) = &self.deps.subagents else {
            return Ok(not_made("nothing here can start an agent"));
        };
        loop {
            let begun = self.begun(&job).await?;
            if let Some(Begun { machine, .. }) = &begun
                && let Some(outcome) = machine.outcome()
            {
                self.children.over(start.effect);
                return self.over(machine.spec(), outcome, blobs).await;
            }
            let (spec, which, deps, earlier) = match begun {
                Some(begun) => self.again(&**subagents, begun).await?,
                None => match self.anew(&**subagents, &job, start).await? {
                    Ok(new) => new,
                    Err(why) => return Ok(not_made(&why)),
                },
            };
            let observer = self.observer.child(&spec, &earlier);
            // It is cancelled through its ties.
            let options = Options { detach: false, cancel: CancellationToken::new(), cancelled_by: String::new() };
            let run = |ties| super::run_tied(deps, which, options, observer, Some(ties));
            let end = self.children.start(start.effect, &job, run);
            match end.await {
                // Its history is looked at again.
                Ok(Ok(End::Finished(_))) => {}
                Ok(Ok(End::Detached)) => {
                    self.children.stands(start.effect, Stands::Parked);
                    return std::future::pending().await;
                }
                Ok(Err(RunError::Store(StoreError::Leased { .. } | StoreError::LeaseLost { .. }))) => {
                    self.children.stands(start.effect, Stands::Elsewhere);
                    self.deps.clock.sleep(LOOK).await;
                }
                Ok(Err(RunError::Store(error))) => return Err(error),
                Ok(Err(error)) => return Err(StoreError::Failed(error.to_string())),
                Err(_) => {
                    let why =
                        format!("the child job {job} ended in a panic; its history is intact and it can be resumed");
                    return Err(StoreError::Failed(why));
                }
            }
        }
    }

    /// The child's history so far, checked.
    async fn begun(&self, job: &str) -> Result<Option<Begun>, StoreError> {
        let texts = match self.deps.store.records(job, 0).await {
            Ok(texts) => Arc::new(texts),
            Err(StoreError::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let wrong = |why: String| StoreError::Failed(format!("the child job {job} can't go on: {why}"));
        let (machine, _) = replayed(&texts).await.map_err(|why| wrong(why.to_string()))?;
        let spec = machine.spec();
        if spec.job != job || spec.parent_jobs.last() != Some(&self.spec.job) {
            return Err(wrong(format!("it is not one that job {} started", self.spec.job)));
        }
        Ok(Some(Begun { machine, texts }))
    }

    /// What is needed to go on with a child.
    async fn again(
        &self,
        subagents: &dyn Subagents,
        begun: Begun,
    ) -> Result<(JobSpec, Which, Deps, Vec<Record>), StoreError> {
        let spec = begun.machine.spec().clone();
        let wrong = |why: String| StoreError::Failed(format!("the child job {} can't go on: {why}", spec.job));
        let model = subagents.model(&spec.agent).await.map_err(wrong)?;
        let earlier = begun.texts.iter().map_while(|text| serde_json::from_str(text).ok()).collect();
        let which = Which::Resume { job: spec.job.clone(), process: format!("job {}", self.spec.job) };
        let deps = Deps { model, tools: self.tools_of_all.clone(), ..self.deps.clone() };
        Ok((spec, which, deps, earlier))
    }

    /// A new child; the inner `Err` says for the model why there is none.
    async fn anew(
        &self,
        subagents: &dyn Subagents,
        job: &str,
        start: Start<'_>,
    ) -> Result<Result<(JobSpec, Which, Deps, Vec<Record>), String>, StoreError> {
        if let Some(why) = self.not_made(start.call, start.tool, start.arguments, start.grant).await {
            return Ok(Err(why));
        }
        if let Some(why) = subagent::too_deep(&self.spec) {
            return Ok(Err(why));
        }
        let arguments = self.values.load(start.arguments).await?;
        let (id, input) = match subagent::read(&self.spec, &arguments) {
            Ok(read) => read,
            Err(why) => return Ok(Err(why)),
        };
        let child = match subagents.prepare(id).await {
            Ok(child) => child,
            Err(why) => return Ok(Err(format!("the agent {id} can't be started: {why}"))),
        };
        if let Err(why) = event::check_value(Moment::JobStart, input, child.input_schema.as_ref()) {
            return Ok(Err(format!("the input does not fit the agent {id}: {why}")));
        }
        let Child { agent, hooks, hook_functions, model, mut blobs, .. } = child;
        let (input, blob) = Stored::new(input.clone());
        blobs.extend(blob);
        let parent = self.deps.store.job(&self.spec.job).await?;
        let spec = JobSpec {
            logic: LOGIC_VERSION,
            job: job.to_owned(),
            tenant: self.spec.tenant.clone(),
            node: self.spec.node.clone(),
            session: self.spec.session.clone(),
            parent_jobs: self.spec.parent_jobs.iter().chain([&self.spec.job]).cloned().collect(),
            continues: None,
            agent,
            input,
            hooks,
            hook_functions,
            limits: self.spec.limits.clone(),
            // Of its own: what its parent's objections used up is no matter, and no session begins with it.
            lifecycle: (self.spec.lifecycle.clone()).map(|lifecycle| LifecycleSpec {
                rejections_used: 0,
                session_start: false,
                ..lifecycle
            }),
        };
        let row = NewJob {
            id: spec.job.clone(),
            tenant: spec.tenant.clone(),
            agent: spec.agent.id.clone(),
            session: spec.session.clone(),
            parent: Some(self.spec.job.clone()),
            created_ms: self.deps.clock.now_ms(),
            origin: parent.job.origin,
        };
        let which = Which::New(Box::new(NewRun { job: row, spec: spec.clone(), blobs }));
        let deps = Deps { model, tools: self.tools_of_all.clone(), ..self.deps.clone() };
        Ok(Ok((spec, which, deps, vec![])))
    }

    /// What the parent's model reads of a child that is over.
    async fn over(&self, spec: &JobSpec, outcome: &Outcome, blobs: &mut Vec<Blob>) -> Result<ToolOutcome, StoreError> {
        let output = match outcome {
            Outcome::Completed { output }
                if output.value.is_some() || self.deps.store.blob(&output.sha256).await?.is_some() =>
            {
                Some(self.values.load(output).await?)
            }
            Outcome::Completed { .. } | Outcome::Failed { .. } | Outcome::Cancelled { .. } => None,
        };
        let (said, is_error) = subagent::said(&spec.agent.id, &spec.job, outcome, output.as_deref());
        let value = Arc::new(Value::String(said));
        let (result, blob) = Stored::shared(value.clone());
        self.values.keep(&result, value);
        blobs.extend(blob);
        let structured = Some(Stored::inline(subagent::structured(&spec.agent.id, &spec.job, outcome)));
        Ok(ToolOutcome::Returned { result, structured, is_error, rest: None })
    }
}

fn not_made(why: &str) -> ToolOutcome {
    ToolOutcome::NotMade { why: text::reason(Some(why), 2_000) }
}
