//! Where a segment ends: before a model turn, and after it.
//!
//! Invariant: at a boundary nothing is under way; what would begin has no record, so that the next segment begins it.

use super::Runner;
use hookwright_core::job::Command;

/// Whether a runner stops at boundaries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Boundaries {
    /// It has none.
    None,
    /// It stops at the next.
    Next,
    /// It stands at one.
    Reached,
}

impl Runner {
    /// Stopping at boundaries.
    pub(in crate::job) fn with_boundaries(mut self) -> Self {
        self.boundaries = Boundaries::Next;
        self
    }

    /// Whether it stands at a boundary.
    pub(in crate::job) fn is_paused(&self) -> bool {
        self.boundaries == Boundaries::Reached
    }

    /// Takes out what would begin beyond a boundary. The machine keeps it as pending, not begun.
    pub(super) fn hold_back(&mut self, after_turn: bool, commands: &mut Vec<Command>) {
        let goes_on = commands.iter().any(|command| command.effect().is_some());
        let before_turn = commands.iter().any(|c| matches!(c, Command::CallModel { .. } | Command::Compact { .. }));
        if self.boundaries != Boundaries::None && goes_on && (after_turn || before_turn) {
            self.boundaries = Boundaries::Reached;
            commands.retain(|command| command.effect().is_none());
        }
    }
}
