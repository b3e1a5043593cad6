//! What goes between one client and the servers of its session, beside calls and their results: what servers ask and tell.
//!
//! Invariant: a server's request goes to the client only where the manifest passes its kind; one that nobody can answer is refused.

use crate::way::Way;
use crate::wire;
use hookwright_core::manifest::Pass;
use hookwright_runtime::ports::tools::{Peer, PeerError};
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::{mpsc, oneshot};

/// Requests to a client that wait for its answers.
const PENDING: usize = 256;
/// Streams on which a client listens.
const LISTENERS: usize = 16;
/// Requests of servers that wait for one call.
const ASKS: usize = 32;

/// What a server asks while a call is under way.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) method: String,
    pub(crate) params: Value,
    pub(crate) answer: oneshot::Sender<Result<Value, PeerError>>,
}

/// A call under way, as servers find it.
struct Open {
    id: u64,
    tool: String,
    asks: mpsc::Sender<Ask>,
    way: Option<Way>,
    /// Whether log messages may go the call's way.
    logs: bool,
}

/// Where a client listens, and to what.
pub(crate) struct Listener {
    pub(crate) way: Way,
    /// Of the newest revision: what was subscribed to.
    pub(crate) subscription: Option<Subscription>,
}

/// What was subscribed to.
#[derive(Debug, Clone)]
pub(crate) struct Subscription {
    pub(crate) id: Value,
    /// Methods of notifications.
    pub(crate) methods: HashSet<&'static str>,
    /// Resources whose updates are told.
    pub(crate) resources: HashSet<String>,
}

impl Subscription {
    fn wants(&self, method: &str, params: &Value) -> bool {
        match method {
            "notifications/resources/updated" => params["uri"].as_str().is_some_and(|uri| self.resources.contains(uri)),
            _ => self.methods.contains(method),
        }
    }
}

/// The desk of one client's session.
pub(crate) struct Desk {
    modern: bool,
    passes: HashMap<String, Vec<Pass>>,
    next: AtomicU64,
    pending: Mutex<HashMap<u64, oneshot::Sender<Result<Value, PeerError>>>>,
    open: Mutex<Vec<Open>>,
    listeners: Mutex<Vec<(u64, Listener)>>,
    /// Tools whose results hooks watch: what they log may tell of a result.
    watched: Mutex<HashSet<String>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn nobody(what: &str) -> PeerError {
    PeerError { code: wire::METHOD_NOT_FOUND, message: what.to_owned(), data: None }
}

fn kind(method: &str) -> Option<Pass> {
    Some(match method {
        "sampling/createMessage" => Pass::Sampling,
        "elicitation/create" | "notifications/elicitation/complete" => Pass::Elicitation,
        "roots/list" => Pass::Roots,
        "notifications/message" => Pass::Logging,
        "notifications/resources/updated" | "notifications/resources/list_changed" => Pass::Resources,
        "notifications/prompts/list_changed" => Pass::Prompts,
        _ => return None,
    })
}

impl Desk {
    pub(crate) fn new(modern: bool, passes: &[(String, Vec<Pass>)], ids_from: u64) -> Self {
        Self {
            modern,
            passes: passes.iter().cloned().collect(),
            next: AtomicU64::new(ids_from),
            pending: Mutex::default(),
            open: Mutex::default(),
            listeners: Mutex::default(),
            watched: Mutex::default(),
        }
    }

    fn passes(&self, tool: &str, method: &str) -> bool {
        let kind = kind(method);
        kind.is_some_and(|kind| self.passes.get(tool).is_some_and(|passes| passes.contains(&kind)))
    }

    /// Hooks watch results of this tool.
    pub(crate) fn watch(&self, tool: &str) {
        lock(&self.watched).insert(tool.to_owned());
    }

    /// A call begins: what its tool's server asks meanwhile comes with it.
    pub(crate) fn open(&self, tool: &str, way: Way, logs: bool) -> (u64, mpsc::Receiver<Ask>) {
        let (asks, receiver) = mpsc::channel(ASKS);
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        lock(&self.open).push(Open { id, tool: tool.to_owned(), asks, way: Some(way), logs });
        (id, receiver)
    }

    /// Whose way a call goes now; none while its client does not wait for it.
    pub(crate) fn turn(&self, id: u64, way: Option<Way>) {
        if let Some(open) = lock(&self.open).iter_mut().find(|open| open.id == id) {
            open.way = way;
        }
    }

    /// A call is over.
    pub(crate) fn close(&self, id: u64) {
        lock(&self.open).retain(|open| open.id != id);
    }

    /// The client listens on this way too; the oldest gives place. The result is the listener's id.
    pub(crate) fn listen(&self, listener: Listener) -> u64 {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let mut listeners = lock(&self.listeners);
        listeners.retain(|(_, listener)| !listener.way.is_closed());
        if listeners.len() >= LISTENERS {
            listeners.remove(0);
        }
        listeners.push((id, listener));
        id
    }

    pub(crate) fn leave(&self, id: u64) {
        lock(&self.listeners).retain(|(other, _)| *other != id);
    }

