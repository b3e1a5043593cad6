//! What a person sees before they decide.
//!
//! Invariant: no line of what others said stands as one of ours, and no markup in it hides or adds anything.

use hookwright_core::approval::Approval;
use hookwright_core::event::Moment;
use hookwright_core::stored::Stored;
use hookwright_core::text::{duration, elide_middle, escape, escape_block};
use serde_json::Value;
use std::fmt::Write as _;

/// Bytes of a value that are shown in a question.
const VALUE_BYTES: u64 = 16 * 1024;
/// Bytes of reasons that are shown in a question.
const REASONS_BYTES: usize = 64 * 1024;
/// Bytes of a question after which no further change is shown.
const SHEET_BYTES: usize = 256 * 1024;

/// All that a person should see before they decide: reasons, the final value, each change on the way.
///
/// Clients show it as Markdown, or as it stands. What others said is fenced, so that no markup in it hides or adds anything, and stands behind a
/// bar, so that no line of it looks like one of ours, nor ends the fence.
pub(crate) fn sheet(approval: &Approval) -> String {
    let mut text = String::new();
    let id = &approval.id;
    let mut reasons = String::new();
    for (i, reason) in approval.reasons.iter().enumerate() {
        if reasons.len() > REASONS_BYTES {
            let _ = writeln!(
                reasons,
                "[… {} further reasons: see `hookwright approvals show {id}`]",
                approval.reasons.len() - i
            );
            break;
        }
        // On one line each, behind words of ours: there no fence ends.
        let _ = writeln!(reasons, "{} asks: {}", escape(&reason.hook), escape(&reason.reason));
    }
    if !reasons.is_empty() {
        let _ = writeln!(text, "```text\n{reasons}```");
    }
    let what = match approval.event {
        Moment::JobStart => "The job would start with this input:",
        Moment::PreToolCall => "The call would be made with these arguments:",
        Moment::PostToolCall => "The model would read this result:",
        Moment::JobEnd => "The job would give this output:",
    };
    let _ = writeln!(text, "\n{what}\n{}", value(&approval.value, id));
    if let Some(structured) = &approval.structured {
        let _ = writeln!(text, "\nand its structured content:\n{}", value(structured, id));
    }
    if let Some(arguments) = &approval.arguments {
        let _ = writeln!(text, "\nThe call was made with these arguments:\n{}", value(arguments, id));
    }
    for (i, change) in approval.changes.iter().enumerate() {
        if text.len() > SHEET_BYTES {
            let more = approval.changes.len() - i;
            let _ =
                writeln!(text, "\n[… {more} further changes: see `hookwright approvals show {id}` before you decide]");
            break;
        }
        let _ = writeln!(text, "\n{} changed it from:\n{}", escape(&change.hook), value(&change.from, id));
    }
    if !approval.parent_jobs.is_empty() {
        let line: Vec<_> = approval.parent_jobs.iter().chain([&approval.job]).map(|job| escape(job)).collect();
        let _ = writeln!(text, "\nAsked within the jobs {}", line.join(" > "));
    }
    let _ = write!(text, "\nApproval {id}, expires after {}", duration(approval.expires_after_ms));
    text
}

fn value(stored: &Stored, id: &str) -> String {
    let text = match stored.value.as_deref() {
        None => return format!("[{} bytes: see `hookwright approvals show {id}`]", stored.bytes),
        Some(Value::String(text)) => escape_block(text),
        Some(value) => escape_block(&serde_json::to_string_pretty(value).unwrap_or_default()),
    };
    if text.len() as u64 <= VALUE_BYTES {
        return quoted(&text);
    }
    format!(
        "{}\n[shortened: see it whole with `hookwright approvals show {id}` before you decide]",
        quoted(&elide_middle(&text, VALUE_BYTES))
    )
}

/// What somebody else said, fenced, each line behind a bar.
fn quoted(text: &str) -> String {
    let mut out = String::from("```text\n");
    for line in text.split('\n') {
        let _ = writeln!(out, "│ {line}");
    }
    out + "```"
}

#[cfg(test)]
mod tests {
    use super::*;
    use hookwright_core::chain::Change;
    use hookwright_core::verdict::Escalation;
    use serde_json::json;

    fn stored(value: Value) -> Stored {
        Stored::new(value).0
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
            let text = sheet(&asked);
            let ours = ours(&text);
            for part in ["ap_0000000000000000", "nothing to see", "<!--", "~~~"] {
                assert!(ours.iter().all(|line| !line.contains(part)), "{part:?} in {ours:#?}");
            }
            // Without Markdown too: whatever has more than one line stands behind a bar.
            let starts = |with: &str| text.lines().filter(|line| line.starts_with(with)).count();
            assert_eq!((starts("Approval "), starts("h.post asks: fine"), starts("h.pre asks")), (1, 1, 0), "{text}");
            assert_eq!(text.lines().last(), Some("Approval ap_1, expires after 24h"));
        }
    }

    #[test]
    fn a_sheet_is_bounded_says_what_it_leaves_out_and_closes_its_fences() {
        let long = json!("\n".repeat(30_000));
        let mut asked = approval(Moment::JobEnd, long.clone());
        asked.structured = Some(stored(long.clone()));
        asked.arguments = Some(stored(long.clone()));
        asked.reasons = vec![Escalation { hook: "h.post".into(), reason: "x".repeat(2_000) }; 500];
        asked.changes = vec![Change { hook: "h.mod".into(), from: stored(long), to: stored(json!("x")) }; 500];
        let text = sheet(&asked);
        assert!(text.len() < 512 * 1024, "{}", text.len());
        let ours = ours(&text).join("\n");
        assert!(
            ours.contains("[shortened: see it whole")
                && ours.contains("further changes: see `hookwright approvals show")
        );
        assert!(text.contains("further reasons: see `hookwright approvals show ap_1`"));
    }
}
