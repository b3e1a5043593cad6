//! The life of a tool's server: start, watch, pause, start again, give up.

use super::{Connection, Running, Tool};
use crate::handshake::{self, NotOpened, Opening, Us};
use crate::http::HttpLink;
use crate::link::{Ask, Link, later};
use crate::said::{Secrets, shown};
use crate::spec::Transport;
use crate::stdio::{Child, StdioLink};
use hookwright_core::text::duration;
use hookwright_runtime::ports::tools::ToolState;
use serde_json::{Map, Value, json};
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, timeout};

const ERROR_CHARS: usize = 4_000;
/// A subscription lasts as long as its connection.
const SUBSCRIPTION: Duration = Duration::from_hours(24 * 365);

/// What happened to the tool that its next step depends on.
#[derive(Default)]
struct Record {
    /// Deaths and failed restarts in a row.
    deaths: u32,
    failed_starts: u32,
    was_ready: bool,
    /// It was connected before.
    lived: bool,
    opening: Option<Opening>,
}

impl Tool {
    /// Runs until the tool is stopped or given up.
    pub(crate) async fn supervise(self: Arc<Self>) {
        if let Some(why) = &self.spec.broken {
            self.fail(&Record::default(), why);
        } else {
            let stop = self.stop.clone();
            let mut record = Record::default();
            while let Some(pause) = self.live(&mut record).await {
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    () = stop.cancelled() => break,
                }
            }
        }
        self.stop.cancelled().await;
        let child = self.child.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(child) = child {
            child.ended.cancelled().await;
        }
        self.set(|phase| {
            phase.connection = None;
            phase.state = ToolState::Failed;
            phase.last_error.get_or_insert_with(|| "it was ended".to_owned());
        });
        self.gone.cancel();
    }

    /// One start and what follows; gives the pause before the next start, or `None` where there is none.
    async fn live(&self, record: &mut Record) -> Option<Duration> {
        self.set(|phase| phase.starts += 1);
        let started = tokio::select! {
            started = self.connect(record) => started,
            () = self.stop.cancelled() => return None,
        };
        let connection = match started {
            Ok(connection) => Arc::new(connection),
            Err(NotOpened { why, passing }) => return self.not_started(record, &why, passing),
        };
        record.was_ready = true;
        let since = Instant::now();
        self.set(|phase| {
            phase.state = ToolState::Ready;
            phase.connection = Some(Arc::clone(&connection));
        });
        tracing::info!(target: "hookwright::tool", tool = self.id(), "connected");
        if record.lived {
            // What it listed before may be different now.
            self.heard.list_changed();
        }
        record.lived = true;
        self.hear(&connection);
        tokio::select! {
            () = connection.link.closed().cancelled() => {}
            () = self.stop.cancelled() => {
                self.set(|phase| phase.connection = None);
                connection.link.stop().await;
                return None;
            }
        }
        let why = self.why_killed(&connection).unwrap_or_else(|| connection.link.why());
        let why = shown(&why, ERROR_CHARS, &self.spec.secrets);
        let healthy = since.elapsed() >= self.config.healthy_after;
        if healthy {
            record.deaths = 0;
        }
        if connection.link.is_session_gone() && since.elapsed() >= Duration::from_secs(1) {
            // The server is well: it only forgot us.
            self.set(|phase| {
                phase.state = ToolState::Restarting;
                phase.connection = None;
                phase.last_error = Some(why);
            });
            return Some(Duration::ZERO);
        }
        record.deaths += 1;
        self.next(record, why)
    }

    /// Sees to it that what the server tells unasked is heard.
    fn hear(&self, connection: &Arc<Connection>) {
        let session = &connection.session;
        if session.meta.is_none() {
            if let Link::Http(http) = &connection.link
                && (session.tells_changes || self.heard.has_peer())
            {
                http.listen();
            }
            return;
        }
        let told = |kind: &str| session.introduction.capabilities[kind]["listChanged"] == true;
        let peer = self.heard.has_peer();
        let mut notifications = Map::new();
        for (kind, key, wanted) in [
            ("tools", "toolsListChanged", true),
            ("prompts", "promptsListChanged", peer),
            ("resources", "resourcesListChanged", peer),
        ] {
            if wanted && told(kind) {
                notifications.insert(key.to_owned(), Value::Bool(true));
            }
        }
        if notifications.is_empty() {
            return;
        }
        // Answered only when the server ends the subscription; then lists are read when somebody asks.
        let (connection, params) =
            (Arc::clone(connection), json!({"notifications": notifications, "_meta": session.meta}));
        tokio::spawn(async move {
            let ask = Ask::new("subscriptions/listen", SUBSCRIPTION);
            tokio::select! {
                _ = connection.link.request(ask, &params) => {}
                () = connection.link.closed().cancelled() => {}
            }
        });
    }

    fn not_started(&self, record: &mut Record, why: &str, passing: bool) -> Option<Duration> {
        let why = shown(why, ERROR_CHARS, &self.spec.secrets);
        record.deaths += 1;
        record.failed_starts += 1;
        let tries_again = if self.is_http() { passing } else { record.was_ready };
        if tries_again {
            return self.next(record, why);
        }
        self.fail(record, &why);
        None
    }

    /// After a death: a pause, or the end.
    fn next(&self, record: &Record, why: String) -> Option<Duration> {
        // What is not ours may come back at any time; a child that dies again and again will not get better.
        if !self.is_http() && record.deaths >= self.config.max_deaths {
            self.fail(record, &format!("given up after {} deaths in a row; the last: {why}", record.deaths));
            return None;
        }
        let pause = self.config.backoff(record.deaths);
        let told = duration(u64::try_from(pause.as_millis()).unwrap_or(u64::MAX));
        tracing::warn!(target: "hookwright::tool", tool = self.id(), "{why}; started again in {told}");
        self.set(|phase| {
            phase.state = ToolState::Restarting;
            phase.connection = None;
            phase.last_error = Some(why);
            phase.failed_starts = record.failed_starts;
        });
        Some(pause)
    }

    fn fail(&self, record: &Record, why: &str) {
        tracing::error!(target: "hookwright::tool", tool = self.id(), "{why}");
        self.set(|phase| {
            phase.state = ToolState::Failed;
            phase.connection = None;
            phase.last_error = Some(why.to_owned());
            phase.failed_starts = record.failed_starts;
        });
    }

    fn is_http(&self) -> bool {
        matches!(self.spec.transport, Transport::Http { .. })
    }

    async fn connect(&self, record: &mut Record) -> Result<Connection, NotOpened> {
        let end = later(Instant::now(), self.spec.start_timeout);
        let first = record.opening.unwrap_or(Opening::Initialize);
        match self.connect_as(first, end).await {
            Ok(connection) => {
                record.opening =
                    Some(if connection.session.meta.is_some() { Opening::Discover } else { Opening::Initialize });
                Ok(connection)
            }
            // A server of the newest revision alone may exit on `initialize`.
            Err(Failed::ExitedOn(not_opened)) if first == Opening::Initialize => {
                self.set(|phase| phase.starts += 1);
                match self.connect_as(Opening::Discover, end).await {
                    Ok(connection) => {
                        record.opening = Some(Opening::Discover);
                        Ok(connection)
                    }
                    Err(_) => Err(not_opened),
                }
            }
            Err(Failed::ExitedOn(not_opened) | Failed::Otherwise(not_opened)) => Err(not_opened),
        }
    }

    async fn connect_as(&self, first: Opening, end: Instant) -> Result<Connection, Failed> {
        let limit = end.saturating_duration_since(Instant::now());
        let link = match &self.spec.transport {
            Transport::Stdio { command, cwd, env } => {
                let secrets: &Secrets = &self.spec.secrets;
                let run_as = self.spec.run_as.as_ref();
                let child = Child { tool: self.id(), command, cwd, env, run_as, secrets, heard: &self.heard };
                let link =
                    StdioLink::start(child, &self.config).map_err(|why| Failed::Otherwise(NotOpened::lasting(why)))?;
                let running = Running { group: Arc::downgrade(link.group()), ended: link.ended().clone() };
                *self.child.lock().unwrap_or_else(PoisonError::into_inner) = Some(running);
                Link::Stdio(link)
            }
            Transport::Http { url, headers } => {
                let link = HttpLink::new(self.id(), url, headers, &self.spec.secrets, &self.config, &self.heard);
                Link::Http(link.map_err(|why| Failed::Otherwise(NotOpened::lasting(why)))?)
            }
        };
        // Requests get more time than there is: the limit's own words tell more than theirs.
        let opened = timeout(
            limit,
            handshake::open(
                &link,
                first,
                Us { config: &self.config, capabilities: &self.spec.capabilities },
                limit.saturating_add(Duration::from_mins(1)),
                &self.spec.secrets,
            ),
        )
        .await;
        let failed = match opened {
            Ok(Ok(session)) => return Ok(Connection { link, session }),
            Ok(Err(not_opened)) => match &link {
                Link::Stdio(stdio) if stdio.pipe().closed().is_cancelled() && stdio.pipe().was_all_read() => {
                    Failed::ExitedOn(not_opened)
                }
                Link::Stdio(_) | Link::Http(_) => Failed::Otherwise(not_opened),
            },
            Err(_) => {
                let told = duration(u64::try_from(self.spec.start_timeout.as_millis()).unwrap_or(u64::MAX));
                Failed::Otherwise(NotOpened::lasting(format!("it was not ready within {told}{}", link.last_words())))
            }
        };
        link.kill().await;
        Err(failed)
    }
}

enum Failed {
    /// It read what it was sent, and exited.
    ExitedOn(NotOpened),
    Otherwise(NotOpened),
}
