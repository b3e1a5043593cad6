//! A wiring without processes: a real store, a model that answers by a rule, tools that answer at once.

use hookwright_acp::sdk::v1::ConnectionTo;
use hookwright_acp::sdk::v1::schema::{
    InitializeRequest, NewSessionRequest, PermissionOptionKind, RequestPermissionOutcome, RequestPermissionRequest,
    RequestPermissionResponse, SelectedPermissionOutcome, SessionNotification, SessionUpdate,
};
use hookwright_acp::sdk::{
    Agent, Channel, Client, Error, on_receive_notification, on_receive_request, schema::ProtocolVersion,
};
use hookwright_acp::{Ended, Equipment, Order, Ready, ServerDecl, Wiring, serve_on};
use hookwright_core::FunctionName;
use hookwright_core::event::Moment;
use hookwright_core::hooks::{Hook, HookSet};
use hookwright_core::job::{AgentSpec, JobSpec};
use hookwright_core::manifest::{Match, OnTimeout};
use hookwright_core::message::{Message, StopReason, Usage};
use hookwright_core::stored::Stored;
use hookwright_runtime::approvals::Say;
use hookwright_runtime::job::{Deps, NewRun};
use hookwright_runtime::ports::clock::{Clock, SystemClock};
use hookwright_runtime::ports::model::{Model, ModelError, Turn, TurnCall, TurnRequest, TurnSink};
use hookwright_runtime::ports::sessions::Sessions;
use hookwright_runtime::ports::store::{NewJob, Store as _};
use hookwright_runtime::ports::tools::{CallOutcome, ListedFunction, ToolDown, ToolState, ToolStatus, Tools};
use hookwright_sqlite::{OpenOptions, SqliteStore};
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

pub(crate) struct World {
    store: Arc<SqliteStore>,
    models: Vec<String>,
    jobs: AtomicU32,
    /// Sets of servers that were started and that have left, and how many there were at once at most.
    pub(crate) servers: Arc<[AtomicU32; 3]>,
    _folder: tempfile::TempDir,
}

/// `git.push` says what it was given; `policy.check` escalates.
struct Answering(Arc<[AtomicU32; 3]>);

#[async_trait::async_trait]
impl Tools for Answering {
    async fn ready(&self, _: &str) -> Result<(), ToolDown> {
        Ok(())
    }
    async fn functions(&self, tool: &str) -> Result<Vec<ListedFunction>, ToolDown> {
        let name = if tool == "git" { "push" } else { "check" };
        Ok(vec![ListedFunction {
            name: name.into(),
            description: None,
            input_schema: json!({"type": "object"}),
            read_only_hint: false,
            idempotent_hint: false,
            definition: std::sync::Arc::default(),
        }])
    }
    async fn call(&self, name: &FunctionName, arguments: Map<String, Value>, _: Duration) -> CallOutcome {
        let result = if name.tool() == "git" {
            json!({"content": [{"type": "text", "text": format!("pushed {}", Value::Object(arguments))}]})
        } else {
            json!({"content": [], "structuredContent": {"decision": "escalate", "reason": "look at it"}})
        };
        CallOutcome::Answered { result, duplicate_key: false }
    }
    async fn kill(&self, _: &str, _: &str) -> bool {
        false
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
        vec![status("git"), status("policy")]
    }
    async fn shutdown(&self) {
        self.0[1].fetch_add(1, Ordering::SeqCst);
    }
}

/// Pushes where the user says so, and else says how many messages it sees.
struct Counting;

#[async_trait::async_trait]
impl Model for Counting {
    async fn turn(&self, request: TurnRequest<'_>, sink: &dyn TurnSink) -> Result<Turn, ModelError> {
        let pushes = matches!(request.messages.last(), Some(Message::User { content })
            if content.value.as_deref() == Some(&json!("push")));
        let usage = Some(Usage { input_tokens: 100, output_tokens: 11 });
        if pushes {
            let call = TurnCall { provider_id: "c".into(), tool: "git.push".into(), arguments: json!({"to": "main"}) };
            let stop = StopReason::ToolCalls;
            return Ok(Turn { text: None, calls: vec![call], stop, usage, provider_state: None });
        }
        let text = format!("{} messages", request.messages.len());
        sink.text(&text);
        Ok(Turn { text: Some(text), calls: vec![], stop: StopReason::EndTurn, usage, provider_state: None })
    }
    fn label(&self) -> String {
        "counting".into()
    }
    fn is_scripted(&self) -> bool {
        true
    }
}

impl World {
    pub(crate) fn new() -> Arc<Self> {
        let folder = tempfile::tempdir().unwrap();
        let options = OpenOptions::new("test", Arc::new(SystemClock));
        let store = SqliteStore::open(folder.path().join("jobs.db"), options).unwrap();
        Arc::new(Self {
            store,
            models: vec!["counting".into()],
            jobs: AtomicU32::new(0),
            servers: Arc::default(),
            _folder: folder,
        })
    }
}

