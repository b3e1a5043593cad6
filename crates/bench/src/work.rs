//! Jobs as they are measured: a model that answers at once asks for calls, hooks are asked, calls are made.
//!
//! Invariant: a job in which a hook, a call or the job itself went another way than meant is an error, not a figure.

use anyhow::{Result, bail};
use hookwright_core::chain::HookOutcome;
use hookwright_core::event::Moment;
use hookwright_core::history::Record;
use hookwright_core::hooks::{Hook, HookSet};
use hookwright_core::job::{AgentSpec, Command, Fact, JobSpec, Outcome, ToolOutcome};
use hookwright_core::lifecycle::{LifecycleOutcome, LifecycleSpec};
use hookwright_core::manifest::Match;
use hookwright_core::message::StopReason;
use hookwright_core::{FunctionName, Limits, Stored};
use hookwright_runtime::job::{Deps, End, NewRun, Options, Which, run};
use hookwright_runtime::observe::{Event, Observer, Silent};
use hookwright_runtime::ports::clock::{Clock as _, SystemClock};
use hookwright_runtime::ports::model::{Model, ModelError, Turn, TurnCall, TurnRequest, TurnSink};
use hookwright_runtime::ports::store::{NewJob, Store};
use hookwright_runtime::ports::tools::Tools;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// The tool whose function is called.
pub(crate) const CALLED: &str = "work";
/// The tool whose function is the hook.
pub(crate) const POLICY: &str = "policy";

/// A kind of job.
#[derive(Clone)]
pub(crate) struct Work {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) tools: Arc<dyn Tools>,
    /// Hooks that watch the call.
    pub(crate) hooks: usize,
    /// Hooks that watch other calls.
    pub(crate) unmatched: usize,
    /// Model turns with calls.
    pub(crate) turns: u32,
    /// Calls of a turn, one after the other.
    pub(crate) calls: u32,
    /// What the function gets.
    pub(crate) arguments: Value,
    /// Whether a server's `_Stop` is asked where the model ends its turn.
    pub(crate) stop: bool,
}

/// A call's usual arguments: some 250 bytes of JSON.
pub(crate) fn arguments() -> Value {
    json!({"text": "The quick brown fox jumps over the lazy dog. ".repeat(5)})
}

fn hook(tools: &str) -> Hook {
    let matches = Match { tools: Some(vec![tools.to_owned()]), agents: None };
    Hook { matches, timeout_ms: 30_000, ..Hook::new("bench", Moment::PreToolCall, FunctionName::new(POLICY, "decide")) }
}

impl Work {
    fn spec(&self) -> JobSpec {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let mut hooks: Vec<Hook> = (0..self.unmatched).map(|i| hook(&format!("other{i}.*"))).collect();
        hooks.extend((0..self.hooks).map(|_| hook("work.echo")));
        let agent = AgentSpec::new("worker", "bench", "bench", self.turns + 2);
        JobSpec {
            hooks: HookSet { manifests: vec![], hooks },
            hook_functions: vec![format!("{POLICY}.decide")],
            limits: Limits { parallel_calls: 1, calls_per_turn: self.calls, ..Limits::default() },
            lifecycle: self.stop.then(|| LifecycleSpec {
                servers: vec![CALLED.into()],
                timeout_ms: 30_000,
                max_rejections: 3,
                rejections_used: 0,
                session_start: false,
            }),
            ..JobSpec::new(
                format!("job_{number:016x}"),
                AgentSpec { tools: Some(vec![CALLED.into()]), ..agent },
                Stored::inline(json!("go")),
            )
        }
    }

    /// Runs a job until it ends. `observer` watches it, `cancel` ends it.
    pub(crate) async fn run(self, observer: Arc<dyn Observer>, cancel: CancellationToken) -> Result<(String, End)> {
        let spec = self.spec();
        let id = spec.job.clone();
        let job = NewJob {
            id: id.clone(),
            tenant: spec.tenant.clone(),
            agent: spec.agent.id.clone(),
            session: spec.session.clone(),
            parent: None,
            created_ms: SystemClock.now_ms(),
            origin: Value::Null,
        };
        let deps = Deps {
            store: self.store,
            tools: self.tools,
            model: Arc::new(Script { turns: self.turns, calls: self.calls, arguments: self.arguments }),
            clock: Arc::new(SystemClock),
            traits: HashMap::new(),
            subagents: None,
            standing: Arc::default(),
            checkpoint: None,
        };
        let options = Options { detach: false, cancel, cancelled_by: "bench".into() };
        let which = Which::New(Box::new(NewRun { job, spec, blobs: vec![] }));
        Ok((id, run(deps, which, options, observer).await?))
    }

