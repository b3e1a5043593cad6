//! What a person is shown before they decide.

use super::super::flow;
use super::super::line::{INDENT, Line};
use super::super::look::{Look, Role};
use super::super::{diff, units, values};
use crate::next::Next;
use hookwright_core::approval::Approval;
use hookwright_core::event::Moment;
use hookwright_core::stored::Stored;

/// Rows of the final value at its start, and at its end where it is longer.
const HEAD_ROWS: usize = 24;
const TAIL_BYTES: usize = 400;

/// Reasons, changes, rows of each: what is shown without `d`.
const REASONS: usize = 8;
const REASON_ROWS: usize = 4;
const CHANGES: usize = 8;
const CHANGE_ROWS: usize = 6;
const LINE_ROWS: usize = 3;

/// A question as text.
#[derive(Debug, Clone)]
pub(crate) struct Question {
    /// Ends with a newline.
    pub(crate) text: String,
    /// Bytes of untrusted text that were left out.
    pub(crate) left_out: u64,
}

/// Builds up the text of a question.
pub(super) struct Sheet {
    pub(super) look: Look,
    pub(super) text: String,
    pub(super) left_out: u64,
}

impl Sheet {
    pub(super) fn put(&mut self, line: Line) {
        self.text.push_str(&line.end(self.look));
    }

    /// Untrusted text behind a bar.
    pub(super) fn block(&mut self, text: &str, rows: usize) -> usize {
        let prefix = format!("{}{}", " ".repeat(INDENT), self.look.paint(Role::Dim, self.look.bar()));
        let (block, left_out) = flow::block_in(text, &prefix, self.look.width - INDENT - 2, rows);
        self.text.push_str(&block);
        left_out
    }

    /// As [`Sheet::block`]; what is left out is said and counted.
    fn bounded(&mut self, text: &str, rows: usize) {
        let left_out = self.block(text, rows);
        if left_out > 0 {
            self.say_left_out(left_out);
        }
    }

    fn say_left_out(&mut self, bytes: usize) {
        self.left_out += bytes as u64;
        let what = format!("{} {} left out; d shows all", self.look.ellipsis(), units::bytes(bytes as u64));
        self.put(Line::more().add(Role::Warn, &what));
    }

    fn labelled(&mut self, label: &str, text: &str) {
        // A name is one row, but a hostile one can be of any length: the rest of it is not hidden.
        let line = Line::at(label, ' ');
        if super::super::line::columns(text) <= line.room(self.look)
            && !text.chars().any(hookwright_core::text::is_hidden)
        {
            self.put(line.add(Role::Strong, text));
        } else {
            self.put(line);
            self.bounded(text, LINE_ROWS);
        }
    }
}

/// The heading of the final value.
pub(super) fn what_goes_on(event: Moment) -> &'static str {
    match event {
        Moment::JobStart => "the job would start with this input:",
        Moment::PreToolCall => "the call would be made with these arguments:",
        Moment::PostToolCall => "the model would read this result:",
        Moment::JobEnd => "the job would give this output:",
    }
}

/// The heading of a result's structured part: where there are no blocks, it is what the model reads.
pub(super) fn what_is_structured(approval: &Approval) -> &'static str {
    match approval.value.value.as_deref() {
        Some(serde_json::Value::Array(blocks)) if blocks.is_empty() => "it has structured content only, which is read:",
        _ => "and with this structured content:",
    }
}

/// The text of a value, as a person judges it: indented JSON for arguments, text where it is text.
pub(super) fn value_text(event: Moment, value: &Stored) -> String {
    match value.value.as_deref() {
        None => format!("{}: look at it before you decide (`hookwright approvals show`)", values::elsewhere(value)),
        Some(value) if event == Moment::PreToolCall => serde_json::to_string_pretty(value).unwrap_or_default(),
        Some(value) => values::text(value).into_owned(),
    }
}

