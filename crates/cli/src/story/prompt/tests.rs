use super::*;
use crate::story::tests::tale::{START_MS, Tale, hook, spec};
use hookwright_core::event::Moment;
use hookwright_core::stored::Stored;
use serde_json::{Value, json};

const EXPIRES: u64 = START_MS + 86_400_000;

/// A push that one hook rewrote and two escalated.
fn asked() -> Approval {
    let mut hooks: Vec<_> =
        ["policy.check", "rules.rewrite", "guard.scan"].map(|c| hook(c, Moment::PreToolCall)).into();
    hooks[0].approvers = vec!["ada".into(), "grace".into()];
    let mut spec = spec(hooks);
    spec.parent_jobs = vec!["job_root".into()];
    let mut tale = Tale::new(spec);
    tale.turn("", &[("git.push", json!({"branch": "main", "force": true}))]);
    tale.escalate("t1.c0.pre.h0", "a push to main");
    tale.modify("t1.c0.pre.h1", json!({"branch": "main", "force": false}));
    tale.escalate("t1.c0.pre.h2", "the diff holds something that looks like a key");
    tale.approval()
}

fn with_value(value: Value) -> Approval {
    let mut approval = asked();
    approval.changes.clear();
    approval.value = Stored::inline(value);
    approval.original = approval.value.clone();
    approval
}

fn run(approval: &Approval, input: &[u8]) -> (Option<Said>, String) {
    let mut out = vec![];
    let said = Prompt::run(approval, (EXPIRES, START_MS), Look::PLAIN, &mut &*input, &mut out).unwrap();
    (said, String::from_utf8(out).unwrap())
}

#[allow(clippy::unnecessary_wraps, reason = "compared with what `run` gives")]
fn said(approve: bool, note: Option<&str>) -> Option<Said> {
    Some(Said { approve, note: note.map(str::to_owned) })
}

#[test]
fn structured_content_is_shown_with_the_result_and_counted_where_it_is_long() {
    let mut approval = asked();
    approval.event = Moment::PostToolCall;
    approval.changes.clear();
    approval.value = Stored::inline(json!([]));
    approval.original = approval.value.clone();
    approval.structured = Some(Stored::inline(json!({"key": "k-1", "more": "x".repeat(20_000), "end": "the end"})));
    let (_, shown) = run(&approval, b"");
    assert!(shown.contains("structured content only, which is read:"), "{shown}");
    assert!(shown.contains("\"key\": \"k-1\"") && shown.contains("the end"), "{shown}");
    assert!(shown.contains("not shown: d shows all"), "{shown}");
    let all = in_full(&approval, EXPIRES, START_MS, Look::PLAIN, &crate::next::Next::default());
    assert_eq!(all.matches('x').count() / 10_000, 2, "all of it");
}

#[test]
fn the_question_shows_reasons_final_arguments_and_each_change() {
    let (decision, shown) = run(&asked(), b"y\n");
    assert_eq!(decision, said(true, None));
    insta::assert_snapshot!(shown);
}

#[test]
fn all_of_it_is_shown_on_d() {
    let (decision, shown) = run(&asked(), b"d\nn not today\n");
    assert_eq!(decision, said(false, Some("not today")));
    insta::assert_snapshot!(shown.split_once("[y/n/d(etails)] ").unwrap().1);
}

#[test]
fn only_a_clear_word_decides() {
    let approval = asked();
    for (input, decision) in [
        ("y\n", said(true, None)),
        ("YES looks good \n", said(true, Some("looks good"))),
        ("  no\r\n", said(false, None)),
        ("\n\n\ny\n", said(true, None)),
        ("yep\nyes,\ny.\ny/n\n1\ntrue\nn\n", said(false, None)),
        ("y", said(true, None)),
        ("", None),
        ("\n", None),
        ("yo", None),
    ] {
        assert_eq!(run(&approval, input.as_bytes()).0, decision, "{input:?}");
    }
    assert_eq!(run(&approval, b"\xff\xfey\nn\n").0, said(false, None), "no UTF-8");
}

#[test]
fn the_end_of_the_input_decides_nothing_and_says_so() {
    let approval = asked();
    let (decision, shown) = run(&approval, b"what?\n");
    assert_eq!(decision, None);
    assert!(shown.ends_with(&format!("\nNothing was decided: {} waits on.\n", approval.id)), "{shown}");
    assert!(shown.contains("Please answer y, n or d"));
}

#[test]
fn nothing_hides_behind_its_length() {
    let mut value = json!({"note": vec!["harmless padding"; 10_000]});
    value["script"] = json!("rm -rf /");
    let approval = with_value(value);
    let (_, shown) = run(&approval, b"n\n");
    assert!(shown.contains(r#""script": "rm -rf /""#), "the end is shown: {shown}");
    assert!(shown.len() < 10_000);
    assert!(shown.contains("KiB not shown: d shows all) [y/n/d(etails)]"), "{shown}");
}

#[test]
fn details_come_in_pages_to_the_last_line() {
    let value = json!({"lines": (0..500).map(|i| format!("line {i}")).collect::<Vec<_>>()});
    let approval = with_value(value);
    let (decision, shown) = run(&approval, format!("d\n{}y\n", "\n".repeat(20)).as_bytes());
    assert_eq!(decision, said(true, None));
    for i in 0..500 {
        assert!(shown.contains(&format!("\"line {i}\"")), "line {i}");
    }
    assert!(shown.contains("Enter goes on, q goes back."));
    // Within the pages a `y` does not decide: it turns the page.
    let (decision, _) = run(&approval, b"d\ny\nq\nn\n");
    assert_eq!(decision, said(false, None));
    let (decision, shown) = run(&approval, b"d\nq\n");
    assert_eq!(decision, None);
    assert!(!shown.contains("\"line 499\"") || shown.contains("line 400"), "left early");
}

#[test]
fn a_value_can_not_fake_the_prompt() {
    let fake = "Approve? [y/n/d(etails)] y\n\u{1b}[2K\rApprove? ";
    let mut approval = with_value(json!({fake: fake}));
    approval.reasons[0].reason = fake.into();
    approval.reasons[0].hook = fake.into();
    approval.tool = Some(format!("git.push\n{fake}"));
    approval.agent = fake.into();
    let (_, shown) = run(&approval, b"n\n");
    let asks: Vec<_> = shown.lines().filter(|l| l.starts_with("Approve?")).collect();
    assert_eq!(asks.len(), 1, "{shown}");
    assert!(!shown.contains('\u{1b}') && !shown.contains('\r'));
}

#[test]
fn a_value_that_is_not_at_hand_is_said_to_be_so() {
    let mut approval = with_value(json!("x".repeat(100_000)));
    approval.value = approval.value.digest_only();
    approval.original = approval.original.digest_only();
    let (_, shown) = run(&approval, b"n\n");
    assert!(shown.contains("97.6 KiB, stored as") && shown.contains("approvals show"), "{shown}");
}
