//! The node: claimed by its lock, listening on its socket, until it is told to end or has nothing to do.

use crate::client::{self, ClientError};
use crate::facts::{About, Running};
use crate::idle::Activity;
use crate::lock::Lock;
use crate::place::{Place, Sockets};
use crate::service::{Peer, Refused, Service};
use crate::socket::Socket;
use crate::talk;
use crate::wire::{ReplyWire, VERSION};
use rustix::process::getuid;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Long lines that are read or worked on at once; others wait to be read on.
const LONG_LINES: usize = 8;

/// How long a socket may answer `hello` before the process behind it counts as busy.
const HELLO: Duration = Duration::from_secs(1);

/// How often it is looked whether the socket is still in its place.
const LOOK: Duration = Duration::from_secs(2);

/// How a node behaves.
#[derive(Debug, Clone)]
pub struct Options {
    /// After how long without work it ends; none: never by itself.
    pub idle: Option<Duration>,
    /// How long what clients asked for may go on once the node is told to end.
    pub grace: Duration,
    /// Clients that may be connected at once.
    pub clients: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { idle: None, grace: Duration::from_secs(5), clients: 256 }
    }
}

/// Why a node ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It had nothing to do for as long as it was told.
    Idle,
    /// A client asked it to, by `stop`.
    Asked,
    /// Its process was told to.
    Told,
}

/// Who is the node.
pub enum Claim {
    /// This process.
    Ours(Claimed),
    /// Another one, which answers.
    Theirs(Running),
}

/// Why it is not known who is the node.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// Another process holds the lock and does not answer.
    #[error("process {pid} is the node of this store, but does not answer")]
    Silent {
        /// Its number; `?` where it did not say.
        pid: String,
    },
    /// Another process holds the lock and can't be spoken with.
    #[error(transparent)]
    Client(ClientError),
    /// The lock's file can't be used.
    #[error("{} can't be used: {why}", path.display())]
    Lock {
        /// The file.
        path: PathBuf,
        /// Why.
        why: io::Error,
    },
}

/// The right to be the node of a store. Nobody hears of it yet.
pub struct Claimed {
    place: Place,
    lock: Lock,
}

/// A node that listens. Dropping it gives the store's node up.
pub struct Node {
    place: Place,
    lock: Lock,
    socket: Option<Socket>,
    sockets: Sockets,
    path: PathBuf,
    about: About,
    born: Instant,
}

/// Takes the node of a store, or finds out who is it. Waits while another one is starting or ending. Blocks.
pub fn claim(place: &Place, patience: Duration) -> Result<Claim, ClaimError> {
    let until = Instant::now() + patience;
    let failed = |why| ClaimError::Lock { path: place.lock_file(), why };
    loop {
        if let Some(mut lock) = Lock::of_node(place).map_err(failed)? {
            lock.list(None).map_err(failed)?;
            return Ok(Claim::Ours(Claimed { place: place.clone(), lock }));
        }
        match client::hello(place, HELLO) {
            Ok(running) if !running.stopping => return Ok(Claim::Theirs(running)),
            Err(why @ ClientError::Stranger(_)) => return Err(ClaimError::Client(why)),
            Ok(_) | Err(_) => {}
        }
        if Instant::now() >= until {
            let pid = place.socket().ok().flatten().map_or_else(|| "?".to_owned(), |listed| listed.pid.to_string());
            return Err(ClaimError::Silent { pid });
        }
        std::thread::sleep(Duration::from_millis(25));
    }
}

impl Claimed {
    /// Listens. Within a Tokio runtime. The error is for people.
    pub fn listen(mut self, sockets: Sockets, about: About) -> Result<Node, String> {
        let (socket, path) = listen(&self.place, &sockets, &mut self.lock)?;
        Ok(Node {
            place: self.place,
            lock: self.lock,
            socket: Some(socket),
            sockets,
            path,
            about,
            born: Instant::now(),
        })
    }
}

/// Listens, and says where.
fn listen(place: &Place, sockets: &Sockets, lock: &mut Lock) -> Result<(Socket, PathBuf), String> {
    let path = sockets.choose(place).map_err(|e| format!("there is no place for the node's socket: {e}"))?;
    let failed = |e: io::Error| {
        format!("the node can't listen at {}: {e}", hookwright_core::text::escape(&path.to_string_lossy()))
    };
    let socket = Socket::bind(&path).map_err(failed)?;
    lock.list(Some(&path)).map_err(failed)?;
    Ok((socket, path))
}

impl Node {
    /// Where it listens.
    pub fn socket(&self) -> &Path {
        &self.path
    }

    /// The node, as it says itself.
    pub fn running(&self) -> Running {
        running(&self.about, self.place.store_text(), self.path.to_string_lossy().into_owned(), self.born)
    }

