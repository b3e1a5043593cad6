//! Jobs and the jobs that they start.

use hookwright_core::history::Record;
use hookwright_core::job::{Command, Fact, JobSpec};
use hookwright_core::subagent;
use hookwright_runtime::ports::store::{ApprovalRow, JobRow};
use serde_json::Value;

/// Whether an approval is one of a job, or of one below it.
pub(crate) fn concerns(row: &ApprovalRow, job: &str) -> bool {
    let above = row.approval["parent_jobs"].as_array().into_iter().flatten();
    row.job == job || above.filter_map(Value::as_str).any(|parent| parent == job)
}

/// Whether a job's parent is among these, which are not over: whoever goes on with the parent goes on with it.
pub(crate) fn is_with_parent(row: &JobRow, unfinished: &[JobRow]) -> bool {
    row.job.parent.as_ref().is_some_and(|parent| unfinished.iter().any(|other| other.job.id == *parent))
}

/// The first job of the line that ends with this one: whoever goes on with it goes on with all below it.
pub(crate) fn first<'a>(job: &'a str, spec: Option<&'a JobSpec>) -> &'a str {
    spec.and_then(|spec| spec.parent_jobs.first()).map_or(job, String::as_str)
}

/// The first job of the line that ends with an approval's.
pub(crate) fn first_of(row: &ApprovalRow) -> &str {
    row.approval["parent_jobs"][0].as_str().unwrap_or(&row.job)
}

/// The door that a job came in by, where it is not `run`.
pub(crate) fn door(row: &JobRow) -> Option<&str> {
    row.job.origin["door"].as_str().filter(|door| *door != "run")
}

/// The jobs below one, parents before their children, among these.
pub(crate) fn below<'a>(job: &str, rows: &'a [JobRow]) -> Vec<&'a JobRow> {
    let mut found: Vec<&JobRow> = vec![];
    let mut next = vec![job.to_owned()];
    while let Some(parent) = next.pop() {
        for row in rows.iter().filter(|row| row.job.parent.as_deref() == Some(&*parent)) {
            // Rows that name each other as parents are no reason to go on for ever.
            if !found.iter().any(|known| known.job.id == row.job.id) {
                next.push(row.job.id.clone());
                found.push(row);
            }
        }
    }
    found
}

/// The ids of the jobs that a job started, or was about to, in order.
pub(crate) fn started(records: &[Record]) -> Vec<String> {
    let job =
        records.iter().find_map(|r| if let Fact::Started { spec } = &r.fact { Some(spec.job.as_str()) } else { None });
    let calls = records.iter().filter_map(|r| match &r.fact {
        Fact::Begun { command: Command::CallTool { call, tool, .. } } if subagent::is_start(tool) => Some(call),
        _ => None,
    });
    calls.filter_map(|call| job.map(|job| subagent::child_job(job, call))).collect()
}
