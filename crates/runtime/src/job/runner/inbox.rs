//! What people said while the job ran, or while nobody ran it: decisions and cancels.
//!
//! Invariant: a decision counts only for the digest that was shown, and of somebody who may decide.

use super::Runner;
use crate::job::RunError;
use crate::ports::store::InboxKind;
use hookwright_core::job::{Command, Fact};
use hookwright_core::text;

impl Runner {
    /// Takes in what no record has taken yet.
    pub(super) async fn read_inbox(&mut self) -> Result<(), RunError> {
        let job = self.machine.spec().job.clone();
        for item in self.journal.store.inbox(&job).await? {
            if self.machine.outcome().is_some() {
                return Ok(());
            }
            self.journal.taken(item.id);
            match item.what {
                InboxKind::Cancel { by, .. } => self.cancel(by)?,
                InboxKind::Decided { approval, decision } => {
                    let waiting = self.machine.pending().find_map(|(command, begun)| match command {
                        Command::OpenApproval { effect, approval: a } if begun && a.id == approval => {
                            Some((effect.clone(), a.digest == decision.digest && a.may_decide(&decision.by)))
                        }
                        _ => None,
                    });
                    match waiting {
                        Some((effect, true)) => {
                            let now = self.now();
                            self.take(
                                now,
                                Fact::ApprovalDecided {
                                    effect,
                                    approval,
                                    approve: decision.approve,
                                    by: decision.by,
                                    verified: decision.verified,
                                    note: decision.note.map(|n| text::shown(&n, 2_000)).filter(|n| !n.is_empty()),
                                    digest: decision.digest,
                                    decided_ms: decision.at_ms,
                                },
                            )?;
                        }
                        Some((_, false)) => {
                            tracing::warn!(approval, "a decision that does not fit its approval was ignored");
                        }
                        None => tracing::info!(approval, "a decision came for an approval that no longer waits"),
                    }
                }
            }
        }
        Ok(())
    }
}
