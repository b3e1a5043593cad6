//! One tool: its server is started, watched, started again, given up; and called.
//!
//! Invariant: calls never wait for a start. What a tool's server does changes this tool's state and no other's.

mod supervise;

use crate::config::HostConfig;
use crate::handshake::Session;
use crate::heard::Heard;
use crate::link::{Ask, Link, Reply};
use crate::listing;
use crate::said::shown;
use crate::spec::ToolSpec;
use hookwright_process::Group;
use hookwright_runtime::ports::tools::{
    CallOutcome, ListedFunction, PeerError, Progress, ToolDown, ToolState, ToolStatus,
};
use serde::Serialize;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::{broadcast, watch};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

/// A connection and what was agreed upon it.
pub(crate) struct Connection {
    pub(crate) link: Link,
    pub(crate) session: Session,
}

/// How the tool stands.
#[derive(Clone)]
struct Phase {
    state: ToolState,
    connection: Option<Arc<Connection>>,
    starts: u32,
    /// Starts that failed.
    failed_starts: u32,
    last_error: Option<String>,
}

/// A tool of a host.
pub(crate) struct Tool {
    spec: ToolSpec,
    config: Arc<HostConfig>,
    phase: watch::Sender<Phase>,
    changes: broadcast::Sender<ToolStatus>,
    heard: Arc<Heard>,
    listed: tokio::sync::Mutex<Option<Listed>>,
    stop: CancellationToken,
    /// The supervision is over, and the server gone.
    gone: CancellationToken,
    /// Why we killed the server of this connection.
    killed: Mutex<Option<(Weak<Connection>, String)>>,
    /// The child that runs now, or ran last.
    child: Mutex<Option<Running>>,
}

/// A child, as it must be known where its link is not at hand.
struct Running {
    group: Weak<Group>,
    ended: CancellationToken,
}

/// A list of functions, and when it was read.
struct Listed {
    connection: Weak<Connection>,
    changes: u64,
    functions: Vec<ListedFunction>,
}

#[derive(Serialize)]
struct CallParams<'a> {
    name: &'a str,
    arguments: &'a Map<String, Value>,
    #[serde(flatten)]
    input: &'a Input,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<&'a Value>,
}

/// What a server required before it goes on with a call.
#[derive(Serialize, Default)]
struct Input {
    #[serde(rename = "inputResponses", skip_serializing_if = "Option::is_none")]
    responses: Option<Map<String, Value>>,
    #[serde(rename = "requestState", skip_serializing_if = "Option::is_none")]
    state: Option<Value>,
}

impl Input {
    fn of(responses: Map<String, Value>, required: &Value) -> Self {
        Self { responses: Some(responses), state: required.get("requestState").cloned() }
    }
}

/// How often a server may require input for one call.
const ROUNDS: u32 = 10;

fn is_input_required(result: &Value) -> bool {
    result["resultType"] == "input_required"
}

fn told(limit: Duration) -> String {
    format!(" within {}", hookwright_core::text::duration(u64::try_from(limit.as_millis()).unwrap_or(u64::MAX)))
}

fn refused(error: PeerError) -> CallOutcome {
    CallOutcome::RpcError { code: error.code, message: error.message, data: error.data.map(Box::new) }
}

/// What a call carries as `_meta`, with the token of its progress where somebody listens.
fn with_token(meta: Option<&Value>, token: Option<u64>) -> Option<Cow<'_, Value>> {
    let Some(token) = token else { return meta.map(Cow::Borrowed) };
    let mut with = meta.cloned().unwrap_or_else(|| Value::Object(Map::new()));
    with["progressToken"] = token.into();
    Some(Cow::Owned(with))
}

impl Tool {
    pub(crate) fn new(
        spec: ToolSpec,
        config: Arc<HostConfig>,
        changes: broadcast::Sender<ToolStatus>,
        heard: Arc<Heard>,
    ) -> Arc<Self> {
        let phase =
            Phase { state: ToolState::Starting, connection: None, starts: 0, failed_starts: 0, last_error: None };
        Arc::new(Self {
            spec,
            config,
            phase: watch::Sender::new(phase),
            changes,
            heard,
            listed: tokio::sync::Mutex::default(),
            stop: CancellationToken::new(),
            gone: CancellationToken::new(),
            killed: Mutex::default(),
            child: Mutex::default(),
        })
    }

    pub(crate) fn id(&self) -> &str {
        &self.spec.id
    }

    pub(crate) fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    pub(crate) fn status(&self) -> ToolStatus {
        self.status_of(&self.phase.borrow())
    }

    fn status_of(&self, phase: &Phase) -> ToolStatus {
        let session = phase.connection.as_ref().map(|c| &c.session);
        ToolStatus {
            tool: self.spec.id.clone(),
            state: phase.state,
            starts: phase.starts,
            last_error: phase.last_error.clone(),
            server: session.and_then(|s| s.server.clone()),
            protocol: session.map(|s| s.revision.clone()),
        }
    }

    /// The connection, where there is one.
    pub(crate) fn connection(&self) -> Option<Arc<Connection>> {
        self.phase.borrow().connection.clone()
    }

