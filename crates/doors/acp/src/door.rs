//! One client: its capabilities and the sessions that it has open.

use crate::backlog::Backlog;
use crate::errors;
use crate::farewell::Farewell;
use crate::frames::Frames;
use crate::session::Session;
use crate::tell::{Tell, Weight};
use crate::wiring::Wiring;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::{Agent, Client, ConnectTo, Error};
use hookwright_runtime::observe::{Observer, Silent};
use serde_json::json;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How long requests that are being worked on may go on when the client is gone.
const LAST_WORK: Duration = Duration::from_secs(5);

/// How long the last answers may take to be written to a client that is left.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// How the talk with a client ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// The client closed its side, or [`serve`]'s `stop` was given.
    Closed,
    /// The client can't be read from or written to any more.
    Broken(String),
}

/// What the handlers share.
pub(crate) struct Door {
    pub(crate) wiring: Arc<dyn Wiring>,
    sessions: Mutex<HashMap<String, Arc<Session>>>,
    /// Sessions that are being opened, closed or deleted: one request at a time.
    changing: Mutex<HashSet<String>>,
    changed: Notify,
    notices: AtomicBool,
    compactions: AtomicBool,
    client_name: Mutex<String>,
    /// What the client has not read, where that can be known.
    backlog: Option<Backlog>,
    /// The client closed its side, and all sessions have ended.
    pub(crate) closed: CancellationToken,
    /// Requests that are being worked on.
    pub(crate) work: TaskTracker,
}

impl Door {
    pub(crate) fn new(wiring: Arc<dyn Wiring>, backlog: Option<Backlog>) -> Arc<Self> {
        Arc::new(Self {
            wiring,
            sessions: Mutex::default(),
            changing: Mutex::default(),
            changed: Notify::new(),
            notices: AtomicBool::new(false),
            compactions: AtomicBool::new(false),
            client_name: Mutex::default(),
            backlog,
            closed: CancellationToken::new(),
            work: TaskTracker::new(),
        })
    }

    /// What the client said about itself.
    pub(crate) fn meet(&self, name: &str, notices: bool, compactions: bool) {
        self.notices.store(notices, Ordering::Relaxed);
        self.compactions.store(compactions, Ordering::Relaxed);
        *self.client_name.lock().unwrap_or_else(PoisonError::into_inner) = hookwright_core::text::shown(name, 100);
    }

