//! A node for whoever needs one: the first one starts it.

use crate::client::{self, ClientError};
use crate::facts::Running;
use crate::lock::Lock;
use crate::place::Place;
use serde_json::Value;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How often whoever waits looks.
const LOOK: Duration = Duration::from_millis(15);

/// How soon after a start the next one may be.
const AGAIN: Duration = Duration::from_millis(250);

/// After how long without work a node ends that clients start for themselves: their `--idle`.
pub const IDLE: Duration = Duration::from_mins(10);

/// Bytes of a log above which it is begun anew.
const LOG_BYTES: u64 = 1024 * 1024;

/// Bytes of a log that are read for an error.
const SAID_BYTES: u64 = 4 * 1024;

/// How a node is started.
#[derive(Debug, Clone)]
pub struct Start {
    /// The program: `hookwright` itself.
    pub program: PathBuf,
    /// Its arguments: `serve --detached --idle … --db …`.
    pub args: Vec<OsString>,
    /// The folder that it is started in.
    pub folder: PathBuf,
}

/// Why there is no node.
#[derive(Debug, thiserror::Error)]
pub enum EnsureError {
    /// It ended before it answered; what it said last.
    #[error("the node could not be started: {said}")]
    Ended {
        /// What it said, escaped.
        said: String,
    },
    /// It can't be started.
    #[error("the node can't be started: {0}")]
    Start(io::Error),
    /// It does not answer in time.
    #[error("the node was started, but did not answer in time: {0}")]
    Silent(ClientError),
    /// What is there can't be spoken with.
    #[error(transparent)]
    Client(ClientError),
}

/// The node of a store; starts it where none runs. Of many who call this at once, one starts it and all get it. Blocks.
///
/// The node is a process of its own session, which outlives this one.
pub fn ensure(place: &Place, start: &Start, patience: Duration) -> Result<Running, EnsureError> {
    let until = Instant::now() + patience;
    let mut starter: Option<Starter> = None;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let error = match client::hello(place, left.min(Duration::from_secs(2))) {
            Ok(running) if !running.stopping => return Ok(running),
            Ok(_) => ClientError::NoNode,
            Err(error @ (ClientError::Stranger(_) | ClientError::Refused(_))) => {
                return Err(EnsureError::Client(error));
            }
            Err(error) => error,
        };
        if left.is_zero() {
            return Err(EnsureError::Silent(error));
        }
        match &mut starter {
            None => starter = Starter::of(place, start)?,
            Some(starter) => {
                if let Some(status) = starter.child.try_wait().map_err(EnsureError::Start)? {
                    // Whoever ended well found another node.
                    if !status.success() {
                        return Err(EnsureError::Ended { said: starter.said(place) });
                    }
                    if starter.since.elapsed() > AGAIN {
                        starter.again(place, start)?;
                    }
                }
            }
        }
        std::thread::sleep(LOOK);
    }
}

/// Asks a door of the node, and starts the node where none runs. `patience` holds for all of it; at most `start_patience` of it for the start.
pub fn ask_or_start(
    place: &Place,
    start: &Start,
    (door, ask): (&str, &Value),
    start_patience: Duration,
    patience: Duration,
) -> Result<Value, EnsureError> {
    let until = Instant::now() + patience;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        match client::ask(place, door, ask.clone(), left) {
            Ok(answer) => return Ok(answer),
            // It ended just now, or was never there. It has certainly not begun.
            Err(error) if error.is_unasked() && !left.is_zero() => {}
            Err(error) => return Err(EnsureError::Client(error)),
        }
        ensure(place, start, left.min(start_patience))?;
    }
}

/// Who starts the node: holds the start's lock meanwhile.
struct Starter {
    _lock: Lock,
    child: Child,
    since: Instant,
    /// Where the log stood before.
    from: u64,
}

impl Starter {
    /// None where another process is starting it.
    fn of(place: &Place, start: &Start) -> Result<Option<Self>, EnsureError> {
        let path = place.start_file();
        if let Some(folder) = path.parent().filter(|folder| !folder.exists()) {
            std::fs::create_dir_all(folder).map_err(EnsureError::Start)?;
        }
        let Some(lock) = Lock::take(&path).map_err(EnsureError::Start)? else { return Ok(None) };
        let (child, from) = spawn(start, &place.log_file()).map_err(EnsureError::Start)?;
        Ok(Some(Self { _lock: lock, child, since: Instant::now(), from }))
    }

    /// It found that another node runs, and that one is gone since.
    fn again(&mut self, place: &Place, start: &Start) -> Result<(), EnsureError> {
        self.since = Instant::now();
        (self.child, self.from) = spawn(start, &place.log_file()).map_err(EnsureError::Start)?;
        Ok(())
    }

    /// The end of what the node wrote.
    fn said(&self, place: &Place) -> String {
        let text = || -> io::Result<String> {
            let mut file = File::open(place.log_file())?;
            let from = self.from.max(file.metadata()?.len().saturating_sub(SAID_BYTES));
            file.seek(io::SeekFrom::Start(from))?;
            let mut bytes = vec![];
            file.take(SAID_BYTES).read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        let text = text().unwrap_or_default();
        let text = text.trim();
        if text.is_empty() { "it said nothing".to_owned() } else { hookwright_core::text::escape_block(text) }
    }
}

/// Starts it. Its own session is made by itself (`--detached`): what starts it may be a leader of a group already.
fn spawn(start: &Start, log: &Path) -> io::Result<(Child, u64)> {
    let file = File::options().create(true).append(true).mode(0o600).open(log)?;
    let mut from = file.metadata()?.len();
    if from > LOG_BYTES {
        file.set_len(0)?;
        from = 0;
    }
    let mut command = Command::new(&start.program);
    command.args(&start.args).current_dir(&start.folder);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::from(file));
    Ok((command.spawn()?, from))
}