    fn down(phase: &Phase) -> String {
        let why = phase.last_error.as_deref().map_or(String::new(), |why| format!(": {why}"));
        match phase.state {
            ToolState::Ready => "its server is connected".to_owned(),
            ToolState::Starting => "its server is still being started".to_owned(),
            ToolState::Restarting => format!("its server is down and will be started again{why}"),
            ToolState::Failed => format!("its server is down{why}"),
        }
    }

    /// Waits until the server is connected, or the start that goes on or comes next has failed.
    pub(crate) async fn ready(&self) -> Result<Arc<Connection>, ToolDown> {
        if let Some(connection) = self.connection() {
            return Ok(connection);
        }
        let mut phase = self.phase.subscribe();
        let failed_before = phase.borrow_and_update().failed_starts;
        let known =
            |p: &Phase| p.connection.is_some() || p.state == ToolState::Failed || p.failed_starts > failed_before;
        // A pause may come before the start; the start has its own limit.
        let limit = self.spec.start_timeout.saturating_add(Duration::from_millis(500));
        let down = |why: String| ToolDown { why };
        match timeout(limit, phase.wait_for(known)).await {
            Ok(Ok(phase)) => phase.connection.clone().ok_or_else(|| down(Self::down(&phase))),
            Ok(Err(_)) | Err(_) => Err(down(Self::down(&self.phase.borrow()))),
        }
    }

    /// What the server lists. The list is read anew unless the server is one that tells of changes, and told of none.
    pub(crate) async fn functions(&self) -> Result<Vec<ListedFunction>, ToolDown> {
        let connection = self.ready().await?;
        // Held while the list is read, so that several who ask share one reading.
        let mut listed = self.listed.lock().await;
        let changes = if connection.session.tells_changes { connection.link.changes() } else { None };
        if let (Some(listed), Some(changes)) = (listed.as_ref(), changes)
            && listed.changes == changes
            && listed.connection.ptr_eq(&Arc::downgrade(&connection))
        {
            return Ok(listed.functions.clone());
        }
        let meta = connection.session.meta.as_ref();
        let functions = listing::list(&connection.link, meta, self.spec.start_timeout, self.id(), &self.spec.secrets)
            .await
            .map_err(|why| ToolDown { why })?;
        if let Link::Http(http) = &connection.link {
            http.learn(&functions);
        }
        *listed = changes.map(|changes| Listed {
            connection: Arc::downgrade(&connection),
            changes,
            functions: functions.clone(),
        });
        Ok(functions)
    }

    /// Calls a function.
    pub(crate) async fn call(
        &self,
        function: &str,
        arguments: &Map<String, Value>,
        limit: Duration,
        progress: Option<Progress>,
    ) -> CallOutcome {
        let since = Instant::now();
        let Some(mut connection) = self.connection() else {
            return CallOutcome::NotSent { why: Self::down(&self.phase.borrow()) };
        };
        let listening = progress.map(|progress| self.heard.listen(progress));
        let token = listening.as_ref().map(|listening| listening.token);
        let mut input = Input::default();
        let (mut sessions, mut rounds) = (0, 0);
        loop {
            let meta = with_token(connection.session.meta.as_ref(), token);
            let params = CallParams { name: function, arguments, input: &input, meta: meta.as_deref() };
            let left = if sessions + rounds == 0 { limit } else { limit.saturating_sub(since.elapsed()) };
            let ask = Ask::new("tools/call", left).of(function, arguments);
            let reply = connection.link.request(ask, &params).await;
            // The request was not handled: it may be made once more, on a new session and within its time.
            if matches!(reply, Reply::SessionGone) && sessions == 0 {
                sessions += 1;
                let left = limit.saturating_sub(since.elapsed());
                if let Ok(Some(next)) = timeout(left, self.after(&connection)).await {
                    connection = next;
                    continue;
                }
            }
            match reply {
                // The same call goes on with what was asked for.
                Reply::Result { value, .. }
                    if is_input_required(&value) && self.heard.has_peer() && rounds < ROUNDS =>
                {
                    rounds += 1;
                    let left = limit.saturating_sub(since.elapsed());
                    match timeout(left, self.heard.inputs(&value["inputRequests"])).await {
                        Ok(Ok(responses)) => input = Input::of(responses, &value),
                        Ok(Err(error)) => return refused(error),
                        Err(_) => {
                            let why = format!("the server asked for input, and nobody gave it{}", told(limit));
                            return CallOutcome::RpcError { code: -32_603, message: why, data: None };
                        }
                    }
                }
                reply => return self.outcome(reply),
            }
        }
    }

