//! One client over two byte streams, usually stdin and stdout.
//!
//! Invariant: nothing but messages is written. The end of what is read ends the session, and what is under way with it.

use crate::desk::Listener;
use crate::gateway::{Gateway, Options};
use crate::lines::{Line, Lines};
use crate::requests;
use crate::session::{Farewell, Session};
use crate::way::Way;
use crate::wire::{self, Fault, Incoming, Request};
use crate::wiring::{Client, Wiring};
use bytes::Bytes;
use hookwright_core::text;
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// How long a client that has closed its side may read on.
pub(crate) const LAST_WORDS: Duration = Duration::from_secs(2);
/// Said by the process between a client and its session here: it was stopped, and the client did not go by itself.
pub(crate) const STOPPED: &str = "notifications/hookwright/stopped";

/// How the talk with a client ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// The client closed its side, or `stop` was given.
    Closed,
    /// It can't be read from or written to any more.
    Broken(String),
}

/// Talks with one client until it goes away, or until `stop`. Then its job is over and its servers have left.
pub async fn serve<R, W>(
    wiring: Arc<dyn Wiring>,
    options: Options,
    reader: R,
    writer: W,
    stop: CancellationToken,
) -> Ended
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let gateway = Gateway::new(wiring, options);
    let (way, out) = Way::new();
    let mut writing = tokio::spawn(write(out, writer));
    let mut talk = Talk { gateway: gateway.clone(), way, session: None, stopped: false };
    let mut lines = Lines::new(reader, gateway.options.message_bytes);
    let ended = loop {
        let line = tokio::select! {
            biased;
            () = stop.cancelled() => break Ended::Closed,
            broken = &mut writing => {
                break Ended::Broken(broken.ok().and_then(Result::err).unwrap_or_else(|| "writing ended".to_owned()));
            }
            line = lines.next() => line,
        };
        match line {
            Ok(Some(line)) => tokio::select! {
                biased;
                () = stop.cancelled() => break Ended::Closed,
                () = talk.line(line) => {}
            },
            Ok(None) => break Ended::Closed,
            Err(e) => break Ended::Broken(text::shown(&e.to_string(), 500)),
        }
    };
    if let Some(session) = &talk.session {
        let farewell = match &ended {
            Ended::Closed if stop.is_cancelled() || talk.stopped => Farewell::Stopped,
            Ended::Closed => Farewell::Done,
            Ended::Broken(_) => Farewell::BrokenOff,
        };
        session.end(farewell).await;
    }
    drop(talk);
    // What was answered last is still written, to a client that reads.
    let _ = timeout(LAST_WORDS, &mut writing).await;
    writing.abort();
    ended
}

/// Writes messages, each on a line; several that wait are written at once.
async fn write<W: AsyncWrite + Unpin>(mut out: mpsc::Receiver<Bytes>, mut writer: W) -> Result<(), String> {
    const AT_ONCE: usize = 64 * 1024;
    let mut buffer = Vec::new();
    while let Some(message) = out.recv().await {
        buffer.extend_from_slice(&message);
        buffer.push(b'\n');
        while buffer.len() < AT_ONCE
            && let Ok(message) = out.try_recv()
        {
            buffer.extend_from_slice(&message);
            buffer.push(b'\n');
        }
        let written = async {
            writer.write_all(&buffer).await?;
            writer.flush().await
        };
        written.await.map_err(|e: std::io::Error| text::shown(&e.to_string(), 500))?;
        if buffer.capacity() > 16 * AT_ONCE {
            buffer = Vec::new();
        }
        buffer.clear();
    }
    Ok(())
}

struct Talk {
    gateway: Arc<Gateway>,
    way: Way,
    session: Option<Arc<Session>>,
    /// Whether what brings the client's messages was stopped.
    stopped: bool,
}

/// What a client is told whose message is longer than it may be.
pub(crate) fn too_long(bytes: u64, limit: usize) -> Fault {
    Fault::new(wire::INVALID_REQUEST, format!("a message of {bytes} bytes is over the limit of {limit}"))
}

