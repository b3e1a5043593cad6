//! Says every few seconds that this store's leases are held.
//!
//! Invariant: it has a thread and a connection of its own, so that nothing which waits for the writer, or holds it up, delays it. Only
//! who holds the file's lock does, and then nobody can take a lease either (see [`crate::ops::lease::take`]).

use crate::error::Site;
use crate::file::{Access, BusyLimit, connect};
use crate::identity::{BEAT_MS, Holder};
use crate::ops::lease;
use hookwright_runtime::ports::clock::Clock;
use hookwright_runtime::ports::store::StoreError;
use rusqlite::Connection;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long a heartbeat waits for the file's lock, in milliseconds; then it tries anew.
const BUSY_MS: u64 = 60_000;

/// What the writer tells the heart.
#[derive(Default)]
pub(super) struct Pulse {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    /// Whether a lease may be held, so that heartbeats are due.
    holds: bool,
    /// How often leases were taken.
    takes: u64,
    stop: bool,
}

impl Pulse {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A lease was taken, and that is committed.
    pub(super) fn took_lease(&self) {
        let mut state = self.lock();
        state.takes += 1;
        state.holds = true;
        self.wake.notify_one();
    }

    /// Whether a lease may be held.
    pub(super) fn holds(&self) -> bool {
        self.lock().holds
    }

    /// Waits until a heartbeat is due; how often leases had been taken then. None: no more heartbeats.
    fn due(&self) -> Option<u64> {
        let mut state = self.lock();
        while !state.holds && !state.stop {
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let (state, _) = self
            .wake
            .wait_timeout_while(state, Duration::from_millis(BEAT_MS), |state| !state.stop)
            .unwrap_or_else(PoisonError::into_inner);
        (!state.stop).then_some(state.takes)
    }
}

/// The thread. Dropping it ends it.
pub(super) struct Heart {
    pulse: Arc<Pulse>,
    busy: BusyLimit,
    thread: Option<JoinHandle<()>>,
}

impl Heart {
    pub(super) fn start(site: &Site, me: Arc<Holder>, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        let (pulse, busy) = (Arc::new(Pulse::default()), Arc::new(AtomicU64::new(BUSY_MS)));
        // It commits without fsyncs: a lost heartbeat is no loss.
        let conn = connect(site, Access::Write, &busy)
            .and_then(|c| c.execute_batch("PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 0;").map(|()| c))
            .map_err(|e| site.explain("open", &e))?;
        let told = pulse.clone();
        let thread = std::thread::Builder::new()
            .name("hookwright-leases".to_owned())
            .spawn(move || beat(&conn, &told, &me, &*clock))
            .map_err(|e| {
                site.failed("open", &format!("no thread can be started ({e})"), "end other processes, then try again")
            })?;
        Ok(Self { pulse, busy, thread: Some(thread) })
    }

    pub(super) fn pulse(&self) -> Arc<Pulse> {
        self.pulse.clone()
    }
}

fn beat(conn: &Connection, pulse: &Pulse, me: &Holder, clock: &dyn Clock) {
    while let Some(takes) = pulse.due() {
        match lease::beat(conn, &me.key, clock.now_ms()) {
            Ok(held) => {
                let mut state = pulse.lock();
                // One that was taken meanwhile may have been too late to be counted.
                state.holds = held > 0 || state.takes != takes;
            }
            Err(e) => tracing::warn!(error = %e, "the store's leases could not be refreshed"),
        }
    }
}

impl Drop for Heart {
    fn drop(&mut self) {
        self.busy.store(0, Ordering::Relaxed);
        self.pulse.lock().stop = true;
        self.pulse.wake.notify_one();
        if self.thread.take().is_some_and(|t| t.join().is_err()) {
            tracing::error!("the thread that refreshes the store's leases has panicked");
        }
    }
}
