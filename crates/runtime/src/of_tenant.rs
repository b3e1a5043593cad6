//! A store as one tenant sees it: its own jobs, approvals, values and sessions, and nothing else (SPEC §1).
//!
//! Doors that agents and clients reach, and the jobs themselves, get this one; only the operator's commands see the whole store.
//!
//! Invariant: what belongs to another tenant is answered exactly as what does not exist, whatever names it: an id, a prefix, a digest, a
//! session, a parent job.
//! Invariant: nothing is written for another tenant.

use crate::ports::sessions::{NewSession, SessionChange, SessionPage, SessionRow, Sessions};
use crate::ports::store::{
    ApprovalRow, Batch, DecideOutcome, Decision, Follows, InboxItem, JobRow, Lease, NewJob, Store, StoreCounters,
    StoreError,
};
use hookwright_core::text;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;

/// Ids of jobs that are remembered as the tenant's own; beyond that they are looked up again.
const KNOWN: usize = 4_096;

/// A tenant's part of a store.
pub struct OfTenant {
    all: Arc<dyn Sessions>,
    tenant: String,
    /// Jobs that were looked up and are the tenant's. A job never changes its tenant.
    known: Mutex<HashSet<String>>,
}

impl OfTenant {
    /// The part of this tenant.
    pub fn new(all: Arc<dyn Sessions>, tenant: impl Into<String>) -> Arc<Self> {
        Arc::new(Self { all, tenant: tenant.into(), known: Mutex::default() })
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashSet<String>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, job: &str) {
        let mut known = self.known();
        if known.len() >= KNOWN {
            known.clear();
        }
        known.insert(job.to_owned());
    }

    /// Fails where a job of this whole id is not the tenant's.
    async fn own_job(&self, job: &str) -> Result<(), StoreError> {
        if self.known().contains(job) {
            return Ok(());
        }
        match self.all.job(job).await {
            Ok(row) if row.job.id == job && row.job.tenant == self.tenant => {
                self.remember(job);
                Ok(())
            }
            Ok(_) | Err(StoreError::NotFound { .. } | StoreError::Ambiguous { .. }) => Err(not_found("job", job)),
            Err(error) => Err(error),
        }
    }

    /// Fails where an approval of this whole id is not the tenant's.
    async fn own_approval(&self, id: &str) -> Result<(), StoreError> {
        let found = self.approval(id).await?;
        if found.id == id { Ok(()) } else { Err(not_found("approval", id)) }
    }

