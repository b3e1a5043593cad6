//! Where problems are collected.

use super::{MAX_PROBLEMS, SourceText};
use crate::diagnostic::{Code, Diagnostic, Place, Severity};
use std::collections::HashSet;

/// Collects the problems of one file: each once, at most [`MAX_PROBLEMS`].
#[derive(Debug)]
pub(crate) struct Sink<'s> {
    source: &'s SourceText<'s>,
    found: Vec<Diagnostic>,
    /// What was said, so that what an alias brings in twice is said once.
    said: HashSet<(Place, Code, String)>,
    left_out: usize,
    errors: usize,
    /// Where a problem goes that is not said.
    spare: Option<Diagnostic>,
}

/// A problem that may yet get a hint.
pub(crate) struct Said<'d>(&'d mut Option<String>, &'d mut Option<crate::diagnostic::Excerpt>);

impl Said<'_> {
    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        *self.0 = Some(hint.into());
        self
    }

    pub(crate) fn maybe_hint(self, hint: Option<String>) -> Self {
        if hint.is_some() {
            *self.0 = hint;
        }
        self
    }

    /// Hides the value itself in the excerpt.
    pub(crate) fn redact(self) -> Self {
        *self.1 = self.1.take().map(crate::diagnostic::Excerpt::redacted);
        self
    }
}

impl<'s> Sink<'s> {
    pub(crate) fn new(source: &'s SourceText<'s>) -> Self {
        Self { source, found: Vec::new(), said: HashSet::new(), left_out: 0, errors: 0, spare: None }
    }

    pub(crate) fn error(&mut self, place: Place, code: Code, message: impl Into<String>) -> Said<'_> {
        self.errors += 1;
        self.say(Severity::Error, place, code, message.into())
    }

    pub(crate) fn warn(&mut self, place: Place, code: Code, message: impl Into<String>) -> Said<'_> {
        self.say(Severity::Warning, place, code, message.into())
    }

    pub(crate) fn has_errors(&self) -> bool {
        self.errors > 0
    }

    fn say(&mut self, severity: Severity, place: Place, code: Code, message: String) -> Said<'_> {
        let mut diagnostic = Diagnostic::new(severity, code, self.source.file, place, message);
        let full = self.found.len() >= MAX_PROBLEMS;
        let new = !full && self.said.insert((place, code, diagnostic.message.clone()));
        if full {
            self.left_out += 1;
        }
        let slot = if new {
            diagnostic.excerpt = self.source.excerpt(place);
            self.found.push(diagnostic);
            self.found.last_mut()
        } else {
            None
        };
        let slot = slot.unwrap_or_else(|| self.spare.insert(Diagnostic::new(severity, code, "", place, String::new())));
        Said(&mut slot.hint, &mut slot.excerpt)
    }

    /// All that was found, in the order of the file.
    pub(crate) fn finish(mut self) -> Vec<Diagnostic> {
        self.found.sort_by_key(|d| (d.line, d.column));
        if self.left_out > 0 {
            // As severe as the worst that it stands for.
            let severity = if self.errors > 0 { Severity::Error } else { Severity::Warning };
            let message = format!("{} more problems are not shown", self.left_out);
            let place = self.found.last().map_or(Place::START, |d| Place { line: d.line, column: d.column, length: 1 });
            self.found.push(Diagnostic::new(severity, Code::MoreProblems, self.source.file, place, message));
        }
        self.found
    }
}
