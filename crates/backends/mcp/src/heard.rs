//! What a server says unasked that matters to somebody: that its lists changed, how far a call has come, and what a manifest passes.
//!
//! Invariant: nothing of it waits for who hears it, and what may be under way for it is bounded.

use hookwright_runtime::ports::tools::{Peer, PeerError, Progress};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Semaphore, broadcast};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

/// Bytes of what is told of a call's progress, or of what is passed on unasked.
const TOLD_BYTES: usize = 256 * 1024;
/// Told of one call's progress in a second.
const TOLD_PER_SECOND: u32 = 100;
/// Requests of one server that wait for the other side.
const ASKS: usize = 32;
/// How long the other side has for an answer; a call that waits for it ends by its own time limit.
const ANSWER: Duration = Duration::from_hours(1);
const SECOND: Duration = Duration::from_secs(1);

/// Who hears a tool's server.
pub(crate) struct Heard {
    tool: Arc<str>,
    /// How often the list of functions changed, on all its connections.
    changes: AtomicU64,
    lists: broadcast::Sender<String>,
    peer: Option<Arc<dyn Peer>>,
    asks: Arc<Semaphore>,
    /// Who is told of the progress of calls, by token.
    progress: Mutex<HashMap<u64, Listener>>,
    listeners: AtomicUsize,
    next_token: AtomicU64,
}

struct Listener {
    progress: Progress,
    second: Instant,
    told: u32,
}

/// A call whose progress is told, until it is dropped.
pub(crate) struct Listening {
    heard: Arc<Heard>,
    /// What the server is to name.
    pub(crate) token: u64,
}

