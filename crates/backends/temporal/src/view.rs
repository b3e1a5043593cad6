//! The store of jobs as the cluster has it: lists by search attributes, histories from workflows, decisions as updates. Whatever works on a
//! store from a command line or a door works on this too, from any node.
//!
//! Invariant: it writes nothing of a history: jobs are written by their home nodes alone.

use crate::cluster::{Cluster, ClusterError, chain, ms, row_of, told};
use crate::past::{self, Past};
use crate::rows;
use crate::wire::Answer;
use crate::workflow::{HookwrightJob, RECORDS, STATUS, WAITING};
use futures_util::StreamExt as _;
use hookwright_core::text;
use hookwright_runtime::ports::store::{
    ApprovalRow, ApprovalState, Batch, DecideOutcome, Decision, InboxItem, JobRow, JobStatus, Lease, NewJob, Store,
    StoreCounters, StoreError,
};
use std::sync::Arc;
use temporalio_client::{WorkflowDescribeOptions, WorkflowExecutionStatus, WorkflowListOptions};
use temporalio_common::search_attributes::SearchAttributes;
use tokio::sync::watch;

/// The cluster as a store.
pub struct ClusterStore {
    cluster: Cluster,
    /// Where large values are looked for: this node's journal, if it is the job's home.
    local: Option<Arc<dyn Store>>,
    changes: watch::Sender<u64>,
}

const JOBS: &str = "WorkflowType = 'HookwrightJob' AND ExecutionStatus != 'ContinuedAsNew'";

impl ClusterStore {
    /// Of a cluster.
    pub fn new(cluster: Cluster, local: Option<Arc<dyn Store>>) -> Self {
        Self { cluster, local, changes: watch::Sender::new(0) }
    }

    /// The connection.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    async fn list(&self, query: String, limit: usize) -> Result<Vec<JobRow>, StoreError> {
        let options = WorkflowListOptions::builder().limit(limit).build();
        let mut found = self.cluster.client().list_workflows(query, options);
        let mut rows = vec![];
        while let Some(one) = found.next().await {
            let one = match one {
                Ok(one) => one,
                // No node made the attribute yet, or the server is about to know it: nothing has it.
                Err(error) if chain(&error).contains("invalid search attribute") => break,
                Err(error) => return Err(failed(&chain(&error))),
            };
            if let Some(job) = row_of(&one.memo()) {
                let updated_ms = ms(one.close_time()).max(ms(one.start_time()));
                rows.push(job_row(job, one.status(), &one.search_attributes(), updated_ms));
            }
        }
        rows.sort_by_key(|row| std::cmp::Reverse(row.job.created_ms));
        Ok(rows)
    }

    async fn past(&self, job: &str) -> Result<Past, StoreError> {
        past::of(self.cluster.client(), job).await.map_err(|why| failed(&why))
    }

    async fn approvals_of(&self, jobs: Vec<JobRow>) -> Result<Vec<ApprovalRow>, StoreError> {
        let mut all = vec![];
        for row in jobs {
            all.extend(rows::approvals(&self.past(&row.job.id).await?));
        }
        Ok(all)
    }
}

fn failed(why: &str) -> StoreError {
    StoreError::Failed(why.to_owned())
}

fn not_here() -> StoreError {
    failed("jobs on a Temporal cluster are written by their home nodes")
}

fn job_row(job: NewJob, ended: WorkflowExecutionStatus, attributes: &SearchAttributes, updated_ms: u64) -> JobRow {
    let status = match attributes.get(&STATUS).as_deref() {
        Some("completed") => JobStatus::Completed,
        Some("failed") => JobStatus::Failed,
        Some("cancelled") => JobStatus::Cancelled,
        Some("waiting") => JobStatus::Waiting,
        _ => JobStatus::Running,
    };
    let is_running = ended == WorkflowExecutionStatus::Running;
    // Ended from outside: terminated, for one.
    let status = if !is_running && !status.is_final() { JobStatus::Failed } else { status };
    let records = attributes.get(&RECORDS).and_then(|records| u64::try_from(records).ok()).unwrap_or(0);
    JobRow { job, status, updated_ms, records, running: is_running }
}

/// A word for a query: ids hold nothing that needs more.
fn quoted(id: &str) -> Option<String> {
    id.chars().all(|c| c.is_ascii_alphanumeric() || "_-.:".contains(c)).then(|| format!("'{id}'"))
}

#[async_trait::async_trait]
impl Store for ClusterStore {
    async fn create_job(&self, _: NewJob, _: Batch) -> Result<Lease, StoreError> {
        Err(not_here())
    }

    async fn take_lease(&self, _: &str) -> Result<Lease, StoreError> {
        Err(not_here())
    }

    async fn release(&self, _: &Lease) -> Result<(), StoreError> {
        Err(not_here())
    }

    async fn append(&self, _: &Lease, _: Batch) -> Result<(), StoreError> {
        Err(not_here())
    }

