//! What a person is shown of an approval by a door that can't show more when asked: an editor, an MCP client.
//!
//! Invariant: no line of what others said stands as one of ours, and no markup in it hides or adds anything.
//! Invariant: nothing is left out without a word, and a sheet that leaves anything out says so to its door, which then offers no yes.

use super::Approval;
use crate::event::Moment;
use crate::stored::Stored;
use crate::text::{duration, elide_middle, escape, escape_block};
use serde_json::Value;
use std::fmt::Write as _;

/// Bytes of a value that are shown in a question.
const VALUE_BYTES: u64 = 64 * 1024;
/// Bytes of reasons that are shown in a question.
const REASONS_BYTES: usize = 64 * 1024;
/// Bytes of a question after which no further change is shown.
const SHEET_BYTES: usize = 256 * 1024;

/// What a person is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sheet {
    /// Several lines, without an end of line after the last.
    pub text: String,
    /// Whether it shows all that the yes is bound to and all that led to it. Where not, a yes to it is none.
    pub whole: bool,
}

/// All that a person should see before they decide: reasons, the final value, each change on the way. `show` is the command that shows it
/// whole, at any length.
///
/// Clients show it as Markdown, or as it stands. What others said is fenced, so that no markup in it hides or adds anything, and stands behind a
/// bar, so that no line of it looks like one of ours, nor ends the fence.
pub fn sheet(approval: &Approval, show: &str) -> Sheet {
    let mut sheet = Writer { text: String::new(), whole: true, show: format!("`{}`", escape(show)) };
    sheet.reasons(approval);
    let what = match approval.event {
        Moment::JobStart => "The job would start with this input:",
        Moment::PreToolCall => "The call would be made with these arguments:",
        Moment::PostToolCall => "The model would read this result:",
        Moment::JobEnd => "The job would give this output:",
    };
    sheet.value(what, &approval.value);
    if let Some(structured) = &approval.structured {
        sheet.value("and its structured content:", structured);
    }
    if let Some(arguments) = &approval.arguments {
        sheet.value("The call was made with these arguments:", arguments);
    }
    for (i, change) in approval.changes.iter().enumerate() {
        if sheet.text.len() > SHEET_BYTES {
            let more = approval.changes.len() - i;
            let left_out = format!("[… {more} further changes: see {} before you decide]", sheet.show);
            let _ = writeln!(sheet.text, "\n{left_out}");
            sheet.whole = false;
            break;
        }
        sheet.value(&format!("{} changed it from:", escape(&change.hook)), &change.from);
    }
    let Writer { mut text, whole, .. } = sheet;
    if !approval.parent_jobs.is_empty() {
        let line: Vec<_> = approval.parent_jobs.iter().chain([&approval.job]).map(|job| escape(job)).collect();
        let _ = writeln!(text, "\nAsked within the jobs {}", line.join(" > "));
    }
    if !approval.approvers.is_empty() {
        let lists: Vec<_> = approval.approvers.iter().map(|people| escape(&people.join(" or "))).collect();
        let _ = writeln!(text, "\nMay be decided by {}", lists.join(", and also "));
    }
    let _ = write!(text, "\nApproval {}, expires after {}", approval.id, duration(approval.expires_after_ms));
    Sheet { text, whole }
}

struct Writer {
    text: String,
    whole: bool,
    show: String,
}

impl Writer {
    fn reasons(&mut self, approval: &Approval) {
        let mut reasons = String::new();
        for (i, reason) in approval.reasons.iter().enumerate() {
            if reasons.len() > REASONS_BYTES {
                let more = approval.reasons.len() - i;
                let _ = writeln!(reasons, "[… {more} further reasons: see {}]", self.show);
                self.whole = false;
                break;
            }
            // On one line each, behind words of ours: there no fence ends.
            let _ = writeln!(reasons, "{} asks: {}", escape(&reason.hook), escape(&reason.reason));
        }
        if !reasons.is_empty() {
            let _ = writeln!(self.text, "```text\n{reasons}```");
        }
    }

    fn value(&mut self, heading: &str, stored: &Stored) {
        let text = match stored.value.as_deref() {
            None => None,
            Some(Value::String(text)) => Some(escape_block(text)),
            Some(value) => Some(escape_block(&serde_json::to_string_pretty(value).unwrap_or_default())),
        };
        let (show, bytes) = (&self.show, stored.bytes);
        let (shown, whole) = match text {
            None => (format!("[{bytes} bytes: see {show}]"), false),
            Some(text) if text.len() as u64 <= VALUE_BYTES => (quoted(&text), true),
            Some(text) => {
                let short = quoted(&elide_middle(&text, VALUE_BYTES));
                (format!("{short}\n[shortened: see it whole with {show} before you decide]"), false)
            }
        };
        self.whole &= whole;
        let _ = writeln!(self.text, "\n{heading}\n{shown}");
    }
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
mod tests;
