//! The file's tables and their versions.
//!
//! Invariant: a file of another application, or of a newer version, is not changed by a single byte.
//! Invariant: a migration is one transaction with the version it leads to.

use crate::error::Site;
use hookwright_runtime::ports::store::StoreError;
use rusqlite::{Connection, TransactionBehavior};

/// `PRAGMA application_id` of the file: "Hook".
pub const APPLICATION_ID: i32 = 0x486F_6F6B;

/// `PRAGMA user_version` that this program writes and reads.
pub const VERSION: i32 = 2;

/// What leads from version `i` to `i + 1`.
const MIGRATIONS: [&str; VERSION as usize] = [include_str!("schema/1.sql"), include_str!("schema/2.sql")];

/// What a file is, before anything is done to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// Nothing in it yet.
    Empty,
    /// Ours, of a version not newer than [`VERSION`].
    Version(i32),
}

/// Reads what a file is; refuses foreign and newer ones.
pub(crate) fn identify(conn: &Connection, site: &Site) -> Result<Found, StoreError> {
    let read = |sql: &str| conn.query_row(sql, [], |row| row.get::<_, i32>(0)).map_err(|e| site.explain("open", &e));
    let (application, version) = (read("PRAGMA application_id")?, read("PRAGMA user_version")?);
    let objects = read("SELECT count(*) FROM sqlite_schema")?;
    match (application, version, objects) {
        (0, 0, 0) => Ok(Found::Empty),
        (APPLICATION_ID, version, _) if (1..=VERSION).contains(&version) => Ok(Found::Version(version)),
        (APPLICATION_ID, version, _) if version > VERSION => Err(site.failed(
            "open",
            &format!(
                "it was written by a newer version of Hookwright (format {version}, this one reads up to {VERSION})"
            ),
            "use the newer version, or another --db file",
        )),
        _ => Err(site.failed(
            "open",
            "it is a database of another application",
            "give another --db file; nothing was changed in this one",
        )),
    }
}

/// Brings the file to [`VERSION`]. Safe when several processes do it at once.
pub(crate) fn migrate(conn: &mut Connection, site: &Site) -> Result<(), StoreError> {
    if identify(conn, site)? == Found::Version(VERSION) {
        return Ok(());
    }
    let explain = |e: rusqlite::Error| site.explain("set up", &e);
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate).map_err(explain)?;
    // Another process may have been first while this one waited for the lock.
    let from = match identify(&tx, site)? {
        Found::Empty => 0,
        Found::Version(version) => version,
    };
    for sql in MIGRATIONS.iter().skip(usize::try_from(from).unwrap_or(0)) {
        tx.execute_batch(sql).map_err(explain)?;
    }
    tx.pragma_update(None, "application_id", APPLICATION_ID).map_err(explain)?;
    tx.pragma_update(None, "user_version", VERSION).map_err(explain)?;
    tx.commit().map_err(explain)
}
