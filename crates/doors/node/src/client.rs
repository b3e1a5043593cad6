//! The client's side: blocking, without a runtime, and quick to start.
//!
//! Invariant: nothing here waits longer than its deadline.

use crate::facts::Running;
use crate::place::Place;
use crate::service::Refused;
use crate::wire::{LINE_BYTES, ReplyWire, RequestWire, VERSION};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};
use serde_json::Value;
use std::io::{self, Read, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No node runs. Nothing was asked.
    #[error("no node runs for this store")]
    NoNode,
    /// What is there is another user's. Nothing was asked.
    #[error("what answers as the node is not trusted: {0}")]
    Stranger(String),
    /// The node said no.
    #[error("{}", .0.message)]
    Refused(Refused),
    /// No answer in time. What was asked is dropped.
    #[error("the node did not answer in time")]
    TimedOut,
    /// The node ended the connection without an answer; it may have begun.
    #[error("the node ended the connection without an answer")]
    HungUp,
    /// The request is larger than a line may be. Nothing was asked.
    #[error("the request is larger than {LINE_BYTES} bytes")]
    TooLarge,
    /// Something else went wrong.
    #[error("{0}")]
    Broken(String),
}

impl ClientError {
    /// Whether the node has certainly not begun what was asked: then a new node may be asked the same.
    pub fn is_unasked(&self) -> bool {
        match self {
            Self::NoNode => true,
            Self::Refused(refused) => refused.kind == "stopping",
            Self::Stranger(_) | Self::TimedOut | Self::HungUp | Self::TooLarge | Self::Broken(_) => false,
        }
    }
}

/// Who the node is.
pub fn hello(place: &Place, patience: Duration) -> Result<Running, ClientError> {
    let answer = Connection::open(place, patience)?.request("hello", None, None)?;
    let running: Running =
        serde_json::from_value(answer).map_err(|_| ClientError::Broken("the node's hello can't be read".to_owned()))?;
    if Path::new(&running.store) == place.store() { Ok(running) } else { Err(ClientError::NoNode) }
}

/// How the node stands: `node` is a [`Running`], the rest is the service's.
pub fn status(place: &Place, patience: Duration) -> Result<Value, ClientError> {
    Connection::open(place, patience)?.request("status", None, None)
}

/// Asks the node to end. It answers before it does.
pub fn stop(place: &Place, patience: Duration) -> Result<(), ClientError> {
    Connection::open(place, patience)?.request("stop", None, None).map(drop)
}

/// One question to a door of the node, and its answer. When the time is over, or this process ends, the node drops what it does for it.
pub fn ask(place: &Place, door: &str, ask: Value, patience: Duration) -> Result<Value, ClientError> {
    Connection::open(place, patience)?.request("ask", Some(door), Some(ask))
}

/// A connection to the node of a store.
pub struct Connection {
    stream: UnixStream,
    store: String,
    until: Instant,
    next: u64,
    /// What was read beyond the last answer.
    rest: Vec<u8>,
}

/// A connection that a door of the node took over.
pub struct Attached {
    /// What the door said.
    pub words: Value,
    /// Bytes that it sent since.
    pub early: Vec<u8>,
    /// The rest of the talk; it waits without a limit.
    pub stream: UnixStream,
}

impl Connection {
    /// Connects. All that is done on the connection is done within `patience` from now.
    pub fn open(place: &Place, patience: Duration) -> Result<Self, ClientError> {
        let until = Instant::now() + patience;
        let socket = place.socket()?.and_then(|listed| listed.socket).ok_or(ClientError::NoNode)?;
        let stream = connect(&socket, until)?;
        check_peer(&stream, &socket)?;
        Ok(Self { stream, store: place.store_text(), until, next: 1, rest: vec![] })
    }

    /// Sends one request and waits for its answer.
    pub fn request(&mut self, what: &str, door: Option<&str>, with: Option<Value>) -> Result<Value, ClientError> {
        let id = self.next;
        self.next += 1;
        let request = RequestWire {
            v: VERSION,
            id,
            store: Some(self.store.clone()),
            what: what.to_owned(),
            door: door.map(str::to_owned),
            with,
        };
        let mut line = serde_json::to_vec(&request).map_err(|e| ClientError::Broken(e.to_string()))?;
        if line.len() > LINE_BYTES {
            return Err(ClientError::TooLarge);
        }
        line.push(b'\n');
        // A node that refuses at the door may have closed its side before it read: what it said can be read all the same.
        let written = self.write(&line);
        let answer = match self.read_line() {
            Ok(line) => line,
            Err(error) => return Err(written.err().unwrap_or(error)),
        };
        let reply: ReplyWire = serde_json::from_slice(&answer)
            .map_err(|_| ClientError::Broken("the node's answer can't be read".to_owned()))?;
        match reply {
            ReplyWire { error: Some(refused), .. } => Err(ClientError::Refused(refused)),
            ReplyWire { id: answered, ok: Some(value), .. } if answered == id => Ok(value),
            ReplyWire { id: answered, ok: None, .. } if answered == id => Ok(Value::Null),
            ReplyWire { .. } => Err(ClientError::Broken("the node answered something else".to_owned())),
        }
    }

