//! One client's session: what it may use, its job, and what is under way for it.

use crate::desk::Desk;
use crate::flight::Flight;
use crate::gateway::Gateway;
use crate::http::params::Repeated;
use crate::http::streams::Streams;
use crate::job::Job;
use crate::lists::Names;
use crate::wire;
use crate::wiring::Client;
use hookwright_core::FunctionName;
use hookwright_core::event::Moment;
use hookwright_core::job::JobSpec;
use hookwright_core::manifest::Pass;
use hookwright_core::text;
use hookwright_runtime::job::NewRun;
use hookwright_runtime::ports::tools::{Introduction, ToolState, Tools};
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Semaphore, broadcast};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

/// Requests of one client under way at a time.
pub(crate) const REQUESTS: usize = 256;
/// How long servers that pass something may take until a client is told what there is.
const INTRODUCTIONS: Duration = Duration::from_secs(10);
/// Several changes of lists within this are told as one.
const TOGETHER: Duration = Duration::from_millis(30);

/// How a session ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Farewell {
    /// The client has done its work.
    Done,
    /// The client can't be spoken with any more.
    BrokenOff,
    /// The gateway was told to stop.
    Stopped,
}

/// A client's session.
pub(crate) struct Session {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) client: Client,
    pub(crate) capabilities: Map<String, Value>,
    /// Whether it speaks the revision in which every request stands for itself.
    pub(crate) modern: bool,
    pub(crate) desk: Arc<Desk>,
    pub(crate) tools: Arc<dyn Tools>,
    /// The job's, as it is or will be.
    pub(crate) spec: JobSpec,
    pub(crate) names: Names,
    /// What servers want repeated in HTTP headers.
    pub(crate) repeated: Repeated,
    /// Streams over HTTP that may be taken up again.
    pub(crate) streams: Streams,
    /// Calls that wait for what their servers asked of the client, by the state that it brings back.
    pub(crate) parked: Mutex<HashMap<String, Flight>>,
    run: Mutex<Option<NewRun>>,
    job: Mutex<Option<Arc<Job>>>,
    requests: Mutex<HashMap<String, CancellationToken>>,
    pub(crate) slots: Arc<Semaphore>,
    used: Mutex<Instant>,
    pub(crate) ended: CancellationToken,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Session {
    /// Opens a session: its own servers are started. An error is for people.
    pub(crate) fn open(
        gateway: &Arc<Gateway>,
        client: Client,
        capabilities: Map<String, Value>,
        modern: bool,
    ) -> Result<Arc<Self>, String> {
        let wiring = &gateway.wiring;
        let run = wiring.job(&client)?;
        let desk = Arc::new(Desk::new(modern, wiring.passes(), gateway.options.ids_from));
        let tools = wiring.equip(&client, &capabilities, desk.clone());
        let session = Arc::new(Self {
            gateway: gateway.clone(),
            client,
            capabilities,
            modern,
            desk,
            tools,
            spec: run.spec.clone(),
            names: Names::default(),
            repeated: Repeated::default(),
            streams: Streams::default(),
            parked: Mutex::default(),
            run: Mutex::new(Some(run)),
            job: Mutex::default(),
            requests: Mutex::default(),
            slots: Arc::new(Semaphore::new(REQUESTS)),
            used: Mutex::new(Instant::now()),
            ended: CancellationToken::new(),
        });
        tokio::spawn(tell_changes(
            session.tools.list_changes(),
            session.tools.changes(),
            session.desk.clone(),
            session.ended.clone(),
        ));
        Ok(session)
    }

    /// The session's job, which begins with the first who needs it.
    pub(crate) fn job(&self) -> Arc<Job> {
        let mut job = lock(&self.job);
        if let (None, Some(run)) = (&*job, lock(&self.run).take()) {
            *job = Some(Arc::new(Job::start(&*self.gateway.wiring, self.tools.clone(), run)));
        }
        match &*job {
            Some(job) => job.clone(),
            // It is made once and never taken away before the session has ended.
            None => unreachable!("a session has a job or what to make it of"),
        }
    }

    /// The client is gone, or we are: the job ends, and what was under way for it.
    pub(crate) async fn end(&self, farewell: Farewell) {
        self.ended.cancel();
        for token in lock(&self.requests).values() {
            token.cancel();
        }
        lock(&self.parked).clear();
        self.desk.shut();
        let job = lock(&self.job).clone();
        if let Some(job) = job {
            let by = match farewell {
                Farewell::Done | Farewell::BrokenOff => {
                    format!("the client {}, which went away", text::shown(&self.client.name, 100))
                }
                Farewell::Stopped => "the gateway, which was stopped".to_owned(),
            };
            job.end(&by, farewell == Farewell::Done).await;
        }
        self.tools.shutdown().await;
    }

    /// A request begins; it can be cancelled by its id. None where one of this id is under way.
    pub(crate) fn begin(self: &Arc<Self>, id: &str) -> Option<UnderWay> {
        let token = self.ended.child_token();
        let mut requests = lock(&self.requests);
        if requests.contains_key(id) {
            return None;
        }
        requests.insert(id.to_owned(), token.clone());
        *lock(&self.used) = Instant::now();
        Some(UnderWay { session: self.clone(), id: id.to_owned(), token })
    }

    pub(crate) fn cancel(&self, id: &str) {
        if let Some(token) = lock(&self.requests).get(id) {
            token.cancel();
        }
    }

    /// For how long nothing was asked; none where something is under way.
    pub(crate) fn idle(&self) -> Option<Duration> {
        let waits = !lock(&self.requests).is_empty() || !lock(&self.parked).is_empty();
        (!waits).then(|| lock(&self.used).elapsed())
    }

    /// Whether hooks watch what calls of a function give back.
    pub(crate) fn is_watched(&self, name: &FunctionName) -> bool {
        let full = name.to_string();
        !self.spec.hooks.matching(Moment::PostToolCall, &self.spec.agent.id, &[&full]).is_empty()
    }

    /// Tools that pass something and that the agent may use, in their order.
    pub(crate) fn passing(&self, kind: Pass) -> Vec<String> {
        let all = self.gateway.wiring.passes().iter().filter(|(_, passes)| passes.contains(&kind));
        let ids: Vec<&str> = all.map(|(tool, _)| tool.as_str()).collect();
        hookwright_core::visible::tools(&self.spec.agent, ids).into_iter().map(str::to_owned).collect()
    }

    /// What a server said of itself, if it is there.
    pub(crate) fn introduction(&self, tool: &str) -> Introduction {
        self.tools.introduction(tool).unwrap_or_default()
    }

    /// What this session offers: functions, and what is passed of what servers have.
    pub(crate) async fn offers(&self) -> (Value, Option<String>) {
        let passes = self.gateway.wiring.passes();
        let ready = passes.iter().map(|(tool, _)| async { drop(self.tools.ready(tool).await) });
        drop(timeout(INTRODUCTIONS, futures_util::future::join_all(ready)).await);
        let has = |kind: Pass, key: &str| {
            let tools = self.passing(kind);
            tools.iter().any(|tool| self.introduction(tool).capabilities.get(key).is_some_and(|value| !value.is_null()))
        };
        let mut offers = json!({"tools": {"listChanged": true}});
        if has(Pass::Resources, "resources") {
            let subscribe = self
                .passing(Pass::Resources)
                .iter()
                .any(|t| self.introduction(t).capabilities["resources"]["subscribe"] == true);
            offers["resources"] = json!({"listChanged": true, "subscribe": subscribe});
        }
        if has(Pass::Prompts, "prompts") {
            offers["prompts"] = json!({"listChanged": true});
        }
        if has(Pass::Completions, "completions") {
            offers["completions"] = json!({});
        }
        if has(Pass::Logging, "logging") {
            offers["logging"] = json!({});
        }
        (offers, self.instructions())
    }

    /// What servers say of their use, each under its tool's id.
    fn instructions(&self) -> Option<String> {
        let status = self.tools.status();
        let tools = hookwright_core::visible::tools(&self.spec.agent, status.iter().map(|s| s.tool.as_str()));
        let said = tools.into_iter().filter_map(|tool| {
            let text = self.tools.introduction(tool)?.instructions?;
            Some(format!("# {tool}\n{text}"))
        });
        let said: Vec<String> = said.collect();
        (!said.is_empty()).then(|| said.join("\n\n"))
    }

    /// The answer to `server/discover`.
    pub(crate) async fn discovered(&self) -> Map<String, Value> {
        let (capabilities, instructions) = self.offers().await;
        let versions: Vec<&str> = std::iter::once(wire::MODERN).chain(wire::WITH_INITIALIZE).collect();
        let mut result = Map::from_iter([
            ("supportedVersions".to_owned(), json!(versions)),
            ("capabilities".to_owned(), capabilities),
        ]);
        if let Some(instructions) = instructions {
            result.insert("instructions".to_owned(), instructions.into());
        }
        wire::signed(wire::uncached(wire::complete(result)), &self.gateway.options.version)
    }

    /// The answer to `initialize`.
    pub(crate) async fn initialized(&self, revision: &str) -> Map<String, Value> {
        let (capabilities, instructions) = self.offers().await;
        let mut result = Map::from_iter([
            ("protocolVersion".to_owned(), revision.into()),
            ("capabilities".to_owned(), capabilities),
            ("serverInfo".to_owned(), wire::server_info(&self.gateway.options.version)),
        ]);
        if let Some(instructions) = instructions {
            result.insert("instructions".to_owned(), instructions.into());
        }
        result
    }
}

