//! What the tests share: a folder with a store, tools and a model that are told what to do, a store that fails, a clock that is set.

use hookwright_core::FunctionName;
use hookwright_core::event::Moment;
use hookwright_core::history::{Record, replay};
use hookwright_core::hooks::{Hook, HookSet};
use hookwright_core::job::{AgentSpec, Command, External, Fact, JobSpec};
use hookwright_core::message::StopReason;
use hookwright_core::stored::Stored;
use hookwright_runtime::approvals::{Decided, Say};
use hookwright_runtime::job::{Deps, End, NewRun, Options, RunError, Which};
use hookwright_runtime::observe::Silent;
use hookwright_runtime::ports::clock::Clock;
use hookwright_runtime::ports::model::{Model, ModelError, Turn, TurnCall, TurnRequest, TurnSink};
use hookwright_runtime::ports::store::*;
use hookwright_runtime::ports::tools::{CallOutcome, ListedFunction, ToolDown, ToolState, ToolStatus, Tools};
use hookwright_sqlite::{OpenOptions, SqliteStore};
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub(crate) const NOW: u64 = 1_800_000_000_000;
pub(crate) const HOUR: u64 = 3_600_000;
pub(crate) const JOB: &str = "job_1";

/// A clock that is set by hand, which wakes all its sleepers at once.
pub(crate) struct SetClock(watch::Sender<u64>);

impl SetClock {
    pub(crate) fn set(&self, ms: u64) {
        self.0.send_replace(ms);
    }
}

#[async_trait::async_trait]
impl Clock for SetClock {
    fn now_ms(&self) -> u64 {
        *self.0.borrow()
    }
    async fn sleep(&self, duration: Duration) {
        let mut changes = self.0.subscribe();
        let _ = tokio::time::timeout(duration.min(Duration::from_secs(1)), changes.changed()).await;
    }
}

type Answer =
    dyn Fn(&FunctionName, Map<String, Value>) -> futures_util::future::BoxFuture<'static, CallOutcome> + Send + Sync;

/// `policy.check` and `git.push`, which do what a test says; calls of `git.push` are counted.
pub(crate) struct Town {
    answer: Box<Answer>,
    pub(crate) pushes: AtomicU64,
    /// Tools whose servers are down.
    pub(crate) down: Mutex<Vec<&'static str>>,
}

/// A result whose structured content is this.
pub(crate) fn says(value: Value) -> CallOutcome {
    let mut result = json!({"content": []});
    result["structuredContent"] = value;
    CallOutcome::Answered { result, duplicate_key: false }
}

#[async_trait::async_trait]
impl Tools for Town {
    async fn ready(&self, tool: &str) -> Result<(), ToolDown> {
        if self.down.lock().unwrap().contains(&tool) {
            Err(ToolDown { why: "its server is down".into() })
        } else {
            Ok(())
        }
    }
    async fn functions(&self, tool: &str) -> Result<Vec<ListedFunction>, ToolDown> {
        self.ready(tool).await?;
        let name = if tool == "policy" { "check" } else { "push" };
        Ok(vec![ListedFunction {
            name: name.into(),
            description: None,
            input_schema: json!({"type": "object", "properties": {"branch": {"type": "string"}}}),
            read_only_hint: false,
            idempotent_hint: false,
            definition: std::sync::Arc::default(),
        }])
    }
    async fn call(&self, name: &FunctionName, arguments: Map<String, Value>, _: Duration) -> CallOutcome {
        if name.tool() == "git" {
            self.pushes.fetch_add(1, Ordering::SeqCst);
        }
        (self.answer)(name, arguments).await
    }
    fn status(&self) -> Vec<ToolStatus> {
        let status = |tool: &str| ToolStatus {
            tool: tool.into(),
            state: ToolState::Ready,
            starts: 1,
            last_error: None,
            server: None,
            protocol: None,
        };
        vec![status("policy"), status("git")]
    }
    async fn kill(&self, _: &str, _: &str) -> bool {
        false
    }
    async fn shutdown(&self) {}
}

/// Calls `git.push` so often in its first turn.
struct Pushes(usize);

