//! Why a replay failed, with a diff (SPEC §8).

use super::line::Line;
use super::look::{Look, Role};
use hookwright_core::history::ReplayError;
use hookwright_core::job::Mismatch;
use serde_json::Value;
use similar::{ChangeTag, TextDiff};

/// Lines of a diff that are shown.
const ROWS: usize = 200;

/// The two sides of a mismatch, where it has two: what the history says and what the logic wants.
pub(crate) fn sides(error: &ReplayError) -> Option<(&str, &str)> {
    match error {
        ReplayError::Mismatch { mismatch, .. } => match mismatch {
            Mismatch::Command { history, logic, .. } | Mismatch::Outcome { history, logic } => Some((history, logic)),
            Mismatch::Logic(_) | Mismatch::Unexpected(_) | Mismatch::Decision { .. } => None,
        },
        ReplayError::Broken(_) | ReplayError::Empty => None,
    }
}

/// A mismatch as people read it.
pub(crate) fn text(job: &str, error: &ReplayError, look: Look) -> String {
    let mut out = String::new();
    let mut put = |line: Line| out.push_str(&line.end(look));
    let heading = match error {
        ReplayError::Mismatch { seq, .. } => {
            format!("job {job} does not replay: record {seq} is not what the logic does")
        }
        ReplayError::Broken(_) => format!("job {job} does not replay: its history is not what it was"),
        ReplayError::Empty => format!("job {job} does not replay"),
    };
    put(Line::default().add(Role::Bad, &heading));
    let Some((history, logic)) = sides(error) else {
        let (block, _) = super::flow::block(&error.to_string(), &format!("  {}", look.bar()), look.width, 40);
        out.push_str(&block);
        return out;
    };
    if let ReplayError::Mismatch { mismatch: Mismatch::Command { effect, .. }, .. } = error {
        put(Line::default().plain("effect ").add(Role::Strong, effect));
    }
    put(Line::default().add(Role::Bad, "- the history"));
    put(Line::default().add(Role::Good, "+ the logic"));
    let (old, new) = (pretty(history), pretty(logic));
    let diff = TextDiff::from_lines(&old, &new);
    for (i, change) in diff.iter_all_changes().enumerate() {
        if i == ROWS {
            put(Line::default().add(Role::Warn, look.ellipsis()).plain(" more lines left out"));
            break;
        }
        let (role, sign) = match change.tag() {
            ChangeTag::Delete => (Role::Bad, "- "),
            ChangeTag::Insert => (Role::Good, "+ "),
            ChangeTag::Equal => (Role::Plain, "  "),
        };
        put(Line::default().add(role, sign).add(role, change.value().trim_end_matches('\n')));
    }
    out
}

/// JSON indented; what is no JSON (cut, or words) as it is.
fn pretty(text: &str) -> String {
    let parsed: Option<Value> = serde_json::from_str(text).ok();
    let mut text = parsed.and_then(|v| serde_json::to_string_pretty(&v).ok()).unwrap_or_else(|| text.to_owned());
    text.push('\n');
    text
}
