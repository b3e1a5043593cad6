//! What a node says of itself.

use serde::{Deserialize, Serialize};

/// What the wiring knows of the node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct About {
    /// Hookwright's version.
    pub version: String,
    /// The configuration, where there is one.
    pub config: Option<String>,
    /// Its digest, with those of its manifests.
    pub config_digest: Option<String>,
    /// When it was started, Unix milliseconds.
    pub started_ms: u64,
}

/// A running node, as it says itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Running {
    /// Its process's number.
    pub pid: u32,
    /// Hookwright's version.
    pub version: String,
    /// The protocol's version.
    pub protocol: u32,
    /// The store's file, as its real path.
    pub store: String,
    /// Its socket.
    pub socket: String,
    /// The configuration, where there is one.
    pub config: Option<String>,
    /// Its digest, with those of its manifests.
    pub config_digest: Option<String>,
    /// When it was started, Unix milliseconds.
    pub started_ms: u64,
    /// How long it has run, in milliseconds.
    pub uptime_ms: u64,
    /// After how many idle milliseconds it ends; none: never by itself.
    pub idle_ms: Option<u64>,
    /// How many of them are left; none where it does not end by itself, or has work.
    pub idle_left_ms: Option<u64>,
    /// Clients that are connected, this one included.
    pub clients: usize,
    /// Whether it is about to end.
    pub stopping: bool,
}
