//! Deciding an approval, from whatever door: who may, and what the store makes of it.

use crate::ports::clock::Clock;
use crate::ports::store::{ApprovalRow, DecideOutcome, Decision, Store, StoreError};
use hookwright_core::approval::Approval;

/// What came of it.
#[derive(Debug, Clone, PartialEq)]
pub enum Decided {
    /// It counts.
    Counted,
    /// Somebody or something was first.
    AlreadyDecided(Box<ApprovalRow>),
    /// Its time had run out.
    Expired,
    /// This person may not decide it; these may.
    NotAllowed(Vec<String>),
    /// The approval changed since it was shown, or its row is damaged.
    Mismatch,
}

/// What a person says.
#[derive(Debug, Clone)]
pub struct Say {
    /// Yes or no.
    pub approve: bool,
    /// Their name.
    pub by: String,
    /// Whether the name was verified.
    pub verified: bool,
    /// What they add.
    pub note: Option<String>,
}

/// Decides the approval of a row that the person was shown.
pub async fn decide(store: &dyn Store, clock: &dyn Clock, row: &ApprovalRow, say: Say) -> Result<Decided, StoreError> {
    let Ok(approval) = serde_json::from_value::<Approval>(row.approval.clone()) else {
        return Ok(Decided::Mismatch);
    };
    if !approval.is_sound() || approval.id != row.id || approval.job != row.job {
        return Ok(Decided::Mismatch);
    }
    if !approval.may_decide(&say.by) {
        let mut people: Vec<String> = approval.approvers.concat();
        people.retain(|p| approval.may_decide(p));
        people.sort();
        people.dedup();
        return Ok(Decided::NotAllowed(people));
    }
    let decision = Decision {
        approve: say.approve,
        by: say.by,
        verified: say.verified,
        note: say.note,
        digest: approval.digest,
        at_ms: clock.now_ms(),
    };
    Ok(match store.decide(&row.id, decision).await? {
        DecideOutcome::Counted => Decided::Counted,
        DecideOutcome::AlreadyDecided(row) => Decided::AlreadyDecided(row),
        DecideOutcome::DigestMismatch => Decided::Mismatch,
        DecideOutcome::Expired => Decided::Expired,
    })
}
