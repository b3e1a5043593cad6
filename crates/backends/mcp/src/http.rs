//! A server over Streamable HTTP.
//!
//! Invariant: a request is sent anew only where the server said that it did not handle it (an ended session).
//! Invariant: headers of the manifest reach the manifest's origin only: redirects elsewhere are not followed.

mod exchange;
mod headers;
mod listen;
mod setup;
mod sse;

use crate::config::HostConfig;
use crate::heard::Heard;
use crate::link::{Ask, Reply, later};
use crate::said::Secrets;
use crate::wire;
use headers::ParamHeaders;
use hookwright_runtime::ports::tools::{LateAnswer, ListedFunction};
use reqwest::header::{HeaderMap, HeaderValue};
use rmcp::model::ProtocolVersion;
use serde::Serialize;
use serde_json::Value;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

/// Notifications and goodbyes must be taken within this.
const CONTROL: Duration = Duration::from_secs(10);
const GOODBYE: Duration = Duration::from_secs(2);
/// Late answers, cancellations and replies of ours under way at a time.
const MAX_BACKGROUND: usize = 256;

/// A connection over HTTP: a session, where the revision has them.
pub(crate) struct HttpLink(Arc<Inner>);

struct Inner {
    tool: String,
    client: reqwest::Client,
    url: reqwest::Url,
    /// Of the manifest.
    headers: HeaderMap,
    secrets: Secrets,
    config: Arc<HostConfig>,
    session: Mutex<Option<HeaderValue>>,
    revision: Mutex<Option<String>>,
    params: Mutex<ParamHeaders>,
    slots: Semaphore,
    background: Arc<Semaphore>,
    next_id: AtomicU64,
    heard: Arc<Heard>,
    /// Whether the stream is open on which changes are told.
    hears: AtomicBool,
    session_gone: AtomicBool,
    closed: CancellationToken,
    why: Mutex<Option<String>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl HttpLink {
    /// The revision from now on.
    pub(crate) fn agree(&self, revision: &str) {
        *lock(&self.0.revision) = Some(revision.to_owned());
    }

    /// Takes from a list which arguments are to be repeated as headers (revision 2026-07-28).
    pub(crate) fn learn(&self, functions: &[ListedFunction]) {
        *lock(&self.0.params) = ParamHeaders::of(functions);
    }

    pub(crate) fn closed(&self) -> &CancellationToken {
        &self.0.closed
    }

    pub(crate) fn why(&self) -> String {
        lock(&self.0.why).clone().unwrap_or_else(|| "the connection is closed".to_owned())
    }

    pub(crate) fn is_session_gone(&self) -> bool {
        self.0.session_gone.load(Ordering::Acquire)
    }

    pub(crate) fn close(&self, why: &str) {
        self.0.close(why);
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.0.config.max_in_flight.saturating_sub(self.0.slots.available_permits())
    }

    pub(crate) fn changes(&self) -> Option<u64> {
        self.0.hears.load(Ordering::Acquire).then(|| self.0.heard.changes())
    }

    /// Opens the stream on which the server tells of changes, in the background.
    pub(crate) fn listen(&self) {
        tokio::spawn(listen::listen(Arc::clone(&self.0)));
    }

    /// Sends a request and waits for what becomes of it.
    pub(crate) async fn request<P: Serialize>(&self, ask: Ask<'_>, params: &P) -> Reply {
        let inner = &self.0;
        let since = Instant::now();
        let deadline = later(since, ask.timeout);
        let not_sent = |why: String| Reply::NotSent { why };
        let _slot = match timeout_at(deadline, inner.slots.acquire()).await {
            Ok(Ok(slot)) => slot,
            Ok(Err(_)) => return not_sent(self.why()),
            Err(_) => {
                return not_sent(format!(
                    "it has {} calls in work, and none ended in time",
                    inner.config.max_in_flight
                ));
            }
        };
        if inner.closed.is_cancelled() {
            return not_sent(self.why());
        }
        let id = inner.next_id.fetch_add(1, Ordering::Relaxed);
        let body = match wire::request(id, ask.method, params) {
            Ok(body) if body.len() <= inner.config.message_bytes => body,
            Ok(body) => {
                return not_sent(format!(
                    "a request of {} bytes is over the limit of {}",
                    body.len(),
                    inner.config.message_bytes
                ));
            }
            Err(e) => return not_sent(e.to_string()),
        };
        let headers = inner.request_headers(ask.method, ask.name, ask.arguments);
        let (tell, mut answer) = oneshot::channel();
        // On a task of its own, so that the answer can come late and the connection be used again.
        let exchange = tokio::spawn(Arc::clone(inner).exchange(id, ask.method, body, headers, tell));
        let mut guard = Guard { inner, id, ask, exchange: Some(exchange) };
        match timeout_at(deadline, &mut answer).await {
            Ok(answered) => {
                guard.exchange = None;
                answered.unwrap_or_else(|_| Reply::Lost { why: "the exchange broke off".to_owned() })
            }
            Err(_) => Reply::TimedOut { late: guard.give_up(answer, since) },
        }
    }

    /// Sends a notification and waits until it is taken, for a limited time.
    pub(crate) async fn notify(&self, method: &str, params: &Value) {
        self.0.control(wire::notification(method, params), method).await;
    }

    /// Ends the session.
    pub(crate) async fn stop(&self) {
        let inner = &self.0;
        let session = lock(&inner.session).take();
        if let (Some(session), false) = (session, inner.closed.is_cancelled()) {
            let mut headers = inner.request_headers("", None, None);
            headers.insert("mcp-session-id", session);
            let goodbye = inner.client.delete(inner.url.clone()).headers(headers).send();
            // A server may refuse it, and then ends the session when it likes.
            let _ = timeout(GOODBYE, goodbye).await;
        }
        inner.close("the session was ended");
    }
}

impl Drop for HttpLink {
    fn drop(&mut self) {
        self.0.close("the connection is not used any more");
    }
}

impl Inner {
    fn close(&self, why: &str) {
        lock(&self.why).get_or_insert_with(|| why.to_owned());
        self.slots.close();
        self.closed.cancel();
    }

