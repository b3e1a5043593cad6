//! A store that forgets everything with the process: what a job costs without a disk.
//!
//! Invariant: what it cannot do it refuses; it never answers as if it had done it.

use async_trait::async_trait;
use hookwright_runtime::ports::store::{
    ApprovalRow, Batch, DecideOutcome, Decision, InboxItem, JobRow, JobStatus, Lease, NewJob, Store, StoreCounters,
    StoreError,
};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

struct Kept {
    job: NewJob,
    status: JobStatus,
    records: Vec<String>,
}

/// The store.
pub(crate) struct MemoryStore {
    jobs: Mutex<HashMap<String, Kept>>,
    blobs: Mutex<HashMap<String, String>>,
    batches: AtomicU64,
    inbox: watch::Sender<u64>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn refused(what: &str) -> StoreError {
    StoreError::Failed(format!("the bench's store in memory takes no {what}"))
}

fn missing(job: &str) -> StoreError {
    StoreError::NotFound { kind: "job", id: job.to_owned() }
}

impl MemoryStore {
    pub(crate) fn new() -> Self {
        Self {
            jobs: Mutex::default(),
            blobs: Mutex::default(),
            batches: AtomicU64::new(0),
            inbox: watch::Sender::new(0),
        }
    }

    /// Forgets all jobs, so that a long run measures no growing map.
    pub(crate) fn clear(&self) {
        lock(&self.jobs).clear();
        lock(&self.blobs).clear();
    }

    fn keep(&self, job: &str, batch: Batch) -> Result<(), StoreError> {
        if !batch.opened.is_empty() {
            return Err(refused("approvals"));
        }
        self.batches.fetch_add(1, Ordering::Relaxed);
        if !batch.blobs.is_empty() {
            lock(&self.blobs).extend(batch.blobs.into_iter().map(|blob| (blob.sha256, blob.text)));
        }
        let mut jobs = lock(&self.jobs);
        let kept = jobs.get_mut(job).ok_or_else(|| missing(job))?;
        kept.records.extend(batch.records.into_iter().map(|record| record.text));
        kept.status = batch.status.unwrap_or(kept.status);
        Ok(())
    }

    fn row(kept: &Kept) -> JobRow {
        JobRow {
            job: kept.job.clone(),
            status: kept.status,
            updated_ms: kept.job.created_ms,
            records: kept.records.len() as u64,
            running: !kept.status.is_final(),
        }
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn create_job(&self, job: NewJob, batch: Batch) -> Result<Lease, StoreError> {
        let id = job.id.clone();
        lock(&self.jobs).insert(id.clone(), Kept { job, status: JobStatus::Running, records: vec![] });
        self.keep(&id, batch)?;
        Ok(Lease { job: id, epoch: 1 })
    }

    async fn take_lease(&self, _: &str) -> Result<Lease, StoreError> {
        Err(refused("second lease"))
    }

    async fn release(&self, _: &Lease) -> Result<(), StoreError> {
        Ok(())
    }

    async fn append(&self, lease: &Lease, batch: Batch) -> Result<(), StoreError> {
        self.keep(&lease.job, batch)
    }

    async fn records(&self, job: &str, from_seq: u64) -> Result<Vec<String>, StoreError> {
        let jobs = lock(&self.jobs);
        let kept = jobs.get(job).ok_or_else(|| missing(job))?;
        Ok(kept.records.iter().skip(usize::try_from(from_seq).unwrap_or(usize::MAX)).cloned().collect())
    }

    async fn blob(&self, sha256: &str) -> Result<Option<String>, StoreError> {
        Ok(lock(&self.blobs).get(sha256).cloned())
    }

    async fn jobs(&self, unfinished_only: bool, limit: u32) -> Result<Vec<JobRow>, StoreError> {
        let jobs = lock(&self.jobs);
        let rows = jobs.values().filter(|kept| !unfinished_only || !kept.status.is_final()).map(Self::row);
        Ok(rows.take(limit as usize).collect())
    }

    async fn job(&self, id: &str) -> Result<JobRow, StoreError> {
        lock(&self.jobs).get(id).map(Self::row).ok_or_else(|| missing(id))
    }

    async fn approvals(&self, _: bool) -> Result<Vec<ApprovalRow>, StoreError> {
        Ok(vec![])
    }

    async fn approval(&self, id: &str) -> Result<ApprovalRow, StoreError> {
        Err(StoreError::NotFound { kind: "approval", id: id.to_owned() })
    }

    async fn decide(&self, _: &str, _: Decision) -> Result<DecideOutcome, StoreError> {
        Err(refused("decisions"))
    }

    async fn request_cancel(&self, _: &str, _: &str, _: u64) -> Result<(), StoreError> {
        Err(refused("cancels"))
    }

    async fn inbox(&self, _: &str) -> Result<Vec<InboxItem>, StoreError> {
        Ok(vec![])
    }

    fn inbox_changes(&self) -> watch::Receiver<u64> {
        self.inbox.subscribe()
    }

    fn counters(&self) -> StoreCounters {
        StoreCounters { batches: self.batches.load(Ordering::Relaxed), commits: 0 }
    }
}
