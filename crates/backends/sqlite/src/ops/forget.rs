//! Deleting a job's values; their digests stay (SPEC §8).

use super::{Effect, Tx};
use crate::error::OpError;
use crate::rows::{job_number, shown_id};
use crate::strip::strip;
use hookwright_runtime::ports::store::StoreError;
use rusqlite::{Connection, params};
use serde::Serialize;

/// What was deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Forgotten {
    /// Records in which values stood.
    pub records: u64,
    /// Approvals in which values stood.
    pub approvals: u64,
    /// Large values that no other job names.
    pub blobs: u64,
}

/// Deletes the values of a job that has ended.
pub(crate) fn forget(tx: &Tx<'_>, job: &str) -> Result<(Forgotten, Effect), OpError> {
    let (n, status) = job_number(tx.conn, job, tx.site)?;
    if !status.is_final() {
        return Err(StoreError::Failed(format!(
            "job {} has not ended, and could not go on without its values: cancel it first",
            shown_id(job)
        ))
        .into());
    }
    let records = rewrite(tx, n, "SELECT n, text FROM records WHERE job = ?1 AND n > ?2 ORDER BY n LIMIT 64", {
        "UPDATE records SET text = ?2 WHERE n = ?1"
    })?;
    let approvals =
        rewrite(tx, n, "SELECT n, approval FROM approvals WHERE job = ?1 AND n > ?2 ORDER BY n LIMIT 64", {
            "UPDATE approvals SET approval = ?2 WHERE n = ?1"
        })?;
    let blobs = forget_blobs(tx.conn, n)?;
    Ok((Forgotten { records, approvals, blobs }, Effect { scrub: true, ..Effect::WROTE }))
}

/// Rewrites texts without the values in them, a few at a time, so that a long history need not fit into memory.
fn rewrite(tx: &Tx<'_>, job: i64, select: &str, update: &str) -> Result<u64, OpError> {
    let (mut select, mut update) = (tx.conn.prepare(select)?, tx.conn.prepare(update)?);
    let (mut after, mut changed) = (0_i64, 0);
    loop {
        let some = select
            .query_map([job, after], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)))?
            .collect::<Result<Vec<_>, _>>()?;
        let Some((last, _)) = some.last() else { return Ok(changed) };
        after = *last;
        for (n, text) in some {
            if let Some(text) = strip(&text).map_err(|e| tx.site.damaged(&format!("a record that is not JSON: {e}")))? {
                update.execute(params![n, text])?;
                changed += 1;
            }
        }
    }
}

fn forget_blobs(conn: &Connection, job: i64) -> Result<u64, OpError> {
    let named = conn
        .prepare("SELECT blob FROM blob_refs WHERE job = ?1")?
        .query_map([job], |row| row.get::<_, i64>(0))?
        .collect::<Result<Vec<_>, _>>()?;
    conn.execute("DELETE FROM blob_refs WHERE job = ?1", [job])?;
    let mut delete =
        conn.prepare("DELETE FROM blobs WHERE n = ?1 AND NOT EXISTS (SELECT 1 FROM blob_refs WHERE blob = ?1)")?;
    let mut deleted = 0;
    for blob in named {
        deleted += delete.execute([blob])? as u64;
    }
    Ok(deleted)
}
