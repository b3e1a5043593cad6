//! The durable store of jobs, histories, values and approvals. Implemented by `hookwright-sqlite`.

use hookwright_core::stored::Blob;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

/// A store, shared by all jobs of a process and by several processes.
#[async_trait::async_trait]
pub trait Store: Send + Sync {
    /// Creates a job with its first records and takes its lease. Durable on return.
    async fn create_job(&self, job: NewJob, batch: Batch) -> Result<Lease, StoreError>;

    /// Takes the lease of a job that no living process holds.
    async fn take_lease(&self, job: &str) -> Result<Lease, StoreError>;

    /// Gives a lease back, so that another process can take it at once.
    async fn release(&self, lease: &Lease) -> Result<(), StoreError>;

    /// Writes a batch, whole or not at all, if the lease still holds. Durable (fsynced) on return; concurrent batches share fsyncs.
    async fn append(&self, lease: &Lease, batch: Batch) -> Result<(), StoreError>;

    /// The records of a job, in order, from `from_seq` on.
    async fn records(&self, job: &str, from_seq: u64) -> Result<Vec<String>, StoreError>;

    /// A value's canonical text, or none where it was deleted or never stored.
    async fn blob(&self, sha256: &str) -> Result<Option<String>, StoreError>;

    /// As [`Store::blob`], of a value that a job of this tenant holds; that of another tenant's jobs alone is none. A store that can't tell
    /// whose values are whose gives none out so.
    async fn blob_of(&self, tenant: &str, _sha256: &str) -> Result<Option<String>, StoreError> {
        Err(StoreError::Failed(format!("this store can't tell which values are those of the tenant {tenant}")))
    }

    /// Jobs, newest first. At most `limit`.
    async fn jobs(&self, unfinished_only: bool, limit: u32) -> Result<Vec<JobRow>, StoreError>;

    /// One job, by id or by an unambiguous prefix of it.
    async fn job(&self, id_or_prefix: &str) -> Result<JobRow, StoreError>;

    /// Approvals, newest first; `open_only` leaves decided ones out.
    async fn approvals(&self, open_only: bool) -> Result<Vec<ApprovalRow>, StoreError>;

    /// One approval, by id or by an unambiguous prefix of it.
    async fn approval(&self, id_or_prefix: &str) -> Result<ApprovalRow, StoreError>;

    /// Decides an open approval, if it is open: the first decision counts. Durable on return; the job's runner finds it in its inbox.
    async fn decide(&self, id: &str, decision: Decision) -> Result<DecideOutcome, StoreError>;

    /// Asks the job's runner to cancel it. Durable on return.
    async fn request_cancel(&self, job: &str, by: &str, at_ms: u64) -> Result<(), StoreError>;

    /// What waits for the job's runner, in order: decisions and cancels that no record has taken yet.
    async fn inbox(&self, job: &str) -> Result<Vec<InboxItem>, StoreError>;

    /// Changes whenever an inbox of any job may have changed, also by another process; at most 100 ms late.
    fn inbox_changes(&self) -> watch::Receiver<u64>;

    /// How many fsyncs were made and batches written since the store was opened.
    fn counters(&self) -> StoreCounters;
}

/// What stands together, whole or not at all.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// Records, with consecutive `seq`, directly after the last one stored.
    pub records: Vec<RecordText>,
    /// Values that the records name.
    pub blobs: Vec<Blob>,
    /// The job's new status.
    pub status: Option<JobStatus>,
    /// Approvals that now wait.
    pub opened: Vec<ApprovalRow>,
    /// Approvals that wait, whose rows are missing or not what the history says: they are put in the place of what is there. A
    /// decision that is still in the inbox stays; otherwise they are open again.
    pub restored: Vec<ApprovalRow>,
    /// Approvals that no longer wait without anybody's decision: (id, `expired` or `closed`).
    pub closed: Vec<(String, ApprovalState)>,
    /// Inbox items that these records take up.
    pub taken: Vec<i64>,
    /// With a job's first records, where it belongs to a conversation: what must be the session's last job as they are stored.
    /// Otherwise nothing is, and the error is [`StoreError::SessionMoved`]. So no two jobs go on with the same one.
    pub follows: Option<Follows>,
}

/// Where a job stands among those of its session. Subagents' jobs don't count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Follows {
    /// It is the session's first.
    Nothing,
    /// It follows this one, which is over.
    Job(String),
}

impl Follows {
    /// Of a new job; none for a subagent's, which belongs to its parent's session and is no part of its conversation, and none for
    /// that of an agent that somebody else runs, which keeps its conversation to itself.
    pub fn of(spec: &hookwright_core::job::JobSpec) -> Option<Self> {
        let place = || spec.continues.as_ref().map_or(Self::Nothing, |earlier| Self::Job(earlier.job.clone()));
        (spec.parent_jobs.is_empty() && spec.agent.external.is_none()).then(place)
    }
}

/// A record's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordText {
    /// 0-based position in the job's history.
    pub seq: u64,
    /// The record as JSON, one line.
    pub text: String,
}

