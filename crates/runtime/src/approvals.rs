//! Deciding an approval, from whatever door: what was asked, who may decide, and what the store makes of it.
//!
//! Invariant: what was asked, by whom it may be decided and until when, is read from the job's history. A store's row is an index.

use crate::ports::clock::Clock;
use crate::ports::store::{ApprovalRow, ApprovalState, DecideOutcome, Decision, Store, StoreError};
use crate::replayed::replayed;
use crate::values::Values;
use hookwright_core::approval::Approval;
use hookwright_core::text;
use std::sync::Arc;

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
    /// The approval changed since it was shown, or its row is not what the history says; why, for people.
    Mismatch(String),
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

/// What a history says that a person was asked, and when.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// What was asked; large values are by digest.
    pub approval: Approval,
    /// When it was opened, Unix milliseconds.
    pub opened_ms: u64,
}

/// Why an approval can't be decided.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAsked {
    /// By the history, nothing of that id waits: it was decided, or never asked.
    #[error("by the history of job {job}, no approval {id} waits")]
    NotWaiting {
        /// The row's job.
        job: String,
        /// The row's id.
        id: String,
    },
    /// The row says something else than the history.
    #[error("the row of approval {id} in the store is not what the history of job {job} says: {why}")]
    Differs {
        /// The row's job.
        job: String,
        /// The row's id.
        id: String,
        /// What differs.
        why: &'static str,
    },
    /// The history itself can't be read.
    #[error("the history of job {job} can't be read: {why}")]
    History {
        /// The row's job.
        job: String,
        /// Why.
        why: String,
    },
}

/// The row that stands for an approval which waits.
pub fn row_of(approval: &Approval, opened_ms: u64) -> ApprovalRow {
    ApprovalRow {
        id: approval.id.clone(),
        job: approval.job.clone(),
        tenant: approval.tenant.clone(),
        state: ApprovalState::Open,
        opened_ms,
        expires_ms: approval.expires_ms(opened_ms),
        approval: serde_json::to_value(approval).unwrap_or_default(),
        decision: None,
    }
}

/// In what a row is not what was asked. How it stands is not looked at.
pub fn difference(row: &ApprovalRow, asked: &Approval, opened_ms: u64) -> Option<&'static str> {
    let Ok(shown) = serde_json::from_value::<Approval>(row.approval.clone()) else {
        return Some("it can't be read");
    };
    if row.id != asked.id || row.job != asked.job || row.tenant != asked.tenant {
        return Some("it names another approval, job or tenant");
    }
    if row.opened_ms != opened_ms || row.expires_ms != asked.expires_ms(opened_ms) {
        return Some("its times are others");
    }
    if shown.approvers != asked.approvers {
        return Some("it names other people who may decide");
    }
    if !shown.is_sound() || shown.digest != asked.digest {
        return Some("it shows another value than was asked about");
    }
    // By digest: what is inline was compared with its digest above.
    (shown != *asked).then_some("it shows something else than was asked")
}

/// Why a stored decision does not count, by what the history says was asked.
pub(crate) fn unfit(decision: &Decision, asked: &Approval, opened_ms: u64) -> Option<String> {
    if decision.digest != asked.digest {
        Some("it was made about something else than was asked".to_owned())
    } else if !asked.may_decide(&decision.by) {
        Some("this person may not decide it".to_owned())
    } else if decision.at_ms >= asked.expires_ms(opened_ms) {
        Some("it was made after the approval had expired".to_owned())
    } else {
        None
    }
}

/// What was asked, by the history of the row's job, if the row says the same.
pub async fn asked(store: &dyn Store, row: &ApprovalRow) -> Result<Result<Asked, NotAsked>, StoreError> {
    let (job, id) = (text::shown(&row.job, 200), text::shown(&row.id, 200));
    let records = Arc::new(store.records(&row.job, 0).await?);
    let machine = match replayed(&records).await {
        Ok((machine, _)) => machine,
        Err(why) => return Ok(Err(NotAsked::History { job, why: why.to_string() })),
    };
    let Some((_, asked, opened_ms)) = machine.opened(&row.id).filter(|_| machine.spec().job == row.job) else {
        return Ok(Err(NotAsked::NotWaiting { job, id }));
    };
    Ok(match difference(row, asked, opened_ms) {
        None => Ok(Asked { approval: asked.clone(), opened_ms }),
        Some(why) => Err(NotAsked::Differs { job, id, why }),
    })
}

/// Decides the approval of a row that the person was shown.
pub async fn decide(store: &dyn Store, clock: &dyn Clock, row: &ApprovalRow, say: Say) -> Result<Decided, StoreError> {
    let over = |row: ApprovalRow| match row.state {
        ApprovalState::Expired => Decided::Expired,
        _ => Decided::AlreadyDecided(Box::new(row)),
    };
    if row.state != ApprovalState::Open {
        return Ok(over(row.clone()));
    }
    let Asked { approval, opened_ms } = match asked(store, row).await? {
        Ok(asked) => asked,
        Err(why) => {
            // It may have been settled since the row was read.
            let now = store.approval(&row.id).await?;
            return Ok(if now.state == ApprovalState::Open { Decided::Mismatch(why.to_string()) } else { over(now) });
        }
    };
    if !approval.may_decide(&say.by) {
        let mut people: Vec<String> = approval.approvers.concat();
        people.retain(|p| approval.may_decide(p));
        people.sort();
        people.dedup();
        return Ok(Decided::NotAllowed(people));
    }
    let at_ms = clock.now_ms();
    if at_ms >= approval.expires_ms(opened_ms) {
        return Ok(Decided::Expired);
    }
    let Say { approve, by, verified, note } = say;
    let decision = Decision { approve, by, verified, note, digest: approval.digest, at_ms };
    Ok(match store.decide(&row.id, decision).await? {
        DecideOutcome::Counted => Decided::Counted,
        DecideOutcome::AlreadyDecided(row) => Decided::AlreadyDecided(row),
        DecideOutcome::DigestMismatch => Decided::Mismatch("it has changed since it was shown".into()),
        DecideOutcome::Expired => Decided::Expired,
    })
}

/// Loads all values of an approval into it. Those that can't be had stay digests; the first error is returned after all were tried.
pub async fn load(values: &Values, approval: &mut Approval) -> Result<(), StoreError> {
    let mut result = Ok(());
    for stored in approval.values_mut() {
        match values.full(stored).await {
            Ok(full) => *stored = full,
            Err(error) => result = result.and(Err(error)),
        }
    }
    result
}