impl Drop for Listening {
    fn drop(&mut self) {
        if self.heard.listeners().remove(&self.token).is_some() {
            self.heard.listeners.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// What a server may ask of the other side.
pub(crate) fn is_ask(method: &str) -> bool {
    matches!(method, "sampling/createMessage" | "elicitation/create" | "roots/list")
}

/// What a server may tell it.
fn is_told(method: &str) -> bool {
    matches!(
        method,
        "notifications/message"
            | "notifications/resources/updated"
            | "notifications/resources/list_changed"
            | "notifications/prompts/list_changed"
            | "notifications/elicitation/complete"
    )
}

impl Heard {
    pub(crate) fn new(tool: &str, lists: broadcast::Sender<String>, peer: Option<Arc<dyn Peer>>) -> Arc<Self> {
        Arc::new(Self {
            tool: tool.into(),
            changes: AtomicU64::new(0),
            lists,
            peer,
            asks: Arc::new(Semaphore::new(ASKS)),
            progress: Mutex::default(),
            listeners: AtomicUsize::new(0),
            next_token: AtomicU64::new(1),
        })
    }

    fn listeners(&self) -> MutexGuard<'_, HashMap<u64, Listener>> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often the list of functions changed.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// The list of functions changed, or may have.
    pub(crate) fn list_changed(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
        // Nobody may be listening.
        let _ = self.lists.send(self.tool.to_string());
    }

    /// Whether anything is passed between the server and another side.
    pub(crate) fn has_peer(&self) -> bool {
        self.peer.is_some()
    }

    /// Tells `progress` what the server says of a call, while the result lives.
    pub(crate) fn listen(self: &Arc<Self>, progress: Progress) -> Listening {
        let token = self.next_token.fetch_add(1, Ordering::Relaxed);
        self.listeners().insert(token, Listener { progress, second: Instant::now(), told: 0 });
        self.listeners.fetch_add(1, Ordering::AcqRel);
        Listening { heard: Arc::clone(self), token }
    }

    /// A notification.
    pub(crate) fn notification(&self, method: &str, params: Option<&RawValue>) {
        if method == "notifications/tools/list_changed" {
            return self.list_changed();
        }
        let is_progress = method == "notifications/progress" && self.listeners.load(Ordering::Acquire) > 0;
        let peer = self.peer.as_ref().filter(|_| is_told(method));
        if !is_progress && peer.is_none() {
            return;
        }
        let text = params.map_or("{}", RawValue::get);
        if text.len() > TOLD_BYTES {
            return tracing::debug!(target: "hookwright::tool", tool = %self.tool, "{} bytes of {method} are not passed on", text.len());
        }
        let Ok(params) = serde_json::from_str::<Map<String, Value>>(text) else { return };
        if is_progress {
            self.progressed(params);
        } else if let Some(peer) = peer {
            peer.told(&self.tool, method, Value::Object(params));
        }
    }

    fn progressed(&self, mut params: Map<String, Value>) {
        let Some(token) = params.shift_remove("progressToken").and_then(|token| token.as_u64()) else { return };
        let mut listeners = self.listeners();
        let Some(listener) = listeners.get_mut(&token) else { return };
        if listener.second.elapsed() >= SECOND {
            (listener.second, listener.told) = (Instant::now(), 0);
        }
        listener.told += 1;
        if listener.told <= TOLD_PER_SECOND {
            let progress = listener.progress.clone();
            drop(listeners);
            (progress.0)(params);
        }
    }

    /// A request of the server's. `reply` gets the answer's bytes, in the background; false where nobody answers such a request.
    pub(crate) fn request(
        &self,
        id: &RawValue,
        method: &str,
        params: Option<&RawValue>,
        closed: CancellationToken,
        reply: impl FnOnce(Vec<u8>) + Send + 'static,
    ) -> bool {
        let Some(peer) = self.peer.clone().filter(|_| is_ask(method)) else { return false };
        let Ok(permit) = Arc::clone(&self.asks).try_acquire_owned() else { return false };
        let params = params.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_else(|| json!({}));
        let (id, method, tool) = (id.to_owned(), method.to_owned(), Arc::clone(&self.tool));
        tokio::spawn(async move {
            let answer = tokio::select! {
                answer = timeout(ANSWER, peer.ask(&tool, &method, params)) => answer,
                () = closed.cancelled() => return,
            };
            drop(permit);
            reply(crate::wire::answer(&id, answer.unwrap_or_else(|_| Err(nobody("did not answer in time")))));
        });
        true
    }

    /// Gets what a server requires before it goes on with a call (revision 2026-07-28): an answer for each of its requests.
    pub(crate) async fn inputs(&self, requests: &Value) -> Result<Map<String, Value>, PeerError> {
        let Some(peer) = &self.peer else { return Err(nobody("is not there")) };
        let wrong = || PeerError {
            code: -32_603,
            message: "the server asks for input in a way that can't be read".to_owned(),
            data: None,
        };
        let requests = match requests {
            Value::Object(requests) if requests.len() <= ASKS => requests,
            Value::Null => return Ok(Map::new()),
            _ => return Err(wrong()),
        };
        let mut inputs = Map::new();
        for (key, request) in requests {
            let method = request["method"].as_str().filter(|method| is_ask(method)).ok_or_else(wrong)?;
            let params = request.get("params").cloned().unwrap_or_else(|| json!({}));
            inputs.insert(key.clone(), peer.ask(&self.tool, method, params).await?);
        }
        Ok(inputs)
    }
}

fn nobody(what: &str) -> PeerError {
    PeerError { code: -32_603, message: format!("the client that could answer {what}"), data: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(value: &Value) -> Box<RawValue> {
        RawValue::from_string(value.to_string()).unwrap()
    }

    fn heard() -> (Arc<Heard>, broadcast::Receiver<String>) {
        let lists = broadcast::Sender::new(4);
        let receiver = lists.subscribe();
        (Heard::new("t", lists, None), receiver)
    }

    #[test]
    fn only_the_call_that_a_token_names_is_told_and_only_while_it_is_under_way() {
        let (heard, _) = heard();
        let got = Arc::new(Mutex::new(vec![]));
        let listen = |name: &'static str| {
            let got = Arc::clone(&got);
            heard.listen(Progress(Arc::new(move |params| got.lock().unwrap().push((name, Value::Object(params))))))
        };
        let (one, two) = (listen("one"), listen("two"));
        let say = |token: u64| {
            let params = raw(&json!({"progressToken": token, "progress": 1, "_meta": {"a": 1}}));
            heard.notification("notifications/progress", Some(&params));
        };
        say(two.token);
        say(99);
        let token = one.token;
        drop(one);
        say(token);
        assert_eq!(*got.lock().unwrap(), [("two", json!({"progress": 1, "_meta": {"a": 1}}))]);
    }

    #[test]
    fn a_flood_of_progress_is_cut() {
        let (heard, _) = heard();
        let count = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&count);
        let listening = heard.listen(Progress(Arc::new(move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
        })));
        let params = raw(&json!({"progressToken": listening.token, "progress": 1}));
        for _ in 0..10_000 {
            heard.notification("notifications/progress", Some(&params));
        }
        let count = count.load(Ordering::Relaxed);
        assert!((1..=u64::from(TOLD_PER_SECOND) * 10).contains(&count), "{count}");
    }

    #[test]
    fn a_change_of_the_list_is_told_with_the_tools_id() {
        let (heard, mut lists) = heard();
        heard.notification("notifications/tools/list_changed", None);
        assert_eq!((heard.changes(), lists.try_recv().unwrap().as_str()), (1, "t"));
    }

    #[tokio::test]
    async fn without_another_side_nothing_is_asked_of_it() {
        let (heard, _) = heard();
        let id = raw(&json!(1));
        assert!(!heard.request(&id, "roots/list", None, CancellationToken::new(), |_| {}));
        assert!(heard.inputs(&json!({"a": {"method": "roots/list"}})).await.is_err());
    }
}
