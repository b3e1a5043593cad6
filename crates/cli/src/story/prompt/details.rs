//! All of an approval, page by page.

use super::super::line::Line;
use super::super::look::{Look, Role};
use super::super::values;
use super::question::{Sheet, value_text, what_goes_on, what_is_structured};
use hookwright_core::approval::Approval;
use hookwright_core::event::Moment;

/// Lines of a page.
const PAGE_LINES: usize = 40;

/// The pages of an approval that were not shown yet.
#[derive(Debug, Clone)]
pub(super) struct Pages {
    text: String,
    at: usize,
    lines: usize,
}

/// One page.
pub(super) struct Page {
    pub(super) text: String,
    pub(super) last: bool,
    /// Lines that follow.
    pub(super) left: usize,
}

/// What a yes is bound to, beside the value: the digest, and the schema that the call's function had. Whole, so that they can be compared.
pub(super) fn bound_to(approval: &Approval, look: Look) -> String {
    let bound = [("digest", Some(&approval.digest)), ("schema", approval.schema_sha256.as_ref())];
    let lines = bound.iter().filter_map(|(label, hash)| Some((label, (*hash)?)));
    lines.map(|(label, hash)| Line::at(label, ' ').add(Role::Strong, hash).whole(look)).collect()
}

impl Pages {
    /// Everything: reasons, the value before and after, each step between, all whole.
    pub(super) fn of(approval: &Approval, look: Look) -> Self {
        let mut sheet = Sheet { look, text: String::new(), left_out: 0 };
        let heading = |sheet: &mut Sheet, label: &str, text: &str| {
            sheet.put(Line::at(label, ' ').add(Role::Strong, text));
        };
        let key = approval.event.key();
        sheet.text = bound_to(approval, look);
        let lists: Vec<String> = approval.approvers.iter().map(|people| people.join(" or ")).collect();
        let names = [
            ("job", approval.parent_jobs.iter().chain([&approval.job]).cloned().collect::<Vec<_>>().join(" > ")),
            ("agent", format!("{}, tenant {}", approval.agent, approval.tenant)),
            ("calls", approval.tool.clone().unwrap_or_default()),
            ("decides", lists.join(", and also ")),
        ];
        for (label, text) in names.iter().filter(|(_, text)| !text.is_empty()) {
            heading(&mut sheet, label, "");
            sheet.block(text, usize::MAX);
        }
        for reason in &approval.reasons {
            heading(&mut sheet, "why", "asked by");
            sheet.block(&reason.hook, usize::MAX);
            heading(&mut sheet, "", "with the reason");
            sheet.block(&reason.reason, usize::MAX);
        }
        if let Some(arguments) = &approval.arguments {
            heading(&mut sheet, "call", "it was made with these arguments:");
            sheet.block(&value_text(Moment::PreToolCall, arguments), usize::MAX);
        }
        heading(&mut sheet, "final", what_goes_on(approval.event));
        sheet.block(&value_text(approval.event, &approval.value), usize::MAX);
        if let Some(structured) = &approval.structured {
            heading(&mut sheet, "", what_is_structured(approval));
            sheet.block(&value_text(Moment::PreToolCall, structured), usize::MAX);
        }
        if approval.original.same(&approval.value) && approval.changes.is_empty() {
            heading(&mut sheet, "changed", &format!("no hook changed the {key}"));
        } else {
            heading(&mut sheet, "before", &format!("the {key} before any hook:"));
            sheet.block(&value_text(approval.event, &approval.original), usize::MAX);
        }
        for change in &approval.changes {
            heading(&mut sheet, "changed", &format!("the {key} that this hook gave:"));
            sheet.block(&change.hook, usize::MAX);
            if change.to.same(&approval.value) {
                heading(&mut sheet, "", "the final one");
            } else if change.to.value.is_none() {
                heading(&mut sheet, "", &values::elsewhere(&change.to));
            } else {
                sheet.block(&value_text(approval.event, &change.to), usize::MAX);
            }
        }
        let lines = sheet.text.lines().count();
        Self { text: sheet.text, at: 0, lines }
    }

    /// The next page; none after the last.
    pub(super) fn next(&mut self) -> Option<Page> {
        let rest = &self.text[self.at..];
        if rest.is_empty() {
            return None;
        }
        let end = rest.match_indices('\n').nth(PAGE_LINES - 1).map_or(rest.len(), |(i, _)| i + 1);
        let text = rest[..end].to_owned();
        self.at += end;
        self.lines -= text.lines().count();
        Some(Page { text, last: self.at == self.text.len(), left: self.lines })
    }

    /// All that was not shown yet.
    pub(super) fn rest(self) -> String {
        self.text[self.at..].to_owned()
    }
}
