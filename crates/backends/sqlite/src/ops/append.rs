//! Jobs and their batches.

use super::{Effect, Tx};
use crate::error::OpError;
use crate::ops::places::AtOnce;
use crate::ops::{lease, places};
use crate::rows::{ID_BYTES, inbox_item, job_number, shown_id, to_json, to_sql, word};
use hookwright_core::text::is_hidden;
use hookwright_runtime::ports::store::{
    ApprovalRow, ApprovalState, Batch, Follows, InboxKind, JobStatus, Lease, NewJob, StoreError,
};
use rusqlite::{OptionalExtension as _, params};

/// Creates a job with its first records; its lease is taken.
pub(crate) fn create(tx: &Tx<'_>, job: &NewJob, batch: &Batch, at_once: &AtOnce) -> Result<(Lease, Effect), OpError> {
    if job.id.is_empty() || job.id.len() > ID_BYTES || job.id.chars().any(is_hidden) {
        return Err(StoreError::Failed(format!(
            "job id {:?} cannot be used: 1 to {ID_BYTES} bytes without control characters are allowed",
            shown_id(&job.id)
        ))
        .into());
    }
    let status = batch.status.unwrap_or(JobStatus::Running);
    let inserted = tx
        .conn
        .prepare_cached(
            "INSERT INTO jobs (id, tenant, agent, session, parent, created_ms, updated_ms, status, records, origin, lease_epoch) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 0, ?9, 0) ON CONFLICT (id) DO NOTHING",
        )?
        .execute(params![
            job.id,
            job.tenant,
            job.agent,
            job.session,
            job.parent,
            to_sql(job.created_ms),
            to_sql(tx.now_ms),
            word(&status, tx.site)?,
            to_json(&job.origin, tx.site)?,
        ])?;
    if inserted == 0 {
        return Err(StoreError::Failed(format!("there is a job {} already: ids are used once", job.id)).into());
    }
    let n = tx.conn.last_insert_rowid();
    if let Some(follows) = &batch.follows {
        check_place(tx, n, job, follows)?;
    }
    if job.parent.is_none() {
        places::check(tx, n, &job.tenant, at_once)?;
    }
    let lease = lease::grant(tx, n, &job.id)?;
    let effect = store(tx, n, &job.id, 0, batch)?;
    Ok((lease, Effect { took_lease: true, ..effect }))
}

/// Checks that the session's last job before this one is the one that it follows, and is over.
fn check_place(tx: &Tx<'_>, n: i64, job: &NewJob, follows: &Follows) -> Result<(), OpError> {
    let last = tx
        .conn
        .prepare_cached("SELECT id, status IN ('running', 'waiting') FROM jobs WHERE session = ?1 AND parent IS NULL AND n < ?2 ORDER BY n DESC LIMIT 1")?
        .query_row(params![job.session, n], |row| Ok((row.get::<_, String>(0)?, row.get::<_, bool>(1)?)))
        .optional()?;
    match (last, follows) {
        (None, Follows::Nothing) => Ok(()),
        (Some((id, false)), Follows::Job(before)) if id == *before => Ok(()),
        (Some((id, _)), _) => {
            Err(StoreError::SessionMoved { session: shown_id(&job.session), job: shown_id(&id) }.into())
        }
        (None, Follows::Job(before)) => Err(StoreError::NotFound { kind: "job", id: shown_id(before) }.into()),
    }
}

/// Writes a batch, if the lease still holds.
pub(crate) fn append(tx: &Tx<'_>, lease: &Lease, batch: &Batch) -> Result<((), Effect), OpError> {
    let held = tx
        .conn
        .prepare_cached("SELECT n, records FROM jobs WHERE id = ?1 AND lease_epoch = ?2 AND lease_holder = ?3")?
        .query_row(params![lease.job, lease.epoch, tx.me.key], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))
        .optional()?;
    let Some((n, records)) = held else {
        // Tells a lease that was lost from a job that never was.
        job_number(tx.conn, &lease.job, tx.site)?;
        return Err(StoreError::LeaseLost { job: shown_id(&lease.job) }.into());
    };
    Ok(((), store(tx, n, &lease.job, records, batch)?))
}

