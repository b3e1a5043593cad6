//! What others put into the job's inbox: decisions and cancels.
//!
//! Invariant: a decision counts only if it fits what the history says was asked; one that does not is recorded as ignored.

use super::Runner;
use crate::approvals;
use crate::job::RunError;
use crate::ports::store::{Decision, InboxKind};
use hookwright_core::approval;
use hookwright_core::job::Fact;
use hookwright_core::text;

impl Runner {
    /// Takes in what waits, in order.
    pub(super) async fn read_inbox(&mut self) -> Result<(), RunError> {
        let job = self.machine.spec().job.clone();
        for item in self.journal.store.inbox(&job).await? {
            if self.machine.outcome().is_some() {
                return Ok(());
            }
            if self.journal.has_taken(item.id) {
                continue;
            }
            self.journal.taken(item.id);
            match item.what {
                InboxKind::Cancel { by, .. } => self.cancel(by)?,
                InboxKind::Decided { approval, decision } => self.decided(&approval, decision)?,
            }
        }
        Ok(())
    }

    /// Takes a stored decision, if it fits what the history says was asked (SPEC §7): the store's rows decide nothing.
    fn decided(&mut self, id: &str, decision: Decision) -> Result<(), RunError> {
        let now = self.now();
        let (effect, why) = match self.machine.opened(id) {
            None => (None, Some("no approval of that id waits in this job".to_owned())),
            Some((effect, asked, opened_ms)) => {
                let why = approvals::unfit(&decision, asked, opened_ms);
                if why.is_some() {
                    let (asked, opened_ms) = (asked.clone(), opened_ms);
                    self.journal.restored(&asked, opened_ms);
                }
                (Some(effect.to_owned()), why)
            }
        };
        let by = approval::name_of(&decision.by);
        let (approval, approve, verified) = (id.to_owned(), decision.approve, decision.verified);
        let Some(effect) = effect.filter(|_| why.is_none()) else {
            let why = why.unwrap_or_default();
            let approval = text::shown(id, 200);
            tracing::warn!(approval, why, "a decision that does not fit what was asked was ignored");
            return self.take(now, Fact::DecisionIgnored { approval, approve, by, verified, why });
        };
        let note = decision.note.map(|n| text::shown(&n, 2_000)).filter(|n| !n.is_empty());
        let (by, digest, decided_ms) = (decision.by, decision.digest, decision.at_ms);
        self.take(now, Fact::ApprovalDecided { effect, approval, approve, by, verified, note, digest, decided_ms })
    }
}
