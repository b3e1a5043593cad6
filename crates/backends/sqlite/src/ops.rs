//! What the writer does within its transactions.
//!
//! Invariant: an operation that returns an error is rolled back as a whole by the writer; one that returns `Ok` waits for the commit.
//! Invariant: an operation may run again from its start (after a rollback of the group it stood in): it changes nothing but the file.

pub(crate) mod append;
pub(crate) mod approval;
pub(crate) mod forget;
pub(crate) mod lease;
pub(crate) mod places;
pub(crate) mod session;

use crate::error::{OpError, Site};
use crate::identity::Holder;
use rusqlite::Connection;

/// What an operation works with: the open transaction, who and when it is.
pub(crate) struct Tx<'t> {
    pub(crate) conn: &'t Connection,
    pub(crate) site: &'t Site,
    pub(crate) me: &'t Holder,
    pub(crate) now_ms: u64,
    /// How long the transaction waited for the file's lock: so long nobody else could write either.
    pub(crate) waited_ms: u64,
}

impl Tx<'_> {
    /// A write that must have changed exactly one row did: one that SQLite passes over in silence is no success.
    pub(crate) fn wrote_one(&self, changed: usize, what: &str) -> Result<(), OpError> {
        if changed == 1 {
            return Ok(());
        }
        let what = format!("{what} was written to {changed} rows instead of one, so nothing of this step was stored");
        Err(self
            .site
            .failed("write to", &what, "check the file with `hookwright audit verify`, or restore a backup")
            .into())
    }
}

/// What an operation did, for the writer.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Effect {
    /// The file has changed; a transaction without changes needs no commit.
    pub(crate) wrote: bool,
    /// A batch was written.
    pub(crate) batch: bool,
    /// A lease was taken: heartbeats are due from now on.
    pub(crate) took_lease: bool,
    /// Number of an item that was put into an inbox.
    pub(crate) inbox: Option<i64>,
    /// Values were deleted: the write-ahead log must not keep them.
    pub(crate) scrub: bool,
}

impl Effect {
    /// It changed the file.
    pub(crate) const WROTE: Self = Self { wrote: true, batch: false, took_lease: false, inbox: None, scrub: false };
    /// It changed nothing.
    pub(crate) const NOTHING: Self = Self { wrote: false, ..Self::WROTE };

    /// Both together.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            wrote: self.wrote | other.wrote,
            batch: self.batch | other.batch,
            took_lease: self.took_lease | other.took_lease,
            inbox: self.inbox.max(other.inbox),
            scrub: self.scrub | other.scrub,
        }
    }
}
