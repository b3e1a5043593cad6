//! Goldens of the live story.

use super::tale::{Tale, hook, spec};
use crate::story::line::columns;
use crate::story::look::Look;
use crate::story::teller::{Approvals, Teller};
use hookwright_core::chain::HookOutcome;
use hookwright_core::event::Moment;
use hookwright_core::job::{Fact, JobSpec, ModelFault, ToolOutcome};
use hookwright_core::manifest::OnTimeout;
use hookwright_core::stored::Stored;
use hookwright_runtime::observe::Event;
use serde_json::json;

fn pre(call: &str) -> hookwright_core::hooks::Hook {
    hook(call, Moment::PreToolCall)
}

/// Two parallel calls: one rewritten, escalated and approved, one denied; a call with a large result; a signed output.
pub(crate) fn rich() -> Tale {
    let hooks = vec![pre("policy.check"), pre("rules.rewrite"), hook("sign.output", Moment::JobEnd)];
    let mut tale = Tale::new(spec(hooks));
    tale.turn(
        "I will push the fix, and remove the old branch.",
        &[
            ("git.push", json!({"remote": "origin", "branch": "main", "force": true})),
            ("git.delete_branch", json!({"branch": "release-1.1", "note": "x".repeat(300)})),
        ],
    );
    tale.escalate("t1.c0.pre.h0", "a push to main");
    tale.deny("t1.c1.pre.h0", "branches named release-* are never deleted");
    tale.modify("t1.c0.pre.h1", json!({"remote": "origin", "branch": "main", "force": false}));
    tale.decide("t1.c0.pre.approval", true, "ada", Some("go ahead"));
    tale.returned("t1.c0", json!("To /srv/git/app\n   3f2a1bc..9d8e7fa  main -> main\nline 3\nline 4\nline 5\nline 6"));
    tale.turn("", &[("git.log", json!({"n": 3}))]);
    tale.allow("t2.c0.pre.h0").allow("t2.c0.pre.h1");
    tale.returned("t2.c0", json!("y".repeat(200_000)));
    tale.turn("Version 1.2 is released.", &[]);
    tale.modify("end.h2", json!("Version 1.2 is released.\n\nSigned: 0a1b2c3d"));
    tale
}

#[test]
fn a_rich_job_reads_well_at_80_columns() {
    let story = rich().told(Look::PLAIN, false);
    insta::assert_snapshot!(story);
    for line in story.lines() {
        assert!(columns(line) <= 80, "{line}");
    }
}

#[test]
fn the_same_story_in_colour_differs_in_colour_alone() {
    let colored = rich().told(Look { color: true, ..Look::PLAIN }, false);
    insta::assert_snapshot!(colored.replace('\u{1b}', "^"));
    let mut plain = String::new();
    let mut rest = colored.as_str();
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        plain.push_str(before);
        rest = after.split_once('m').unwrap().1;
    }
    assert_eq!(plain + rest, rich().told(Look::PLAIN, false));
}

#[test]
fn without_unicode_our_own_signs_are_ascii() {
    let story = rich().told(Look { unicode: false, ..Look::PLAIN }, false);
    assert!(story.is_ascii(), "{story}");
}

#[test]
fn streamed_text_is_told_once_and_in_its_place() {
    let mut tale = Tale::new(spec(vec![]));
    tale.turn(
        "First I look at the log of the repository, then I decide what to do with all of it.\n\n  - one",
        &[("git.log", json!({}))],
    );
    tale.returned("t1.c0", json!("ok")).turn("All done.", &[]);
    let story = tale.told(Look::PLAIN, true);
    insta::assert_snapshot!(story);
    assert_eq!(story.matches("All done.").count(), 1);
    let silent = tale.told(Look::PLAIN, false);
    assert_eq!(silent.matches("First I look").count(), 1, "text with calls is told from the record");
    assert_eq!(silent.matches("All done.").count(), 0, "the output is printed as such");
}

#[test]
fn a_printed_output_counts_as_shown_only_where_it_is_the_streamed_text() {
    let shown = |hooks, streams| {
        let mut tale = Tale::new(spec(hooks));
        tale.turn("Done.", &[]);
        if tale.records.iter().all(|r| !matches!(r.fact, Fact::Finished { .. })) {
            tale.modify("end.h0", json!("Done. Signed."));
        }
        let mut teller = Teller::new(Look::PLAIN, Approvals::Prompted);
        for record in &tale.records {
            if streams && matches!(record.fact, Fact::ModelAnswered { .. }) {
                teller.event(&Event::Text("Do"));
                teller.event(&Event::Text("ne."));
            }
            teller.event(&Event::Recorded(record));
        }
        teller.shown_output()
    };
    assert!(shown(vec![], true));
    assert!(!shown(vec![], false));
    assert!(!shown(vec![hook("sign.output", Moment::JobEnd)], true), "the output is not what was streamed");
}