#[async_trait::async_trait]
impl Model for Pushes {
    async fn turn(&self, request: TurnRequest<'_>, _: &dyn TurnSink) -> Result<Turn, ModelError> {
        let call = |i: usize| {
            let arguments = json!({"branch": "main"});
            TurnCall { provider_id: format!("c{i}"), tool: "git.push".into(), arguments }
        };
        let calls: Vec<TurnCall> = if request.turn == 1 { (0..self.0).map(call).collect() } else { vec![] };
        let stop = if calls.is_empty() { StopReason::EndTurn } else { StopReason::ToolCalls };
        Ok(Turn { text: Some("done".into()), calls, stop, usage: None, provider_state: None })
    }
    fn label(&self) -> String {
        "pushes".into()
    }
    fn is_scripted(&self) -> bool {
        true
    }
}

pub(crate) struct World {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) clock: Arc<SetClock>,
    pub(crate) town: Arc<Town>,
    pub(crate) hooks: Vec<Hook>,
    /// How often the model pushes.
    pub(crate) model_pushes: usize,
}

impl World {
    /// Hooks at these moments, and what functions answer.
    pub(crate) fn new<F>(moments: &[Moment], answer: impl Fn(&FunctionName, Value) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = CallOutcome> + Send + 'static,
    {
        let answer = move |name: &FunctionName,
                           arguments: Map<String, Value>|
              -> futures_util::future::BoxFuture<'static, CallOutcome> {
            Box::pin(answer(name, Value::Object(arguments)))
        };
        let town = Town { answer: Box::new(answer), pushes: AtomicU64::new(0), down: Mutex::default() };
        let hook = |on: &Moment| Hook::new("p", *on, FunctionName::new("policy", "check"));
        Self {
            folder: tempfile::tempdir().unwrap(),
            clock: Arc::new(SetClock(watch::Sender::new(NOW))),
            town: Arc::new(town),
            hooks: moments.iter().map(hook).collect(),
            model_pushes: 1,
        }
    }

    /// Hooks at these moments that all give one answer; pushes succeed.
    pub(crate) fn answering(moments: &[Moment], answer: Value) -> Self {
        Self::new(moments, move |name, _| {
            let said = says(if name.tool() == "policy" { answer.clone() } else { json!("pushed") });
            async move { said }
        })
    }

    /// The store, as another process would open it.
    pub(crate) fn store(&self) -> Arc<SqliteStore> {
        let options = OpenOptions::new("test", self.clock.clone());
        SqliteStore::open(self.folder.path().join("jobs.db"), options).unwrap()
    }

    pub(crate) fn sql(&self, sql: &str) {
        let conn = rusqlite::Connection::open(self.folder.path().join("jobs.db")).unwrap();
        assert!(conn.execute(sql, []).unwrap() > 0, "{sql}");
    }

    pub(crate) fn new_job(&self, job: &str) -> Which {
        self.new_job_of(job, None)
    }

    /// A job of an agent that somebody else runs, or of our own.
    pub(crate) fn new_job_of(&self, job: &str, external: Option<External>) -> Which {
        let own_tools = vec!["git".into(), "policy".into()];
        let agent = AgentSpec { own_tools, external, ..AgentSpec::new("dev", "p", "script/x.yaml", 10) };
        let spec = JobSpec {
            hooks: HookSet { manifests: vec![], hooks: self.hooks.clone() },
            hook_functions: vec!["policy.check".into()],
            ..JobSpec::new(job, agent, Stored::inline(json!("go")))
        };
        let row = NewJob {
            id: job.into(),
            tenant: spec.tenant.clone(),
            agent: "dev".into(),
            session: spec.session.clone(),
            parent: None,
            created_ms: NOW,
            origin: Value::Null,
        };
        Which::New(Box::new(NewRun { job: row, spec, blobs: vec![] }))
    }

