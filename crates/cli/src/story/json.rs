//! The JSON that commands print with `--output json`: what others script against. docs/output.md describes it.
//!
//! Invariant: keys may be added, never renamed or removed. Each shape is an object, so that keys can be added.
//! Times are Unix milliseconds, sizes bytes.

#![allow(clippy::struct_field_names, reason = "the names are the contract's")]

mod audit;

pub(crate) use audit::{AuditHead, AuditHeads, AuditJob, AuditVerify};

use super::tally::Tally;
use super::teller::scripted;
use super::{family, history, replay};
use hookwright_core::approval::Approval;
use hookwright_core::history::{Head, Record, ReplayError};
use hookwright_core::job::{Fact, JobError, Outcome};
use hookwright_runtime::ports::store::{ApprovalRow, ApprovalState, DecideOutcome, JobRow, JobStatus};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// `false` is left out.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RunStatus {
    /// With an output. Exit code 0.
    Completed,
    /// Without. Exit code 1, or 3 where the error is `HookDenied`.
    Failed,
    /// Somebody cancelled it. Exit code 130.
    Cancelled,
    /// It waits for a person (`--detach`). Exit code 4.
    Waiting,
}

/// `run --output json`.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct RunResult {
    /// The job's id.
    pub(crate) job: String,
    /// How it ended.
    pub(crate) status: RunStatus,
    /// The output, where it completed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) output: Option<Value>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<JobError>,
    /// Who cancelled it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cancelled_by: Option<String>,
    /// The ids of the approvals that wait, those of the jobs below it included.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) approvals: Vec<String>,
    /// `true` where the model played a script; else absent.
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) scripted: bool,
    /// What it came to, in numbers.
    pub(crate) summary: Tally,
    /// Its records, in order.
    pub(crate) history: Vec<Record>,
}

impl RunResult {
    /// From a job's records. `output` is the outcome's value, loaded; `approvals` are those that wait.
    /// A job that is neither over nor waits in these records counts as waiting.
    pub(crate) fn new(job: &str, records: Vec<Record>, output: Option<Value>, approvals: Vec<String>) -> Self {
        let outcome = history::outcome(&records).cloned();
        let (status, error, cancelled_by) = match outcome {
            Some(Outcome::Completed { .. }) => (RunStatus::Completed, None, None),
            Some(Outcome::Failed { error }) => (RunStatus::Failed, Some(error), None),
            Some(Outcome::Cancelled { by }) => (RunStatus::Cancelled, None, Some(by)),
            None => (RunStatus::Waiting, None, None),
        };
        Self {
            job: job.to_owned(),
            status,
            output: output.filter(|_| status == RunStatus::Completed),
            error,
            cancelled_by,
            approvals: if status == RunStatus::Waiting { approvals } else { vec![] },
            scripted: plays_script(&records),
            summary: Tally::of(&records),
            history: records,
        }
    }
}

fn plays_script(records: &[Record]) -> bool {
    records.iter().any(|r| matches!(&r.fact, Fact::Started { spec } if scripted(&spec.agent.model)))
}

/// What every command prints where it could not do its work at all, beside its words on standard error.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Failure {
    /// What went wrong.
    pub(crate) error: FailureError,
}

/// What went wrong.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct FailureError {
    /// `Usage`, `Manifest`, `Config`, `Store`, `NotFound`, …
    #[serde(rename = "type")]
    pub(crate) kind: String,
    /// For people.
    pub(crate) message: String,
}

/// A job, in `jobs list` and `jobs show`.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Job {
    /// Its id.
    pub(crate) job: String,
    /// `running`, `waiting`, `completed`, `failed` or `cancelled`.
    #[schemars(with = "String")]
    pub(crate) status: JobStatus,
    /// Whether a living process runs it.
    pub(crate) running: bool,
    /// Its tenant.
    pub(crate) tenant: String,
    /// Its agent.
    pub(crate) agent: String,
    /// Its session.
    pub(crate) session: String,
    /// The door that it came in by, where it is not `run`: `acp`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) door: Option<String>,
    /// The job that started it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) parent_job: Option<String>,
    /// When it was created.
    pub(crate) created_ms: u64,
    /// When it last changed.
    pub(crate) updated_ms: u64,
    /// How many records its history has.
    pub(crate) records: u64,
}