/// A job to create.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewJob {
    /// Its id.
    pub id: String,
    /// Its tenant.
    pub tenant: String,
    /// Its agent.
    pub agent: String,
    /// Its session.
    pub session: String,
    /// The job that started it.
    pub parent: Option<String>,
    /// When it was created.
    pub created_ms: u64,
    /// What a later process needs to go on with it (folders, config path), opaque to the store. Holds no secret.
    pub origin: serde_json::Value,
}

/// A job as it is listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRow {
    /// As it was created.
    #[serde(flatten)]
    pub job: NewJob,
    /// How it stands.
    pub status: JobStatus,
    /// When it last changed.
    pub updated_ms: u64,
    /// How many records its history has.
    pub records: u64,
    /// Whether a living process runs it.
    pub running: bool,
}

/// How a job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobStatus {
    /// It is under way, or was when its process died.
    Running,
    /// It waits for a person.
    Waiting,
    /// It ended with an output.
    Completed,
    /// It ended without.
    Failed,
    /// Somebody cancelled it.
    Cancelled,
}

impl JobStatus {
    /// Whether nothing more will happen.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// The right to run a job. A store refuses batches under a lease that another process has taken since.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The job.
    pub job: String,
    /// Grows each time the lease changes hands.
    pub epoch: i64,
}

/// An approval as it is listed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalRow {
    /// Its id.
    pub id: String,
    /// Its job.
    pub job: String,
    /// Its tenant.
    pub tenant: String,
    /// How it stands.
    pub state: ApprovalState,
    /// When it was opened.
    pub opened_ms: u64,
    /// When it counts as a no.
    pub expires_ms: u64,
    /// What people are shown: `hookwright_core::approval::Approval` as JSON.
    pub approval: serde_json::Value,
    /// The decision, once there is one.
    pub decision: Option<Decision>,
}

/// How an approval stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalState {
    /// Nobody decided yet.
    Open,
    /// Somebody said yes.
    Approved,
    /// Somebody said no.
    Denied,
    /// Its time ran out: a no.
    Expired,
    /// Its job ended otherwise.
    Closed,
}

/// What a person said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// Yes or no.
    pub approve: bool,
    /// The person's name.
    pub by: String,
    /// Whether the name was verified (a token, an OS user) or only claimed.
    pub verified: bool,
    /// What the person added.
    pub note: Option<String>,
    /// The digest that the person was shown; it must be the approval's.
    pub digest: String,
    /// When.
    pub at_ms: u64,
}

/// What came of a decision.
#[derive(Debug, Clone, PartialEq)]
pub enum DecideOutcome {
    /// It counts.
    Counted,
    /// Somebody or something was first; how the approval stands now.
    AlreadyDecided(Box<ApprovalRow>),
    /// The digest shown is not the approval's.
    DigestMismatch,
    /// Its time had run out.
    Expired,
}

/// Something for a job's runner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InboxItem {
    /// Its number in the store.
    pub id: i64,
    /// What it is.
    pub what: InboxKind,
}

/// Kinds of inbox items.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum InboxKind {
    /// A person decided.
    Decided {
        /// The approval.
        approval: String,
        /// What they said.
        decision: Decision,
    },
    /// Somebody wants the job cancelled.
    Cancel {
        /// Who.
        by: String,
        /// When.
        at_ms: u64,
    },
}

/// What a store did since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct StoreCounters {
    /// Batches written.
    pub batches: u64,
    /// Transactions committed; each is one fsync of the write-ahead log (checkpoints add theirs).
    pub commits: u64,
}

/// Why the store could not do it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// No job, approval or session of that id.
    #[error("no {kind} {id:?}")]
    NotFound {
        /// `job`, `approval` or `session`.
        kind: &'static str,
        /// As it was asked for.
        id: String,
    },
    /// A prefix that fits several.
    #[error("{id:?} fits several {kind}s: give more of the id")]
    Ambiguous {
        /// `job`, `approval` or `session`.
        kind: &'static str,
        /// As it was asked for.
        id: String,
    },
    /// Another living process runs the job.
    #[error("{job} is run by another process ({holder})")]
    Leased {
        /// The job.
        job: String,
        /// Who holds it, for people.
        holder: String,
    },
    /// Another process took the job over: this one must stop.
    #[error("job {job} was taken over by another process")]
    LeaseLost {
        /// The job.
        job: String,
    },
    /// The tenant has as many jobs under way as it may.
    #[error("the tenant {tenant} has {running} jobs under way, and may have {limit} at once (jobs_at_once)")]
    Full {
        /// The tenant.
        tenant: String,
        /// Jobs that living processes run.
        running: u64,
        /// How many may be.
        limit: u32,
    },
    /// The session's last job is not the one that a new job goes on with, or is not over.
    #[error("session {session} went on meanwhile with job {job}")]
    SessionMoved {
        /// The session.
        session: String,
        /// Its last job.
        job: String,
    },
    /// The file can't be written or read: full disk, read-only, damaged, newer version.
    #[error("{0}")]
    Failed(String),
}
