//! How a job stands, for its row and for the job that started it.

use super::Runner;
use crate::ports::store::JobStatus;
use hookwright_core::job::{Command, Outcome};
use hookwright_core::subagent;

impl Runner {
    /// Whether nothing goes on until a person decides, here or in a child.
    pub(super) fn only_waits(&self) -> bool {
        let mut pending = self.machine.pending().peekable();
        pending.peek().is_some()
            && pending.all(|(command, _)| match command {
                Command::OpenApproval { .. } => true,
                Command::CallTool { effect, tool, .. } if subagent::is_start(tool) => {
                    self.workshop.children.only_waits(effect)
                }
                _ => false,
            })
    }

    /// Writes down how the job stands, where that changed.
    pub(super) fn status(&mut self) {
        let status = match self.machine.outcome() {
            Some(Outcome::Completed { .. }) => JobStatus::Completed,
            Some(Outcome::Failed { .. }) => JobStatus::Failed,
            Some(Outcome::Cancelled { .. }) => JobStatus::Cancelled,
            None if self.only_waits() => JobStatus::Waiting,
            None => JobStatus::Running,
        };
        self.journal.status(status);
    }
}
