//! The thread that writes: it takes everything that waits, and commits it together.
//!
//! Invariant: one commit is one fsync of the write-ahead log, and nobody is answered `Ok` before it.
//! Invariant: each task runs in a savepoint of its own; one that fails is rolled back alone.
//! Invariant: where SQLite rolls the whole group back (a full disk), each task is tried again by itself, so that a large one
//! does not fail the small ones; no task is ever committed twice.
//! Invariant: nothing counts as stored in a file that no longer stands under the store's path.

use crate::error::{OpError, Site, is_full};
use crate::file::BusyLimit;
use crate::identity::Holder;
use crate::inbox::InboxWatch;
use crate::ops::{Effect, Tx, lease};
use crate::options::{Probe, ProbePoint};
use hookwright_runtime::ports::clock::Clock;
use hookwright_runtime::ports::store::{Lease, StoreCounters, StoreError};
use rusqlite::Connection;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Instant;
use tokio::sync::Semaphore;

mod checkpoint;
mod heart;
mod task;

use checkpoint::Checkpoints;
use heart::{Heart, Pulse};
use task::{Job, Task};

/// Tasks that may wait at once; further callers wait for a place.
const WAITING: usize = 1_024;
/// Tasks that are committed together at most: a bound on how long the first of them waits.
const GROUP: usize = 256;
/// How long the writer waits for another process when it ends, in milliseconds.
const LAST_WORDS_MS: u64 = 250;

/// The handle to the thread. Dropping it writes what waits, gives all leases back and joins the thread.
pub(crate) struct Writer {
    queue: Option<Sender<Box<dyn Job>>>,
    places: Arc<Semaphore>,
    thread: Option<JoinHandle<()>>,
    heart: Option<Heart>,
    counters: Arc<Counters>,
    busy: BusyLimit,
    site: Arc<Site>,
}

#[derive(Debug, Default)]
struct Counters {
    batches: AtomicU64,
    commits: AtomicU64,
}

/// What the thread is made of.
pub(crate) struct Parts {
    pub(crate) conn: Connection,
    pub(crate) site: Arc<Site>,
    pub(crate) me: Arc<Holder>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) busy: BusyLimit,
    pub(crate) inbox: Arc<InboxWatch>,
    pub(crate) probe: Option<Probe>,
}

impl Writer {
    pub(crate) fn start(mut parts: Parts) -> Result<Self, StoreError> {
        let (queue, tasks) = channel();
        let counters = Arc::new(Counters::default());
        let (busy, site) = (parts.busy.clone(), parts.site.clone());
        let checkpoints = Checkpoints::watch(&mut parts.conn).map_err(|e| site.explain("open", &e))?;
        let heart = Heart::start(&site, parts.me.clone(), parts.clock.clone())?;
        let file = file_id(&site.path);
        let mut thread = Thread { parts, pulse: heart.pulse(), checkpoints, counters: counters.clone(), file };
        let thread = std::thread::Builder::new()
            .name("hookwright-store".to_owned())
            .spawn(move || thread.run(&tasks))
            .map_err(|e| {
                site.failed("open", &format!("no thread can be started ({e})"), "end other processes, then try again")
            })?;
        Ok(Self {
            queue: Some(queue),
            places: Arc::new(Semaphore::new(WAITING)),
            thread: Some(thread),
            heart: Some(heart),
            counters,
            busy,
            site,
        })
    }

