//! How many jobs of a tenant are under way at once (docs/decisions/0181).
//!
//! Invariant: it is counted in the transaction that takes the lease: of processes that come at once, none takes a place that is not there.

use super::Tx;
use crate::error::OpError;
use crate::rows::{held, inbox_item};
use hookwright_runtime::ports::store::{InboxKind, StoreError};
use rusqlite::params;
use std::collections::HashMap;

/// How many jobs each tenant may have under way; one that is not named has no limit.
pub(crate) type AtOnce = HashMap<String, u32>;

/// Fails where a tenant has no place for one more job, which has the number `n`.
pub(crate) fn check(tx: &Tx<'_>, n: i64, tenant: &str, at_once: &AtOnce) -> Result<(), OpError> {
    let Some(limit) = at_once.get(tenant).copied() else { return Ok(()) };
    let mut select = tx.conn.prepare_cached(
        "SELECT lease_holder, lease_pid, lease_start, lease_boot, lease_pidns, lease_since_ms, lease_beat_ms FROM jobs \
         WHERE lease_holder IS NOT NULL AND tenant = ?1 AND parent IS NULL AND n != ?2 AND status IN ('running', 'waiting')",
    )?;
    let mut running = 0_u64;
    let leases = select.query_map(params![tenant, n], |row| held(row, 0))?;
    for lease in leases {
        running += u64::from(lease?.is_some_and(|lease| tx.me.is_held_after(&lease, tx.now_ms, tx.waited_ms)));
    }
    if running < u64::from(limit) {
        return Ok(());
    }
    Err(StoreError::Full { tenant: hookwright_core::text::shown(tenant, 100), running, limit }.into())
}

/// As [`check`], of a job that is taken up again. What only ends a job needs no place: a cancel that waits for it, the end of its session.
pub(crate) fn check_taken(tx: &Tx<'_>, n: i64, at_once: &AtOnce) -> Result<(), OpError> {
    if at_once.is_empty() {
        return Ok(());
    }
    let (tenant, counts) = tx
        .conn
        .prepare_cached("SELECT tenant, parent IS NULL AND status IN ('running', 'waiting') FROM jobs WHERE n = ?1")?
        .query_row([n], |row| Ok((row.get::<_, String>(0)?, row.get::<_, bool>(1)?)))?;
    if !counts || is_cancelled(tx, n)? {
        return Ok(());
    }
    check(tx, n, &tenant, at_once)
}

fn is_cancelled(tx: &Tx<'_>, n: i64) -> Result<bool, OpError> {
    let mut select = tx.conn.prepare_cached("SELECT id, what FROM inbox WHERE job = ?1 ORDER BY id")?;
    let items = select.query_map([n], |row| Ok(inbox_item(row, tx.site)))?;
    for item in items {
        if matches!(item??.what, InboxKind::Cancel { .. }) {
            return Ok(true);
        }
    }
    Ok(false)
}
