//! Decisions of people, and what else waits for a job's runner.

use super::{Effect, Tx};
use crate::error::OpError;
use crate::rows::{APPROVALS, approval, job_number, not_found, to_json, word};
use hookwright_runtime::ports::store::{ApprovalRow, ApprovalState, DecideOutcome, Decision, InboxKind};
use rusqlite::{OptionalExtension as _, params};

/// Decides an open approval: the first decision counts.
pub(crate) fn decide(tx: &Tx<'_>, id: &str, decision: &Decision) -> Result<(DecideOutcome, Effect), OpError> {
    let row = find(tx, id)?;
    match row.state {
        ApprovalState::Open => {}
        ApprovalState::Expired => return Ok((DecideOutcome::Expired, Effect::NOTHING)),
        ApprovalState::Approved | ApprovalState::Denied | ApprovalState::Closed => {
            return Ok((DecideOutcome::AlreadyDecided(Box::new(row)), Effect::NOTHING));
        }
    }
    if decision.at_ms >= row.expires_ms {
        return Ok((DecideOutcome::Expired, Effect::NOTHING));
    }
    // An approval without a digest binds to nothing: nobody can say yes to it.
    if row.approval.get("digest").and_then(|d| d.as_str()) != Some(decision.digest.as_str()) {
        return Ok((DecideOutcome::DigestMismatch, Effect::NOTHING));
    }
    let state = if decision.approve { ApprovalState::Approved } else { ApprovalState::Denied };
    let changed = tx
        .conn
        .prepare_cached("UPDATE approvals SET state = ?2, decision = ?3 WHERE id = ?1")?
        .execute(params![id, word(&state, tx.site)?, to_json(decision, tx.site)?])?;
    tx.wrote_one(changed, "the decision")?;
    let (job, _) = job_number(tx.conn, &row.job, tx.site)?;
    let what = InboxKind::Decided { approval: id.to_owned(), decision: decision.clone() };
    Ok((DecideOutcome::Counted, put(tx, job, &what)?))
}

/// Asks a job's runner to cancel it. A job that has ended stays as it is.
pub(crate) fn cancel(tx: &Tx<'_>, job: &str, by: &str, at_ms: u64) -> Result<((), Effect), OpError> {
    let (n, status) = job_number(tx.conn, job, tx.site)?;
    if status.is_final() {
        return Ok(((), Effect::NOTHING));
    }
    let effect = put(tx, n, &InboxKind::Cancel { by: by.to_owned(), at_ms })?;
    Ok(((), effect))
}

fn put(tx: &Tx<'_>, job: i64, what: &InboxKind) -> Result<Effect, OpError> {
    let changed = tx
        .conn
        .prepare_cached("INSERT INTO inbox (job, what) VALUES (?1, ?2)")?
        .execute(params![job, to_json(what, tx.site)?])?;
    tx.wrote_one(changed, "what waits for the job's runner")?;
    Ok(Effect { inbox: Some(tx.conn.last_insert_rowid()), ..Effect::WROTE })
}

fn find(tx: &Tx<'_>, id: &str) -> Result<ApprovalRow, OpError> {
    tx.conn
        .prepare_cached(&format!("{APPROVALS} WHERE a.id = ?1"))?
        .query_row([id], |row| Ok(approval(row, tx.site)))
        .optional()?
        .ok_or_else(|| not_found("approval", id))?
}
