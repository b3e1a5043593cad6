//! The runner against a store in memory, scripted tools and a scripted model.

use super::*;
use crate::observe::Silent;
use crate::ports::clock::SystemClock;
use crate::ports::model::{ModelError, Turn, TurnCall, TurnRequest, TurnSink};
use crate::ports::store::{
    ApprovalRow, ApprovalState, Batch, DecideOutcome, Decision, InboxItem, InboxKind, JobRow, JobStatus, Lease,
    StoreCounters,
};
use crate::ports::tools::{CallOutcome, ListedFunction, ToolDown, ToolStatus};
use hookwright_core::FunctionName;
use hookwright_core::approval::Approval;
use hookwright_core::event::Moment;
use hookwright_core::history::replay;
use hookwright_core::hooks::{Hook, HookSet};
use hookwright_core::job::AgentSpec;
use hookwright_core::message::StopReason;
use hookwright_core::stored::Stored;
use serde_json::{Map, Value, json};
use std::sync::Mutex;
use std::time::Duration;
use tokio::sync::watch;

#[derive(Default)]
struct Memory {
    records: Vec<String>,
    blobs: HashMap<String, String>,
    status: Option<JobStatus>,
    held: bool,
    approvals: Vec<ApprovalRow>,
    inbox: Vec<InboxItem>,
    next: i64,
}

/// One job's store.
struct MemoryStore(Mutex<Memory>, watch::Sender<u64>);

impl MemoryStore {
    fn with<T>(&self, run: impl FnOnce(&mut Memory) -> T) -> T {
        run(&mut self.0.lock().unwrap())
    }

    fn put(&self, what: InboxKind) {
        self.with(|m| {
            m.next += 1;
            m.inbox.push(InboxItem { id: m.next, what });
        });
        self.1.send_modify(|n| *n += 1);
    }

    fn write(&self, batch: Batch) {
        self.with(|m| {
            m.records.extend(batch.records.into_iter().map(|r| r.text));
            m.blobs.extend(batch.blobs.into_iter().map(|b| (b.sha256, b.text)));
            m.status = batch.status.or(m.status);
            m.approvals.extend(batch.opened);
            for (id, state) in batch.closed {
                m.approvals.iter_mut().filter(|a| a.id == id).for_each(|a| a.state = state);
            }
            m.inbox.retain(|item| !batch.taken.contains(&item.id));
        });
    }
}

/// A store that holds nothing.
pub(crate) fn empty_store() -> Arc<dyn Store> {
    Arc::new(MemoryStore(Mutex::default(), watch::Sender::new(0)))
}

fn gone(id: &str) -> StoreError {
    StoreError::NotFound { kind: "approval", id: id.to_owned() }
}

#[async_trait::async_trait]
impl Store for MemoryStore {
    async fn create_job(&self, job: NewJob, batch: Batch) -> Result<Lease, StoreError> {
        self.write(batch);
        self.take_lease(&job.id).await
    }
    async fn take_lease(&self, job: &str) -> Result<Lease, StoreError> {
        if self.with(|m| std::mem::replace(&mut m.held, true)) {
            return Err(StoreError::Leased { job: job.to_owned(), holder: "somebody".into() });
        }
        Ok(Lease { job: job.to_owned(), epoch: 1 })
    }
    async fn release(&self, _: &Lease) -> Result<(), StoreError> {
        self.with(|m| m.held = false);
        Ok(())
    }
    async fn append(&self, _: &Lease, batch: Batch) -> Result<(), StoreError> {
        self.write(batch);
        Ok(())
    }
    async fn records(&self, _: &str, _: u64) -> Result<Vec<String>, StoreError> {
        Ok(self.with(|m| m.records.clone()))
    }
    async fn blob(&self, sha256: &str) -> Result<Option<String>, StoreError> {
        Ok(self.with(|m| m.blobs.get(sha256).cloned()))
    }
    async fn jobs(&self, _: bool, _: u32) -> Result<Vec<JobRow>, StoreError> {
        Ok(vec![])
    }
    async fn job(&self, id: &str) -> Result<JobRow, StoreError> {
        Err(gone(id))
    }
    async fn approvals(&self, open_only: bool) -> Result<Vec<ApprovalRow>, StoreError> {
        let open = |a: &ApprovalRow| !open_only || a.state == ApprovalState::Open;
        Ok(self.with(|m| m.approvals.iter().filter(|a| open(a)).cloned().collect()))
    }
    async fn approval(&self, id: &str) -> Result<ApprovalRow, StoreError> {
        self.with(|m| m.approvals.iter().find(|a| a.id == id).cloned()).ok_or_else(|| gone(id))
    }
    async fn decide(&self, id: &str, decision: Decision) -> Result<DecideOutcome, StoreError> {
        self.put(InboxKind::Decided { approval: id.to_owned(), decision });
        Ok(DecideOutcome::Counted)
    }
    async fn request_cancel(&self, _: &str, by: &str, at_ms: u64) -> Result<(), StoreError> {
        self.put(InboxKind::Cancel { by: by.to_owned(), at_ms });
        Ok(())
    }
    async fn inbox(&self, _: &str) -> Result<Vec<InboxItem>, StoreError> {
        Ok(self.with(|m| m.inbox.clone()))
    }
    fn inbox_changes(&self) -> watch::Receiver<u64> {
        self.1.subscribe()
    }
    fn counters(&self) -> StoreCounters {
        StoreCounters::default()
    }
}

