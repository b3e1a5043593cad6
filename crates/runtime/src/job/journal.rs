//! What a job is about to write: records in order, with what must stand beside them.

use crate::approvals;
use crate::ports::store::{ApprovalState, Batch, JobStatus, Lease, RecordText, Store, StoreError};
use hookwright_core::approval::Approval;
use hookwright_core::history::{Head, Record};
use hookwright_core::job::Fact;
use hookwright_core::stored::Blob;
use std::sync::Arc;

/// Collects a batch and commits it.
pub(crate) struct Journal {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) lease: Option<Lease>,
    pub(crate) head: Head,
    batch: Batch,
    fresh: Vec<Record>,
    status: Option<JobStatus>,
}

impl Journal {
    pub(crate) fn new(store: Arc<dyn Store>, lease: Option<Lease>, head: Head, status: Option<JobStatus>) -> Self {
        Self { store, lease, head, batch: Batch::default(), fresh: vec![], status }
    }

    /// Adds a record to the batch. Its time is what the machine is told.
    pub(crate) fn record(&mut self, now_ms: u64, fact: Fact) -> &Record {
        let (record, text) = self.head.write(now_ms, fact);
        self.head.advance(&record);
        self.batch.records.push(RecordText { seq: record.seq, text });
        let at = self.fresh.len();
        self.fresh.push(record);
        &self.fresh[at]
    }

    pub(crate) fn blobs(&mut self, blobs: Vec<Blob>) {
        self.batch.blobs.extend(blobs);
    }

    pub(crate) fn taken(&mut self, item: i64) {
        self.batch.taken.push(item);
    }

    /// Whether an item of the inbox was taken, and is still there because that is not durable yet.
    pub(crate) fn has_taken(&self, item: i64) -> bool {
        self.batch.taken.contains(&item)
    }

    pub(crate) fn opened(&mut self, approval: &Approval, opened_ms: u64) {
        self.batch.opened.push(approvals::row_of(approval, opened_ms));
    }

    /// Puts a row right that is not what the history says.
    pub(crate) fn restored(&mut self, approval: &Approval, opened_ms: u64) {
        self.batch.restored.push(approvals::row_of(approval, opened_ms));
    }

    pub(crate) fn closed(&mut self, approval: String, state: ApprovalState) {
        self.batch.closed.push((approval, state));
    }

    pub(crate) fn status(&mut self, status: JobStatus) {
        if self.status != Some(status) {
            self.status = Some(status);
            self.batch.status = Some(status);
        }
    }

    /// Takes out what is to be written, for the creation of the job.
    pub(crate) fn take(&mut self) -> (Batch, Vec<Record>) {
        (std::mem::take(&mut self.batch), std::mem::take(&mut self.fresh))
    }

    /// Whether nothing is about to be written.
    pub(crate) fn is_empty(&self) -> bool {
        let batch = &self.batch;
        batch.records.is_empty() && batch.taken.is_empty() && batch.status.is_none() && batch.restored.is_empty()
    }

    /// Makes the batch durable; returns its records.
    pub(crate) async fn commit(&mut self) -> Result<Vec<Record>, StoreError> {
        if self.is_empty() {
            return Ok(vec![]);
        }
        let (batch, fresh) = self.take();
        let Some(lease) = &self.lease else {
            return Err(StoreError::Failed("the job has no lease".into()));
        };
        self.store.append(lease, batch).await?;
        Ok(fresh)
    }
}
