//! Tells runners that something was put into an inbox, by this or another process.
//!
//! Invariant: whoever subscribes and then reads an inbox misses nothing that is written after the reading.
//! Invariant: nothing is polled while nobody is subscribed; an item is told once, whoever sees it first.

use crate::error::Site;
use crate::file::{Access, BusyLimit, connect};
use rusqlite::Connection;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::watch;

/// How often another process's writes are looked for.
const PERIOD: Duration = Duration::from_millis(25);
/// How long after an error.
const AFTER_ERROR: Duration = Duration::from_secs(1);

pub(crate) struct InboxWatch {
    changes: watch::Sender<u64>,
    /// The largest number of an item that was told of. Numbers only grow (see the schema).
    told: AtomicI64,
    stop: Mutex<bool>,
    wake: Condvar,
}

/// The thread that looks for other processes' writes; started with the first subscriber. Dropping it ends the thread.
#[derive(Default)]
pub(crate) struct Poller(Mutex<Option<(Arc<InboxWatch>, JoinHandle<()>)>>);

impl InboxWatch {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            changes: watch::Sender::new(0),
            // Less than any: the first look tells, because nobody knows what happened before it.
            told: AtomicI64::new(-1),
            stop: Mutex::new(false),
            wake: Condvar::new(),
        })
    }

    /// The item with this number is in the file.
    pub(crate) fn saw(&self, id: i64) {
        if self.told.fetch_max(id, Ordering::Relaxed) < id {
            self.tell();
        }
    }

    fn tell(&self) {
        self.changes.send_modify(|n| *n = n.wrapping_add(1));
    }

    /// Waits for the next look: for [`PERIOD`], and for as long as nobody is subscribed. False: no more looks.
    fn wait(&self, at_least: Duration) -> bool {
        let mut stop = self.stop.lock().unwrap_or_else(PoisonError::into_inner);
        let (guard, _) =
            self.wake.wait_timeout_while(stop, at_least, |stop| !*stop).unwrap_or_else(PoisonError::into_inner);
        stop = guard;
        while !*stop && self.changes.receiver_count() == 0 {
            stop = self.wake.wait(stop).unwrap_or_else(PoisonError::into_inner);
        }
        !*stop
    }

    fn poll(&self, site: &Site, busy: &BusyLimit) {
        let mut conn = None;
        let mut version = None;
        let mut pause = Duration::ZERO;
        while self.wait(pause) {
            match self.look(&mut conn, &mut version, site, busy) {
                Ok(()) => pause = PERIOD,
                Err(e) => {
                    tracing::warn!(error = %e, "the store cannot be watched for other processes' writes; trying again");
                    (conn, version, pause) = (None, None, AFTER_ERROR);
                    // Runners look by themselves then, and see what is wrong.
                    self.tell();
                }
            }
        }
    }

    fn look(
        &self,
        conn: &mut Option<Connection>,
        version: &mut Option<i64>,
        site: &Site,
        busy: &BusyLimit,
    ) -> rusqlite::Result<()> {
        let conn = match conn {
            Some(conn) => conn,
            None => conn.insert(connect(site, Access::Read, busy)?),
        };
        // Answered from shared memory; the table is read only when something was written to the file.
        let now = conn.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get::<_, i64>(0))?;
        if version.replace(now) != Some(now) {
            let largest = conn
                .prepare_cached("SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'inbox'), 0)")?
                .query_row([], |row| row.get(0))?;
            self.saw(largest);
        }
        Ok(())
    }
}

impl Poller {
    /// Subscribes, and sees to it that there is something to be heard.
    pub(crate) fn subscribe(
        &self,
        inbox: &Arc<InboxWatch>,
        site: &Arc<Site>,
        busy: &BusyLimit,
    ) -> watch::Receiver<u64> {
        let receiver = inbox.changes.subscribe();
        let mut thread = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            let (watch, site, busy) = (inbox.clone(), site.clone(), busy.clone());
            match std::thread::Builder::new()
                .name("hookwright-inbox".to_owned())
                .spawn(move || watch.poll(&site, &busy))
            {
                Ok(handle) => *thread = Some((inbox.clone(), handle)),
                Err(e) => {
                    tracing::error!(error = %e, "other processes' decisions are not noticed: no thread can be started");
                }
            }
        }
        // Under the lock that the thread holds between its check and its sleep, so that it cannot miss this.
        let _between = inbox.stop.lock().unwrap_or_else(PoisonError::into_inner);
        inbox.wake.notify_all();
        receiver
    }
}

impl Drop for Poller {
    fn drop(&mut self) {
        let thread = self.0.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let Some((inbox, thread)) = thread else { return };
        *inbox.stop.lock().unwrap_or_else(PoisonError::into_inner) = true;
        inbox.wake.notify_all();
        if thread.join().is_err() {
            tracing::error!("the store's inbox watch has panicked");
        }
    }
}
