//! Leases: who may write to a job.

use super::{Effect, Tx};
use crate::error::OpError;
use crate::ops::places::{self, AtOnce};
use crate::rows::{held, not_found, shown_id, to_sql};
use hookwright_runtime::ports::store::{Lease, StoreError};
use rusqlite::{Connection, OptionalExtension as _, params};

/// Takes the lease of a job that no living process holds. Time in which somebody kept the file locked, and this waited, is no silence
/// of the holder: it could not write either.
pub(crate) fn take(tx: &Tx<'_>, job: &str, at_once: &AtOnce) -> Result<(Lease, Effect), OpError> {
    let row = tx
        .conn
        .prepare_cached(
            "SELECT lease_holder, lease_pid, lease_start, lease_boot, lease_pidns, lease_since_ms, lease_beat_ms, n \
             FROM jobs WHERE id = ?1",
        )?
        .query_row([job], |row| Ok((row.get::<_, i64>(7)?, held(row, 0)?)))
        .optional()?;
    let Some((n, holder)) = row else { return Err(not_found("job", job).into()) };
    if let Some(holder) = holder
        && tx.me.is_held_after(&holder, tx.now_ms, tx.waited_ms)
    {
        let holder = tx.me.describe(&holder, tx.now_ms);
        return Err(StoreError::Leased { job: shown_id(job), holder }.into());
    }
    places::check_taken(tx, n, at_once)?;
    let lease = grant(tx, n, job)?;
    Ok((lease, Effect { took_lease: true, ..Effect::WROTE }))
}

/// Writes this store down as the holder, under the next epoch.
pub(crate) fn grant(tx: &Tx<'_>, n: i64, job: &str) -> Result<Lease, OpError> {
    let process = tx.me.process.as_ref();
    let epoch = tx
        .conn
        .prepare_cached(
            "UPDATE jobs SET lease_epoch = lease_epoch + 1, lease_holder = ?2, lease_node = ?3, lease_pid = ?4, lease_start = ?5, \
             lease_boot = ?6, lease_pidns = ?7, lease_since_ms = ?8, lease_beat_ms = ?8 WHERE n = ?1 RETURNING lease_epoch",
        )?
        .query_row(
            params![
                n,
                tx.me.key,
                tx.me.node,
                i64::from(tx.me.pid),
                process.map(|p| to_sql(p.start)),
                process.map(|p| &p.boot),
                process.map(|p| &p.pidns),
                to_sql(tx.now_ms),
            ],
            |row| row.get(0),
        )?;
    Ok(Lease { job: job.to_owned(), epoch })
}

/// Gives a lease back.
pub(crate) fn release(tx: &Tx<'_>, lease: &Lease) -> Result<((), Effect), OpError> {
    let released = tx
        .conn
        .prepare_cached("UPDATE jobs SET lease_holder = NULL WHERE id = ?1 AND lease_epoch = ?2 AND lease_holder = ?3")?
        .execute(params![lease.job, lease.epoch, tx.me.key])?;
    if released == 0 {
        return Err(StoreError::LeaseLost { job: shown_id(&lease.job) }.into());
    }
    Ok(((), Effect::WROTE))
}

/// Gives back all leases of a holder. Returns how many.
pub(crate) fn release_all(conn: &Connection, holder: &str) -> rusqlite::Result<usize> {
    conn.execute("UPDATE jobs SET lease_holder = NULL WHERE lease_holder = ?1", [holder])
}

/// Says that all leases of a holder are held. Returns how many.
pub(crate) fn beat(conn: &Connection, holder: &str, now_ms: u64) -> rusqlite::Result<usize> {
    conn.prepare_cached("UPDATE jobs SET lease_beat_ms = ?2 WHERE lease_holder = ?1")?
        .execute(params![holder, to_sql(now_ms)])
}
