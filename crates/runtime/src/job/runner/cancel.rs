//! Cancels a job.
//!
//! Invariant: what has ended by then is recorded, and nothing begins any more.

use super::Runner;
use crate::job::RunError;
use crate::job::effects::Done;
use hookwright_core::approval;
use hookwright_core::job::{Command, Fact};

impl Runner {
    pub(super) fn cancel(&mut self, by: String) -> Result<(), RunError> {
        self.keep_ended()?;
        if self.machine.outcome().is_some() {
            self.drop_effects();
            return Ok(());
        }
        // Before the calls that started them are dropped: a child is told who cancels.
        self.workshop.children.cancel(&by);
        self.drop_effects();
        self.take(self.now(), Fact::Cancelled { by: approval::name_of(&by) })
    }

    /// Records what has ended by now and was not taken in yet: a result that came is never lost. Nothing that would follow from it
    /// is begun any more.
    fn keep_ended(&mut self) -> Result<(), RunError> {
        self.ended.extend(self.under_way.close());
        let now = self.now();
        while self.machine.outcome().is_none()
            && let Some(ended) = self.ended.pop_front()
        {
            // What has no end, by a panic or a store that can't give a value, stays begun.
            let Ok(Ok(Done { fact: Ok(fact), blobs, late })) = ended else { continue };
            if matches!(fact, Fact::ApprovalExpired { .. }) {
                continue;
            }
            self.journal.blobs(blobs);
            self.late.extend(late);
            let (_, commands) = self.record(now, fact)?;
            for command in commands {
                if let Command::Finish { .. } | Command::CloseApproval { .. } = command {
                    self.emit(now, vec![command])?;
                }
            }
        }
        Ok(())
    }
}
