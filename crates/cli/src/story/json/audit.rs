//! The JSON of `audit`.

use hookwright_core::history::Head;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `audit verify`.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct AuditVerify {
    /// Whether every history is what it was.
    pub(crate) ok: bool,
    /// Each job.
    pub(crate) jobs: Vec<AuditJob>,
}

/// One job's history, checked.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct AuditJob {
    /// The job's id.
    pub(crate) job: String,
    /// How many records are as they were, from the first on.
    pub(crate) records: u64,
    /// The hash of the last of them.
    pub(crate) head: String,
    /// What was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) problem: Option<String>,
}

impl AuditVerify {
    /// From the jobs.
    pub(crate) fn new(jobs: Vec<AuditJob>) -> Self {
        Self { ok: jobs.iter().all(|job| job.problem.is_none()), jobs }
    }
}

/// `audit head`: where histories stand, to be kept elsewhere.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct AuditHeads {
    /// Each job.
    pub(crate) heads: Vec<AuditHead>,
    /// The id of the key that signed, where one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<String>,
    /// An ed25519 signature over `hookwright-audit-heads-v1`, a newline and the canonical JSON of `heads`: 128 hex digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) signature: Option<String>,
}

/// Where one job's history stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct AuditHead {
    /// The job's id.
    pub(crate) job: String,
    /// How many records it has.
    pub(crate) records: u64,
    /// The hash of the last one.
    pub(crate) hash: String,
    /// The time of the last one.
    pub(crate) at_ms: u64,
}

impl AuditHead {
    /// Of a job's head.
    pub(crate) fn new(job: &str, head: &Head) -> Self {
        Self { job: job.to_owned(), records: head.records, hash: head.hash.clone(), at_ms: head.at_ms }
    }
}
