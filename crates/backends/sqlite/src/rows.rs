//! Rows of the file as the port's values.

use crate::error::{OpError, Site};
use crate::identity::{Held, Holder, Process};
use hookwright_runtime::ports::store::{ApprovalRow, ApprovalState, InboxItem, JobRow, JobStatus, NewJob, StoreError};
use rusqlite::{Connection, OptionalExtension as _, Row};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Longest id, and longest piece of one that errors show, in bytes.
pub(crate) const ID_BYTES: usize = 256;

/// A port's unsigned number as SQLite's; larger ones (a time at the end of all days) become the largest.
pub(crate) fn to_sql(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// And back.
pub(crate) fn from_sql(n: i64) -> u64 {
    u64::try_from(n).unwrap_or(0)
}

/// The word that stands for a unit variant in the file.
pub(crate) fn word<T: Serialize>(value: &T, site: &Site) -> Result<String, StoreError> {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => Ok(word),
        _ => Err(site.damaged("a state without a name")),
    }
}

fn from_word<T: DeserializeOwned>(word: String, site: &Site) -> Result<T, StoreError> {
    serde_json::from_value(serde_json::Value::String(word)).map_err(|_| site.damaged("an unknown state"))
}

/// JSON text of a value that always has one.
pub(crate) fn to_json<T: Serialize>(value: &T, site: &Site) -> Result<String, StoreError> {
    serde_json::to_string(value)
        .map_err(|e| site.failed("write to", &format!("a value is not JSON: {e}"), "please report this"))
}

pub(crate) fn from_json<T: DeserializeOwned>(text: &str, what: &str, site: &Site) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|e| site.damaged(&format!("{what}: {e}")))
}

/// An id as errors show it: never longer than a line.
pub(crate) fn shown_id(id: &str) -> String {
    if id.len() <= ID_BYTES {
        return id.to_owned();
    }
    let mut end = ID_BYTES;
    while !id.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", &id[..end])
}

pub(crate) fn not_found(kind: &'static str, id: &str) -> StoreError {
    StoreError::NotFound { kind, id: shown_id(id) }
}

/// Columns of a job, in the order that [`job`] reads.
pub(crate) const JOB_COLUMNS: &str = "id, tenant, agent, session, parent, created_ms, origin, status, updated_ms, records, \
     lease_holder, lease_pid, lease_start, lease_boot, lease_pidns, lease_since_ms, lease_beat_ms";

/// Reads a row of [`JOB_COLUMNS`].
pub(crate) fn job(row: &Row<'_>, site: &Site, me: &Holder, now_ms: u64) -> Result<JobRow, OpError> {
    let id: String = row.get(0)?;
    let origin: String = row.get(6)?;
    Ok(JobRow {
        status: from_word::<JobStatus>(row.get(7)?, site)?,
        updated_ms: from_sql(row.get(8)?),
        records: from_sql(row.get(9)?),
        running: held(row, 10)?.is_some_and(|held| me.is_held(&held, now_ms)),
        job: NewJob {
            origin: from_json(&origin, "a job's origin", site)?,
            id,
            tenant: row.get(1)?,
            agent: row.get(2)?,
            session: row.get(3)?,
            parent: row.get(4)?,
            created_ms: from_sql(row.get(5)?),
        },
    })
}

/// Reads the lease columns of [`JOB_COLUMNS`], which start at `at`; none where nobody holds it.
pub(crate) fn held(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<Held>> {
    if row.get::<_, Option<String>>(at)?.is_none() {
        return Ok(None);
    }
    let pid = u32::try_from(row.get::<_, Option<i64>>(at + 1)?.unwrap_or(0)).unwrap_or(0);
    let start = row.get::<_, Option<i64>>(at + 2)?;
    let boot = row.get::<_, Option<String>>(at + 3)?;
    let pidns = row.get::<_, Option<String>>(at + 4)?;
    let process = match (start, boot, pidns) {
        (Some(start), Some(boot), Some(pidns)) => Some(Process { pid, start: from_sql(start), boot, pidns }),
        _ => None,
    };
    Ok(Some(Held {
        pid,
        process,
        since_ms: from_sql(row.get::<_, Option<i64>>(at + 5)?.unwrap_or(0)),
        beat_ms: from_sql(row.get::<_, Option<i64>>(at + 6)?.unwrap_or(0)),
    }))
}

/// Selects approvals in the order that [`approval`] reads; conditions are added.
pub(crate) const APPROVALS: &str = "SELECT a.id, j.id, a.tenant, a.state, a.opened_ms, a.expires_ms, a.approval, a.decision \
     FROM approvals a JOIN jobs j ON j.n = a.job";

/// Reads a row of [`APPROVALS`].
pub(crate) fn approval(row: &Row<'_>, site: &Site) -> Result<ApprovalRow, OpError> {
    let approval: String = row.get(6)?;
    let decision: Option<String> = row.get(7)?;
    Ok(ApprovalRow {
        id: row.get(0)?,
        job: row.get(1)?,
        tenant: row.get(2)?,
        state: from_word::<ApprovalState>(row.get(3)?, site)?,
        opened_ms: from_sql(row.get(4)?),
        expires_ms: from_sql(row.get(5)?),
        // One that somebody changed must not stop all others: whoever reads these finds that they are not what was written.
        approval: serde_json::from_str(&approval).unwrap_or_default(),
        decision: decision.and_then(|d| serde_json::from_str(&d).ok()),
    })
}

/// Reads `id, what` of the inbox.
pub(crate) fn inbox_item(row: &Row<'_>, site: &Site) -> Result<InboxItem, OpError> {
    let what: String = row.get(1)?;
    Ok(InboxItem { id: row.get(0)?, what: from_json(&what, "an inbox item", site)? })
}

/// The whole id that an id or an unambiguous prefix stands for. `table` is `jobs` or `approvals`.
pub(crate) fn resolve(conn: &Connection, table: &str, kind: &'static str, prefix: &str) -> Result<String, OpError> {
    // Everything that starts with a text stands in one stretch, in the order of bytes, from that text on.
    let sql = format!("SELECT id FROM {table} WHERE id >= ?1 ORDER BY id LIMIT 2");
    let mut statement = conn.prepare_cached(&sql)?;
    let ids = statement.query_map([prefix], |row| row.get::<_, String>(0))?.collect::<Result<Vec<_>, _>>()?;
    let mut fitting = ids.into_iter().filter(|id| !prefix.is_empty() && id.starts_with(prefix));
    match (fitting.next(), fitting.next()) {
        (None, _) => Err(not_found(kind, prefix).into()),
        (Some(id), None) => Ok(id),
        (Some(id), Some(_)) if id == prefix => Ok(id),
        (Some(_), Some(_)) => Err(StoreError::Ambiguous { kind, id: shown_id(prefix) }.into()),
    }
}

/// The number of a job in the file, with its status.
pub(crate) fn job_number(conn: &Connection, id: &str, site: &Site) -> Result<(i64, JobStatus), OpError> {
    let row = conn
        .prepare_cached("SELECT n, status FROM jobs WHERE id = ?1")?
        .query_row([id], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)))
        .optional()?;
    let (n, status) = row.ok_or_else(|| not_found("job", id))?;
    Ok((n, from_word(status, site)?))
}
