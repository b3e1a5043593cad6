//! One request and its answer.

use super::sse::Events;
use super::{Inner, lock};
use crate::link::Reply;
use crate::said::shown;
use crate::unasked::Unasked;
use crate::wire::{self, Incoming};
use bytes::BytesMut;
use hookwright_core::diagnostic::mask;
use reqwest::Response;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use std::error::Error as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// Bytes of an error's body that are read.
const ERROR_BYTES: usize = 64 * 1024;
/// How long the rest of a stream is read after its answer, so that its TCP connection can serve the next request.
const REST: Duration = Duration::from_millis(500);
/// How often a broken stream is taken up again.
const MAX_RESUMES: u32 = 5;

/// What an HTTP error says, without the address (it may hold credentials).
pub(super) fn cause(e: &reqwest::Error) -> String {
    let mut text = String::new();
    let mut source = e.source();
    while let Some(e) = source {
        // The innermost one says what happened.
        text = e.to_string();
        source = e.source();
    }
    if text.is_empty() { "the connection failed".to_owned() } else { text }
}

impl Inner {
    /// Posts a request and tells what becomes of it.
    pub(super) async fn exchange(
        self: Arc<Self>,
        id: u64,
        method: &'static str,
        body: Vec<u8>,
        headers: HeaderMap,
        tell: oneshot::Sender<Reply>,
    ) {
        let had_session = headers.contains_key("mcp-session-id");
        let sent = self.client.post(self.url.clone()).headers(headers).body(body).send().await;
        let mut response = match sent {
            Ok(response) => response,
            Err(e) if e.is_connect() => {
                let why = format!("the server can't be reached: {}", cause(&e));
                self.close(&why);
                let _ = tell.send(Reply::NotSent { why });
                return;
            }
            Err(e) => {
                let _ = tell.send(Reply::Lost { why: format!("the connection broke off: {}", cause(&e)) });
                return;
            }
        };
        let status = response.status();
        if status == 404 && had_session {
            self.session_gone.store(true, Ordering::Release);
            self.close("the server ended the session");
            let _ = tell.send(Reply::SessionGone);
            return;
        }
        if !status.is_success() {
            let _ = tell.send(self.refusal(id, response).await);
            return;
        }
        if method == "initialize" {
            lock(&self.session).clone_from(&response.headers().get("mcp-session-id").cloned());
        }
        let content_type = response.headers().get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
        let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match essence.as_str() {
            "application/json" => {
                let reply = match whole(&mut response, self.config.message_bytes).await {
                    Ok(body) => self.read_body(id, body.freeze()).await,
                    Err(why) => Reply::Lost { why },
                };
                let _ = tell.send(reply);
            }
            "text/event-stream" => self.stream(id, response, tell).await,
            other => {
                let other = shown(if other.is_empty() { "none" } else { other }, 100, &self.secrets);
                let _ = tell.send(Reply::Lost { why: format!("its answer has the content type {other}") });
            }
        }
    }

    /// An answer that is no success: a JSON-RPC error, where its body holds one.
    async fn refusal(&self, id: u64, mut response: Response) -> Reply {
        let status = response.status().as_u16();
        if let Some(to) = response.headers().get("location").filter(|_| (300..400).contains(&status)) {
            let to = shown(&mask(&String::from_utf8_lossy(to.as_bytes()), 0).0, 300, &self.secrets);
            return Reply::Refused { status, why: format!("the server redirects to {to}: set that as its url") };
        }
        let body = match timeout(Duration::from_secs(5), whole(&mut response, ERROR_BYTES)).await {
            Ok(Ok(body)) => body.freeze(),
            Ok(Err(_)) | Err(_) => bytes::Bytes::new(),
        };
        if let Ok(Incoming::Answer { id: said_id, said: said @ wire::Said::Error { .. } }) = wire::read(&body)
            && said_id.is_none_or(|said_id| said_id == id)
        {
            return wire::meant(said, 0);
        }
        let text = shown(&String::from_utf8_lossy(&body), 300, &self.secrets);
        let text = if text.is_empty() { text } else { format!(": {text}") };
        Reply::Refused { status, why: format!("the server answered HTTP {status}{text}") }
    }