    /// Runs a job on a store, until only people are awaited if `detach` is set.
    pub(crate) async fn run_on(
        &self,
        store: Arc<dyn Store>,
        which: Which,
        detach: bool,
        cancel: CancellationToken,
    ) -> Result<End, RunError> {
        let options = Options { detach, cancel, cancelled_by: "ada".into() };
        hookwright_runtime::job::run(self.deps(store), which, options, Arc::new(Silent)).await
    }

    pub(crate) fn deps(&self, store: Arc<dyn Store>) -> Deps {
        Deps {
            store,
            tools: self.town.clone(),
            model: Arc::new(Pushes(self.model_pushes)),
            clock: self.clock.clone(),
            traits: HashMap::new(),
            standing: Arc::default(),
            subagents: None,
            checkpoint: None,
        }
    }

    /// Begins the job in a process of its own.
    pub(crate) async fn begin(&self) -> End {
        self.run_on(self.store(), self.new_job(JOB), true, CancellationToken::new()).await.unwrap()
    }

    /// Goes on with the job in a process of its own.
    pub(crate) async fn resume(&self) -> End {
        self.run_on(self.store(), resumed(), true, CancellationToken::new()).await.unwrap()
    }

    /// Decides what waits, as a person at a door does.
    pub(crate) async fn decide(&self, approve: bool) -> Decided {
        let store = self.store();
        let row = store.approvals(false).await.unwrap().remove(0);
        let say = Say { approve, by: "ada".into(), verified: true, note: None };
        hookwright_runtime::approvals::decide(&*store, &*self.clock, &row, say).await.unwrap()
    }

    /// Stores a decision without looking at any history, and with a digest that the row names.
    pub(crate) async fn decide_by_row(&self, by: &str) {
        let store = self.store();
        let row = store.approvals(true).await.unwrap().remove(0);
        let digest = row.approval["digest"].as_str().unwrap().to_owned();
        let at_ms = self.clock.now_ms();
        let decision = Decision { approve: true, by: by.into(), verified: true, note: None, digest, at_ms };
        assert_eq!(store.decide(&row.id, decision).await.unwrap(), DecideOutcome::Counted);
    }

    pub(crate) async fn records(&self, job: &str) -> Vec<Record> {
        let texts = self.store().records(job, 0).await.unwrap();
        replay(&texts).unwrap();
        texts.iter().map(|t| serde_json::from_str(t).unwrap()).collect()
    }

    pub(crate) async fn facts(&self) -> Vec<Fact> {
        self.records(JOB).await.into_iter().map(|r| r.fact).collect()
    }

    /// Why stored decisions were ignored.
    pub(crate) async fn ignored(&self, job: &str) -> Vec<String> {
        let why = |r: Record| if let Fact::DecisionIgnored { why, .. } = r.fact { Some(why) } else { None };
        self.records(job).await.into_iter().filter_map(why).collect()
    }

    pub(crate) fn pushes(&self) -> u64 {
        self.town.pushes.load(Ordering::SeqCst)
    }
}

pub(crate) fn resumed() -> Which {
    Which::Resume { job: JOB.into(), process: "another".into() }
}

pub(crate) fn begun_calls(facts: &[Fact]) -> u64 {
    let begun = |f: &&Fact| matches!(f, Fact::Begun { command: Command::CallTool { .. } });
    facts.iter().filter(begun).count() as u64
}

/// What a store does at its nth write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Fails, and nothing is written.
    Before,
    /// Says that it failed, though all is written.
    After,
    /// Another process has taken the job.
    Taken,
    /// Writes, and meanwhile the job is cancelled by its door.
    Cancelled,
    /// Writes, and meanwhile another process asks for a cancel.
    CancelAsked,
}

/// A store that fails once.
pub(crate) struct Faulty {
    inner: Arc<SqliteStore>,
    /// Takes the job where that is the fault.
    pub(crate) thief: Arc<SqliteStore>,
    at: u64,
    fault: Fault,
    writes: AtomicU64,
    town: Arc<Town>,
    /// How many pushes had been made at the fault.
    pub(crate) pushes_then: Mutex<Option<u64>>,
    /// Nothing is seen in the inbox.
    pub(crate) hides_inbox: AtomicBool,
    /// Cancelled where that is the fault.
    pub(crate) cancel: CancellationToken,
}

