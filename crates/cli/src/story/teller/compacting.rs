//! Compactions, as they happen.

use super::super::line::Line;
use super::super::look::Role;
use super::super::{compaction, units, values};
use super::{TEXT_ROWS, Teller};
use hookwright_core::job::Fact;

impl Teller {
    /// What came of a compaction.
    pub(super) fn compacted(&mut self, at: &str, fact: &Fact) {
        let Fact::Compacted { summary, fault, ms, .. } = fact else { return };
        let (mark, role, word) = compaction::word(fact);
        let took = format!(", {}", units::took(*ms));
        let line = Line::at(at, mark).add(role, &word);
        self.put(if summary.is_some() || fault.is_some() { line.add(Role::Dim, &took) } else { line });
        match (summary, fault) {
            (Some(summary), _) => match compaction::words(summary) {
                Some(words) => self.block(words, TEXT_ROWS, Role::Dim),
                None => self.put(Line::more().add(Role::Dim, &values::elsewhere(summary))),
            },
            (None, Some(why)) => self.block(why, TEXT_ROWS, Role::Warn),
            (None, None) => {}
        }
    }
}