    /// Whether a row is the tenant's, by itself and by its job's.
    async fn owns(&self, row: &ApprovalRow) -> Result<bool, StoreError> {
        if row.tenant != self.tenant {
            return Ok(false);
        }
        match self.own_job(&row.job).await {
            Ok(()) => Ok(true),
            Err(StoreError::NotFound { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

fn not_found(kind: &'static str, id: &str) -> StoreError {
    StoreError::NotFound { kind, id: text::shown(id, 200) }
}

/// The only one of these ids that begins so, or is it.
fn one<T>(kind: &'static str, prefix: &str, all: Vec<T>, id: impl Fn(&T) -> &str) -> Result<T, StoreError> {
    let mut fitting: Vec<T> = all.into_iter().filter(|one| !prefix.is_empty() && id(one).starts_with(prefix)).collect();
    if let Some(at) = fitting.iter().position(|one| id(one) == prefix) {
        return Ok(fitting.swap_remove(at));
    }
    match fitting.len() {
        0 => Err(not_found(kind, prefix)),
        1 => Ok(fitting.swap_remove(0)),
        _ => Err(StoreError::Ambiguous { kind, id: text::shown(prefix, 200) }),
    }
}

#[async_trait::async_trait]
impl Store for OfTenant {
    async fn create_job(&self, job: NewJob, batch: Batch) -> Result<Lease, StoreError> {
        if job.tenant != self.tenant {
            let message =
                format!("a job of the tenant {} is not stored for {}", text::shown(&job.tenant, 100), self.tenant);
            return Err(StoreError::Failed(message));
        }
        for before in job.parent.iter().chain(match &batch.follows {
            Some(Follows::Job(before)) => Some(before),
            Some(Follows::Nothing) | None => None,
        }) {
            self.own_job(before).await?;
        }
        // A session is known by its jobs, also where it has no row.
        let others = self.all.session_jobs(&job.session).await?;
        if others.iter().any(|row| row.job.tenant != self.tenant) {
            return Err(not_found("session", &job.session));
        }
        let id = job.id.clone();
        let lease = self.all.create_job(job, batch).await?;
        self.remember(&id);
        Ok(lease)
    }

    async fn take_lease(&self, job: &str) -> Result<Lease, StoreError> {
        self.own_job(job).await?;
        self.all.take_lease(job).await
    }

    async fn release(&self, lease: &Lease) -> Result<(), StoreError> {
        self.own_job(&lease.job).await?;
        self.all.release(lease).await
    }

    async fn append(&self, lease: &Lease, batch: Batch) -> Result<(), StoreError> {
        self.own_job(&lease.job).await?;
        self.all.append(lease, batch).await
    }

    async fn records(&self, job: &str, from_seq: u64) -> Result<Vec<String>, StoreError> {
        self.own_job(job).await?;
        self.all.records(job, from_seq).await
    }

    async fn blob(&self, sha256: &str) -> Result<Option<String>, StoreError> {
        self.all.blob_of(&self.tenant, sha256).await
    }

    async fn blob_of(&self, tenant: &str, sha256: &str) -> Result<Option<String>, StoreError> {
        if tenant == self.tenant { self.all.blob_of(tenant, sha256).await } else { Ok(None) }
    }

    async fn jobs(&self, unfinished_only: bool, limit: u32) -> Result<Vec<JobRow>, StoreError> {
        let mut rows = self.all.jobs(unfinished_only, u32::MAX).await?;
        rows.retain(|row| row.job.tenant == self.tenant);
        rows.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        Ok(rows)
    }

    async fn job(&self, id_or_prefix: &str) -> Result<JobRow, StoreError> {
        match self.all.job(id_or_prefix).await {
            Ok(row) if row.job.tenant == self.tenant => Ok(row),
            // It may be another tenant's that is meant by the same beginning.
            Err(StoreError::Ambiguous { .. }) => {
                one("job", id_or_prefix, self.jobs(false, u32::MAX).await?, |row| &row.job.id)
            }
            Ok(row) if row.job.id == id_or_prefix => {
                one("job", id_or_prefix, self.jobs(false, u32::MAX).await?, |row| &row.job.id)
            }
            Ok(_) | Err(StoreError::NotFound { .. }) => Err(not_found("job", id_or_prefix)),
            Err(error) => Err(error),
        }
    }

    async fn approvals(&self, open_only: bool) -> Result<Vec<ApprovalRow>, StoreError> {
        let mut own = vec![];
        for row in self.all.approvals(open_only).await? {
            if self.owns(&row).await? {
                own.push(row);
            }
        }
        Ok(own)
    }

    async fn approval(&self, id_or_prefix: &str) -> Result<ApprovalRow, StoreError> {
        match self.all.approval(id_or_prefix).await {
            Ok(row) if self.owns(&row).await? => Ok(row),
            Ok(_) | Err(StoreError::Ambiguous { .. }) => {
                one("approval", id_or_prefix, self.approvals(false).await?, |row| &row.id)
            }
            Err(StoreError::NotFound { .. }) => Err(not_found("approval", id_or_prefix)),
            Err(error) => Err(error),
        }
    }

    async fn decide(&self, id: &str, decision: Decision) -> Result<DecideOutcome, StoreError> {
        self.own_approval(id).await?;
        self.all.decide(id, decision).await
    }

    async fn request_cancel(&self, job: &str, by: &str, at_ms: u64) -> Result<(), StoreError> {
        self.own_job(job).await?;
        self.all.request_cancel(job, by, at_ms).await
    }

    async fn inbox(&self, job: &str) -> Result<Vec<InboxItem>, StoreError> {
        self.own_job(job).await?;
        self.all.inbox(job).await
    }

    fn inbox_changes(&self) -> watch::Receiver<u64> {
        self.all.inbox_changes()
    }

    fn counters(&self) -> StoreCounters {
        self.all.counters()
    }
}

#[async_trait::async_trait]
impl Sessions for OfTenant {
    async fn create_session(&self, session: NewSession) -> Result<(), StoreError> {
        if session.tenant != self.tenant {
            return Err(not_found("session", &session.id));
        }
        self.all.create_session(session).await
    }

    async fn session(&self, id: &str) -> Result<SessionRow, StoreError> {
        match self.all.session(id).await {
            Ok(row) if row.session.tenant == self.tenant => Ok(row),
            Ok(_) | Err(StoreError::NotFound { .. }) => Err(not_found("session", id)),
            Err(error) => Err(error),
        }
    }

    async fn sessions(&self, page: SessionPage) -> Result<Vec<SessionRow>, StoreError> {
        if page.tenant == self.tenant { self.all.sessions(page).await } else { Ok(vec![]) }
    }

    async fn change_session(&self, id: &str, change: SessionChange) -> Result<(), StoreError> {
        self.session(id).await?;
        self.all.change_session(id, change).await
    }

    async fn session_jobs(&self, id: &str) -> Result<Vec<JobRow>, StoreError> {
        let mut rows = self.all.session_jobs(id).await?;
        rows.retain(|row| row.job.tenant == self.tenant);
        Ok(rows)
    }

    async fn delete_session(&self, id: &str) -> Result<(), StoreError> {
        self.session(id).await?;
        self.all.delete_session(id).await
    }
}