/// `policy.check` gives the first value as its answer, every other function the second as its result; `null`: it is down.
struct Scripted(Value, Value);

#[async_trait::async_trait]
impl Tools for Scripted {
    async fn ready(&self, tool: &str) -> Result<(), ToolDown> {
        if tool != "policy" && self.1.is_null() { Err(ToolDown { why: "its server is down".into() }) } else { Ok(()) }
    }
    async fn functions(&self, tool: &str) -> Result<Vec<ListedFunction>, ToolDown> {
        let name = if tool == "policy" { "check" } else { "push" };
        Ok(vec![ListedFunction {
            name: name.into(),
            description: None,
            input_schema: json!({"type": "object"}),
            read_only_hint: false,
            idempotent_hint: false,
            definition: std::sync::Arc::default(),
        }])
    }
    async fn call(&self, name: &FunctionName, _: Map<String, Value>, _: Duration) -> CallOutcome {
        let result = if name.tool() == "policy" { &self.0 } else { &self.1 };
        CallOutcome::Answered { result: result.clone(), duplicate_key: false }
    }
    fn status(&self) -> Vec<ToolStatus> {
        ["policy", "git"]
            .map(|tool| ToolStatus {
                tool: tool.into(),
                state: crate::ports::tools::ToolState::Ready,
                starts: 1,
                last_error: None,
                server: None,
                protocol: None,
            })
            .into()
    }
    async fn kill(&self, _: &str, _: &str) -> bool {
        false
    }
    async fn shutdown(&self) {}
}

/// Calls `git.push` in its first turn.
struct OneCall;

#[async_trait::async_trait]
impl Model for OneCall {
    async fn turn(&self, request: TurnRequest<'_>, _: &dyn TurnSink) -> Result<Turn, ModelError> {
        let call = TurnCall { provider_id: "c".into(), tool: "git.push".into(), arguments: json!({}) };
        let calls = if request.turn == 1 { vec![call] } else { vec![] };
        let stop = if calls.is_empty() { StopReason::EndTurn } else { StopReason::ToolCalls };
        Ok(Turn { text: Some("done".into()), calls, stop, usage: None, provider_state: None })
    }
    fn label(&self) -> String {
        "one call".into()
    }
    fn is_scripted(&self) -> bool {
        true
    }
}

struct World {
    store: Arc<MemoryStore>,
    deps: Deps,
}

fn world(answer: Value, result: Value) -> World {
    let store = Arc::new(MemoryStore(Mutex::default(), watch::Sender::new(0)));
    let deps = Deps {
        store: store.clone(),
        tools: Arc::new(Scripted(answer, result)),
        model: Arc::new(OneCall),
        clock: Arc::new(SystemClock),
        traits: HashMap::new(),
        subagents: None,
        standing: Arc::default(),
        checkpoint: None,
    };
    World { store, deps }
}

fn answer(decision: &str) -> Value {
    json!({"content": [], "structuredContent": {"decision": decision, "reason": "r"}})
}