    /// Tells whoever listens.
    pub(crate) fn tell(&self, method: &str, params: &Value) {
        let mut listeners = lock(&self.listeners);
        listeners.retain(|(_, listener)| !listener.way.is_closed());
        if !self.modern {
            // Each message goes on one stream only, the youngest.
            if let Some((_, listener)) = listeners.last() {
                listener.way.offer(wire::notification(method, params));
            }
            return;
        }
        for (_, listener) in &*listeners {
            if let Some(subscription) = listener.subscription.as_ref().filter(|s| s.wants(method, params)) {
                let mut params = params.clone();
                if let Value::Object(params) = &mut params {
                    let meta = params.entry("_meta").or_insert_with(|| Value::Object(serde_json::Map::new()));
                    meta[wire::META_SUBSCRIPTION] = subscription.id.clone();
                }
                listener.way.offer(wire::notification(method, &params));
            }
        }
    }

    /// Asks the client over a way, and waits for its answer.
    pub(crate) async fn ask_over(&self, way: &Way, method: &str, params: &Value) -> Result<Value, PeerError> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        {
            let mut pending = lock(&self.pending);
            if pending.len() >= PENDING {
                return Err(PeerError {
                    code: wire::BUSY,
                    message: format!("the client has not answered {PENDING} other requests"),
                    data: None,
                });
            }
            pending.insert(id, sender);
        }
        let _gone = Pending { desk: self, id };
        if !way.send(wire::request(id, method, params)).await {
            return Err(nobody("the client is gone"));
        }
        answer.await.unwrap_or_else(|_| Err(nobody("the client is gone")))
    }

    /// The client answers.
    pub(crate) fn answered(&self, id: Option<u64>, said: Result<Value, PeerError>) {
        if let Some(waits) = id.and_then(|id| lock(&self.pending).remove(&id)) {
            let _ = waits.send(said);
        }
    }

    /// The client is gone: nothing waits for it any more.
    pub(crate) fn shut(&self) {
        lock(&self.pending).clear();
        lock(&self.open).clear();
        lock(&self.listeners).clear();
    }
}

struct Pending<'a> {
    desk: &'a Desk,
    id: u64,
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        lock(&self.desk.pending).remove(&self.id);
    }
}

#[async_trait::async_trait]
impl Peer for Desk {
    async fn ask(&self, tool: &str, method: &str, params: Value) -> Result<Value, PeerError> {
        if !self.passes(tool, method) {
            return Err(nobody("the gateway does not pass this: see `passes` in the plugin's manifest"));
        }
        // Which call it is for is not always told: it is one of this tool, and the youngest is the likeliest.
        let asks = lock(&self.open).iter().rev().find(|open| open.tool == tool).map(|open| open.asks.clone());
        if let Some(asks) = asks {
            let (answer, answered) = oneshot::channel();
            if asks.send(Ask { method: method.to_owned(), params, answer }).await.is_ok() {
                return answered.await.unwrap_or_else(|_| Err(nobody("the call is over")));
            }
            return Err(nobody("the call is over"));
        }
        let way = lock(&self.listeners).last().map(|(_, listener)| listener.way.clone());
        match way.filter(|_| !self.modern) {
            Some(way) => self.ask_over(&way, method, &params).await,
            None => Err(nobody("no call is under way that the client could be asked for")),
        }
    }

    fn told(&self, tool: &str, method: &str, params: Value) {
        if !self.passes(tool, method) {
            return;
        }
        if method != "notifications/message" {
            return self.tell(method, &params);
        }
        if lock(&self.watched).contains(tool) {
            return;
        }
        let way = {
            let open = lock(&self.open);
            let calls = open.iter().rev().filter(|open| open.tool == tool && open.logs);
            calls.into_iter().find_map(|open| open.way.clone())
        };
        match way {
            Some(way) => drop(way.offer(wire::notification(method, &params))),
            None if !self.modern => self.tell(method, &params),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn desk(modern: bool) -> Desk {
        Desk::new(modern, &[("t".to_owned(), vec![Pass::Elicitation, Pass::Logging])], 1)
    }

    fn text(receiver: &mut mpsc::Receiver<bytes::Bytes>) -> Option<String> {
        receiver.try_recv().ok().map(|bytes| String::from_utf8(bytes.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn only_what_the_manifest_passes_goes_through() {
        let desk = desk(false);
        let (way, mut out) = Way::new();
        desk.listen(Listener { way, subscription: None });
        for (tool, method) in [("t", "sampling/createMessage"), ("u", "elicitation/create"), ("t", "tools/list")] {
            assert!(desk.ask(tool, method, json!({})).await.is_err());
        }
        desk.told("t", "notifications/resources/list_changed", json!({}));
        desk.told("u", "notifications/message", json!({}));
        assert_eq!(text(&mut out), None);
        desk.told("t", "notifications/message", json!({"data": "x"}));
        assert!(text(&mut out).unwrap().contains("\"data\":\"x\""));
    }

    #[tokio::test]
    async fn what_a_tool_logs_stays_where_hooks_watch_its_results() {
        let desk = desk(false);
        let (way, mut out) = Way::new();
        desk.listen(Listener { way, subscription: None });
        desk.watch("t");
        desk.told("t", "notifications/message", json!({"data": "secret"}));
        assert_eq!(text(&mut out), None);
    }

    #[tokio::test]
    async fn a_client_that_goes_away_leaves_no_server_waiting() {
        let desk = std::sync::Arc::new(desk(false));
        let (way, _out) = Way::new();
        desk.listen(Listener { way, subscription: None });
        let asked = tokio::spawn({
            let desk = desk.clone();
            async move { desk.ask("t", "elicitation/create", json!({})).await }
        });
        tokio::task::yield_now().await;
        desk.shut();
        assert!(asked.await.unwrap().is_err());
    }
}
