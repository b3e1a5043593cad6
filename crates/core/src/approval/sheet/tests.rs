use super::*;
use crate::chain::Change;
use crate::verdict::Escalation;
use serde_json::json;

const SHOW: &str = "hookwright approvals show ap_1";

fn stored(value: Value) -> Stored {
    Stored::inline(value)
}

fn approval(event: Moment, value: Value) -> Approval {
    Approval {
        id: "ap_1".into(),
        kind: "hook".into(),
        tenant: "default".into(),
        job: "job_1".into(),
        parent_jobs: vec![],
        agent: "worker".into(),
        event,
        call: None,
        tool: None,
        arguments: None,
        reasons: vec![],
        original: stored(value.clone()),
        value: stored(value),
        structured: None,
        changes: vec![],
        digest: "d".into(),
        schema_sha256: None,
        approvers: vec![],
        expires_after_ms: 86_400_000,
    }
}

/// What stands outside of fences, as Markdown has it: a fence is a line's beginning.
fn ours(sheet: &str) -> Vec<&str> {
    let mut fenced = false;
    let lines = sheet.lines().filter(|line| {
        let is_fence = line.trim_start_matches(' ').starts_with("```");
        fenced ^= is_fence;
        !is_fence && !fenced
    });
    let lines = lines.collect();
    assert!(!fenced, "a fence is open at the end:\n{sheet}");
    lines
}

#[test]
fn no_line_of_what_others_said_stands_as_one_of_ours() {
    let forged = "fine\n```\n\nApproval ap_0000000000000000, expires after 24h\n\nh.pre asks: nothing to see\n~~~\n<!--\r\n   ```text";
    for event in [Moment::JobStart, Moment::PostToolCall, Moment::JobEnd] {
        let mut asked = approval(event, json!(forged));
        asked.reasons = vec![Escalation { hook: "h.post".into(), reason: forged.into() }];
        asked.structured = Some(stored(json!(forged)));
        asked.arguments = Some(stored(json!({ "a": forged })));
        asked.changes = vec![Change { hook: "h.mod".into(), from: stored(json!(forged)), to: stored(json!("x")) }];
        let Sheet { text, whole } = sheet(&asked, SHOW);
        let ours = ours(&text);
        for part in ["ap_0000000000000000", "nothing to see", "<!--", "~~~"] {
            assert!(ours.iter().all(|line| !line.contains(part)), "{part:?} in {ours:#?}");
        }
        // Without Markdown too: whatever has more than one line stands behind a bar.
        let starts = |with: &str| text.lines().filter(|line| line.starts_with(with)).count();
        assert_eq!((starts("Approval "), starts("h.post asks: fine"), starts("h.pre asks")), (1, 1, 0), "{text}");
        assert!(whole);
        assert_eq!(text.lines().last(), Some("Approval ap_1, expires after 24h"));
    }
}

#[test]
fn a_sheet_is_bounded_says_what_it_leaves_out_and_closes_its_fences() {
    let long = json!("\n".repeat(100_000));
    let mut asked = approval(Moment::JobEnd, long.clone());
    asked.structured = Some(stored(long.clone()));
    asked.arguments = Some(stored(long.clone()));
    asked.reasons = vec![Escalation { hook: "h.post".into(), reason: "x".repeat(2_000) }; 500];
    asked.changes = vec![Change { hook: "h.mod".into(), from: stored(long), to: stored(json!("x")) }; 500];
    let Sheet { text, whole } = sheet(&asked, SHOW);
    assert!(!whole && text.len() < 2 * 1024 * 1024, "{}", text.len());
    let ours = ours(&text).join("\n");
    assert!(
        ours.contains("[shortened: see it whole") && ours.contains("further changes: see `hookwright approvals show")
    );
    assert!(text.contains("further reasons: see `hookwright approvals show ap_1`"));
}

/// A value without its text, as it stands where it was not loaded.
fn by_digest(value: Value) -> Stored {
    stored(value).digest_only()
}

#[test]
fn whatever_is_left_out_is_said_and_makes_the_sheet_none_to_say_yes_to() {
    let fine = || approval(Moment::PostToolCall, json!({"a": "x".repeat(60_000), "branch": "main"}));
    let whole = sheet(&fine(), SHOW);
    assert!(whole.whole && whole.text.contains("\"branch\": \"main\"") && !whole.text.contains(SHOW), "{}", whole.text);
    let long = || json!("x".repeat(70_000));
    let from = |value| vec![Change { hook: "h.mod".into(), from: value, to: stored(json!("x")) }];
    let reason = Escalation { hook: "h.post".into(), reason: "x".repeat(2_000) };
    for short in [
        Approval { value: stored(long()), ..fine() },
        Approval { value: by_digest(long()), ..fine() },
        Approval { structured: Some(stored(long())), ..fine() },
        Approval { arguments: Some(stored(long())), ..fine() },
        Approval { arguments: Some(by_digest(long())), ..fine() },
        Approval { changes: from(stored(long())), ..fine() },
        Approval { changes: from(by_digest(long())), ..fine() },
        Approval { changes: vec![from(stored(json!("y".repeat(60_000)))).remove(0); 9], ..fine() },
        Approval { reasons: vec![reason; 50], ..fine() },
    ] {
        let Sheet { text, whole } = sheet(&short, SHOW);
        assert!(!whole && text.contains(SHOW), "{text}");
    }
}

#[test]
fn jobs_and_people_are_named() {
    let asked = Approval {
        parent_jobs: vec!["job_0".into()],
        approvers: vec![vec!["Ada".into(), "Bob\nApproval ap_2".into()], vec!["Eve".into()]],
        ..approval(Moment::PreToolCall, json!({}))
    };
    let text = sheet(&asked, SHOW).text;
    assert!(text.contains("\nAsked within the jobs job_0 > job_1\n"), "{text}");
    assert!(text.contains("\nMay be decided by Ada or Bob\\nApproval ap_2, and also Eve\n"), "{text}");
}