impl From<&JobRow> for Job {
    fn from(row: &JobRow) -> Self {
        Self {
            job: row.job.id.clone(),
            status: row.status,
            running: row.running,
            tenant: row.job.tenant.clone(),
            agent: row.job.agent.clone(),
            session: row.job.session.clone(),
            door: family::door(row).map(str::to_owned),
            parent_job: row.job.parent.clone(),
            created_ms: row.job.created_ms,
            updated_ms: row.updated_ms,
            records: row.records,
        }
    }
}

/// `jobs list`.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct JobList {
    /// Newest first.
    pub(crate) jobs: Vec<Job>,
}

impl JobList {
    /// Of these rows.
    pub(crate) fn new(rows: &[JobRow]) -> Self {
        Self { jobs: rows.iter().map(Job::from).collect() }
    }
}

/// `jobs show`.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct JobDetails {
    /// As in a list.
    #[serde(flatten)]
    pub(crate) job: Job,
    /// The job of its session whose conversation it goes on with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) continues: Option<String>,
    /// The agent's model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<String>,
    /// `true` where the model plays a script; else absent.
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) scripted: bool,
    /// The output, where it completed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) output: Option<Value>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<JobError>,
    /// Who cancelled it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cancelled_by: Option<String>,
    /// The ids of the approvals that wait, those of the jobs below it included.
    pub(crate) approvals: Vec<String>,
    /// The jobs that it started, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) children: Vec<Job>,
    /// What it came to, in numbers.
    pub(crate) summary: Tally,
}

impl JobDetails {
    /// With the jobs that it started.
    pub(crate) fn with_children(mut self, rows: &[JobRow]) -> Self {
        self.children = rows.iter().map(Job::from).collect();
        self
    }

    /// From a row and its records; `output` is loaded.
    pub(crate) fn new(row: &JobRow, records: &[Record], output: Option<Value>, approvals: &[ApprovalRow]) -> Self {
        let spec = records.iter().find_map(|r| match &r.fact {
            Fact::Started { spec } => Some(spec),
            _ => None,
        });
        let model = spec.map(|spec| spec.agent.model.clone());
        let continues = spec.and_then(|spec| spec.continues.as_ref()).map(|earlier| earlier.job.clone());
        let waits = |a: &&ApprovalRow| family::concerns(a, &row.job.id) && a.state == ApprovalState::Open;
        Self {
            job: row.into(),
            continues,
            model,
            scripted: plays_script(records),
            output: output.filter(|_| row.status == JobStatus::Completed),
            error: match history::outcome(records) {
                Some(Outcome::Failed { error }) => Some(error.clone()),
                _ => None,
            },
            cancelled_by: match history::outcome(records) {
                Some(Outcome::Cancelled { by }) => Some(by.clone()),
                _ => None,
            },
            approvals: approvals.iter().filter(waits).map(|a| a.id.clone()).collect(),
            children: vec![],
            summary: Tally::of(records),
        }
    }
}

/// `jobs history`.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct JobHistory {
    /// The job's id.
    pub(crate) job: String,
    /// Its records, in order.
    pub(crate) history: Vec<Record>,
}

/// `jobs cancel`.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Cancelled {
    /// The job's id.
    pub(crate) job: String,
    /// Whether it is over. `false`: the process that runs it is asked to cancel it.
    pub(crate) cancelled: bool,
    /// Under which name it was cancelled.
    pub(crate) by: String,
}

/// `jobs forget`.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct ForgottenJson {
    /// The job's id.
    pub(crate) job: String,
    /// Records whose values were taken out, those of the jobs below it included.
    pub(crate) records: u64,
    /// Approvals whose values were taken out.
    pub(crate) approvals: u64,
    /// Large values that were deleted.
    pub(crate) large_values: u64,
}

/// An approval, in `approvals list` and `approvals show`.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct ApprovalJson {
    /// `open`, `approved`, `denied`, `expired` or `closed`.
    #[schemars(with = "String")]
    pub(crate) state: ApprovalState,
    /// When it was opened.
    pub(crate) opened_ms: u64,
    /// When it counts as a no.
    pub(crate) expires_ms: u64,
    /// Who decided, and how.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) decision: Option<DecisionJson>,
    /// What is asked. Values over 64 KiB are `{sha256, bytes}` in lists, whole in `approvals show`.
    #[serde(flatten)]
    pub(crate) approval: Approval,
}

