//! The file's tables and their versions.
//!
//! Invariant: a file of another application, or of a newer version, is not changed by a single byte.
//! Invariant: a migration is one transaction with the version it leads to.
//! Invariant: a file whose tables are not, word for word, those that were made here is not used: a trigger, a default or a check of somebody
//! else's would write, or keep from being written, what nobody decided.

use crate::error::Site;
use hookwright_core::text;
use hookwright_runtime::ports::store::StoreError;
use rusqlite::{Connection, TransactionBehavior};
use std::collections::BTreeSet;

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

/// A table, index, trigger or view, as SQLite keeps it: its type, name, table and text.
type Object = (String, String, String, Option<String>);

/// What `ANALYZE` and the optimizer leave in a file: statistics, which nothing here reads.
const STATISTICS: [(&str, &str); 2] = [
    ("sqlite_stat1", "CREATE TABLE sqlite_stat1(tbl,idx,stat)"),
    ("sqlite_stat4", "CREATE TABLE sqlite_stat4(tbl,idx,neq,nlt,ndlt,sample)"),
];

fn objects(conn: &Connection) -> rusqlite::Result<BTreeSet<Object>> {
    let mut select = conn.prepare("SELECT type, name, tbl_name, sql FROM sqlite_schema")?;
    select.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?.collect()
}

/// The objects of a file of this version, as its own migrations make them.
fn own_objects(version: i32) -> rusqlite::Result<BTreeSet<Object>> {
    let conn = Connection::open_in_memory()?;
    for sql in MIGRATIONS.iter().take(usize::try_from(version).unwrap_or(0)) {
        conn.execute_batch(sql)?;
    }
    objects(&conn)
}

/// Compares the file's objects with ours; what differs is named.
fn check_objects(conn: &Connection, site: &Site, version: i32) -> Result<(), StoreError> {
    let explain = |e: rusqlite::Error| site.explain("open", &e);
    let (found, own) = (objects(conn).map_err(explain)?, own_objects(version).map_err(explain)?);
    let statistics =
        |(_, name, _, sql): &Object| STATISTICS.iter().any(|(n, s)| n == name && sql.as_deref() == Some(s));
    let named = |(kind, name, table, _): &Object| match kind.as_str() {
        "table" | "view" => format!("the {kind} {}", text::shown(name, 60)),
        kind => format!("the {} {} on {}", text::shown(kind, 20), text::shown(name, 60), text::shown(table, 60)),
    };
    let known = |object: &Object| own.iter().any(|o| (&o.0, &o.1) == (&object.0, &object.1));
    if let Some(foreign) = found.difference(&own).find(|o| !statistics(o)) {
        let what = named(foreign);
        let what = if known(foreign) { format!("{what} was changed") } else { format!("{what} is not Hookwright's") };
        return Err(site.failed(
            "open",
            &format!("{what}, and could decide or hide things in your name"),
            "if you made it, take it away (sqlite3 FILE 'DROP …'); if the file came from somebody else, don't use it: give another --db file",
        ));
    }
    match own.difference(&found).next() {
        None => Ok(()),
        Some(gone) => Err(site.damaged(&format!("{} is missing", named(gone)))),
    }
}

/// Reads what a file is, at one moment; refuses foreign and newer ones, and those whose tables were changed.
pub(crate) fn identify(conn: &Connection, site: &Site) -> Result<Found, StoreError> {
    if !conn.is_autocommit() {
        return look(conn, site);
    }
    let moment = conn.unchecked_transaction().map_err(|e| site.explain("open", &e))?;
    let found = look(&moment, site);
    moment.finish().map_err(|e| site.explain("open", &e))?;
    found
}

fn look(conn: &Connection, site: &Site) -> Result<Found, StoreError> {
    let read = |sql: &str| conn.query_row(sql, [], |row| row.get::<_, i32>(0)).map_err(|e| site.explain("open", &e));
    let (application, version) = (read("PRAGMA application_id")?, read("PRAGMA user_version")?);
    let objects = read("SELECT count(*) FROM sqlite_schema")?;
    match (application, version, objects) {
        (0, 0, 0) => Ok(Found::Empty),
        (APPLICATION_ID, version, _) if (1..=VERSION).contains(&version) => {
            check_objects(conn, site, version)?;
            Ok(Found::Version(version))
        }
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
