//! What the tests share: a folder with a store, a clock that is set by hand, jobs and batches.

use hookwright_core::stored::Blob;
use hookwright_runtime::ports::clock::{Clock, SystemClock};
use hookwright_runtime::ports::store::*;
use hookwright_sqlite::{OpenOptions, SqliteStore};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub(crate) const NOW: u64 = 1_800_000_000_000;

pub(crate) struct Folder {
    pub(crate) dir: tempfile::TempDir,
}

impl Folder {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }
    pub(crate) fn db(&self) -> PathBuf {
        self.dir.path().join("hookwright.db")
    }
    pub(crate) fn open(&self) -> Arc<SqliteStore> {
        SqliteStore::open(self.db(), options()).unwrap()
    }
}

/// A clock that is set by hand.
#[derive(Debug)]
pub(crate) struct SetClock(pub(crate) AtomicU64);

impl SetClock {
    pub(crate) fn new(ms: u64) -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(ms)))
    }
}

#[async_trait::async_trait]
impl Clock for SetClock {
    fn now_ms(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

pub(crate) fn options() -> OpenOptions {
    OpenOptions::new("test", Arc::new(SystemClock))
}

pub(crate) fn options_at(ms: u64) -> OpenOptions {
    OpenOptions::new("test", SetClock::new(ms))
}

pub(crate) fn job(id: &str) -> NewJob {
    NewJob {
        id: id.into(),
        tenant: "default".into(),
        agent: "coder".into(),
        session: "s1".into(),
        parent: None,
        created_ms: NOW,
        origin: serde_json::json!({"folder": "/tmp"}),
    }
}

pub(crate) fn record(seq: u64) -> RecordText {
    RecordText { seq, text: format!(r#"{{"seq":{seq}}}"#) }
}

/// A batch of `count` records from `first` on.
pub(crate) fn batch(first: u64, count: u64) -> Batch {
    Batch { records: (first..first + count).map(record).collect(), ..Batch::default() }
}

pub(crate) fn texts(first: u64, count: u64) -> Vec<String> {
    (first..first + count).map(|seq| record(seq).text).collect()
}

pub(crate) fn ending(seq: u64, status: JobStatus) -> Batch {
    Batch { status: Some(status), ..batch(seq, 1) }
}

pub(crate) fn blob(text: &str) -> Blob {
    Blob { sha256: hookwright_core::json::sha256_hex(text.as_bytes()), text: text.into() }
}

pub(crate) fn approval(job: &str, id: &str) -> ApprovalRow {
    ApprovalRow {
        id: id.into(),
        job: job.into(),
        tenant: "default".into(),
        state: ApprovalState::Open,
        opened_ms: NOW,
        expires_ms: NOW + 1_000,
        approval: serde_json::json!({"id": id, "digest": "d1"}),
        decision: None,
    }
}

pub(crate) fn decision(by: &str, approve: bool) -> Decision {
    Decision { approve, by: by.into(), verified: false, note: Some("fine".into()), digest: "d1".into(), at_ms: NOW + 1 }
}

/// Runs a test's future with several threads, as the runtime does.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap().block_on(future)
}

/// The text of an error, which must be `Failed`.
pub(crate) fn failed<T: std::fmt::Debug>(result: Result<T, StoreError>) -> String {
    match result {
        Err(StoreError::Failed(text)) => text,
        other => panic!("expected a failure, got {other:?}"),
    }
}

/// Asks SQLite itself.
pub(crate) fn ask<T: rusqlite::types::FromSql>(db: &Path, sql: &str) -> T {
    rusqlite::Connection::open(db).unwrap().query_row(sql, [], |row| row.get(0)).unwrap()
}
