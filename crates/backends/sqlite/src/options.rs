//! How a store is opened.

use hookwright_runtime::ports::clock::Clock;
use std::sync::Arc;
use std::time::Duration;

/// Where a probe is called; `n` counts the store's durable commits since it was opened, from 0 (see `StoreCounters::commits`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProbePoint {
    /// Everything of the transaction was executed; nothing of it is durable yet.
    BeforeCommit {
        /// The commit's number.
        n: u64,
    },
    /// The transaction is durable; nobody who waits for it was told yet.
    AfterCommit {
        /// The commit's number.
        n: u64,
    },
}

/// A failpoint for crash tests: called on the writer's thread, which waits until it returns.
pub type Probe = Arc<dyn Fn(ProbePoint) + Send + Sync>;

/// How a store is opened. Start from [`OpenOptions::new`].
#[derive(Clone)]
pub struct OpenOptions {
    /// The node's name, for people who look into the file. Need not be unique: leases have a key of their own.
    pub node: String,
    /// The wall clock.
    pub clock: Arc<dyn Clock>,
    /// Opens an existing file for reading only: every write fails with an explanation. Works in a read-only folder too, as long as
    /// no write-ahead log waits beside the file.
    pub read_only: bool,
    /// How long a write waits in all while another process writes to the file, before it fails. Default 30 s.
    pub busy_wait: Duration,
    /// Largest size of the file in bytes; a write beyond it fails as on a full disk. Rounded down to whole pages. Default: none.
    pub max_bytes: Option<u64>,
    /// Failpoints of crash tests. Default: none; there is no reason to set it elsewhere.
    pub probe: Option<Probe>,
}

impl OpenOptions {
    /// The defaults: read and write, 30 s, no limit of size, no probe.
    pub fn new(node: impl Into<String>, clock: Arc<dyn Clock>) -> Self {
        Self {
            node: node.into(),
            clock,
            read_only: false,
            busy_wait: Duration::from_secs(30),
            max_bytes: None,
            probe: None,
        }
    }

    /// The same, for reading only.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.read_only = true;
        self
    }
}

impl std::fmt::Debug for OpenOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenOptions")
            .field("node", &self.node)
            .field("read_only", &self.read_only)
            .field("busy_wait", &self.busy_wait)
            .field("max_bytes", &self.max_bytes)
            .field("probe", &self.probe.is_some())
            .finish_non_exhaustive()
    }
}