    /// Hands the connection over to a door of the node.
    pub fn attach(mut self, door: &str, what: Value) -> Result<Attached, ClientError> {
        let words = self.request("attach", Some(door), Some(what))?;
        let broken = |e: io::Error| ClientError::Broken(e.to_string());
        self.stream.set_read_timeout(None).map_err(broken)?;
        self.stream.set_write_timeout(None).map_err(broken)?;
        Ok(Attached { words, early: self.rest, stream: self.stream })
    }

    fn left(&self) -> Result<Duration, ClientError> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(ClientError::TimedOut) } else { Ok(left) }
    }

    fn write(&mut self, mut bytes: &[u8]) -> Result<(), ClientError> {
        while !bytes.is_empty() {
            self.stream.set_write_timeout(Some(self.left()?)).map_err(failed)?;
            match self.stream.write(bytes) {
                Ok(0) => return Err(ClientError::HungUp),
                Ok(n) => bytes = &bytes[n..],
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(failed(e)),
            }
        }
        Ok(())
    }

    fn read_line(&mut self) -> Result<Vec<u8>, ClientError> {
        let mut seen = 0;
        let mut chunk = vec![0; 64 * 1024];
        loop {
            if let Some(end) = memchr::memchr(b'\n', &self.rest[seen..]) {
                let mut line = std::mem::take(&mut self.rest);
                self.rest = line.split_off(seen + end + 1);
                line.pop();
                return Ok(line);
            }
            seen = self.rest.len();
            if seen > LINE_BYTES {
                return Err(ClientError::Broken(format!("the node's answer is longer than {LINE_BYTES} bytes")));
            }
            self.stream.set_read_timeout(Some(self.left()?)).map_err(failed)?;
            match self.stream.read(&mut chunk) {
                Ok(0) => return Err(ClientError::HungUp),
                Ok(n) => self.rest.extend_from_slice(&chunk[..n]),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(failed(e)),
            }
        }
    }
}

fn failed(error: io::Error) -> ClientError {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => ClientError::TimedOut,
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => ClientError::HungUp,
        _ => ClientError::Broken(format!("the node can't be spoken with: {error}")),
    }
}

/// Connects without waiting for ever where the node is stuck and many wait already.
fn connect(path: &Path, until: Instant) -> Result<UnixStream, ClientError> {
    let broken = |e: Errno| ClientError::Broken(format!("the node at {} can't be reached: {e}", path.display()));
    let address = SocketAddrUnix::new(path).map_err(broken)?;
    let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None).map_err(broken)?;
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC).map_err(broken)?;
    rustix::io::ioctl_fionbio(&socket, true).map_err(broken)?;
    loop {
        match rustix::net::connect(&socket, &address) {
            Ok(()) => break,
            Err(Errno::AGAIN | Errno::INTR) if Instant::now() < until => std::thread::sleep(Duration::from_millis(5)),
            Err(Errno::AGAIN | Errno::INTR) => return Err(ClientError::TimedOut),
            Err(Errno::NOENT | Errno::CONNREFUSED | Errno::NOTDIR) => return Err(ClientError::NoNode),
            Err(error) => return Err(broken(error)),
        }
    }
    rustix::io::ioctl_fionbio(&socket, false).map_err(broken)?;
    Ok(UnixStream::from(socket))
}

/// Whoever listens must be of our own user.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn check_peer(stream: &UnixStream, socket: &Path) -> Result<(), ClientError> {
    use std::os::unix::fs::MetadataExt as _;
    let owner = match rustix::net::sockopt::socket_peercred(stream) {
        Ok(peer) => peer.uid.as_raw(),
        // From inside a sandbox with processes of its own the node has no number, and the answer can't be read: then the socket's owner counts.
        Err(_) => std::fs::metadata(socket).map_err(|e| ClientError::Broken(e.to_string()))?.uid(),
    };
    if owner == rustix::process::getuid().as_raw() {
        Ok(())
    } else {
        Err(ClientError::Stranger(format!("its process belongs to another user ({owner})")))
    }
}

/// Where the system does not say who listens, the lock's file does, which is our own.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn check_peer(_: &UnixStream, _: &Path) -> Result<(), ClientError> {
    Ok(())
}