/// Everything about an approval but the line that asks. `next`: what makes the commands that decide it; none where it is decided already.
pub(crate) fn question(approval: &Approval, expires_ms: u64, now_ms: u64, look: Look, next: Option<&Next>) -> Question {
    let mut sheet = Sheet { look, text: String::new(), left_out: 0 };
    let title = match approval.event {
        Moment::PreToolCall => "A person is asked before a call",
        Moment::PostToolCall => "A person is asked about a call's result",
        Moment::JobStart => "A person is asked before a job starts",
        Moment::JobEnd => "A person is asked about a job's output",
    };
    let expiry = format!("  expires {} ({})", units::ahead(expires_ms, now_ms), units::moment(expires_ms));
    sheet.put(Line::at("?", '?').add(Role::Warn, title));
    sheet.labelled("id", &approval.id);
    sheet.put(Line::more().add(Role::Dim, expiry.trim_start()));
    if let Some(tool) = &approval.tool {
        sheet.labelled("calls", tool);
    }
    let jobs: Vec<&str> = approval.parent_jobs.iter().chain([&approval.job]).map(String::as_str).collect();
    let mut job = jobs.join(" > ");
    if let Some(call) = &approval.call {
        job = format!("{job}, call {call}");
    }
    sheet.labelled("job", &job);
    sheet.labelled("agent", &format!("{}, tenant {}", approval.agent, approval.tenant));
    reasons(&mut sheet, approval);
    if let Some(arguments) = approval.arguments.as_ref().filter(|_| approval.event == Moment::PostToolCall) {
        sheet.put(Line::at("call", ' ').plain("it was made with these arguments:"));
        let text = value_text(Moment::PreToolCall, arguments);
        sheet.bounded(&text, HEAD_ROWS / 2);
    }
    sheet.put(Line::at("final", ' ').add(Role::Strong, what_goes_on(approval.event)));
    head_and_tail(&mut sheet, &value_text(approval.event, &approval.value));
    if let Some(structured) = &approval.structured {
        sheet.put(Line::more().add(Role::Strong, what_is_structured(approval)));
        head_and_tail(&mut sheet, &value_text(Moment::PreToolCall, structured));
    }
    changes(&mut sheet, approval);
    if !approval.approvers.is_empty() {
        let lists: Vec<String> = approval.approvers.iter().map(|people| people.join(" or ")).collect();
        sheet.labelled("decides", &lists.join(", and also "));
    }
    for (label, verb, next) in [("or", "approve", next), ("", "deny", next)] {
        let Some(next) = next else { continue };
        let command = next.command(&format!("approvals {verb} {}", approval.id));
        sheet.text.push_str(&Line::at(label, ' ').add(Role::Dim, &command).whole(look));
    }
    Question { text: sheet.text, left_out: sheet.left_out }
}

fn reasons(sheet: &mut Sheet, approval: &Approval) {
    for reason in approval.reasons.iter().take(REASONS) {
        sheet.put(Line::at("why", ' ').add(Role::Strong, &reason.hook).plain(" asked:"));
        sheet.bounded(&reason.reason, REASON_ROWS);
    }
    let rest = approval.reasons.iter().skip(REASONS);
    let bytes: usize = rest.clone().map(|r| r.hook.len() + r.reason.len()).sum();
    if bytes > 0 {
        sheet.put(Line::at("why", '!').add(Role::Warn, &format!("and {}", units::plural(rest.count() as u64, "hook"))));
        sheet.say_left_out(bytes);
    }
}

/// The start of a long text and its end: an end is where something is hidden.
fn head_and_tail(sheet: &mut Sheet, text: &str) {
    let left_out = sheet.block(text, HEAD_ROWS);
    if left_out == 0 {
        return;
    }
    let shown = text.len() - left_out;
    let mut tail = text.len() - left_out.min(TAIL_BYTES);
    while !text.is_char_boundary(tail) {
        tail += 1;
    }
    if tail > shown {
        sheet.say_left_out(tail - shown);
    }
    // 400 bytes are few rows, unless they are newlines.
    let rest = sheet.block(&text[tail..], HEAD_ROWS);
    if rest > 0 {
        sheet.say_left_out(rest);
    }
}

fn changes(sheet: &mut Sheet, approval: &Approval) {
    let key = approval.event.key();
    for change in approval.changes.iter().take(CHANGES) {
        sheet.put(Line::at("changed", '~').add(Role::Strong, &change.hook).plain(&format!(" changed the {key}:")));
        for line in diff::lines(key, &change.from, &change.to, CHANGE_ROWS, sheet.look) {
            sheet.text.push_str(&line);
        }
    }
    if approval.changes.len() > CHANGES {
        let more = units::plural((approval.changes.len() - CHANGES) as u64, "change");
        sheet.put(Line::at("changed", '!').add(Role::Warn, &format!("and {more} more; d shows all")));
    }
}
