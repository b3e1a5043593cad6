//! Calls: what the model asked for, what was made, what came back.

use super::super::line::Line;
use super::super::look::Role;
use super::super::{units, values};
use super::{RESULT_ROWS, Teller, place};
use hookwright_core::job::{RequestedCall, ToolOutcome};
use hookwright_core::stored::Stored;
use hookwright_core::text;

/// Rows in which something that went wrong is told.
const FAULT_ROWS: usize = 12;

impl Teller {
    pub(super) fn requested(&mut self, id: &str, call: &RequestedCall, too_many: bool) {
        let line = Line::at(id, ' ').add(Role::Strong, &call.tool).plain(" ");
        let arguments = values::stored(&call.arguments, line.room(self.look), self.look);
        self.put(line.plain(&arguments));
        if let Some(why) = &call.refused {
            self.put(Line::at(id, '!').add(Role::Bad, "refused").plain(", no hook was asked; the model reads:"));
            self.block(why, FAULT_ROWS, Role::Bad);
        } else if too_many {
            self.put(Line::at(id, '!').add(Role::Bad, "refused").plain(": more calls than a turn may make"));
        } else {
            self.tools.insert(id.to_owned(), call.tool.clone());
            self.values.insert(format!("{id}.pre"), call.arguments.clone());
        }
    }

    /// Told only where the call is not simply the one that was asked for.
    pub(super) fn call_begun(&mut self, id: &str, tool: &str, arguments: &Stored, approved: bool) {
        self.tools.entry(id.to_owned()).or_insert_with(|| tool.to_owned());
        let before = self.values.remove(&format!("{id}.pre"));
        let shown = before.filter(|v| v.same(arguments)).unwrap_or_else(|| arguments.clone());
        let changed = self.changed_calls.remove(id);
        if changed || approved {
            let line = Line::at(id, ' ').add(Role::Dim, "goes on with ");
            let arguments = values::stored(&shown, line.room(self.look), self.look);
            self.put(line.plain(&arguments));
        }
    }

    pub(super) fn tool_returned(&mut self, effect: &str, outcome: &ToolOutcome, ms: f64) {
        let id = place(effect);
        let tool = text::escape(self.tools.get(id).map_or("the function", String::as_str));
        let took = units::took(ms);
        let (what, why) = match outcome {
            ToolOutcome::Returned { result, structured, is_error, .. } => {
                self.result(id, result, structured.as_ref(), *is_error, &took);
                self.values.insert(format!("{id}.post"), result.clone());
                return;
            }
            ToolOutcome::Failed { why } => ("the call failed", why.clone()),
            ToolOutcome::TimedOut { after_ms } => {
                let limit = text::duration(*after_ms);
                (
                    "the call did not end in time",
                    format!("no answer of {tool} within {limit}; it may have taken effect"),
                )
            }
            ToolOutcome::Unknown { why } => ("it is not known whether the call was made", why.clone()),
            ToolOutcome::NotMade { why } => ("the call was not made", why.clone()),
        };
        self.put(Line::at(id, '!').add(Role::Bad, what).add(Role::Dim, &format!("  {took}")));
        self.block(&why, FAULT_ROWS, Role::Bad);
    }

    fn result(&mut self, id: &str, result: &Stored, structured: Option<&Stored>, is_error: bool, took: &str) {
        let (mark, role, word) = if is_error { ('!', Role::Bad, "error") } else { (' ', Role::Plain, "result") };
        let mut size = units::bytes(result.bytes);
        if let Some(structured) = structured {
            size = format!("{size} and {} structured", units::bytes(structured.bytes));
        }
        self.put(Line::at(id, mark).add(role, word).add(Role::Dim, &format!("  {took}  {size}")));
        let bar = if is_error { Role::Bad } else { Role::Dim };
        match structured {
            // Nothing but a structured part: that is what the model reads.
            Some(structured) if result.bytes <= 2 => self.block_of(structured, RESULT_ROWS, bar),
            _ => self.block_of(result, RESULT_ROWS, bar),
        }
    }
}