fn new_job(on: Moment) -> Which {
    let hook = Hook::new("p", on, FunctionName::new("policy", "check"));
    let own_tools = vec!["git".into(), "policy".into()];
    let agent = AgentSpec { own_tools, ..AgentSpec::new("dev", "p", "script/x.yaml", 10) };
    let spec = JobSpec {
        tenant: "t".into(),
        hooks: HookSet { manifests: vec![], hooks: vec![hook] },
        hook_functions: vec!["policy.check".into()],
        ..JobSpec::new("job_1", agent, Stored::inline(json!("go")))
    };
    let job = NewJob {
        id: "job_1".into(),
        tenant: "t".into(),
        agent: "dev".into(),
        session: "s".into(),
        parent: None,
        created_ms: 1,
        origin: Value::Null,
    };
    Which::New(Box::new(NewRun { job, spec, blobs: vec![] }))
}

impl World {
    async fn run(&self, which: Which) -> Result<End, RunError> {
        let options = Options { detach: true, cancel: CancellationToken::new(), cancelled_by: "ada".into() };
        run(self.deps.clone(), which, options, Arc::new(Silent)).await
    }

    async fn resume(&self) -> Result<End, RunError> {
        self.run(Which::Resume { job: "job_1".into(), process: "2".into() }).await
    }

    fn status(&self) -> Option<JobStatus> {
        self.store.with(|m| m.status)
    }

    async fn decide(&self, approve: bool) {
        let row = self.store.approvals(true).await.unwrap().remove(0);
        let say = crate::approvals::Say { approve, by: "ada".into(), verified: true, note: None };
        let decided = crate::approvals::decide(&*self.store, &SystemClock, &row, say).await;
        assert_eq!(decided, Ok(crate::approvals::Decided::Counted));
    }
}

#[tokio::test]
async fn what_ends_a_job_while_nobody_runs_it_is_its_status_too() {
    for cancel in [false, true] {
        let world = world(answer("escalate"), json!({"content": []}));
        assert_eq!(world.run(new_job(Moment::JobStart)).await.unwrap(), End::Detached);
        assert_eq!(world.status(), Some(JobStatus::Waiting));
        let expect = if cancel {
            world.store.request_cancel("job_1", "ada", 1).await.unwrap();
            JobStatus::Cancelled
        } else {
            world.decide(false).await;
            JobStatus::Failed
        };
        assert!(matches!(world.resume().await.unwrap(), End::Finished(_)));
        assert_eq!(world.status(), Some(expect));
        assert!(!world.store.with(|m| m.held));
    }
}

#[tokio::test]
async fn a_status_that_was_never_written_is_written_by_the_next_who_takes_the_job_up() {
    let world = world(answer("allow"), json!({"content": []}));
    assert!(matches!(world.run(new_job(Moment::JobStart)).await.unwrap(), End::Finished(Outcome::Completed { .. })));
    world.store.with(|m| m.status = Some(JobStatus::Running));
    assert!(matches!(world.resume().await.unwrap(), End::Finished(Outcome::Completed { .. })));
    assert_eq!(world.status(), Some(JobStatus::Completed));
}

#[tokio::test]
async fn a_job_that_cannot_be_taken_up_is_nobodys() {
    let world = world(answer("escalate"), json!({"content": []}));
    assert_eq!(world.run(new_job(Moment::JobStart)).await.unwrap(), End::Detached);
    world.store.with(|m| m.records.truncate(1));
    world.store.with(|m| m.records.push("{}".into()));
    assert!(matches!(world.resume().await, Err(RunError::Replay { .. })));
    assert!(!world.store.with(|m| m.held), "the lease was given back");
}

#[tokio::test]
async fn another_jobs_history_is_not_run_on() {
    let world = world(answer("escalate"), json!({"content": []}));
    assert_eq!(world.run(new_job(Moment::JobStart)).await.unwrap(), End::Detached);
    let other = Which::Resume { job: "job_2".into(), process: "2".into() };
    let error = world.run(other).await.unwrap_err().to_string();
    assert!(error.contains("this is the history of job job_1"), "{error}");
}

