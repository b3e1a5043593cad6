//! Goldens of the JSON contract.

use super::stories::rich;
use super::tale::{Tale, hook, spec};
use super::views::{approval_row, row};
use crate::story::json::{
    ApprovalJson, ApprovalList, AuditHead, AuditHeads, AuditJob, AuditVerify, Decided, JobDetails, JobList, Replay,
    RunResult,
};
use hookwright_core::event::Moment;
use hookwright_core::history::{Head, ReplayError};
use hookwright_core::job::{Fact, Mismatch};
use hookwright_runtime::ports::store::{ApprovalState, DecideOutcome, JobStatus};
use serde::Serialize;
use serde_json::{Value, json};

fn pretty(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).unwrap()
}

/// Without the records, whose shape the core's schema says.
fn run(tale: &Tale, output: Option<Value>) -> Value {
    let result = RunResult::new("job_7f3a9c21", tale.records.clone(), output, vec!["ap_1".into()]);
    let mut value = serde_json::to_value(&result).unwrap();
    let history = value["history"].take();
    assert_eq!(history, serde_json::to_value(&tale.records).unwrap());
    value["history"] = json!("…");
    value
}

#[test]
fn a_run_that_completed() {
    insta::assert_snapshot!(pretty(&run(&rich(), Some(json!("Version 1.2 is released.")))));
}

#[test]
fn a_run_that_failed_names_hook_and_reason_and_gives_no_output() {
    let mut tale = Tale::new(spec(vec![hook("policy.check", Moment::JobStart)]));
    tale.deny("start.h0", "not on a Friday");
    insta::assert_snapshot!(pretty(&run(&tale, Some(json!("never given")))));
}

#[test]
fn a_run_that_waits_names_its_approvals_and_a_cancelled_one_who_did_it() {
    let mut tale = Tale::new(spec(vec![]));
    let waiting = run(&tale, None);
    assert_eq!((waiting["status"].as_str(), &waiting["approvals"]), (Some("waiting"), &json!(["ap_1"])));
    tale.fact(Fact::Cancelled { by: "ada".into() });
    let cancelled = run(&tale, None);
    assert_eq!((cancelled["status"].as_str(), cancelled["cancelled_by"].as_str()), (Some("cancelled"), Some("ada")));
    assert_eq!(cancelled.get("approvals"), None);
}

#[test]
fn scripted_is_said_only_where_so() {
    let mut real = spec(vec![]);
    real.agent.model = "anthropic/claude-sonnet-4-5".into();
    assert_eq!(run(&Tale::new(real), None).get("scripted"), None);
    assert_eq!(run(&Tale::new(spec(vec![])), None)["scripted"], json!(true));
}

#[test]
fn a_record_reads_back_from_the_output() {
    let result = RunResult::new("job_7f3a9c21", rich().records, None, vec![]);
    let value: Value = serde_json::from_str(&serde_json::to_string(&result).unwrap()).unwrap();
    let texts: Vec<String> = value["history"].as_array().unwrap().iter().map(Value::to_string).collect();
    hookwright_core::history::replay(&texts).unwrap();
}

#[test]
fn jobs_and_one_job() {
    let rows = [row("job_7f3a9c21", JobStatus::Waiting)];
    let list = pretty(&JobList::new(&rows));
    assert!(!list.contains("/secret/path"), "the origin is ours alone");
    insta::assert_snapshot!("jobs_list", list);
    let details = JobDetails::new(&rows[0], &rich().records[..12], None, &[approval_row(ApprovalState::Open)]);
    insta::assert_snapshot!("jobs_show", pretty(&details));
}

#[test]
fn approvals_and_what_came_of_a_decision() {
    let row = approval_row(ApprovalState::Denied);
    insta::assert_snapshot!("approvals_show", pretty(&ApprovalJson::new(&row, None).unwrap()));
    assert_eq!(ApprovalList::new(&[row.clone(), row.clone()]).unwrap().approvals.len(), 2);
    let odd = hookwright_runtime::ports::store::ApprovalRow { approval: json!({}), ..row.clone() };
    assert!(ApprovalList::new(&[odd]).is_err());
    let decided = |approve, outcome| serde_json::to_value(Decided::new("ap_1", approve, &outcome)).unwrap();
    assert_eq!(
        decided(true, DecideOutcome::Counted),
        json!({"approval": "ap_1", "result": "counted", "state": "approved"})
    );
    assert_eq!(
        decided(true, DecideOutcome::AlreadyDecided(Box::new(row))),
        json!({"approval": "ap_1", "result": "already_decided", "state": "denied", "decided_by": "ada"})
    );
    assert_eq!(decided(false, DecideOutcome::Expired)["state"], json!("expired"));
}

#[test]
fn replay_and_audit() {
    let head = Head { records: 3, hash: "ab".into(), at_ms: 1 };
    assert_eq!(
        serde_json::to_value(Replay::new("j", Ok(&head))).unwrap(),
        json!({"job": "j", "ok": true, "records": 3, "head": "ab"})
    );
    let heads = AuditHeads { heads: vec![AuditHead::new("j", &head)], key: None, signature: None };
    assert_eq!(
        serde_json::to_value(heads).unwrap(),
        json!({"heads": [{"job": "j", "records": 3, "hash": "ab", "at_ms": 1}]})
    );
    let mismatch = Mismatch::Outcome { history: "{}".into(), logic: "to go on".into() };
    let error = ReplayError::Mismatch { seq: 9, mismatch };
    assert_eq!(
        serde_json::to_value(Replay::new("j", Err(&error))).unwrap(),
        json!({"job": "j", "ok": false, "seq": 9, "history": "{}", "logic": "to go on",
               "error": "record 9: the job ended with {}, the logic wants to go on"})
    );
    let job = |problem| AuditJob { job: "j".into(), records: 2, head: "ab".into(), problem };
    assert_eq!(
        serde_json::to_value(AuditVerify::new(vec![job(None), job(Some("record 2 is missing".into()))])).unwrap(),
        json!({"ok": false, "jobs": [{"job": "j", "records": 2, "head": "ab"},
               {"job": "j", "records": 2, "head": "ab", "problem": "record 2 is missing"}]})
    );
}
