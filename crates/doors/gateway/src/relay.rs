//! A client whose session lives in another process, the node: its messages go through here, and outlive that process.
//!
//! Invariant: every request of the client gets an answer, whatever becomes of the node; one that may have been begun is never sent again.
//! Invariant: the client's answers reach only the session that asked: another one's are dropped.

mod books;
mod peek;

use crate::lines::{Line, Lines};
use crate::stdio::{Ended, LAST_WORDS, STOPPED, too_long};
use crate::wire;
use books::{Books, Lost, Passing};
use hookwright_core::text;
use peek::Seen;
use serde_json::json;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::Mutex as Turn;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// How long a session may take to be opened anew.
const HELLO: Duration = Duration::from_mins(1);
/// How long a session may take to end when its client has gone: its job's last work, and its servers.
const LEAVING: Duration = Duration::from_secs(15);
/// Bytes that are put together before they are written.
const AT_ONCE: usize = 64 * 1024;

type Reader = Box<dyn AsyncRead + Send + Unpin>;
type Writer = Box<dyn AsyncWrite + Send + Unpin>;

/// A session in the node, as two byte streams.
pub struct Link {
    /// What the session says.
    pub reader: Reader,
    /// What it is told.
    pub writer: Writer,
    /// Bytes of a message from a client.
    pub message_bytes: usize,
}

/// Where sessions are.
#[async_trait::async_trait]
pub trait Attach: Send + Sync + 'static {
    /// Opens a session, in a node that is started where none runs. What it asks its client has ids from this one on. An error is for people.
    async fn attach(&self, ids_from: u64) -> Result<Link, String>;
}

/// Passes messages until the client goes away, or until `stop`. A node that goes away is told to the client, and the next message opens a
/// session in a new one.
pub async fn relay<R, W>(
    node: Arc<dyn Attach>,
    first: Link,
    version: String,
    reader: R,
    writer: W,
    stop: CancellationToken,
) -> Ended
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let client = Arc::new(Client {
        writer: Turn::new(Box::new(writer) as Writer),
        books: Mutex::new(Books::new(version)),
        broken: CancellationToken::new(),
    });
    let mut lines = Lines::new(reader, first.message_bytes);
    let mut up = Up { node, client: client.clone(), way: None, hello: None };
    up.follow(first);
    let ended = loop {
        let line = tokio::select! {
            biased;
            () = stop.cancelled() => break Ended::Closed,
            () = client.broken.cancelled() => break Ended::Broken("writing ended".to_owned()),
            line = lines.next() => line,
        };
        match line {
            Ok(Some(Line::Whole(mut line))) => {
                line.push(b'\n');
                tokio::select! {
                    biased;
                    () = stop.cancelled() => break Ended::Closed,
                    () = up.pass(line) => {}
                }
            }
            Ok(Some(Line::TooLong(bytes))) => {
                client.say(wire::error(None, &too_long(bytes, lines.limit()))).await;
            }
            Ok(None) => break Ended::Closed,
            Err(e) => break Ended::Broken(text::shown(&e.to_string(), 500)),
        }
    };
    up.leave(stop.is_cancelled()).await;
    ended
}

/// The client, for whoever has something to tell it.
struct Client {
    writer: Turn<Writer>,
    books: Mutex<Books>,
    /// It does not read any more.
    broken: CancellationToken,
}

impl Client {
    fn books(&self) -> std::sync::MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes whole lines.
    async fn write(&self, lines: &[u8]) {
        let mut writer = self.writer.lock().await;
        let written = async {
            writer.write_all(lines).await?;
            writer.flush().await
        };
        if written.await.is_err() {
            self.broken.cancel();
        }
    }

    async fn say(&self, mut message: Vec<u8>) {
        message.push(b'\n');
        self.write(&message).await;
    }

    /// Tells it what is lost with a session.
    async fn lose(&self, lost: Lost) {
        for message in lost.messages {
            self.say(message).await;
        }
    }
}

/// From the node to the client, until the session ends.
async fn down(mut lines: Lines<Reader>, client: Arc<Client>, session: u64) {
    let mut buffer = Vec::new();
    while let Ok(Some(Line::Whole(line))) = lines.next().await {
        if client.books().told(session, &Seen::of(&line)) {
            buffer.extend_from_slice(&line);
            buffer.push(b'\n');
        }
        if buffer.len() >= AT_ONCE || !lines.has_more() {
            client.write(&buffer).await;
            buffer.clear();
        }
    }
    let lost = client.books().ended(session);
    client.lose(lost).await;
}

