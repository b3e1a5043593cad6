//! Checks what stands beside a history: the large values that its records name by digest (SPEC §8), the job's row, and the rows
//! of its approvals.

use crate::approvals::difference;
use crate::ports::store::{ApprovalRow, ApprovalState, JobRow, JobStatus, Store, StoreError};
use hookwright_core::approval::Approval;
use hookwright_core::history::Record;
use hookwright_core::job::{Command, Fact, Outcome};
use hookwright_core::json::sha256_hex;
use hookwright_core::text;
use serde_json::Value;
use std::collections::{HashMap, HashSet};

/// The large values of one history, each checked once.
#[derive(Debug, Default)]
pub struct LargeValues {
    seen: HashSet<String>,
}

impl LargeValues {
    /// Checks the values that a record names. Says what is wrong; one that is not there was deleted, which is no fault.
    pub async fn check(&mut self, store: &dyn Store, record: &str) -> Result<Option<String>, StoreError> {
        let mut named = vec![];
        if let Ok(record) = serde_json::from_str::<Value>(record) {
            self.collect(&record, &mut named);
        }
        for sha256 in named {
            if let Some(text) = store.blob(&sha256).await?
                && sha256_hex(text.as_bytes()) != sha256
            {
                return Ok(Some(format!("the value {sha256} was changed: its digest does not fit")));
            }
        }
        Ok(None)
    }

    /// The digests that were not met before. What an inline value holds is foreign and names nothing.
    fn collect(&mut self, value: &Value, named: &mut Vec<String>) {
        match value {
            Value::Object(map) => match (map.get("sha256"), map.contains_key("bytes"), map.len()) {
                (Some(Value::String(sha256)), true, 3) if map.contains_key("value") => {
                    self.seen.insert(sha256.clone());
                }
                (Some(Value::String(sha256)), true, 2) => {
                    if self.seen.insert(sha256.clone()) {
                        named.push(sha256.clone());
                    }
                }
                _ => map.values().for_each(|v| self.collect(v, named)),
            },
            Value::Array(items) => items.iter().for_each(|v| self.collect(v, named)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}

/// In what a job's row is not what its history says: the row is what lists show and what is gone by, and no hash covers it.
pub fn job_fault(row: &JobRow, records: &[Record]) -> Option<String> {
    let Some(Fact::Started { spec }) = records.first().map(|record| &record.fact) else {
        return Some("the history does not begin with the job's start".to_owned());
    };
    let job = &row.job;
    let other = if job.id != spec.job {
        "id"
    } else if job.tenant != spec.tenant {
        "tenant"
    } else if job.agent != spec.agent.id {
        "agent"
    } else if job.session != spec.session {
        "session"
    } else if job.parent.as_ref() != spec.parent_jobs.last() {
        "parent"
    } else if row.records != records.len() as u64 {
        "number of records"
    } else if !fits(row.status, outcome(records)) {
        "status"
    } else {
        return None;
    };
    Some(format!("the job's row was changed: its {other} is not what the history says"))
}

/// How a job ended, by its history.
fn outcome(records: &[Record]) -> Option<&Outcome> {
    records.iter().rev().find_map(|record| match &record.fact {
        Fact::Finished { outcome } => Some(outcome),
        _ => None,
    })
}

fn fits(status: JobStatus, outcome: Option<&Outcome>) -> bool {
    match outcome {
        None => !status.is_final(),
        Some(Outcome::Completed { .. }) => status == JobStatus::Completed,
        Some(Outcome::Failed { .. }) => status == JobStatus::Failed,
        Some(Outcome::Cancelled { .. }) => status == JobStatus::Cancelled,
    }
}

/// One approval of a history.
#[derive(Debug)]
struct Question {
    approval: Box<Approval>,
    opened_ms: u64,
    /// What was decided, where the history has it.
    approve: Option<bool>,
}

/// The approvals that one history asked, by id.
#[derive(Debug, Default)]
pub struct Asked(HashMap<String, Question>);

impl Asked {
    /// Of a history's records, which were verified before.
    pub fn of(records: &[Record]) -> Self {
        let mut asked = HashMap::new();
        for record in records {
            match &record.fact {
                Fact::Begun { command: Command::OpenApproval { approval, .. } } => {
                    let question = Question { approval: approval.clone(), opened_ms: record.at_ms, approve: None };
                    asked.insert(approval.id.clone(), question);
                }
                Fact::ApprovalDecided { approval, approve, .. } => {
                    if let Some(question) = asked.get_mut(approval) {
                        question.approve = Some(*approve);
                    }
                }
                _ => {}
            }
        }
        Self(asked)
    }

    /// In what the rows of this job's approvals are not what its history says.
    pub fn faults(&self, rows: &[&ApprovalRow]) -> Option<String> {
        let missing = self.0.keys().filter(|id| !rows.iter().any(|row| row.id == **id)).min();
        let missing = || missing.map(|id| format!("the row of the approval {} is missing", text::shown(id, 200)));
        rows.iter().find_map(|row| self.fault(row)).or_else(missing)
    }

    /// In what a row of this job is not what its history says.
    fn fault(&self, row: &ApprovalRow) -> Option<String> {
        let id = text::shown(&row.id, 200);
        let Some(Question { approval, opened_ms, approve }) = self.0.get(&row.id) else {
            return Some(format!("the row of the approval {id} was added: the history never asked it"));
        };
        let state = match approve {
            Some(true) => row.state == ApprovalState::Approved,
            Some(false) => row.state == ApprovalState::Denied,
            // What was decided too late, or is not taken up yet, stands in the row alone.
            None => true,
        };
        let decided = matches!(row.state, ApprovalState::Approved | ApprovalState::Denied);
        let why = difference(row, approval, *opened_ms)
            .or((!state).then_some("the history says something else was decided"))
            .or((decided != row.decision.is_some()).then_some("its decision can't be read, or is none of its state"))?;
        Some(format!("the row of the approval {id} was changed: {why}"))
    }
}