/// A request under way.
pub(crate) struct UnderWay {
    session: Arc<Session>,
    id: String,
    pub(crate) token: CancellationToken,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        lock(&self.session.requests).remove(&self.id);
        *lock(&self.session.used) = Instant::now();
    }
}

/// Tells the client that the list of functions changed, as its servers tell it or come and go.
async fn tell_changes(
    mut lists: Option<broadcast::Receiver<String>>,
    mut states: Option<broadcast::Receiver<hookwright_runtime::ports::tools::ToolStatus>>,
    desk: Arc<Desk>,
    ended: CancellationToken,
) {
    loop {
        tokio::select! {
            () = ended.cancelled() => return,
            () = next(&mut lists, |_| true) => {}
            () = next(&mut states, |status| match status.state {
                ToolState::Failed | ToolState::Restarting => true,
                ToolState::Ready => status.starts > 1,
                ToolState::Starting => false,
            }) => {}
        }
        tokio::time::sleep(TOGETHER).await;
        if let Some(receiver) = &mut lists {
            while !matches!(
                receiver.try_recv(),
                Err(broadcast::error::TryRecvError::Empty | broadcast::error::TryRecvError::Closed)
            ) {}
        }
        desk.tell("notifications/tools/list_changed", &json!({}));
    }
}

/// The next one that counts; never where nothing can come.
async fn next<T: Clone>(receiver: &mut Option<broadcast::Receiver<T>>, counts: impl Fn(&T) -> bool) {
    loop {
        let Some(open) = receiver else { return std::future::pending().await };
        match open.recv().await {
            Ok(item) if counts(&item) => return,
            Ok(_) => {}
            Err(broadcast::error::RecvError::Lagged(_)) => return,
            Err(broadcast::error::RecvError::Closed) => *receiver = None,
        }
    }
}