/// From the client to the node.
struct Up {
    node: Arc<dyn Attach>,
    client: Arc<Client>,
    /// The session that there is, and who reads it.
    way: Option<(Writer, JoinHandle<()>)>,
    /// How the client opened its session, and what it set since: said again to another node.
    hello: Option<Vec<u8>>,
}

impl Up {
    /// Takes up a session that is open.
    fn follow(&mut self, link: Link) {
        self.read_on(Lines::new(link.reader, usize::MAX), link.writer);
    }

    fn read_on(&mut self, lines: Lines<Reader>, writer: Writer) {
        let session = self.client.books().begun();
        self.way = Some((writer, tokio::spawn(down(lines, self.client.clone(), session))));
    }

    /// Passes a line on, to the session that there is or to a new one.
    async fn pass(&mut self, line: Vec<u8>) {
        let seen = Seen::of(&line);
        if seen.method.as_deref() == Some("initialize") && self.hello.is_none() {
            self.hello = Some(line.clone());
        }
        if self.write(&line, &seen).await {
            return;
        }
        // An answer or a notification is of a session that is gone.
        if seen.id.is_none() || seen.method.is_none() {
            return;
        }
        let opened = self.reopen(&seen).await;
        let why = match opened {
            Ok(()) if self.write(&line, &seen).await => return,
            Ok(()) => "the node ended again".to_owned(),
            Err(why) => why,
        };
        let message = self.client.books().not_begun(&seen, &line, &why);
        if let Some(message) = message {
            self.client.say(message).await;
        }
    }

    /// Whether it was written as a whole: one that was not has certainly not been begun.
    async fn write(&mut self, line: &[u8], seen: &Seen<'_>) -> bool {
        let Some((writer, _)) = &mut self.way else { return false };
        let passing = self.client.books().asked(seen, line);
        match passing {
            Passing::On => {}
            Passing::Nowhere => return true,
            Passing::Closed => return false,
        }
        let written = async {
            writer.write_all(line).await?;
            writer.flush().await
        };
        // Where its reader has answered already, since the session has ended, that stands.
        written.await.is_ok() || !self.client.books().forget(seen)
    }

    /// Opens a session in the place of one that is gone, as the client opened that one.
    async fn reopen(&mut self, seen: &Seen<'_>) -> Result<(), String> {
        if let Some((_, down)) = self.way.take() {
            // What is lost is told before anything of the new session.
            let _ = timeout(LAST_WORDS, down).await;
        }
        let ids_from = self.client.books().ids_from();
        let link = self.node.attach(ids_from).await?;
        let (mut lines, mut writer) = (Lines::new(link.reader, usize::MAX), link.writer);
        let Some(hello) = self.hello.clone().filter(|_| seen.method.as_deref() != Some("initialize")) else {
            self.read_on(lines, writer);
            return Ok(());
        };
        let again = self.client.books().again();
        let opening = async {
            writer.write_all(&hello).await?;
            let id = Seen::of(&hello).id.map(ToOwned::to_owned);
            loop {
                let Some(Line::Whole(line)) = lines.next().await? else {
                    return Err(std::io::Error::other("it ended while the session was opened"));
                };
                let said = Seen::of(&line);
                if said.method.is_none() && said.id.map(ToOwned::to_owned) == id {
                    break;
                }
            }
            writer.write_all(&again).await?;
            writer.flush().await
        };
        let opened = timeout(HELLO, opening).await;
        let opened = opened.map_err(|_| "the node did not open a session in time".to_owned())?;
        opened.map_err(|e| format!("the node can't be spoken with: {}", text::shown(&e.to_string(), 300)))?;
        self.read_on(lines, writer);
        self.client.say(wire::notification("notifications/tools/list_changed", &json!({}))).await;
        Ok(())
    }

    /// The client is gone, or we are.
    async fn leave(mut self, stopped: bool) {
        let Some((mut writer, down)) = self.way.take() else { return };
        self.client.books().leaving();
        if stopped {
            let _ = writer.write_all(&[&*wire::notification(STOPPED, &json!({})), b"\n"].concat()).await;
        }
        let _ = writer.shutdown().await;
        // It ends when the session is over, with what was answered last.
        let abort = down.abort_handle();
        if timeout(LEAVING, down).await.is_err() {
            abort.abort();
        }
    }
}

#[cfg(test)]
mod tests;