/// A decision.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct DecisionJson {
    /// Yes or no.
    pub(crate) approve: bool,
    /// The person's name.
    pub(crate) by: String,
    /// Whether the name was verified or only claimed.
    pub(crate) verified: bool,
    /// What they added.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) note: Option<String>,
    /// When.
    pub(crate) at_ms: u64,
}

impl ApprovalJson {
    /// From a row. `approval` is its approval with its values loaded; none reads it from the row.
    pub(crate) fn new(row: &ApprovalRow, approval: Option<Approval>) -> Result<Self, serde_json::Error> {
        Ok(Self {
            state: row.state,
            opened_ms: row.opened_ms,
            expires_ms: row.expires_ms,
            decision: row.decision.as_ref().map(|d| DecisionJson {
                approve: d.approve,
                by: d.by.clone(),
                verified: d.verified,
                note: d.note.clone(),
                at_ms: d.at_ms,
            }),
            approval: match approval {
                Some(approval) => approval,
                None => serde_json::from_value(row.approval.clone())?,
            },
        })
    }
}

/// `approvals list`.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct ApprovalList {
    /// Newest first.
    pub(crate) approvals: Vec<ApprovalJson>,
}

impl ApprovalList {
    /// Of these rows.
    pub(crate) fn new(rows: &[ApprovalRow]) -> Result<Self, serde_json::Error> {
        rows.iter()
            .map(|row| ApprovalJson::new(row, None))
            .collect::<Result<_, _>>()
            .map(|approvals| Self { approvals })
    }
}

/// `approvals approve` and `approvals deny`.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Decided {
    /// The approval's id.
    pub(crate) approval: String,
    /// What came of it.
    pub(crate) result: DecidedResult,
    /// How the approval stands now.
    #[schemars(with = "String")]
    pub(crate) state: ApprovalState,
    /// Who was first, where somebody was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) decided_by: Option<String>,
}

/// What came of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum DecidedResult {
    /// It counts.
    Counted,
    /// Somebody or something was first.
    AlreadyDecided,
    /// What was shown is not what is asked any more.
    DigestMismatch,
    /// Its time had run out.
    Expired,
}

impl Decided {
    /// From what the store said to a yes or a no.
    pub(crate) fn new(approval: &str, approve: bool, outcome: &DecideOutcome) -> Self {
        let (result, state, decided_by) = match outcome {
            DecideOutcome::Counted if approve => (DecidedResult::Counted, ApprovalState::Approved, None),
            DecideOutcome::Counted => (DecidedResult::Counted, ApprovalState::Denied, None),
            DecideOutcome::AlreadyDecided(row) => {
                (DecidedResult::AlreadyDecided, row.state, row.decision.as_ref().map(|d| d.by.clone()))
            }
            DecideOutcome::DigestMismatch => (DecidedResult::DigestMismatch, ApprovalState::Open, None),
            DecideOutcome::Expired => (DecidedResult::Expired, ApprovalState::Expired, None),
        };
        Self { approval: approval.to_owned(), result, state, decided_by }
    }
}

/// `replay`.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Replay {
    /// The job's id.
    pub(crate) job: String,
    /// Whether the logic does what the history says.
    pub(crate) ok: bool,
    /// How many records were replayed, where it is ok.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) records: Option<u64>,
    /// The hash of the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) head: Option<String>,
    /// Why not, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    /// The record that differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) seq: Option<u64>,
    /// What the history says there, as JSON text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) history: Option<String>,
    /// What the logic wants there, as JSON text or in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) logic: Option<String>,
}

impl Replay {
    /// From what came of it.
    pub(crate) fn new(job: &str, result: Result<&Head, &ReplayError>) -> Self {
        let none = Self {
            job: job.to_owned(),
            ok: false,
            records: None,
            head: None,
            error: None,
            seq: None,
            history: None,
            logic: None,
        };
        match result {
            Ok(head) => Self { ok: true, records: Some(head.records), head: Some(head.hash.clone()), ..none },
            Err(error) => {
                let sides = replay::sides(error);
                Self {
                    error: Some(error.to_string()),
                    seq: if let ReplayError::Mismatch { seq, .. } = error { Some(*seq) } else { None },
                    history: sides.map(|(history, _)| history.to_owned()),
                    logic: sides.map(|(_, logic)| logic.to_owned()),
                    ..none
                }
            }
        }
    }
}