/// Writes a batch of the job with the number `n`, whose next record is `next`.
fn store(tx: &Tx<'_>, n: i64, job: &str, next: i64, batch: &Batch) -> Result<Effect, OpError> {
    let mut insert = tx.conn.prepare_cached("INSERT INTO records (job, seq, text) VALUES (?1, ?2, ?3)")?;
    let mut seq = next;
    for record in &batch.records {
        if i64::try_from(record.seq) != Ok(seq) {
            return Err(StoreError::Failed(format!(
                "record {} of job {} does not follow the last one: {seq} is next; this is a bug, nothing of the batch was stored",
                record.seq,
                shown_id(job)
            ))
            .into());
        }
        tx.wrote_one(insert.execute(params![n, seq, record.text])?, "a record")?;
        seq += 1;
    }
    for blob in &batch.blobs {
        tx.conn
            .prepare_cached("INSERT INTO blobs (sha256, text) VALUES (?1, ?2) ON CONFLICT (sha256) DO NOTHING")?
            .execute(params![blob.sha256, blob.text])?;
        tx.conn
            .prepare_cached(
                "INSERT INTO blob_refs (job, blob) SELECT ?1, n FROM blobs WHERE sha256 = ?2 ON CONFLICT DO NOTHING",
            )?
            .execute(params![n, blob.sha256])?;
    }
    for item in &batch.taken {
        tx.conn.prepare_cached("DELETE FROM inbox WHERE id = ?1 AND job = ?2")?.execute([*item, n])?;
    }
    for approval in &batch.opened {
        open(tx, n, job, approval)?;
    }
    for approval in &batch.restored {
        restore(tx, n, job, approval)?;
    }
    for (approval, state) in &batch.closed {
        close(tx, n, job, approval, *state)?;
    }
    let status = batch.status.map(|s| word(&s, tx.site)).transpose()?;
    let changed = tx
        .conn
        .prepare_cached("UPDATE jobs SET records = ?2, updated_ms = ?3, status = coalesce(?4, status) WHERE n = ?1")?
        .execute(params![n, seq, to_sql(tx.now_ms), status])?;
    tx.wrote_one(changed, "the job's row")?;
    if batch.status.is_some_and(JobStatus::is_final) {
        // Nobody will ever take these up or be helped by these.
        tx.conn.prepare_cached("DELETE FROM inbox WHERE job = ?1")?.execute([n])?;
        tx.conn
            .prepare_cached("UPDATE approvals SET state = 'closed' WHERE job = ?1 AND state = 'open'")?
            .execute([n])?;
    }
    Ok(Effect { batch: true, ..Effect::WROTE })
}

fn check_open(job: &str, approval: &ApprovalRow) -> Result<(), OpError> {
    if approval.job == job && approval.state == ApprovalState::Open && approval.decision.is_none() {
        return Ok(());
    }
    Err(StoreError::Failed(format!(
        "approval {:?} is not an open one of job {}: this is a bug, nothing of the batch was stored",
        shown_id(&approval.id),
        shown_id(job)
    ))
    .into())
}

/// Puts a row right, whatever stands in its place. A decision that the job's runner has still to read keeps it from being open again.
fn restore(tx: &Tx<'_>, n: i64, job: &str, approval: &ApprovalRow) -> Result<(), OpError> {
    check_open(job, approval)?;
    let changed = tx
        .conn
        .prepare_cached(
            "INSERT INTO approvals (id, job, tenant, state, opened_ms, expires_ms, approval) VALUES (?1, ?2, ?3, 'open', ?4, ?5, ?6) \
             ON CONFLICT (id) DO UPDATE SET job = excluded.job, tenant = excluded.tenant, opened_ms = excluded.opened_ms, \
             expires_ms = excluded.expires_ms, approval = excluded.approval, \
             state = iif(?7, state, 'open'), decision = iif(?7, decision, NULL)",
        )?
        .execute(params![
            approval.id,
            n,
            approval.tenant,
            to_sql(approval.opened_ms),
            to_sql(approval.expires_ms),
            to_json(&approval.approval, tx.site)?,
            is_decided(tx, n, &approval.id)?,
        ])?;
    tx.wrote_one(changed, "an approval")
}

/// Whether a decision on an approval waits in the inbox of its job.
fn is_decided(tx: &Tx<'_>, n: i64, id: &str) -> Result<bool, OpError> {
    let mut select = tx.conn.prepare_cached("SELECT id, what FROM inbox WHERE job = ?1 ORDER BY id")?;
    let items = select.query_map([n], |row| Ok(inbox_item(row, tx.site)))?;
    for item in items {
        if matches!(item??.what, InboxKind::Decided { approval, .. } if approval == id) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn open(tx: &Tx<'_>, n: i64, job: &str, approval: &ApprovalRow) -> Result<(), OpError> {
    check_open(job, approval)?;
    let inserted = tx
        .conn
        .prepare_cached(
            "INSERT INTO approvals (id, job, tenant, state, opened_ms, expires_ms, approval) VALUES (?1, ?2, ?3, 'open', ?4, ?5, ?6) \
             ON CONFLICT (id) DO NOTHING",
        )?
        .execute(params![
            approval.id,
            n,
            approval.tenant,
            to_sql(approval.opened_ms),
            to_sql(approval.expires_ms),
            to_json(&approval.approval, tx.site)?,
        ])?;
    if inserted == 0 {
        return Err(StoreError::Failed(format!(
            "there is an approval {:?} already: ids are used once; nothing of the batch was stored",
            shown_id(&approval.id)
        ))
        .into());
    }
    Ok(())
}

/// Where a person was first, their decision stands: this only ever ends an open approval.
fn close(tx: &Tx<'_>, n: i64, job: &str, approval: &str, state: ApprovalState) -> Result<(), OpError> {
    let ends = matches!(state, ApprovalState::Expired | ApprovalState::Closed);
    let exists = ends
        && tx
            .conn
            .prepare_cached(
                "UPDATE approvals SET state = CASE state WHEN 'open' THEN ?3 ELSE state END WHERE id = ?1 AND job = ?2",
            )?
            .execute(params![approval, n, word(&state, tx.site)?])?
            > 0;
    if exists {
        return Ok(());
    }
    Err(StoreError::Failed(format!(
        "approval {:?} of job {} cannot be set to {state:?}: this is a bug, nothing of the batch was stored",
        shown_id(approval),
        shown_id(job)
    ))
    .into())
}
