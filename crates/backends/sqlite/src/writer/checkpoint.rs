//! When the write-ahead log is merged into the file: after those who wait were answered, not within their commit.

use crate::file::BusyLimit;
use rusqlite::Connection;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

/// After how many pages of log it is merged (4 MB).
const PAGES: i32 = 1_000;
/// How long deleted values may wait for readers of the log before it is left to the next merge, in milliseconds.
const SCRUB_WAIT_MS: u64 = 500;

pub(super) struct Checkpoints {
    /// Length of the log after the last commit, as SQLite told.
    pages: Arc<AtomicI32>,
    /// The length at the last look.
    seen: i32,
    /// The length at which to merge next.
    due: i32,
}

impl Checkpoints {
    /// Takes over from SQLite's own automatic merging on this connection.
    pub(super) fn watch(conn: &mut Connection) -> rusqlite::Result<Self> {
        let pages = Arc::new(AtomicI32::new(0));
        let log = pages.clone();
        conn.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, length| {
            log.store(length, Ordering::Relaxed);
            Ok(())
        }))?;
        Ok(Self { pages, seen: 0, due: PAGES })
    }

    /// Merges the log if it is due.
    pub(super) fn run(&mut self, conn: &Connection) {
        let pages = self.pages.load(Ordering::Relaxed);
        if pages < self.seen {
            // It has started over.
            self.due = PAGES;
        }
        self.seen = pages;
        if pages < self.due {
            return;
        }
        // While readers hold it, a log cannot start over: trying again at every commit would only cost.
        self.due = pages.saturating_add(PAGES);
        if let Err(e) = conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())) {
            tracing::warn!(error = %e, "the write-ahead log could not be merged into the store; it grows meanwhile");
        }
    }

    /// Merges and empties the log, so that deleted values do not stay in it.
    pub(super) fn scrub(conn: &Connection, busy: &BusyLimit) {
        let before = busy.swap(SCRUB_WAIT_MS, Ordering::Relaxed);
        let busy_readers = conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, bool>(0));
        // A store that is being closed has set a shorter limit meanwhile: that one stays.
        let _ = busy.compare_exchange(SCRUB_WAIT_MS, before, Ordering::Relaxed, Ordering::Relaxed);
        match busy_readers {
            Ok(false) => {}
            Ok(true) => tracing::warn!("deleted values stay in the write-ahead log until its readers are done"),
            Err(e) => tracing::warn!(error = %e, "deleted values stay in the write-ahead log until it is merged"),
        }
    }
}
