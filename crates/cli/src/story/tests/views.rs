//! Goldens of what looks back: history, lists, a job, an approval, a failed replay.

use super::stories::rich;
use super::tale::{START_MS, Tale, hook, spec};
use crate::next::Next;
use crate::story::look::Look;
use crate::story::{history, lists, replay};
use hookwright_core::event::Moment;
use hookwright_core::history::{Broken, ReplayError};
use hookwright_core::job::Mismatch;
use hookwright_runtime::ports::store::{ApprovalRow, ApprovalState, Decision, JobRow, JobStatus, NewJob};
use serde_json::json;

const NOW: u64 = START_MS + 3_600_000 * 3;

pub(crate) fn row(id: &str, status: JobStatus) -> JobRow {
    JobRow {
        job: NewJob {
            id: id.into(),
            tenant: "default".into(),
            agent: "releaser".into(),
            session: "s1".into(),
            parent: None,
            created_ms: START_MS,
            origin: json!({"plugins": ["/secret/path"]}),
        },
        status,
        updated_ms: START_MS + 61_000,
        records: 1_234,
        running: false,
    }
}

pub(crate) fn approval_row(state: ApprovalState) -> ApprovalRow {
    let mut tale = Tale::new(spec(vec![hook("policy.check", Moment::PreToolCall)]));
    tale.turn("", &[("git.push", json!({"branch": "main"}))]);
    tale.escalate("t1.c0.pre.h0", "a push to main");
    let approval = tale.approval();
    let decision = (state == ApprovalState::Denied).then(|| Decision {
        approve: false,
        by: "ada".into(),
        verified: true,
        note: Some("not on a Friday".into()),
        digest: approval.digest.clone(),
        at_ms: NOW - 5_000,
    });
    ApprovalRow {
        id: approval.id.clone(),
        job: approval.job.clone(),
        tenant: approval.tenant.clone(),
        state,
        opened_ms: START_MS,
        expires_ms: START_MS + approval.expires_after_ms,
        approval: serde_json::to_value(&approval).unwrap(),
        decision,
    }
}

#[test]
fn a_history_has_one_line_for_each_record() {
    let records = rich().records;
    let text = history::lines(&records, Look::PLAIN);
    assert_eq!(text.lines().count(), records.len() + 1);
    insta::assert_snapshot!(text);
}

#[test]
fn a_job_at_a_glance() {
    let open = approval_row(ApprovalState::Open);
    let row = JobRow { running: false, ..row("job_7f3a9c21", JobStatus::Waiting) };
    insta::assert_snapshot!(history::show(&row, &rich().records[..12], &[open], NOW, Look::PLAIN, &Next::default()));
}

#[test]
fn a_failed_job_at_a_glance() {
    let mut tale = Tale::new(spec(vec![hook("policy.check", Moment::JobStart)]));
    tale.deny("start.h0", "this agent may not release on a Friday, says the release policy of 2026");
    let row = row("job_7f3a9c21", JobStatus::Failed);
    insta::assert_snapshot!(history::show(&row, &tale.records, &[], NOW, Look::PLAIN, &Next::default()));
}

#[test]
fn jobs_as_a_table() {
    let mut rows = vec![row("job_7f3a9c21", JobStatus::Completed), row("job_0000000000000001", JobStatus::Running)];
    rows[1].running = true;
    rows.push(row("job_2", JobStatus::Waiting));
    rows[2].job.agent = "a very long name of an agent that does not fit into any table\n\u{1b}[2J".into();
    rows[2].job.tenant = rows[2].job.agent.clone();
    let table = lists::jobs(&rows, NOW, Look::PLAIN);
    super::hostile::assert_tame(&table);
    insta::assert_snapshot!(table);
    assert_eq!(lists::jobs(&[], NOW, Look::PLAIN), "No jobs.\n");
}

#[test]
fn approvals_as_a_table() {
    let mut rows = vec![approval_row(ApprovalState::Open), approval_row(ApprovalState::Denied)];
    rows.push(ApprovalRow { expires_ms: NOW, ..approval_row(ApprovalState::Open) });
    rows[2].approval = json!({"odd": 1});
    insta::assert_snapshot!(lists::approvals(&rows, NOW, Look::PLAIN));
}

#[test]
fn one_approval_in_full() {
    let row = approval_row(ApprovalState::Denied);
    let approval = serde_json::from_value(row.approval.clone()).unwrap();
    insta::assert_snapshot!(lists::approval(&row, &approval, NOW, Look::PLAIN, &Next::default()));
}

#[test]
fn a_mismatch_is_shown_as_a_diff() {
    let error = ReplayError::Mismatch {
        seq: 17,
        mismatch: Mismatch::Command {
            effect: "t1.c0.call".into(),
            history: json!({"do": "call_tool", "tool": "git.push", "arguments": {"sha256": "aa"}}).to_string(),
            logic: json!({"do": "call_tool", "tool": "git.push", "arguments": {"sha256": "bb"}}).to_string(),
        },
    };
    insta::assert_snapshot!(replay::text("job_7f3a9c21", &error, Look::PLAIN));
    let words = ReplayError::Mismatch {
        seq: 3,
        mismatch: Mismatch::Outcome { history: "{\"status\":\"completed\"}".into(), logic: "to go on".into() },
    };
    let text = replay::text("j", &words, Look::PLAIN);
    assert!(text.contains("+ to go on") && text.contains("-   \"status\": \"completed\""), "{text}");
}

#[test]
fn a_broken_history_says_what_is_broken() {
    let error = ReplayError::Broken(Broken::Changed { seq: 4 });
    insta::assert_snapshot!(replay::text("job_1\n", &error, Look::PLAIN), @r"
    job job_1\n does not replay: its history is not what it was
      │ record 4 was changed: its hash does not fit
    ");
}