    /// Answers clients until it ends: then nobody new is let in, and what was asked for has been answered or dropped. The store's node is
    /// still this process, until `self` is dropped. Once only.
    pub async fn serve(&mut self, service: Arc<dyn Service>, options: Options, told: CancellationToken) -> Ended {
        let Some(mut socket) = self.socket.take() else { return Ended::Told };
        let house = Arc::new(House {
            service,
            store: self.place.store_text(),
            socket: Mutex::new(self.path.to_string_lossy().into_owned()),
            about: self.about.clone(),
            born: self.born,
            activity: Activity::new(options.idle),
            stopping: CancellationToken::new(),
            asked: CancellationToken::new(),
            long_lines: Arc::new(Semaphore::new(LONG_LINES)),
        });
        let mut talks = JoinSet::new();
        let ended = loop {
            tokio::select! {
                accepted = socket.listener.accept() => match accepted {
                    Ok((stream, _)) => house.admit(stream, &mut talks, options.clients),
                    Err(error) => {
                        // Out of files, say: it passes, and must not become a busy loop.
                        tracing::warn!("a client can't be let in: {error}");
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                },
                Some(talk) = talks.join_next(), if !talks.is_empty() => see_to(talk),
                () = told.cancelled() => break Ended::Told,
                () = house.asked.cancelled() => break Ended::Asked,
                // With its folder it may be gone, after a logout, say.
                () = tokio::time::sleep(LOOK), if !socket.is_in_place() => match listen(&self.place, &self.sockets, &mut self.lock) {
                    Ok((again, path)) => {
                        house.moved(&path);
                        (socket, self.path) = (again, path);
                    }
                    Err(why) => tracing::warn!("its socket was taken away: {why}"),
                },
                () = tokio::time::sleep(LOOK) => {}
                () = house.activity.idle(&*house.service) => break Ended::Idle,
            }
        };
        house.stopping.cancel();
        let listener = socket.close();
        house.turn_away(&listener, &mut talks, options.clients).await;
        drop(listener);
        let leaving = async { while talks.join_next().await.is_some() {} };
        if tokio::time::timeout(options.grace, leaving).await.is_err() {
            talks.shutdown().await;
        }
        if let Err(error) = self.lock.list(None) {
            tracing::warn!("the node's lock can't be written: {error}");
        }
        ended
    }
}

fn see_to(talk: Result<(), tokio::task::JoinError>) {
    if let Err(error) = talk
        && error.is_panic()
    {
        tracing::error!("a fault in Hookwright ended a client's connection: {error}");
    }
}

/// What all connections share.
pub(crate) struct House {
    pub(crate) service: Arc<dyn Service>,
    pub(crate) store: String,
    socket: Mutex<String>,
    about: About,
    born: Instant,
    pub(crate) activity: Arc<Activity>,
    /// No new work is taken.
    pub(crate) stopping: CancellationToken,
    /// A client wants the node to end.
    pub(crate) asked: CancellationToken,
    pub(crate) long_lines: Arc<Semaphore>,
}

impl House {
    fn socket(&self) -> MutexGuard<'_, String> {
        self.socket.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It listens elsewhere from now on.
    fn moved(&self, path: &Path) {
        *self.socket() = path.to_string_lossy().into_owned();
    }

    fn admit(self: &Arc<Self>, stream: UnixStream, talks: &mut JoinSet<()>, limit: usize) {
        let peer = match stream.peer_cred() {
            Ok(cred) => Peer { uid: cred.uid(), pid: cred.pid() },
            Err(error) => {
                tracing::warn!("a client is turned away, the system does not say who it is: {error}");
                return;
            }
        };
        if peer.uid != getuid().as_raw() {
            tracing::warn!("a client of another user ({}) is turned away", peer.uid);
            return;
        }
        if talks.len() >= limit {
            let refused = Refused::new("busy", format!("the node has {limit} clients already"));
            let line = ReplyWire::new(0, Err(refused)).line();
            // What is new has room for one line; if not, it learns by the end of the connection.
            let _ = stream.into_std().and_then(|mut stream| stream.write_all(&line));
            return;
        }
        talks.spawn(talk::converse(self.clone(), stream, peer));
    }

    /// Tells those no who came before the socket was taken away.
    async fn turn_away(self: &Arc<Self>, listener: &UnixListener, talks: &mut JoinSet<()>, limit: usize) {
        while let Ok(Ok((stream, _))) = tokio::time::timeout(Duration::from_millis(20), listener.accept()).await {
            self.admit(stream, talks, limit);
        }
    }

    /// The node, as it says itself.
    pub(crate) fn running(&self) -> Running {
        Running {
            idle_ms: self.activity.after().map(ms),
            idle_left_ms: self.activity.left(&*self.service).map(ms),
            clients: self.activity.clients(),
            stopping: self.stopping.is_cancelled() || self.asked.is_cancelled(),
            ..running(&self.about, self.store.clone(), self.socket().clone(), self.born)
        }
    }
}

fn running(about: &About, store: String, socket: String, born: Instant) -> Running {
    let About { version, config, config_digest, started_ms } = about.clone();
    Running {
        pid: std::process::id(),
        version,
        protocol: VERSION,
        store,
        socket,
        config,
        config_digest,
        started_ms,
        uptime_ms: ms(born.elapsed()),
        idle_ms: None,
        idle_left_ms: None,
        clients: 0,
        stopping: false,
    }
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