#[tokio::test]
async fn a_value_of_any_depth_leaves_the_history_readable() {
    let deep: Value = serde_json::from_str(&format!("{}{}", "[".repeat(126), "]".repeat(126))).unwrap();
    let world = world(answer("allow"), json!({"content": [], "structuredContent": {"deep": deep}}));
    assert!(matches!(
        world.run(new_job(Moment::PostToolCall)).await.unwrap(),
        End::Finished(Outcome::Completed { .. })
    ));
    let records = world.store.with(|m| m.records.clone());
    replay(&records).unwrap();
    let mut values = crate::audit::LargeValues::default();
    let mut faults = vec![];
    world.store.with(|m| m.blobs.values_mut().for_each(|text| text.push(' ')));
    for record in &records {
        faults.extend(values.check(&*world.store, record).await.unwrap());
    }
    assert_eq!(faults.len(), 1, "a large value that was changed is found: {faults:?}");
}

#[tokio::test]
async fn an_approval_whose_row_shows_something_else_gets_no_yes() {
    let world = world(answer("escalate"), json!({"content": []}));
    assert_eq!(world.run(new_job(Moment::PreToolCall)).await.unwrap(), End::Detached);
    let mut row = world.store.approvals(true).await.unwrap().remove(0);
    let mut shown: Approval = serde_json::from_value(row.approval.clone()).unwrap();
    shown.value = Stored::inline(json!({"harmless": true}));
    row.approval = serde_json::to_value(shown).unwrap();
    let say = crate::approvals::Say { approve: true, by: "ada".into(), verified: true, note: None };
    let decided = crate::approvals::decide(&*world.store, &SystemClock, &row, say).await;
    assert!(matches!(decided, Ok(crate::approvals::Decided::Mismatch(_))), "{decided:?}");
    world.decide(true).await;
    assert!(matches!(world.resume().await.unwrap(), End::Finished(Outcome::Completed { .. })));
}

#[tokio::test]
async fn a_call_that_was_begun_and_cannot_be_repeated_may_have_been_made() {
    let mut world = world(answer("allow"), json!({"content": []}));
    let traits = ToolTraits { idempotent: vec!["push".into()], ..ToolTraits::default() };
    world.deps.traits = HashMap::from([("git".to_owned(), traits)]);
    assert!(matches!(world.run(new_job(Moment::JobStart)).await.unwrap(), End::Finished(_)));
    // The process died while the call was under way, and its server does not come up again.
    let begun = |r: &String| r.contains(r#""kind":"begun""#) && r.contains(r#""do":"call_tool""#);
    world.store.with(|m| {
        let at = m.records.iter().position(begun).unwrap();
        m.records.truncate(at + 1);
    });
    world.deps.tools = Arc::new(Scripted(answer("allow"), Value::Null));
    assert!(matches!(world.resume().await.unwrap(), End::Finished(Outcome::Completed { .. })));
    let told = world.store.with(|m| m.records.iter().find(|r| r.contains(r#""tool_returned""#)).cloned()).unwrap();
    assert!(told.contains(r#""end":"unknown""#) && told.contains("its server is down"), "{told}");
}

#[tokio::test]
async fn a_number_that_would_not_arrive_as_written_is_not_sent() {
    struct Wei;
    #[async_trait::async_trait]
    impl Model for Wei {
        async fn turn(&self, request: TurnRequest<'_>, sink: &dyn TurnSink) -> Result<Turn, ModelError> {
            let mut turn = OneCall.turn(request, sink).await?;
            turn.calls.iter_mut().for_each(|c| c.arguments = json!(r#"{"wei":12345678901234567890123}"#));
            Ok(turn)
        }
        fn label(&self) -> String {
            "wei".into()
        }
        fn is_scripted(&self) -> bool {
            true
        }
    }
    let mut world = world(answer("allow"), json!({"content": []}));
    world.deps.model = Arc::new(Wei);
    assert!(matches!(world.run(new_job(Moment::PreToolCall)).await.unwrap(), End::Finished(Outcome::Completed { .. })));
    let records = world.store.with(|m| m.records.clone()).concat();
    assert!(records.contains("The call to git.push was not made: a number in its arguments has more digits"));
    assert!(!records.contains(r#""do":"call_tool""#));
}
