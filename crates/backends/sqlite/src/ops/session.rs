//! Sessions: conversations that span jobs.

use super::{Effect, Tx, forget};
use crate::error::OpError;
use crate::rows::{ID_BYTES, JOB_COLUMNS, from_json, from_sql, job, not_found, shown_id, to_json, to_sql};
use crate::{error::Site, identity::Holder};
use hookwright_core::text::is_hidden;
use hookwright_runtime::ports::sessions::{NewSession, SessionChange, SessionPage, SessionRow};
use hookwright_runtime::ports::store::{JobRow, StoreError};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

const COLUMNS: &str = "id, tenant, agent, cwd, title, created_ms, updated_ms, closed_ms, origin";

/// Creates a session.
pub(crate) fn create(tx: &Tx<'_>, session: &NewSession) -> Result<((), Effect), OpError> {
    if session.id.is_empty() || session.id.len() > ID_BYTES || session.id.chars().any(is_hidden) {
        return Err(StoreError::Failed(format!(
            "session id {:?} cannot be used: 1 to {ID_BYTES} bytes without control characters are allowed",
            shown_id(&session.id)
        ))
        .into());
    }
    let inserted = tx
        .conn
        .prepare_cached(
            "INSERT INTO sessions (id, tenant, agent, cwd, created_ms, updated_ms, origin) VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?6) \
             ON CONFLICT (id) DO NOTHING",
        )?
        .execute(params![
            session.id,
            session.tenant,
            session.agent,
            session.cwd,
            to_sql(session.created_ms),
            to_json(&session.origin, tx.site)?
        ])?;
    if inserted == 0 {
        return Err(StoreError::Failed(format!("there is a session {} already: ids are used once", session.id)).into());
    }
    Ok(((), Effect::WROTE))
}

/// Changes a session.
pub(crate) fn change(tx: &Tx<'_>, id: &str, change: &SessionChange) -> Result<((), Effect), OpError> {
    let origin = change.origin.as_ref().map(|origin| to_json(origin, tx.site)).transpose()?;
    let changed = tx
        .conn
        .prepare_cached(
            "UPDATE sessions SET title = coalesce(?2, title), cwd = coalesce(?3, cwd), origin = coalesce(?4, origin), \
             closed_ms = CASE WHEN ?5 THEN ?6 ELSE closed_ms END, updated_ms = max(updated_ms, ?7) WHERE id = ?1",
        )?
        .execute(params![
            id,
            change.title,
            change.cwd,
            origin,
            change.closed_ms.is_some(),
            change.closed_ms.flatten().map(to_sql),
            to_sql(change.at_ms),
        ])?;
    if changed == 0 { Err(not_found("session", id).into()) } else { Ok(((), Effect::WROTE)) }
}

/// Deletes a session and its jobs' values.
pub(crate) fn delete(tx: &Tx<'_>, id: &str) -> Result<((), Effect), OpError> {
    let jobs = tx
        .conn
        .prepare_cached("SELECT id FROM jobs WHERE session = ?1 ORDER BY n")?
        .query_map([id], |row| row.get::<_, String>(0))?
        .collect::<Result<Vec<_>, _>>()?;
    let mut effect = Effect::WROTE;
    for job in jobs {
        effect = effect.and(forget::forget(tx, &job)?.1);
    }
    let deleted = tx.conn.prepare_cached("DELETE FROM sessions WHERE id = ?1")?.execute([id])?;
    // Its title is made of what its user said.
    effect.scrub = true;
    if deleted == 0 { Err(not_found("session", id).into()) } else { Ok(((), effect)) }
}

/// One session.
pub(crate) fn one(conn: &Connection, id: &str, site: &Site) -> Result<SessionRow, OpError> {
    conn.prepare_cached(&format!("SELECT {COLUMNS} FROM sessions WHERE id = ?1"))?
        .query_row([id], |row| Ok(session(row, site)))
        .optional()?
        .ok_or_else(|| not_found("session", id))?
}

/// A page of sessions.
pub(crate) fn page(conn: &Connection, page: &SessionPage, site: &Site) -> Result<Vec<SessionRow>, OpError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM sessions WHERE tenant = ?1 AND (?2 IS NULL OR cwd = ?2) \
         AND (?3 IS NULL OR (updated_ms, id) < (?3, ?4)) ORDER BY updated_ms DESC, id DESC LIMIT ?5"
    );
    let (at, id) = match &page.after {
        Some((at, id)) => (Some(to_sql(*at)), Some(id)),
        None => (None, None),
    };
    let mut statement = conn.prepare_cached(&sql)?;
    let rows = statement.query_map(params![page.tenant, page.cwd, at, id, page.limit], |row| Ok(session(row, site)))?;
    rows.collect::<Result<Result<Vec<_>, OpError>, _>>()?
}

/// The jobs of a session.
pub(crate) fn jobs(
    conn: &Connection,
    session: &str,
    site: &Site,
    me: &Holder,
    now_ms: u64,
) -> Result<Vec<JobRow>, OpError> {
    let sql = format!("SELECT {JOB_COLUMNS} FROM jobs WHERE session = ?1 AND parent IS NULL ORDER BY n");
    let mut statement = conn.prepare_cached(&sql)?;
    let rows = statement.query_map([session], |row| Ok(job(row, site, me, now_ms)))?;
    rows.collect::<Result<Result<Vec<_>, OpError>, _>>()?
}

fn session(row: &Row<'_>, site: &Site) -> Result<SessionRow, OpError> {
    let origin: String = row.get(8)?;
    Ok(SessionRow {
        session: NewSession {
            id: row.get(0)?,
            tenant: row.get(1)?,
            agent: row.get(2)?,
            cwd: row.get(3)?,
            created_ms: from_sql(row.get(5)?),
            origin: from_json(&origin, "a session's origin", site)?,
        },
        title: row.get(4)?,
        updated_ms: from_sql(row.get(6)?),
        closed_ms: row.get::<_, Option<i64>>(7)?.map(from_sql),
    })
}