impl Faulty {
    pub(crate) fn new(world: &World, at: u64, fault: Fault) -> Arc<Self> {
        Arc::new(Self {
            inner: world.store(),
            thief: world.store(),
            at,
            fault,
            writes: AtomicU64::new(0),
            town: world.town.clone(),
            pushes_then: Mutex::default(),
            hides_inbox: AtomicBool::new(false),
            cancel: CancellationToken::new(),
        })
    }

    /// Whether this write is the one.
    fn is_due(&self) -> bool {
        let due = self.writes.fetch_add(1, Ordering::SeqCst) == self.at;
        if due {
            *self.pushes_then.lock().unwrap() = Some(self.town.pushes.load(Ordering::SeqCst));
        }
        due
    }
}

fn broken<T>() -> Result<T, StoreError> {
    Err(StoreError::Failed("the disk is gone".into()))
}

#[async_trait::async_trait]
impl Store for Faulty {
    async fn create_job(&self, job: NewJob, batch: Batch) -> Result<Lease, StoreError> {
        let due = self.is_due();
        if due && self.fault == Fault::Before {
            return broken();
        }
        let lease = self.inner.create_job(job, batch).await?;
        if due {
            self.inner.release(&lease).await?;
            return broken();
        }
        Ok(lease)
    }
    async fn take_lease(&self, job: &str) -> Result<Lease, StoreError> {
        self.inner.take_lease(job).await
    }
    async fn release(&self, lease: &Lease) -> Result<(), StoreError> {
        self.inner.release(lease).await
    }
    async fn append(&self, lease: &Lease, batch: Batch) -> Result<(), StoreError> {
        match (self.is_due(), self.fault) {
            (false, _) => self.inner.append(lease, batch).await,
            (true, Fault::Before) => broken(),
            (true, Fault::After) => self.inner.append(lease, batch).await.and_then(|()| broken()),
            (true, Fault::Taken) => {
                self.inner.release(lease).await?;
                self.thief.take_lease(&lease.job).await?;
                self.inner.append(lease, batch).await
            }
            (true, Fault::Cancelled) => {
                self.inner.append(lease, batch).await?;
                self.cancel.cancel();
                Ok(())
            }
            (true, Fault::CancelAsked) => {
                self.inner.append(lease, batch).await?;
                self.inner.request_cancel(&lease.job, "ada", NOW).await
            }
        }
    }
    async fn records(&self, job: &str, from_seq: u64) -> Result<Vec<String>, StoreError> {
        self.inner.records(job, from_seq).await
    }
    async fn blob(&self, sha256: &str) -> Result<Option<String>, StoreError> {
        self.inner.blob(sha256).await
    }
    async fn jobs(&self, unfinished_only: bool, limit: u32) -> Result<Vec<JobRow>, StoreError> {
        self.inner.jobs(unfinished_only, limit).await
    }
    async fn job(&self, id: &str) -> Result<JobRow, StoreError> {
        self.inner.job(id).await
    }
    async fn approvals(&self, open_only: bool) -> Result<Vec<ApprovalRow>, StoreError> {
        self.inner.approvals(open_only).await
    }
    async fn approval(&self, id: &str) -> Result<ApprovalRow, StoreError> {
        self.inner.approval(id).await
    }
    async fn decide(&self, id: &str, decision: Decision) -> Result<DecideOutcome, StoreError> {
        self.inner.decide(id, decision).await
    }
    async fn request_cancel(&self, job: &str, by: &str, at_ms: u64) -> Result<(), StoreError> {
        self.inner.request_cancel(job, by, at_ms).await
    }
    async fn inbox(&self, job: &str) -> Result<Vec<InboxItem>, StoreError> {
        if self.hides_inbox.load(Ordering::SeqCst) { Ok(vec![]) } else { self.inner.inbox(job).await }
    }
    fn inbox_changes(&self) -> watch::Receiver<u64> {
        self.inner.inbox_changes()
    }
    fn counters(&self) -> StoreCounters {
        self.inner.counters()
    }
}