    async fn records(&self, job: &str, from_seq: u64) -> Result<Vec<String>, StoreError> {
        let past = self.past(job).await?;
        Ok(past.records.into_iter().skip(usize::try_from(from_seq).unwrap_or(usize::MAX)).collect())
    }

    async fn blob(&self, sha256: &str) -> Result<Option<String>, StoreError> {
        match &self.local {
            Some(local) => local.blob(sha256).await,
            None => Ok(None),
        }
    }

    async fn jobs(&self, unfinished_only: bool, limit: u32) -> Result<Vec<JobRow>, StoreError> {
        let running = if unfinished_only { " AND ExecutionStatus = 'Running'" } else { "" };
        self.list(format!("{JOBS}{running}"), limit as usize).await
    }

    async fn job(&self, id_or_prefix: &str) -> Result<JobRow, StoreError> {
        let handle = self.cluster.client().get_workflow_handle::<HookwrightJob>(id_or_prefix);
        match handle.describe(WorkflowDescribeOptions::default()).await {
            Ok(found) => {
                if let Some(job) = row_of(&found.memo()) {
                    let updated_ms = ms(found.close_time()).max(ms(found.start_time()));
                    return Ok(job_row(job, found.status(), &found.search_attributes(), updated_ms));
                }
            }
            Err(error) => match told(id_or_prefix, error) {
                ClusterError::NotFound(_) => {}
                error => return Err(failed(&error.to_string())),
            },
        }
        let kind = "job";
        let id = text::shown(id_or_prefix, 200);
        let Some(word) = quoted(id_or_prefix) else { return Err(StoreError::NotFound { kind, id }) };
        let mut found = self.list(format!("{JOBS} AND WorkflowId STARTS_WITH {word}"), 2).await?;
        match found.len() {
            0 => Err(StoreError::NotFound { kind, id }),
            1 => Ok(found.remove(0)),
            _ => Err(StoreError::Ambiguous { kind, id }),
        }
    }

    async fn approvals(&self, open_only: bool) -> Result<Vec<ApprovalRow>, StoreError> {
        let which = if open_only {
            format!("{JOBS} AND ExecutionStatus = 'Running' AND {} IS NOT NULL", WAITING.name())
        } else {
            JOBS.to_owned()
        };
        let mut rows = self.approvals_of(self.list(which, 1_000).await?).await?;
        if open_only {
            rows.retain(|row| row.state == ApprovalState::Open);
        }
        Ok(rows)
    }

    async fn approval(&self, id_or_prefix: &str) -> Result<ApprovalRow, StoreError> {
        let (kind, id) = ("approval", text::shown(id_or_prefix, 200));
        if let Some(word) = quoted(id_or_prefix) {
            let rows = self.list(format!("{JOBS} AND {} = {word}", WAITING.name()), 2).await?;
            if let Some(row) = self.approvals_of(rows).await?.into_iter().find(|row| row.id == id_or_prefix) {
                return Ok(row);
            }
        }
        let all = self.approvals(false).await?;
        let mut fit = all.into_iter().filter(|row| row.id.starts_with(id_or_prefix));
        match (fit.next(), fit.next()) {
            (None, _) => Err(StoreError::NotFound { kind, id }),
            (Some(row), None) => Ok(row),
            (Some(_), Some(_)) => Err(StoreError::Ambiguous { kind, id }),
        }
    }

    async fn decide(&self, id: &str, decision: Decision) -> Result<DecideOutcome, StoreError> {
        let row = self.approval(id).await?;
        // The workflow that keeps an approval of a job below is that of the first job above it.
        let first = row.approval["parent_jobs"][0].as_str().unwrap_or(&row.job).to_owned();
        let answer = self.cluster.decide(&first, id, decision).await.map_err(|e| failed(&e.to_string()))?;
        Ok(match answer {
            Answer::Counted | Answer::Noted => DecideOutcome::Counted,
            Answer::Expired => DecideOutcome::Expired,
            Answer::Digest | Answer::NotAllowed => DecideOutcome::DigestMismatch,
            Answer::Already { decision: None } | Answer::Unknown => {
                let row = self.approval(id).await?;
                DecideOutcome::AlreadyDecided(Box::new(row))
            }
            Answer::Already { decision: Some(first) } => {
                let state = if first.approve { ApprovalState::Approved } else { ApprovalState::Denied };
                DecideOutcome::AlreadyDecided(Box::new(ApprovalRow { state, decision: Some(first), ..row }))
            }
        })
    }

    async fn request_cancel(&self, job: &str, by: &str, _: u64) -> Result<(), StoreError> {
        self.cluster.cancel(job, by).await.map_err(|e| match e {
            ClusterError::NotFound(id) => StoreError::NotFound { kind: "job", id },
            error => failed(&error.to_string()),
        })
    }

    async fn inbox(&self, _: &str) -> Result<Vec<InboxItem>, StoreError> {
        Ok(vec![])
    }

    fn inbox_changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn counters(&self) -> StoreCounters {
        StoreCounters::default()
    }
}