    /// The client's name, for the history.
    pub(crate) fn client_name(&self) -> String {
        self.client_name.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn tell(&self, client: &ConnectionTo<Client>, session: &str) -> Tell {
        Tell {
            client: client.clone(),
            session: session.to_owned(),
            notices: self.notices.load(Ordering::Relaxed),
            compactions: self.compactions.load(Ordering::Relaxed),
            backlog: self.backlog.clone(),
        }
    }

    /// Works on a request that is no prompt: while there are too many of them, no further frame is read.
    pub(crate) fn work_on(&self, request: impl Future<Output = ()> + Send + 'static) {
        let working = self.backlog.as_ref().map(Backlog::working);
        self.work.spawn(async move {
            let _working = working;
            request.await;
        });
    }

    fn sessions(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<Session>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An open session.
    pub(crate) fn session(&self, id: &str) -> Result<Arc<Session>, Error> {
        let found = self.sessions().get(id).cloned();
        found.ok_or_else(|| errors::no_session(id, " open here: session/load or session/resume opens one"))
    }

    /// Waits until no other request opens, closes or deletes that session. Others wait while the result lives.
    pub(crate) async fn alone<'a>(&'a self, id: &'a str) -> Alone<'a> {
        loop {
            let changed = self.changed.notified();
            if self.changing.lock().unwrap_or_else(PoisonError::into_inner).insert(id.to_owned()) {
                return Alone { door: self, id };
            }
            changed.await;
        }
    }

    /// Opens a session in place of one of the same id, which is returned and must be ended.
    #[must_use]
    pub(crate) fn put(&self, session: Arc<Session>) -> Option<Arc<Session>> {
        self.sessions().insert(session.id.clone(), session)
    }

    pub(crate) fn take(&self, id: &str) -> Option<Arc<Session>> {
        self.sessions().remove(id)
    }

    /// Ends everything that is open: prompts are cancelled, servers leave.
    pub(crate) async fn end_all(&self) {
        let open: Vec<_> = self.sessions().drain().map(|(_, session)| session).collect();
        let ends = open.iter().map(|session| self.end_of(session, None));
        futures_util::future::join_all(ends).await;
    }

    /// Ends everything, and waits a while until what was asked is answered and the answers are written.
    async fn leave(&self) {
        self.end_all().await;
        self.work.close();
        let _ = tokio::time::timeout(LAST_WORK, self.work.wait()).await;
        if let Some(backlog) = &self.backlog {
            let _ = tokio::time::timeout(LAST_WORDS, backlog.drained()).await;
        }
    }

    /// A session ends in this process: its prompt is cancelled, its servers are told and leave. `tell` tells the client what came of
    /// that; none where it is gone.
    pub(crate) async fn end_of(&self, session: &Session, tell: Option<&Tell>) {
        session.settle().await;
        let observer: Box<dyn Observer> = match tell {
            Some(tell) => Box::new(Farewell(tell.clone())),
            None => Box::new(Silent),
        };
        if let Err(why) = self.wiring.session_ends(&session.id, &session.equipment, &*observer).await {
            tracing::warn!(session = session.id, why, "servers were not asked about the end of the session");
            if let Some(tell) = tell {
                let title = "Servers were not asked about the end of the session";
                tell.notice(Weight::Warning, title, Some(&why), json!({"hook": "_SessionEnd", "outcome": "failed"}));
            }
        }
        session.equipment.tools.shutdown().await;
    }
}

/// One request's hold on a session.
pub(crate) struct Alone<'a> {
    door: &'a Door,
    id: &'a str,
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        self.door.changing.lock().unwrap_or_else(PoisonError::into_inner).remove(self.id);
        self.door.changed.notify_waiters();
    }
}

/// Talks with one client until it goes away, or until `stop`. Then its prompts are cancelled and its sessions' servers have left.
pub async fn serve<R, W>(wiring: Arc<dyn Wiring>, frames: Frames<R, W>, stop: CancellationToken) -> Ended
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let backlog = Backlog::default();
    talk_on(wiring, frames.into_lines(backlog.clone()), Some(backlog), stop).await
}

/// As [`serve`], over a transport of the SDK, e.g. one end of `sdk::Channel::duplex()`.
pub async fn serve_on(
    wiring: Arc<dyn Wiring>,
    transport: impl ConnectTo<Agent> + 'static,
    stop: CancellationToken,
) -> Ended {
    talk_on(wiring, transport, None, stop).await
}

async fn talk_on(
    wiring: Arc<dyn Wiring>,
    transport: impl ConnectTo<Agent> + 'static,
    backlog: Option<Backlog>,
    stop: CancellationToken,
) -> Ended {
    let door = Door::new(wiring, backlog);
    let mut talk = std::pin::pin!(crate::handlers::talk(door.clone(), transport));
    // A client that closed its side may read on, but is not waited for for ever.
    let unread = async {
        door.closed.cancelled().await;
        tokio::time::sleep(LAST_WORK).await;
    };
    let ended = tokio::select! {
        () = unread => Ended::Closed,
        ended = &mut talk => match ended {
            Ok(()) => Ended::Closed,
            Err(error) => Ended::Broken(hookwright_core::text::shown(&error.to_string(), 500)),
        },
        () = stop.cancelled() => {
            // Whoever asked something is still answered: a prompt that is cancelled by this says so.
            tokio::select! {
                _ = &mut talk => {}
                () = door.leave() => {}
            }
            Ended::Closed
        }
    };
    door.end_all().await;
    // A session that was being opened meanwhile has servers too.
    door.work.close();
    let _ = tokio::time::timeout(LAST_WORK, door.work.wait()).await;
    door.end_all().await;
    ended
}