    async fn read_body(self: &Arc<Self>, id: u64, body: bytes::Bytes) -> Reply {
        const SMALL_BYTES: usize = 256 * 1024;
        let is_small = body.len() < SMALL_BYTES;
        let max_values = self.config.message_values;
        let parse = move || match wire::read(body.trim_ascii()) {
            Ok(Incoming::Answer { id: Some(said_id), said }) if said_id == id => wire::meant(said, max_values),
            Ok(Incoming::Answer { id: None, said: said @ wire::Said::Error { .. } }) => wire::meant(said, max_values),
            Ok(_) => Reply::Lost { why: "what came is not the answer to the request".to_owned() },
            Err(why) => Reply::Lost { why: format!("its answer is malformed: {why}") },
        };
        if is_small {
            return parse();
        }
        // A large one is parsed where that keeps nobody waiting.
        tokio::task::spawn_blocking(parse)
            .await
            .unwrap_or_else(|_| Reply::Lost { why: "its answer was not read".to_owned() })
    }

    /// An answer as a stream of events, taken up again where it breaks off and the server gave a mark for that.
    async fn stream(self: Arc<Self>, id: u64, mut response: Response, tell: oneshot::Sender<Reply>) {
        let mut mark: Option<String> = None;
        let mut pause = Duration::from_secs(1);
        let mut unasked = Unasked::default();
        for _ in 0..=MAX_RESUMES {
            let mut events = Events::new(self.config.message_bytes);
            while let Ok(Some(chunk)) = response.chunk().await {
                events.feed(&chunk);
                loop {
                    let event = match events.next() {
                        Ok(Some(event)) => event,
                        Ok(None) => break,
                        Err(_) => {
                            let why = format!("a message is over the limit of {} bytes", self.config.message_bytes);
                            let _ = tell.send(Reply::Lost { why });
                            return;
                        }
                    };
                    if let Some(ms) = event.retry_ms {
                        pause = Duration::from_millis(ms.clamp(50, 10_000));
                    }
                    if event.id.is_some() {
                        mark = event.id;
                    }
                    if let Some(reply) = self.answer(id, event.data, &mut unasked).await {
                        let _ = tell.send(reply);
                        // The TCP connection can be used again only once the stream was read to its end.
                        let _ = timeout(REST, async { while let Ok(Some(_)) = response.chunk().await {} }).await;
                        return;
                    }
                }
            }
            let Some(mark) = mark.as_deref().filter(|mark| !mark.is_empty() && !self.is_modern()) else { break };
            tokio::time::sleep(pause).await;
            let mut headers = self.request_headers("", None, None);
            headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
            if let Ok(mark) = HeaderValue::from_str(mark) {
                headers.insert("last-event-id", mark);
            }
            match self.client.get(self.url.clone()).headers(headers).send().await {
                Ok(resumed) if resumed.status().is_success() => response = resumed,
                // Another attempt starts with what is left of the old stream: nothing.
                Ok(resumed) if resumed.status().is_server_error() => {}
                Ok(_) => break,
                Err(_) => {}
            }
        }
        let _ = tell.send(Reply::Lost { why: "the stream of its answer broke off".to_owned() });
    }

    /// The reply, where an event holds the answer to the request.
    async fn answer(self: &Arc<Self>, id: u64, data: Vec<u8>, unasked: &mut Unasked) -> Option<Reply> {
        let is_answer = match wire::read(&data) {
            Ok(Incoming::Answer { id: said_id, said }) => {
                said_id == Some(id) || (said_id.is_none() && matches!(said, wire::Said::Error { .. }))
            }
            Ok(_) => false,
            // Nobody else's answer comes on this stream.
            Err(_) => !data.trim_ascii().is_empty(),
        };
        if is_answer {
            return Some(self.read_body(id, data.into()).await);
        }
        self.told(&data, unasked).await;
        None
    }
}

/// A body, up to a limit.
async fn whole(response: &mut Response, limit: usize) -> Result<BytesMut, String> {
    let mut body = BytesMut::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) if body.len() + chunk.len() <= limit => body.extend_from_slice(&chunk),
            Ok(Some(_)) => return Err(format!("its answer is over the limit of {limit} bytes")),
            Ok(None) => return Ok(body),
            Err(e) => return Err(format!("the connection broke off: {}", cause(&e))),
        }
    }
}