#[test]
fn what_goes_wrong_stands_out() {
    let mut failing =
        vec![pre("slow.check"), pre("flaky.check"), pre("lost.check"), hook("mask.result", Moment::PostToolCall)];
    failing[0].on_timeout = OnTimeout::Allow;
    failing[1].on_timeout = OnTimeout::Escalate;
    failing[2].unavailable = Some("tool lost could not be started: No such file or directory".into());
    let mut tale = Tale::new(spec(failing));
    let calls = [("a.one", json!({})), ("a.two", json!({})), ("a.three", json!({})), ("no.such", json!({"x": 1}))];
    tale.turn("", &calls);
    let failed = |why: &str| HookOutcome::Failed { why: why.into() };
    for call in ["t1.c0", "t1.c1", "t1.c2"] {
        tale.hook(&format!("{call}.pre.h0"), HookOutcome::TimedOut);
    }
    tale.fact(Fact::HookLate { effect: "t1.c0.pre.h0".into(), after_ms: 3_200 });
    tale.fact(Fact::ToolState {
        tool: "flaky".into(),
        state: "restarting".into(),
        why: Some("it exited with 1".into()),
    });
    tale.hook("t1.c0.pre.h1", failed("the server is down"));
    tale.hook("t1.c0.pre.h2", failed("tool lost could not be started"));
    tale.fact(Fact::ToolState { tool: "flaky".into(), state: "ready".into(), why: None });
    tale.allow("t1.c1.pre.h1").allow("t1.c1.pre.h2").allow("t1.c2.pre.h1").allow("t1.c2.pre.h2");
    tale.fact(Fact::Resumed { process: "process 4242".into() });
    tale.ended("t1.c1", ToolOutcome::Unknown { why: "the process ended while it was under way".into() });
    tale.allow("t1.c1.post.h3");
    let result = Stored::inline(json!("secret: hunter2"));
    tale.ended("t1.c2", ToolOutcome::Returned { result, structured: None, is_error: true, rest: None });
    tale.deny("t1.c2.post.h3", "the result holds a secret");
    tale.fact(Fact::ModelFailed {
        effect: "t2.model".into(),
        fault: ModelFault::Failed,
        message: "the provider answered 529 four times:\noverloaded".into(),
        sent: None,
    });
    insta::assert_snapshot!(tale.told(Look::PLAIN, false));
}

#[test]
fn a_no_and_an_expiry_are_told_as_the_model_reads_them() {
    let mut tale = Tale::new(spec(vec![pre("policy.check")]));
    tale.turn("", &[("git.push", json!({"branch": "main"})), ("git.tag", json!({"name": "v2"}))]);
    tale.escalate("t1.c0.pre.h0", "a push to main");
    tale.decide("t1.c0.pre.approval", false, "ada", None);
    tale.escalate("t1.c1.pre.h0", "a new major version");
    let approval = tale.approval().id;
    tale.later(86_400_000).fact(Fact::ApprovalExpired { effect: "t1.c1.pre.approval".into(), approval });
    tale.fact(Fact::Cancelled { by: "ada".into() });
    let story = tale.told(Look::PLAIN, false);
    insta::assert_snapshot!(story);
    let read: String = story.lines().filter_map(|l| l.trim().strip_prefix("│ ")).collect::<Vec<_>>().join(" ");
    for reads in [
        "The call to git.push was not made: hook policy.check denied it: a push to main (declined by ada).",
        "The call to git.tag was not made: hook policy.check denied it: a new major version (expired).",
    ] {
        assert!(read.contains(reads), "{read}");
    }
}

#[test]
fn a_denied_output_fails_the_job_and_the_text_is_never_told() {
    let mut tale = Tale::new(spec(vec![hook("policy.check", Moment::JobEnd)]));
    tale.turn("The password is hunter2.", &[]);
    tale.deny("end.h0", "the output holds a password");
    let story = tale.told(Look::PLAIN, false);
    insta::assert_snapshot!(story);
    assert!(!story.contains("hunter2"));
}

#[test]
fn a_resumed_job_is_told_on_with_its_hooks_names() {
    let mut tale = Tale::new(spec(vec![pre("policy.check")]));
    tale.turn("", &[("git.push", json!({"branch": "main"}))]);
    let before = tale.records.len();
    tale.fact(Fact::Resumed { process: "process 2".into() });
    tale.deny("t1.c0.pre.h0", "not today");
    let mut teller = Teller::new(Look::PLAIN, Approvals::Prompted);
    let mut story = teller.catch_up(&tale.records[..before]);
    for record in &tale.records[before..] {
        story += &teller.event(&Event::Recorded(record));
    }
    insta::assert_snapshot!(story);
    // A door that did not catch up still tells something sensible.
    let mut teller = Teller::new(Look::PLAIN, Approvals::Prompted);
    let story: String = tale.records[before..].iter().map(|r| teller.event(&Event::Recorded(r))).collect();
    assert!(story.contains("t1.c0.pre.h0") && story.contains("deny"), "{story}");
}

#[test]
fn many_calls_do_not_grow_the_tellers_memory() {
    let mut tale = Tale::new(JobSpec {
        agent: hookwright_core::job::AgentSpec { max_turns: 1_000, ..spec(vec![]).agent },
        ..spec(vec![])
    });
    for turn in 1..200 {
        tale.turn("", &[("a.b", json!({"turn": turn}))]);
        tale.returned(&format!("t{turn}.c0"), json!("ok"));
    }
    let mut teller = Teller::new(Look::PLAIN, Approvals::Prompted);
    for record in &tale.records {
        teller.event(&Event::Recorded(record));
        assert!(teller.remembered() < 16, "{}", teller.remembered());
    }
}