impl Talk {
    async fn line(&mut self, line: Line) {
        let incoming = match &line {
            Line::Whole(line) => wire::read(line.trim_ascii()),
            Line::TooLong(bytes) => Err((None, too_long(*bytes, self.gateway.options.message_bytes))),
        };
        match incoming {
            Ok(Incoming::Request(request)) => self.request(request).await,
            Ok(Incoming::Notification { method, .. }) if method == STOPPED => self.stopped = true,
            Ok(other) => {
                if let Some(session) = &self.session {
                    requests::take(session, other, &self.way).await;
                }
            }
            Err((id, fault)) => {
                self.way.send(wire::error(id.as_ref(), &fault)).await;
            }
        }
    }

    async fn request(&mut self, request: Request) {
        if request.method == "initialize" {
            return self.initialize(request).await;
        }
        if self.session.is_none() {
            if request.method == "ping" {
                self.way.send(wire::result(&request.id, &Value::Object(Map::new()))).await;
                return;
            }
            let meta = wire::meta(request.params.as_deref());
            let fault = match (&meta.version, meta.capabilities) {
                (None, _) => Some(Fault::new(
                    wire::INVALID_REQUEST,
                    "no session: send initialize first, or name the protocol revision in _meta",
                )),
                (Some(version), _) if version != wire::MODERN => Some(Fault::unsupported(version)),
                (Some(_), None) => {
                    Some(Fault::new(wire::INVALID_PARAMS, "_meta lacks io.modelcontextprotocol/clientCapabilities"))
                }
                (Some(_), Some(capabilities)) => {
                    let client = Client { name: meta.name, version: meta.client_version };
                    match Session::open(&self.gateway, client, capabilities, true) {
                        Ok(session) => {
                            self.session = Some(session);
                            None
                        }
                        Err(why) => Some(Fault::new(wire::INTERNAL, why)),
                    }
                }
            };
            if let Some(fault) = fault {
                self.way.send(wire::error(Some(&request.id), &fault)).await;
                return;
            }
        }
        let Some(session) = &self.session else { return };
        if session.modern {
            let meta = wire::meta(request.params.as_deref());
            let fault = match meta.version.as_deref() {
                Some(wire::MODERN) => None,
                Some(other) => Some(Fault::unsupported(other)),
                None => Some(Fault::new(wire::INVALID_PARAMS, "_meta lacks io.modelcontextprotocol/protocolVersion")),
            };
            if let Some(fault) = fault {
                self.way.send(wire::error(Some(&request.id), &fault)).await;
                return;
            }
        }
        requests::take(session, Incoming::Request(request), &self.way).await;
    }

    async fn initialize(&mut self, request: Request) {
        let answer = match (&self.session, Opening::read(&request)) {
            (Some(_), _) => Err(Fault::new(wire::INVALID_REQUEST, "the session is open already")),
            (None, Err(fault)) => Err(fault),
            (None, Ok(opening)) => match Session::open(&self.gateway, opening.client, opening.capabilities, false) {
                Ok(session) => {
                    session.desk.listen(Listener { way: self.way.clone(), subscription: None });
                    session.job();
                    let result = session.initialized(opening.revision).await;
                    self.session = Some(session);
                    Ok(result)
                }
                Err(why) => Err(Fault::new(wire::INTERNAL, why)),
            },
        };
        let line = match answer {
            Ok(result) => wire::result(&request.id, &Value::Object(result)),
            Err(fault) => wire::error(Some(&request.id), &fault),
        };
        self.way.send(line).await;
    }
}

/// What `initialize` says.
pub(crate) struct Opening {
    pub(crate) client: Client,
    pub(crate) capabilities: Map<String, Value>,
    pub(crate) revision: &'static str,
}

impl Opening {
    pub(crate) fn read(request: &Request) -> Result<Self, Fault> {
        let mut params = request.values()?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let Some(asked) = params.get("protocolVersion").and_then(Value::as_str) else {
            return Err(Fault::new(wire::INVALID_PARAMS, "initialize needs a protocolVersion"));
        };
        // A revision that is not known gets the newest that begins so; the client decides whether it goes on.
        let revision =
            wire::WITH_INITIALIZE.into_iter().find(|known| *known == asked).unwrap_or(wire::WITH_INITIALIZE[0]);
        let info = params.get("clientInfo").cloned().unwrap_or_default();
        let capabilities = match params.shift_remove("capabilities") {
            Some(Value::Object(capabilities)) => capabilities,
            _ => Map::new(),
        };
        Ok(Self {
            client: Client { name: text(&info["name"]), version: text(&info["version"]) },
            capabilities,
            revision,
        })
    }
}
