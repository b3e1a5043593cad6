//! What a node does for its clients, behind the socket. Implemented by the wiring.

use crate::lines::Lines;
use crate::wire::ReplyWire;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use tokio::io::{AsyncBufRead as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::unix::OwnedWriteHalf;
use tokio_util::sync::CancellationToken;

/// The process at the other end. It is of the node's own OS user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// The OS user's number.
    pub uid: u32,
    /// The process's number, where the system tells; it may have ended since.
    pub pid: Option<i32>,
}

/// Why a request is not done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// What programs act on: `stopping` (certainly not begun: a new node may be asked), `busy` (not begun either), `malformed`, `unknown`,
    /// `version`, `store`, `too_large`, or a door's own word.
    #[serde(rename = "type")]
    pub kind: String,
    /// For people; untrusted parts are escaped.
    pub message: String,
    /// What to do next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Refused {
    /// Of a kind, in words.
    pub fn new(kind: impl Into<String>, message: impl Into<String>) -> Self {
        Self { kind: kind.into(), message: message.into(), hint: None }
    }

    /// With what to do next.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// A door that this node does not have.
    pub fn no_door(door: &str) -> Self {
        Self::new("unknown", format!("this node has no door {}", hookwright_core::text::shown(door, 100)))
    }

    /// The node is about to end.
    pub(crate) fn stopping() -> Self {
        Self::new("stopping", "the node is ending and takes no new work")
    }
}

/// What the wiring does for clients.
#[async_trait::async_trait]
pub trait Service: Send + Sync + 'static {
    /// What `status` says beside the node itself. Bounded in time: people wait for it.
    async fn status(&self) -> Map<String, Value>;

    /// Whether there is work that no client waits for: jobs of its own, or of agents that somebody else runs. Then an idle node stays.
    fn is_busy(&self) -> bool;

    /// One question of a door's client, for one answer. The question is opaque to the node. Dropped where the client hangs up, and
    /// when the node ends.
    async fn ask(&self, peer: &Peer, door: &str, ask: Value) -> Result<Value, Refused>;

    /// A client that wants to hand bytes over in both directions. [`Offer::accept`] says yes; an error says no. It returns when the talk is
    /// over. When the node ends, [`Offer::stopping`] says so; dropped some seconds later, and at once where it has not accepted.
    async fn attach(&self, peer: &Peer, door: &str, what: Value, offer: Offer) -> Result<(), Refused>;
}

/// A connection that a door may take over.
pub struct Offer {
    id: u64,
    halves: Halves,
    stopping: CancellationToken,
}

/// The two halves of a connection, for whoever takes them first: the door, or who tells the client no.
pub(crate) type Halves = Arc<Mutex<Option<(Lines, OwnedWriteHalf)>>>;

impl Offer {
    pub(crate) fn new(id: u64, halves: Halves, stopping: CancellationToken) -> Self {
        Self { id, halves, stopping }
    }

    /// Cancelled when the node is about to end: what the door has under way is to be left in order.
    pub fn stopping(&self) -> CancellationToken {
        self.stopping.clone()
    }

    /// Tells the client yes, with these words, and takes the connection over. From here on its bytes are the door's own.
    pub async fn accept(self, words: Value) -> io::Result<Bytes> {
        let halves = self.halves.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some((lines, mut writer)) = halves else { return Err(io::ErrorKind::NotConnected.into()) };
        writer.write_all(&ReplyWire::new(self.id, Ok(words)).line()).await?;
        Ok(Bytes { lines, writer })
    }
}

/// The bytes of a connection, both ways. Its end of reading is the client's going away.
pub struct Bytes {
    lines: Lines,
    writer: OwnedWriteHalf,
}

impl Bytes {
    /// Both ways apart, without a lock between them.
    pub fn split(self) -> (impl AsyncRead + Send + Unpin + 'static, impl AsyncWrite + Send + Unpin + 'static) {
        (self.lines.into_inner(), self.writer)
    }
}

impl AsyncRead for Bytes {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        // What was read beyond the request's line comes first.
        let mut reader = Pin::new(self.lines.inner());
        let chunk = match reader.as_mut().poll_fill_buf(cx) {
            Poll::Ready(Ok(chunk)) => chunk,
            Poll::Ready(Err(e)) => return Poll::Ready(Err(e)),
            Poll::Pending => return Poll::Pending,
        };
        let taken = chunk.len().min(buf.remaining());
        buf.put_slice(&chunk[..taken]);
        reader.consume(taken);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Bytes {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.writer).poll_write(cx, bytes)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writer).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writer).poll_shutdown(cx)
    }
}
