//! What goes between the workflow, its activities and its clients, as JSON. It stands in workflows' histories: keys are added, as
//! optional ones, never renamed.

use crate::book::Book;
use hookwright_core::approval::Approval;
use hookwright_core::job::{JobSpec, Outcome};
use hookwright_core::stored::Blob;
use hookwright_runtime::job::NewRun;
use hookwright_runtime::ports::store::{Decision, InboxKind, NewJob};
use serde::{Deserialize, Serialize};

/// Where a job is at home.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The node's id.
    pub node: String,
    /// The task queue that only this node serves.
    pub queue: String,
    /// What tells the node's journal from every other file that may stand in its place; absent: it can't be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<String>,
}

/// The workflow's input.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct JobInput {
    pub(crate) job: String,
    pub(crate) home: Place,
    /// Its row, as lists and a restored journal need it.
    pub(crate) row: NewJob,
    /// The job to begin; none where the workflow continues as new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) new: Option<Box<NewJobWire>>,
    /// What an earlier run knew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) carried: Option<Box<Book>>,
    /// Events after which the workflow continues as new; absent: when the server suggests it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) events_at_most: Option<u32>,
}

/// A job to begin.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct NewJobWire {
    pub(crate) spec: JobSpec,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) blobs: Vec<(String, String)>,
}

impl NewJobWire {
    pub(crate) fn of(run: NewRun) -> Self {
        let blobs = run.blobs.into_iter().map(|blob| (blob.sha256, blob.text)).collect();
        Self { spec: run.spec, blobs }
    }

    pub(crate) fn run(self, row: NewJob) -> NewRun {
        let blobs = self.blobs.into_iter().map(|(sha256, text)| Blob { sha256, text }).collect();
        NewRun { job: row, spec: self.spec, blobs }
    }
}

/// How far the workflow has acknowledged a history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mark {
    pub(crate) records: u64,
    /// The hash of the last one.
    pub(crate) hash: String,
}

/// Something for the job's runner, with a number within the workflow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Item {
    pub(crate) id: u64,
    pub(crate) what: InboxKind,
}

/// What a segment is to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct SegmentInput {
    pub(crate) job: String,
    /// Counts the segments of the job.
    pub(crate) number: u32,
    pub(crate) home: Place,
    pub(crate) row: NewJob,
    pub(crate) acknowledged: Mark,
    /// The job to begin, while no record of it is acknowledged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) new: Option<Box<NewJobWire>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) items: Vec<Item>,
}

/// An approval of a job below, which the home node tells of: its records are not the workflow's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Below {
    pub(crate) approval: Approval,
    pub(crate) opened_ms: u64,
}

/// What came of a segment, or came so far.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SegmentOutput {
    /// The records from the acknowledged ones on.
    pub(crate) records: Vec<String>,
    /// Only people are awaited.
    #[serde(default)]
    pub(crate) people: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) below: Vec<Below>,
}

/// Something for a job whose segment is under way.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct DeliverInput {
    pub(crate) job: String,
    pub(crate) what: InboxKind,
}

/// A decision, as a client sends it. The workflow says when it came.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct DecideInput {
    pub(crate) approval: String,
    pub(crate) decision: Decision,
}

/// What came of a decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub(crate) enum Answer {
    /// It counts.
    Counted,
    /// It is recorded, and counts if it fits when the node takes it: it doesn't answer now.
    Noted,
    /// Somebody was first, or the job ended otherwise.
    Already {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        decision: Option<Decision>,
    },
    /// Its time had run out.
    Expired,
    /// It was made about something else.
    Digest,
    /// Nothing of that id waits.
    Unknown,
    /// This person may not decide it.
    NotAllowed,
}

/// A cancel.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct CancelInput {
    pub(crate) by: String,
}

/// A journal to make again from what the workflow acknowledged.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RestoreInput {
    pub(crate) job: String,
    pub(crate) row: NewJob,
    pub(crate) acknowledged: Mark,
}

/// The workflow's result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct JobResult {
    pub(crate) outcome: Outcome,
    pub(crate) acknowledged: Mark,
}