    fn is_modern(&self) -> bool {
        lock(&self.revision).as_deref().is_some_and(|revision| revision >= ProtocolVersion::NO_INITIALIZE.as_str())
    }

    /// Posts what needs no answer.
    async fn control(&self, body: Vec<u8>, method: &str) {
        let headers = self.request_headers(method, None, None);
        let sent = timeout(CONTROL, self.client.post(self.url.clone()).headers(headers).body(body).send()).await;
        let trouble = match sent {
            Ok(Ok(response)) if response.status().is_success() => return,
            Ok(Ok(response)) => format!("HTTP {}", response.status().as_u16()),
            Ok(Err(e)) => exchange::cause(&e),
            Err(_) => "no answer".to_owned(),
        };
        tracing::debug!(target: "hookwright::tool", tool = %self.tool, "{method} was not taken: {trouble}");
    }

    /// The same in the background; left undone where too much is under way.
    fn control_in_background(self: &Arc<Self>, body: Vec<u8>, method: &'static str) {
        if let Ok(permit) = Arc::clone(&self.background).try_acquire_owned() {
            let inner = Arc::clone(self);
            tokio::spawn(async move {
                inner.control(body, method).await;
                drop(permit);
            });
        }
    }
}

/// An exchange that is waited for.
struct Guard<'a> {
    inner: &'a Arc<Inner>,
    id: u64,
    ask: Ask<'a>,
    exchange: Option<tokio::task::JoinHandle<()>>,
}

impl Guard<'_> {
    fn cancel(&self, reason: &str) {
        // In the newest revision the end of the stream says it.
        if self.ask.is_cancellable() && !self.inner.is_modern() {
            self.inner.control_in_background(wire::cancelled(self.id, reason), "notifications/cancelled");
        }
    }

    /// Its time is over: tells the server, and waits for the answer in the background.
    fn give_up(&mut self, answer: oneshot::Receiver<Reply>, since: Instant) -> oneshot::Receiver<LateAnswer> {
        let (tell, late) = oneshot::channel();
        let Some(exchange) = self.exchange.take() else { return late };
        self.cancel(&self.ask.too_slow());
        match Arc::clone(&self.inner.background).try_acquire_owned() {
            Ok(permit) if !self.inner.is_modern() => {
                let (window, closed) = (self.inner.config.late_window, self.inner.closed.clone());
                tokio::spawn(async move {
                    let answered = tokio::select! {
                        answered = timeout(window, answer) => matches!(answered, Ok(Ok(Reply::Result { .. } | Reply::Error { .. }))),
                        () = closed.cancelled() => false,
                    };
                    if answered {
                        let _ = tell.send(LateAnswer {
                            after_ms: u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX),
                        });
                    }
                    exchange.abort();
                    drop(permit);
                });
            }
            _ => exchange.abort(),
        }
        late
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if let Some(exchange) = self.exchange.take() {
            self.cancel("the caller does not wait any more");
            exchange.abort();
        }
    }
}