    /// Runs an operation in a transaction that others share; durable on `Ok`. Dropping the future does not take it back.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        run: impl FnMut(&Tx<'_>) -> Result<(T, Effect), OpError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.submit(run, |_| None).await
    }

    /// As [`Writer::write`], for an operation that takes a lease: where nobody waits for the answer any more, it is given back.
    pub(crate) async fn write_lease(
        &self,
        run: impl FnMut(&Tx<'_>) -> Result<(Lease, Effect), OpError> + Send + 'static,
    ) -> Result<Lease, StoreError> {
        self.submit(run, Some).await
    }

    async fn submit<T: Send + 'static>(
        &self,
        run: impl FnMut(&Tx<'_>) -> Result<(T, Effect), OpError> + Send + 'static,
        orphan: fn(T) -> Option<Lease>,
    ) -> Result<T, StoreError> {
        let stopped =
            || self.site.failed("write to", "its writer has stopped", "restart the process; see its log for the cause");
        let place = self.places.clone().acquire_owned().await.map_err(|_| stopped())?;
        let (answer, answered) = tokio::sync::oneshot::channel();
        let task = Box::new(Task { run, value: None, answer, orphan, _place: place });
        self.queue.as_ref().and_then(|q| q.send(task).ok()).ok_or_else(stopped)?;
        answered.await.map_err(|_| stopped())?
    }

    pub(crate) fn counters(&self) -> StoreCounters {
        StoreCounters {
            batches: self.counters.batches.load(Ordering::Relaxed),
            commits: self.counters.commits.load(Ordering::Relaxed),
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.busy.store(LAST_WORDS_MS, Ordering::Relaxed);
        // Its connection first: who closes the file last merges its log.
        drop(self.heart.take());
        drop(self.queue.take());
        if self.thread.take().is_some_and(|t| t.join().is_err()) {
            tracing::error!("the store's writer has panicked");
        }
    }
}

struct Thread {
    parts: Parts,
    pulse: Arc<Pulse>,
    checkpoints: Checkpoints,
    counters: Arc<Counters>,
    /// Which file was opened.
    file: Option<FileId>,
}

/// What tells a file from another one under the same path: device and inode.
type FileId = (u64, u64);

fn file_id(path: &Path) -> Option<FileId> {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata(path).ok().map(|m| (m.dev(), m.ino()))
}

/// Why a group as a whole was not committed.
struct GroupFailed(rusqlite::Error);

impl Thread {
    fn run(&mut self, tasks: &Receiver<Box<dyn Job>>) {
        while let Ok(first) = tasks.recv() {
            let mut group = vec![first];
            while group.len() < GROUP
                && let Ok(task) = tasks.try_recv()
            {
                group.push(task);
            }
            self.write(group);
            self.checkpoints.run(&self.parts.conn);
        }
        if self.pulse.holds()
            && let Err(e) = lease::release_all(&self.parts.conn, &self.parts.me.key)
        {
            tracing::warn!(error = %e, "leases could not be given back; they end when this process does");
        }
    }

    /// Commits a group and answers all who wait for it.
    fn write(&mut self, mut group: Vec<Box<dyn Job>>) {
        if file_id(&self.parts.site.path) != self.file {
            // What is written now nobody would ever find: it must not count as stored.
            let what = "the file was deleted, moved or replaced while it was in use";
            let next = "put it back (with -wal and -shm, if they were moved too), then resume the job";
            let failed = self.parts.site.failed("write to", what, next);
            for task in group {
                task.answer(Err(failed.clone()));
            }
            return;
        }
        let mut orphans = Vec::new();
        match self.commit(&mut group) {
            Ok(results) => {
                for (task, result) in group.into_iter().zip(results) {
                    orphans.extend(task.answer(result));
                }
            }
            Err(GroupFailed(e)) if group.len() > 1 && is_full(&e) => {
                for task in group {
                    self.write(vec![task]);
                }
            }
            Err(GroupFailed(e)) => {
                let failed = self.parts.site.explain("write to", &e);
                tracing::warn!(error = %failed, "a transaction was not committed");
                for task in group {
                    task.answer(Err(failed.clone()));
                }
            }
        }
        if !orphans.is_empty() {
            self.write(orphans.into_iter().map(task::release).collect());
        }
    }

    /// One transaction. `Err`: nothing of it is in the file.
    fn commit(&mut self, group: &mut [Box<dyn Job>]) -> Result<Vec<Result<(), StoreError>>, GroupFailed> {
        let Parts { conn, site, me, clock, inbox, probe, .. } = &self.parts;
        let sql = |sql: &str| conn.prepare_cached(sql).and_then(|mut s| s.execute([])).map(drop).map_err(GroupFailed);
        let since = Instant::now();
        sql("BEGIN IMMEDIATE")?;
        let waited_ms = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
        let open = Rollback(conn);
        let tx = Tx { conn, site, me, now_ms: clock.now_ms(), waited_ms };
        let (mut results, mut effect, mut batches) = (Vec::with_capacity(group.len()), Effect::NOTHING, 0);
        for task in group {
            sql("SAVEPOINT task")?;
            match task.run(&tx) {
                Ok(done) => {
                    sql("RELEASE task")?;
                    effect = effect.and(done);
                    batches += u64::from(done.batch);
                    results.push(Ok(()));
                }
                // SQLite itself has rolled everything back, also what the tasks before this one did.
                Err(OpError::Sql(e)) if conn.is_autocommit() => return Err(GroupFailed(e)),
                Err(e) => {
                    sql("ROLLBACK TO task")?;
                    sql("RELEASE task")?;
                    results.push(Err(site.explain_op("write to", e)));
                }
            }
        }
        if !effect.wrote {
            return Ok(results);
        }
        let n = self.counters.commits.load(Ordering::Relaxed);
        if let Some(probe) = probe {
            probe(ProbePoint::BeforeCommit { n });
        }
        sql("COMMIT")?;
        open.committed();
        self.counters.commits.store(n + 1, Ordering::Relaxed);
        self.counters.batches.fetch_add(batches, Ordering::Relaxed);
        if let Some(probe) = probe {
            probe(ProbePoint::AfterCommit { n });
        }
        if let Some(id) = effect.inbox {
            inbox.saw(id);
        }
        if effect.took_lease {
            self.pulse.took_lease();
        }
        if effect.scrub {
            Checkpoints::scrub(conn, &self.parts.busy);
        }
        Ok(results)
    }
}

/// Rolls a transaction back unless it was committed.
struct Rollback<'c>(&'c Connection);

impl Rollback<'_> {
    fn committed(self) {
        std::mem::forget(self);
    }
}

impl Drop for Rollback<'_> {
    fn drop(&mut self) {
        if !self.0.is_autocommit()
            && let Err(e) = self.0.execute_batch("ROLLBACK")
        {
            tracing::error!(error = %e, "a transaction could not be rolled back");
        }
    }
}
