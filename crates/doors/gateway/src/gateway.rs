//! What all sessions share.

use crate::wiring::Wiring;
use std::sync::Arc;
use std::time::Duration;

/// How the gateway behaves.
#[derive(Debug, Clone)]
pub struct Options {
    /// How long a call waits for a person before its client is told which approval is open.
    pub wait: Duration,
    /// Whether functions are listed by their bare names where those are unique.
    pub bare_names: bool,
    /// Who may decide an approval.
    pub deciders: Deciders,
    /// Bytes of a message from a client.
    pub message_bytes: usize,
    /// The version that clients are told.
    pub version: String,
    /// The first id of what clients are asked. A session that goes on in the place of an earlier one has other ids than that.
    pub ids_from: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            wait: Duration::from_secs(50),
            bare_names: false,
            deciders: Deciders::Client,
            message_bytes: 16 * 1024 * 1024,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ids_from: 1,
        }
    }
}

/// Who may decide an approval that a client's call waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deciders {
    /// The person at the client too, where it can show the question.
    Client,
    /// Only people elsewhere: the client may show that one is awaited.
    Elsewhere,
}

/// The gateway.
pub(crate) struct Gateway {
    pub(crate) wiring: Arc<dyn Wiring>,
    pub(crate) options: Options,
}

impl Gateway {
    pub(crate) fn new(wiring: Arc<dyn Wiring>, options: Options) -> Arc<Self> {
        Arc::new(Self { wiring, options })
    }
}
