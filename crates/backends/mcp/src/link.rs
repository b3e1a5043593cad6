//! A connection to one running server, whatever carries it.

use crate::http::HttpLink;
use crate::stdio::StdioLink;
use hookwright_core::text::duration;
use hookwright_runtime::ports::tools::LateAnswer;
use serde::Serialize;
use serde_json::{Map, Value};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// What became of a request.
#[derive(Debug)]
pub(crate) enum Reply {
    /// Its raw result, and whether a key stands in it twice.
    Result { value: Value, duplicate_key: bool },
    /// A JSON-RPC error.
    Error { code: i64, message: String, data: Option<Box<Value>> },
    /// No answer in time.
    TimedOut { late: oneshot::Receiver<LateAnswer> },
    /// Not a byte of it left.
    NotSent { why: String },
    /// Some of it may have left, and no answer will come.
    Lost { why: String },
    /// An HTTP status instead of an answer.
    Refused { status: u16, why: String },
    /// The server does not know our HTTP session any more; it did not handle the request.
    SessionGone,
}

/// What is asked: a method, for HTTP's headers the function and its arguments, and for how long an answer is waited for.
#[derive(Clone, Copy)]
pub(crate) struct Ask<'a> {
    pub(crate) method: &'static str,
    pub(crate) name: Option<&'a str>,
    pub(crate) arguments: Option<&'a Map<String, Value>>,
    pub(crate) timeout: Duration,
}

impl<'a> Ask<'a> {
    pub(crate) fn new(method: &'static str, timeout: Duration) -> Self {
        Self { method, name: None, arguments: None, timeout }
    }

    pub(crate) fn of(self, name: &'a str, arguments: &'a Map<String, Value>) -> Self {
        Self { name: Some(name), arguments: Some(arguments), ..self }
    }

    /// `initialize` must not be cancelled, says the protocol.
    pub(crate) fn is_cancellable(&self) -> bool {
        self.method != "initialize"
    }

    /// The reason that is told with `notifications/cancelled`.
    pub(crate) fn too_slow(&self) -> String {
        too_slow(self.timeout)
    }
}

/// The reason that is told with `notifications/cancelled`.
pub(crate) fn too_slow(limit: Duration) -> String {
    format!("no answer within {}", duration(u64::try_from(limit.as_millis()).unwrap_or(u64::MAX)))
}

/// A time from `since` on; a year from it where the duration is beyond all measure.
pub(crate) fn later(since: Instant, duration: Duration) -> Instant {
    since.checked_add(duration).unwrap_or_else(|| since + Duration::from_hours(24 * 365))
}

/// A connection.
pub(crate) enum Link {
    Stdio(StdioLink),
    Http(HttpLink),
}

impl Link {
    /// Sends a request and waits for what becomes of it.
    pub(crate) async fn request<P: Serialize + Sync>(&self, ask: Ask<'_>, params: &P) -> Reply {
        match self {
            Self::Stdio(link) => link.pipe().request(ask, params).await,
            Self::Http(link) => link.request(ask, params).await,
        }
    }

    /// Sends a notification, without waiting for the server to take it.
    pub(crate) async fn notify(&self, method: &str, params: Value) {
        match self {
            Self::Stdio(link) => link.pipe().control(crate::wire::notification(method, &params)),
            Self::Http(link) => link.notify(method, &params).await,
        }
    }

    /// Is cancelled when the connection is of no more use.
    pub(crate) fn closed(&self) -> &CancellationToken {
        match self {
            Self::Stdio(link) => link.pipe().closed(),
            Self::Http(link) => link.closed(),
        }
    }

    /// Why it is closed.
    pub(crate) fn why(&self) -> String {
        match self {
            Self::Stdio(link) => link.pipe().why(),
            Self::Http(link) => link.why(),
        }
    }

    /// Ends the server, or the session with it. Returns when it is gone.
    pub(crate) async fn stop(&self) {
        match self {
            Self::Stdio(link) => link.stop().await,
            Self::Http(link) => link.stop().await,
        }
    }

    /// Ends the server at once. Returns when it is gone.
    pub(crate) async fn kill(&self) {
        match self {
            Self::Stdio(link) => link.kill().await,
            Self::Http(link) => link.close("it did not answer, and its connection was given up"),
        }
    }

    /// Whether the server's process is ours: only that can be killed.
    pub(crate) fn is_ours(&self) -> bool {
        matches!(self, Self::Stdio(_))
    }

    /// For the end of an error message: what a child wrote to its stderr last.
    pub(crate) fn last_words(&self) -> String {
        match self {
            Self::Stdio(link) => link.last_words(),
            Self::Http(_) => String::new(),
        }
    }

    /// Whether it is closed only because the server ended our session.
    pub(crate) fn is_session_gone(&self) -> bool {
        match self {
            Self::Stdio(_) => false,
            Self::Http(link) => link.is_session_gone(),
        }
    }

    /// How often the list of functions changed; `None` where changes can't be heard now.
    pub(crate) fn changes(&self) -> Option<u64> {
        match self {
            Self::Stdio(link) => Some(link.heard().changes()),
            Self::Http(link) => link.changes(),
        }
    }
}