    /// Sends a request that is no call.
    pub(crate) async fn pass(&self, method: &'static str, mut params: Value, limit: Duration) -> CallOutcome {
        let connection = match self.ready().await {
            Ok(connection) => connection,
            Err(down) => return CallOutcome::NotSent { why: down.why },
        };
        let since = Instant::now();
        let name = ["uri", "name"].iter().find_map(|key| params[*key].as_str().map(str::to_owned));
        if let (Value::Object(params), Some(Value::Object(ours))) = (&mut params, &connection.session.meta) {
            let meta = params.entry("_meta").or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(meta) = meta {
                meta.extend(ours.clone());
            }
        }
        for _ in 0..=ROUNDS {
            let mut ask = Ask::new(method, limit.saturating_sub(since.elapsed()));
            ask.name = name.as_deref();
            match connection.link.request(ask, &params).await {
                Reply::Result { value, .. } if is_input_required(&value) && self.heard.has_peer() => {
                    let left = limit.saturating_sub(since.elapsed());
                    match timeout(left, self.heard.inputs(&value["inputRequests"])).await {
                        Ok(Ok(responses)) => {
                            params["inputResponses"] = Value::Object(responses);
                            if let Some(state) = value.get("requestState") {
                                params["requestState"] = state.clone();
                            }
                        }
                        Ok(Err(error)) => return refused(error),
                        Err(_) => break,
                    }
                }
                reply => return self.outcome(reply),
            }
        }
        CallOutcome::RpcError { code: -32_603, message: "the server asks for input without end".to_owned(), data: None }
    }

    /// The connection that follows one which is closed.
    async fn after(&self, gone: &Arc<Connection>) -> Option<Arc<Connection>> {
        gone.link.closed().cancelled().await;
        let next =
            |p: &Phase| p.state == ToolState::Failed || p.connection.as_ref().is_some_and(|c| !Arc::ptr_eq(c, gone));
        self.phase.subscribe().wait_for(next).await.ok()?.connection.clone()
    }

    fn outcome(&self, reply: Reply) -> CallOutcome {
        match reply {
            // We told the server that we can't be asked: an answer that asks is none.
            Reply::Result { value, .. } if is_input_required(&value) => CallOutcome::RpcError {
                code: -32_603,
                message: "the server asks for input, which is not offered to it".to_owned(),
                data: None,
            },
            Reply::Result { value, duplicate_key } => CallOutcome::Answered { result: value, duplicate_key },
            // An error is told in reasons, records and answers; a result is data, which hooks and models get as it is.
            Reply::Error { code, message, data } => {
                let secrets = &self.spec.secrets;
                let shows = |data: &Value| matches!(secrets.hide(&data.to_string()), Cow::Owned(_));
                CallOutcome::RpcError {
                    code,
                    message: secrets.hide(&message).into_owned(),
                    data: data.filter(|data| !shows(data)),
                }
            }
            Reply::TimedOut { late } => CallOutcome::TimedOut { late },
            Reply::NotSent { why } => CallOutcome::NotSent { why: shown(&why, WHY_CHARS, &self.spec.secrets) },
            Reply::Lost { why } => CallOutcome::Lost { why: shown(&why, WHY_CHARS, &self.spec.secrets) },
            // These are said before a request is looked at; others may come from a proxy after it was handled.
            Reply::Refused { status: 300..=399 | 401 | 403 | 404 | 405 | 413 | 415 | 429, why } => {
                CallOutcome::NotSent { why }
            }
            Reply::Refused { why, .. } => CallOutcome::Lost { why },
            Reply::SessionGone => {
                CallOutcome::NotSent { why: "its session ended, and no new one could be opened in time".to_owned() }
            }
        }
    }

    /// Changes the phase, and tells it where the status changed.
    fn set(&self, change: impl FnOnce(&mut Phase)) {
        self.phase.send_modify(|phase| {
            let before = self.status_of(phase);
            change(phase);
            let after = self.status_of(phase);
            if before != after {
                // Nobody may be listening.
                let _ = self.changes.send(after);
            }
        });
    }

    /// Ends the server and its supervision. Returns when it is gone.
    pub(crate) async fn shutdown(&self) {
        self.stop.cancel();
        self.gone.cancelled().await;
    }

    /// Kills the server that is connected, as one that does not answer; it is started again as after any death. One that runs elsewhere
    /// can't be killed: its connection is given up, and made anew.
    pub(crate) async fn kill_server(&self, why: &str) -> bool {
        let Some(connection) = self.connection() else { return false };
        let is_ours = connection.link.is_ours();
        if is_ours {
            *self.killed.lock().unwrap_or_else(PoisonError::into_inner) =
                Some((Arc::downgrade(&connection), why.to_owned()));
        }
        // It is dead at once; what is waited for is that nobody takes it for connected any more.
        let _ = timeout(Duration::from_secs(1), connection.link.kill()).await;
        is_ours
    }

    /// Why the server of a connection was killed by us, if it was.
    fn why_killed(&self, connection: &Arc<Connection>) -> Option<String> {
        let killed = self.killed.lock().unwrap_or_else(PoisonError::into_inner).take();
        killed.filter(|(of, _)| of.ptr_eq(&Arc::downgrade(connection))).map(|(_, why)| why)
    }

    /// Ends the server at once, without waiting.
    pub(crate) fn kill(&self) {
        self.stop.cancel();
        let child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(group) = child.as_ref().and_then(|child| child.group.upgrade()) {
            group.end();
        }
    }
}

/// Characters of a reason that is made of what a server said.
const WHY_CHARS: usize = 4_000;
