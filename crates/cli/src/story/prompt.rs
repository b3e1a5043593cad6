//! The question to a person, as a value that is fed lines: text out, a decision at the end (SPEC §7).
//!
//! Reading is the caller's: [`Prompt::line`] takes what the person typed, so that waiting for a key holds nothing up.
//!
//! Invariant: only `y`, `yes`, `n` and `no` decide; an empty line, the end of the input or anything else does not.
//! Invariant: nothing of the value is hidden by its length: what is left out is counted beside the question, and `d` shows all.

mod details;
mod question;

pub(crate) use question::question;

use super::look::{Look, Role};
use super::units;
use crate::next::Next;
use hookwright_core::approval::Approval;
#[cfg(test)]
use std::io::{self, BufRead, Write};

/// What a person said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Said {
    /// Yes or no.
    pub(crate) approve: bool,
    /// What they added after it.
    pub(crate) note: Option<String>,
}

/// What comes next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// Show this, and read another line.
    Show(String),
    /// It is decided.
    Decided(Said),
}

/// A question under way.
#[derive(Debug, Clone)]
pub(crate) struct Prompt<'a> {
    approval: &'a Approval,
    look: Look,
    left_out: u64,
    pages: Option<details::Pages>,
}

/// Characters of a note that are kept.
const NOTE_CHARS: usize = 2_000;

impl<'a> Prompt<'a> {
    /// A question about an approval whose values are loaded; the second part is what to show first.
    pub(crate) fn new(approval: &'a Approval, expires_ms: u64, now_ms: u64, look: Look, next: &Next) -> (Self, String) {
        let question = question(approval, expires_ms, now_ms, look, Some(next));
        let prompt = Self { approval, look, left_out: question.left_out, pages: None };
        let text = question.text + &prompt.ask();
        (prompt, text)
    }

    /// Takes a line that the person typed, with or without its newline.
    pub(crate) fn line(&mut self, line: &str) -> Step {
        let line = line.trim();
        if self.pages.is_some() {
            return self.turn_page(line);
        }
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let note: String = rest.trim().chars().take(NOTE_CHARS).collect();
        let said = |approve| Step::Decided(Said { approve, note: Some(note).filter(|n| !n.is_empty()) });
        match word.to_ascii_lowercase().as_str() {
            "y" | "yes" => said(true),
            "n" | "no" => said(false),
            "d" | "details" => {
                self.pages = Some(details::Pages::of(self.approval, self.look));
                self.left_out = 0;
                self.turn_page("")
            }
            "" => Step::Show(self.ask()),
            _ => Step::Show(format!("Please answer y, n or d; a note may follow y or n.\n{}", self.ask())),
        }
    }

    fn turn_page(&mut self, line: &str) -> Step {
        let quit = matches!(line.to_ascii_lowercase().as_str(), "q" | "quit");
        let page = self.pages.as_mut().filter(|_| !quit).and_then(details::Pages::next);
        match page {
            Some(details::Page { text, last: false, left }) => {
                let left = units::plural(left as u64, "line");
                Step::Show(format!("{text}{left} more: Enter goes on, q goes back. "))
            }
            Some(details::Page { text, .. }) => {
                self.pages = None;
                Step::Show(format!("{text}{}", self.ask()))
            }
            None => {
                self.pages = None;
                Step::Show(self.ask())
            }
        }
    }

    /// The line that asks.
    fn ask(&self) -> String {
        let unseen = match self.left_out {
            0 => String::new(),
            n => format!(" ({} not shown: d shows all)", units::bytes(n)),
        };
        let unseen = self.look.paint(Role::Warn, &unseen);
        format!("{}{unseen} [y/n/d(etails)] ", self.look.paint(Role::Strong, "Approve?"))
    }

    #[cfg(test)]
    /// Asks to the end over a reader and a writer. None where the input ends: nothing is decided, the approval waits on.
    pub(crate) fn run(
        approval: &'a Approval,
        (expires_ms, now_ms): (u64, u64),
        look: Look,
        input: &mut dyn BufRead,
        out: &mut dyn Write,
    ) -> io::Result<Option<Said>> {
        let (mut prompt, text) = Self::new(approval, expires_ms, now_ms, look, &Next::default());
        out.write_all(text.as_bytes())?;
        out.flush()?;
        let mut bytes = vec![];
        loop {
            bytes.clear();
            if input.read_until(b'\n', &mut bytes)? == 0 {
                let id = hookwright_core::text::escape(&approval.id);
                writeln!(out, "\nNothing was decided: {id} waits on.")?;
                return Ok(None);
            }
            match prompt.line(&String::from_utf8_lossy(&bytes)) {
                Step::Decided(said) => return Ok(Some(said)),
                Step::Show(text) => {
                    out.write_all(text.as_bytes())?;
                    out.flush()?;
                }
            }
        }
    }
}

/// Everything about an approval, at any length; for `approvals show`.
pub(crate) fn in_full(approval: &Approval, expires_ms: u64, now_ms: u64, look: Look, next: &Next) -> String {
    let question = question(approval, expires_ms, now_ms, look, Some(next));
    if question.left_out == 0 && approval.changes.is_empty() {
        return question.text + &details::bound_to(approval, look);
    }
    question.text + &details::Pages::of(approval, look).rest()
}

#[cfg(test)]
mod tests;
