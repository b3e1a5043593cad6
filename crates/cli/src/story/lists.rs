//! `jobs list`, `approvals list` and `approvals show`.

use super::history::status;
use super::line::{Line, columns, escaped_head, fit};
use super::look::{Look, Role};
use super::{family, prompt, units};
use crate::next::Next;
use hookwright_core::approval::Approval;
use hookwright_runtime::ports::store::{ApprovalRow, ApprovalState, JobRow};

/// A table whose last column takes what room is left. Ids (the first column) are never cut, other columns at their most.
struct Table {
    look: Look,
    rows: Vec<Vec<(Role, String)>>,
    /// What stands below a row, by its place.
    below: Vec<(usize, String)>,
}

/// Columns that a cell takes at most, but for the first and the last of a row.
const CELL: usize = 16;

impl Table {
    fn new(look: Look, heads: &[&str]) -> Self {
        Self { look, rows: vec![heads.iter().map(|h| (Role::Dim, (*h).to_owned())).collect()], below: vec![] }
    }

    fn row(&mut self, cells: Vec<(Role, String)>) {
        let last = cells.len() - 1;
        let cells = cells.into_iter().enumerate().map(|(i, (role, text))| {
            let text = escaped_head(&text, 1_000);
            (role, if i == 0 || i == last { text } else { fit(&text, CELL, self.look) })
        });
        self.rows.push(cells.collect());
    }

    /// Says more of the last row, on a line below it.
    fn below(&mut self, text: String) {
        self.below.push((self.rows.len() - 1, text));
    }

    fn text(self) -> String {
        let width =
            |i: usize| self.rows.iter().filter_map(|row| row.get(i)).map(|(_, t)| columns(t)).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.rows[0].len()).map(width).collect();
        let mut out = String::new();
        for (at, row) in self.rows.iter().enumerate() {
            let (mut line, mut column) = (Line::default(), 0);
            for (i, (role, text)) in row.iter().enumerate() {
                line = if i == 0 { line } else { line.pad(column) };
                line = line.add(*role, text);
                column += widths[i] + 2;
            }
            out.push_str(&line.end(self.look));
            for (_, text) in self.below.iter().filter(|(of, _)| *of == at) {
                out.push_str(&Line::default().pad(2).add(Role::Dim, text).end(self.look));
            }
        }
        out
    }
}

/// Jobs as a table, in the order given.
pub(crate) fn jobs(rows: &[JobRow], now_ms: u64, look: Look) -> String {
    if rows.is_empty() {
        return "No jobs.\n".to_owned();
    }
    let mut table = Table::new(look, &["JOB", "STATUS", "AGE", "RECORDS", "TENANT", "AGENT"]);
    for row in rows {
        let (role, word) = status(row.status);
        let word = if !row.status.is_final() && !row.running { format!("{word}, idle") } else { word.to_owned() };
        table.row(vec![
            (Role::Strong, row.job.id.clone()),
            (role, word),
            (Role::Plain, units::ago(row.job.created_ms, now_ms)),
            (Role::Plain, units::count(row.records)),
            (Role::Plain, row.job.tenant.clone()),
            (Role::Plain, row.job.agent.clone()),
        ]);
        // On lines of their own: ids must be whole to be of use.
        match (&row.job.parent, family::door(row)) {
            (Some(parent), _) => table.below(format!("started by {parent}")),
            (None, Some(door)) => table.below(format!("session {}, door {door}", row.job.session)),
            (None, None) => {}
        }
    }
    table.text()
}

/// The jobs that a job started, below it.
pub(crate) fn children(rows: &[JobRow], look: Look) -> String {
    let line = |(i, row): (usize, &JobRow)| {
        let (role, word) = status(row.status);
        let line = Line::default().add(Role::Dim, if i == 0 { "started" } else { "" }).pad(12);
        line.plain(&format!("{} ({}, ", row.job.id, row.job.agent)).add(role, word).plain(")").end(look)
    };
    rows.iter().enumerate().map(line).collect()
}

/// The colour and word of an approval's state. One whose time is over is told as such, whether a process noticed it or not.
pub(crate) fn state(row: &ApprovalRow, now_ms: u64) -> (Role, &'static str) {
    match row.state {
        ApprovalState::Open if row.expires_ms <= now_ms => (Role::Bad, "expired"),
        ApprovalState::Open => (Role::Warn, "open"),
        ApprovalState::Approved => (Role::Good, "approved"),
        ApprovalState::Denied => (Role::Bad, "denied"),
        ApprovalState::Expired => (Role::Bad, "expired"),
        ApprovalState::Closed => (Role::Dim, "closed"),
    }
}

/// Approvals as a table, in the order given.
pub(crate) fn approvals(rows: &[ApprovalRow], now_ms: u64, look: Look) -> String {
    if rows.is_empty() {
        return "No approvals.\n".to_owned();
    }
    let mut table = Table::new(look, &["APPROVAL", "STATE", "ASKED", "EXPIRES", "FOR", "WHY"]);
    for row in rows {
        let (role, word) = state(row, now_ms);
        let approval: Option<Approval> = serde_json::from_value(row.approval.clone()).ok();
        let (about, why) = match &approval {
            Some(approval) => (
                approval.tool.clone().unwrap_or_else(|| approval.event.name().to_owned()),
                approval.reasons.iter().map(|r| format!("{}: {}", r.hook, r.reason)).collect::<Vec<_>>().join("; "),
            ),
            None => ("?".to_owned(), "(can't be read)".to_owned()),
        };
        let expires = if word == "open" { units::ahead(row.expires_ms, now_ms) } else { "-".to_owned() };
        table.row(vec![
            (Role::Strong, row.id.clone()),
            (role, word.to_owned()),
            (Role::Plain, units::ago(row.opened_ms, now_ms)),
            (Role::Plain, expires),
            (Role::Plain, about),
            (Role::Plain, why),
        ]);
    }
    table.text()
}

/// One approval in full; `approval` is the row's, its values loaded.
pub(crate) fn approval(row: &ApprovalRow, approval: &Approval, now_ms: u64, look: Look, next: &Next) -> String {
    let mut out = prompt::in_full(approval, row.expires_ms, now_ms, look, next);
    let (role, word) = state(row, now_ms);
    out.push_str(&Line::at("state", ' ').add(role, word).end(look));
    if let Some(decision) = &row.decision {
        let claim = if decision.verified { "name verified" } else { "name only claimed" };
        let line = Line::at("by", ' ').add(Role::Strong, &decision.by);
        out.push_str(&line.add(Role::Dim, &format!(" ({claim}), {}", units::ago(decision.at_ms, now_ms))).end(look));
        if let Some(note) = &decision.note {
            out.push_str(&Line::at("note", ' ').plain(note).end(look));
        }
    }
    out
}