    /// Runs so many jobs of a single turn without calls; gives the times from that turn's beginning to each job's end.
    pub(crate) async fn turns(self, jobs: u32) -> Result<Vec<Duration>> {
        let mut times = vec![];
        for _ in 0..jobs {
            let work = Self { turns: 0, calls: 0, hooks: 0, ..self.clone() };
            let last = Arc::new(LastTurn::default());
            let (_, end) = work.run(last.clone(), CancellationToken::new()).await?;
            let seen = *last.0.lock().unwrap_or_else(PoisonError::into_inner);
            match (seen.begun, seen.ended) {
                (Some(begun), Some(ended)) if seen.asked == self.stop => times.push(ended - begun),
                _ => bail!("a job of one turn went wrong: its server was asked: {}; {end:?}", seen.asked),
            }
        }
        Ok(times)
    }

    /// Runs a job to its end; gives its id and the times from the end of one call to the end of the next.
    pub(crate) async fn timed(self) -> Result<(String, Vec<Duration>)> {
        let stamps = Arc::new(Stamps::default());
        let (calls, hooks) = (self.turns * self.calls, self.hooks);
        let (job, end) = self.run(stamps.clone(), CancellationToken::new()).await?;
        let seen = stamps.0.lock().unwrap_or_else(PoisonError::into_inner);
        let well = matches!(end, End::Finished(Outcome::Completed { .. }));
        if !well || seen.ends.len() != calls as usize || seen.allowed != calls as usize * hooks || seen.wrong > 0 {
            bail!(
                "a job of {calls} calls with {hooks} hooks each went wrong: {} calls, {} allowed, {} went another way; {end:?}",
                seen.ends.len(),
                seen.allowed,
                seen.wrong
            );
        }
        Ok((job, seen.ends.windows(2).map(|pair| pair[1] - pair[0]).collect()))
    }
}

/// Notes when a job's last turn began and when the job was over.
#[derive(Default)]
struct LastTurn(Mutex<Ends>);

#[derive(Default, Clone, Copy)]
struct Ends {
    begun: Option<Instant>,
    asked: bool,
    ended: Option<Instant>,
}

impl Observer for LastTurn {
    fn event(&self, event: Event<'_>) {
        let Event::Recorded(record) = event else { return };
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &record.fact {
            Fact::Begun { command: Command::CallModel { .. } } => seen.begun = Some(Instant::now()),
            Fact::LifecycleAnswered { answers, .. } if !answers.is_empty() => {
                seen.asked = answers.iter().all(|answer| answer.outcome == LifecycleOutcome::Nothing);
            }
            Fact::Finished { .. } => seen.ended = Some(Instant::now()),
            _ => {}
        }
    }

    fn child(&self, _: &JobSpec, _: &[Record]) -> Arc<dyn Observer> {
        Arc::new(Silent)
    }
}

/// Notes when each call's end was durable.
#[derive(Default)]
struct Stamps(Mutex<Seen>);

#[derive(Default)]
struct Seen {
    ends: Vec<Instant>,
    allowed: usize,
    wrong: usize,
}

impl Observer for Stamps {
    fn event(&self, event: Event<'_>) {
        let Event::Recorded(record) = event else { return };
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &record.fact {
            Fact::ToolReturned { outcome: ToolOutcome::Returned { is_error: false, .. }, .. } => {
                seen.ends.push(Instant::now());
            }
            Fact::HookAnswered { outcome: HookOutcome::Allow { .. }, .. } => seen.allowed += 1,
            Fact::ToolReturned { .. } | Fact::HookAnswered { .. } => seen.wrong += 1,
            _ => {}
        }
    }

    fn child(&self, _: &JobSpec, _: &[Record]) -> Arc<dyn Observer> {
        Arc::new(Silent)
    }
}

/// A model that asks for the same calls in each of its turns, then ends.
struct Script {
    turns: u32,
    calls: u32,
    arguments: Value,
}

#[async_trait::async_trait]
impl Model for Script {
    async fn turn(&self, request: TurnRequest<'_>, _: &dyn TurnSink) -> Result<Turn, ModelError> {
        let over = request.turn > self.turns;
        let call = |i| TurnCall {
            provider_id: format!("c{}_{i}", request.turn),
            tool: format!("{CALLED}.echo"),
            arguments: self.arguments.clone(),
        };
        Ok(Turn {
            text: over.then(|| "done".to_owned()),
            calls: if over { vec![] } else { (0..self.calls).map(call).collect() },
            stop: if over { StopReason::EndTurn } else { StopReason::ToolCalls },
            usage: None,
            provider_state: None,
        })
    }

    fn label(&self) -> String {
        "bench (scripted)".into()
    }

    fn is_scripted(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests;
