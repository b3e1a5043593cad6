//! What a job is about to write: records in order, with what must stand beside them.

use crate::ports::store::{ApprovalRow, ApprovalState, Batch, JobStatus, Lease, RecordText, Store, StoreError};
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

    /// Adds a record to the batch and says when it is (the time that the machine is told).
    pub(crate) fn record(&mut self, now_ms: u64, fact: Fact) -> u64 {
        let record = self.head.next(now_ms, fact);
        self.head.advance(&record);
        let text = serde_json::to_string(&record).unwrap_or_default();
        self.batch.records.push(RecordText { seq: record.seq, text });
        let at_ms = record.at_ms;
        self.fresh.push(record);
        at_ms
    }

    pub(crate) fn blobs(&mut self, blobs: Vec<Blob>) {
        self.batch.blobs.extend(blobs);
    }

    pub(crate) fn taken(&mut self, item: i64) {
        self.batch.taken.push(item);
    }

    pub(crate) fn opened(&mut self, approval: &Approval, opened_ms: u64) {
        self.batch.opened.push(ApprovalRow {
            id: approval.id.clone(),
            job: approval.job.clone(),
            tenant: approval.tenant.clone(),
            state: ApprovalState::Open,
            opened_ms,
            expires_ms: opened_ms.saturating_add(approval.expires_after_ms),
            approval: serde_json::to_value(approval).unwrap_or_default(),
            decision: None,
        });
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

    /// Makes the batch durable; returns its records.
    pub(crate) async fn commit(&mut self) -> Result<Vec<Record>, StoreError> {
        let (batch, fresh) = self.take();
        if batch.records.is_empty() && batch.taken.is_empty() && batch.status.is_none() {
            return Ok(vec![]);
        }
        let Some(lease) = &self.lease else {
            return Err(StoreError::Failed("the job has no lease".into()));
        };
        self.store.append(lease, batch).await?;
        Ok(fresh)
    }
}