#[async_trait::async_trait]
impl Wiring for World {
    fn store(&self) -> Arc<dyn Sessions> {
        self.store.clone()
    }
    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(SystemClock)
    }
    fn tenant(&self) -> &'static str {
        "t"
    }
    fn agent(&self) -> &'static str {
        "dev"
    }
    fn models(&self) -> &[String] {
        &self.models
    }
    fn origin(&self) -> Value {
        json!({})
    }
    fn say(&self, approve: bool, note: Option<String>) -> Say {
        Say { approve, by: "ada".into(), verified: true, note }
    }
    fn equip(&self, _: &str, _: &str, _: Vec<ServerDecl>) -> Equipment {
        let [started, left, most] = &*self.servers;
        let now = started.fetch_add(1, Ordering::SeqCst) + 1 - left.load(Ordering::SeqCst);
        most.fetch_max(now, Ordering::SeqCst);
        Equipment { tools: Arc::new(Answering(self.servers.clone())), own: vec![], warnings: vec![] }
    }
    fn job(&self, order: Order<'_>) -> Result<Ready, String> {
        if order.text == "impossible" {
            return Err("this prompt can't be taken".into());
        }
        let id = format!("job_{}_{}", order.session, self.jobs.fetch_add(1, Ordering::Relaxed));
        let hook = Hook {
            plugin: "p".into(),
            on: Moment::PreToolCall,
            call: FunctionName::new("policy", "check"),
            matches: Match::default(),
            timeout_ms: 2_000,
            on_timeout: OnTimeout::Deny,
            expires_ms: 60_000,
            approvers: vec![],
            unavailable: None,
        };
        let agent = AgentSpec {
            own_tools: vec!["git".into()],
            context_window: Some(1_000),
            ..AgentSpec::new("dev", "p", order.model, 5)
        };
        let spec = JobSpec {
            tenant: "t".into(),
            session: order.session.into(),
            continues: order.state.continues.clone(),
            hooks: HookSet { manifests: vec![], hooks: vec![hook] },
            hook_functions: vec!["policy.check".into()],
            ..JobSpec::new(id.clone(), agent, Stored::inline(json!(order.text)))
        };
        let job = NewJob {
            id,
            tenant: "t".into(),
            agent: "dev".into(),
            session: order.session.into(),
            parent: None,
            created_ms: SystemClock.now_ms(),
            origin: Value::Null,
        };
        let deps = Deps {
            store: self.store.clone(),
            tools: order.equipment.tools.clone(),
            model: Arc::new(Counting),
            clock: Arc::new(SystemClock),
            traits: HashMap::new(),
            standing: Arc::default(),
            subagents: None,
            checkpoint: None,
        };
        Ok(Ready { deps, run: NewRun { job, spec, blobs: vec![] } })
    }
    async fn end_left(&self, job: &str) -> Result<(), String> {
        let row = self.store.job(job).await.map_err(|e| e.to_string())?;
        if row.status.is_final() { Ok(()) } else { Err(format!("{job} was left")) }
    }
}

/// What a client saw.
pub(crate) type Seen = Arc<Mutex<Vec<SessionUpdate>>>;

/// A client's side of a talk: says hello, opens a session, and does what the test wants. Questions are answered with `answer`.
pub(crate) async fn talk<R>(
    world: Arc<World>,
    answer: PermissionOptionKind,
    test: impl AsyncFnOnce(ConnectionTo<Agent>, String, Seen) -> Result<R, Error>,
) -> R {
    let (ours, theirs) = Channel::duplex();
    let door = tokio::spawn(serve_on(world, ours, CancellationToken::new()));
    let seen = Seen::default();
    let (updates, handed) = (seen.clone(), seen.clone());
    let result = Client
        .v1()
        .on_receive_notification(
            async move |update: SessionNotification, _| {
                updates.lock().unwrap().push(update.update);
                Ok(())
            },
            on_receive_notification!(),
        )
        .on_receive_request(
            async move |request: RequestPermissionRequest, responder, _| {
                let option = request.options.iter().find(|o| o.kind == answer).unwrap().option_id.clone();
                let chosen = RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(option));
                responder.respond(RequestPermissionResponse::new(chosen))
            },
            on_receive_request!(),
        )
        .connect_with(theirs, async move |agent: ConnectionTo<Agent>| {
            agent.send_request(InitializeRequest::new(ProtocolVersion::V1)).block_task().await?;
            let new = agent.send_request(NewSessionRequest::new("/work")).block_task().await?;
            test(agent, new.session_id.0.to_string(), handed).await
        })
        .await
        .unwrap();
    // The client is gone: the door notices, and ends.
    let ended = tokio::time::timeout(Duration::from_mins(1), door).await.unwrap().unwrap();
    assert_eq!(ended, Ended::Closed);
    result
}
