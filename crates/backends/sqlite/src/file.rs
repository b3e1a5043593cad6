//! The file: its creation, its permissions, and connections to it.
//!
//! Invariant: nobody but the file's owner gets a right to a file that was created here (0600; SQLite gives `-wal` and `-shm` the same).
//! Invariant: an existing file is never opened here by other means than SQLite: closing such a handle would drop SQLite's locks.

use crate::error::Site;
use crate::schema;
use hookwright_core::text::escape;
use hookwright_runtime::ports::store::StoreError;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A write-ahead log that has grown larger than this in bytes is cut to it when it starts over.
const LOG_LIMIT_BYTES: u64 = 64 * 1024 * 1024;

/// Creations and first opens of one process, one after another: see the second invariant.
static OPENING: Mutex<()> = Mutex::new(());

/// What a connection may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Read and write, fully durable.
    Write,
    /// Read, beside a writer.
    Read,
    /// Read, with a handle that could write: whoever closes the file last then takes the empty `-wal` and `-shm` away, which SQLite makes
    /// even for reading and leaves behind where the last one can't write.
    Tidy,
    /// Read a file that nobody writes to, without locks and without a write-ahead log.
    Immutable,
}

/// How long connections wait for other processes, in milliseconds; may be changed while they are in use.
pub(crate) type BusyLimit = Arc<AtomicU64>;

/// Opens the file for writing, having created it where it is missing, and brings it to the current version.
pub(crate) fn open_writer(site: &Site, busy: &BusyLimit) -> Result<Connection, StoreError> {
    let _one_at_a_time = OPENING.lock().unwrap_or_else(PoisonError::into_inner);
    create_if_missing(site)?;
    warn_of_surroundings(&site.path);
    let mut conn = connect(site, Access::Write, busy).map_err(|e| site.explain("open", &e))?;
    schema::identify(&conn, site)?;
    if conn.is_readonly("main").map_err(|e| site.explain("open", &e))? {
        return Err(site.failed(
            "write to",
            "the file, its folder or the disk is read-only",
            "give yourself the right to write to the file and its folder, or use another --db file",
        ));
    }
    use_log(&conn, site, busy)?;
    schema::migrate(&mut conn, site)?;
    if let Some(max) = site.max_bytes {
        limit_size(&conn, max).map_err(|e| site.explain("open", &e))?;
    }
    Ok(conn)
}

/// Checks that the file can be read, and how: SQLite needs to write to `-shm` beside it, unless nobody writes to the file at all.
pub(crate) fn open_reader(site: &Site, busy: &BusyLimit) -> Result<(Connection, Access), StoreError> {
    if fs::metadata(&site.path).is_err_and(|e| e.kind() == io::ErrorKind::NotFound) {
        return Err(site.failed(
            "read",
            "there is no such file",
            "check the path given with --db; the first `run` creates the file",
        ));
    }
    refuse_other(site)?;
    let open = |access| -> rusqlite::Result<Connection> {
        let conn = connect(site, access, busy)?;
        conn.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
        Ok(conn)
    };
    // A log with something in it (of a process that lives, or was killed) is not merged by somebody who only reads.
    let log = beside(&site.path, "-wal");
    let has_log = fs::metadata(&log).is_ok_and(|m| m.len() > 0);
    let access = if has_log { Access::Read } else { Access::Tidy };
    let (conn, access) = match open(access) {
        Ok(conn) => (conn, access),
        Err(e) if matches!(e.sqlite_error_code(), Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly)) => {
            if has_log {
                return Err(site.failed(
                    "read",
                    &format!("its folder is read-only and {} still has to be merged into it", escape(&log.display().to_string())),
                    "copy the file and the files beside it (-wal, -shm) to a folder of your own and give that copy with --db",
                ));
            }
            (open(Access::Immutable).map_err(|_| site.explain("read", &e))?, Access::Immutable)
        }
        Err(e) => return Err(site.explain("read", &e)),
    };
    match schema::identify(&conn, site)? {
        schema::Found::Version(schema::VERSION) => Ok((conn, access)),
        schema::Found::Version(older) => Err(site.failed(
            "read",
            &format!("it has the older format {older}"),
            "open it once with the right to write, e.g. by `hookwright jobs list` as its owner; that converts it",
        )),
        schema::Found::Empty => Err(site.failed(
            "read",
            "nothing is stored in it yet",
            "the next `hookwright run` sets it up; or check the path given with --db",
        )),
    }
}

/// Opens one more connection to a file that [`open_writer`] or [`open_reader`] has checked.
pub(crate) fn connect(site: &Site, access: Access, busy: &BusyLimit) -> rusqlite::Result<Connection> {
    let mut conn = match access {
        Access::Write | Access::Tidy => {
            Connection::open_with_flags(&site.path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)
        }
        Access::Read => {
            Connection::open_with_flags(&site.path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)
        }
        Access::Immutable => Connection::open_with_flags(
            immutable_uri(&site.path),
            OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI,
        ),
    }?;
    wait_when_busy(&mut conn, busy.clone())?;
    conn.set_prepared_statement_cache_capacity(64);
    // A file is data: nothing in its schema may run code.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
    conn.execute_batch("PRAGMA cell_size_check = ON; PRAGMA temp_store = MEMORY; PRAGMA mmap_size = 0;")?;
    if access == Access::Write {
        conn.execute_batch(&format!(
            "PRAGMA foreign_keys = ON; PRAGMA synchronous = FULL; PRAGMA fullfsync = ON; PRAGMA checkpoint_fullfsync = ON; \
             PRAGMA secure_delete = ON; PRAGMA cache_size = -8000; PRAGMA journal_size_limit = {LOG_LIMIT_BYTES};"
        ))?;
    } else {
        conn.execute_batch("PRAGMA query_only = ON;")?;
    }
    Ok(conn)
}

/// Another process may hold a lock: tries again, soon at first, for as long as the limit allows.
fn wait_when_busy(conn: &mut Connection, limit: BusyLimit) -> rusqlite::Result<()> {
    let mut since = Instant::now();
    conn.busy_handler(Some(move |tries: i32| {
        if tries == 0 {
            since = Instant::now();
        }
        if since.elapsed() >= Duration::from_millis(limit.load(Ordering::Relaxed)) {
            return false;
        }
        std::thread::sleep(match tries {
            0..10 => Duration::from_micros(200),
            10..50 => Duration::from_millis(1),
            _ => Duration::from_millis(4),
        });
        true
    }))
}

/// Switches a new file to write-ahead logging. SQLite does not always wait by itself here.
fn use_log(conn: &Connection, site: &Site, busy: &BusyLimit) -> Result<(), StoreError> {
    let since = Instant::now();
    loop {
        match conn.query_row("PRAGMA journal_mode = WAL", [], |row| row.get::<_, String>(0)) {
            Ok(mode) if mode == "wal" => return Ok(()),
            Ok(_) => {
                return Err(site.failed(
                    "open",
                    "this disk does not support SQLite's write-ahead log",
                    "put the file on a local disk (network file systems are not supported)",
                ));
            }
            Err(e)
                if e.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && since.elapsed() < Duration::from_millis(busy.load(Ordering::Relaxed)) =>
            {
                std::thread::sleep(Duration::from_millis(2));
            }
            Err(e) => return Err(site.explain("open", &e)),
        }
    }
}

fn limit_size(conn: &Connection, max_bytes: u64) -> rusqlite::Result<()> {
    let page: i64 = conn.query_row("PRAGMA page_size", [], |row| row.get(0))?;
    let pages = i64::try_from(max_bytes).unwrap_or(i64::MAX) / page.max(1);
    // SQLite never goes below the file's present size.
    conn.query_row(&format!("PRAGMA max_page_count = {}", pages.clamp(1, 4_294_967_294)), [], |_| Ok(()))
}

fn create_if_missing(site: &Site) -> Result<(), StoreError> {
    refuse_other(site)?;
    if site.path.exists() {
        return Ok(());
    }
    let explain = |e: io::Error| {
        site.failed(
            "create",
            &escape(&e.to_string()),
            "check that you may write to its folder, or give another --db file",
        )
    };
    if let Some(folder) = site.path.parent().filter(|f| !f.exists()) {
        create_folder(folder).map_err(explain)?;
    }
    match create_file(&site.path) {
        Ok(()) => {}
        // Another process was first, or the path is a link that leads nowhere; SQLite will say so.
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
        Err(e) => return Err(explain(e)),
    }
    // The file's name must survive a power cut as well as its content; not every file system lets folders be synced.
    if let Some(folder) = site.path.parent()
        && let Err(e) = fs::File::open(folder).and_then(|f| f.sync_all())
    {
        tracing::debug!(error = %e, "the store's folder cannot be synced");
    }
    Ok(())
}

/// Refuses what is there and is no file: a pipe would be waited for without end.
fn refuse_other(site: &Site) -> Result<(), StoreError> {
    match fs::metadata(&site.path) {
        Ok(found) if !found.is_file() => {
            let what = if found.is_dir() { "it is a folder" } else { "it is a pipe, a device or a socket, not a file" };
            Err(site.failed("open", what, "give the path of a file with --db"))
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

fn create_folder(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

fn create_file(path: &Path) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map(drop)
}

#[cfg(not(unix))]
fn warn_of_surroundings(_path: &Path) {}

/// What is allowed but rarely meant.
#[cfg(unix)]
fn warn_of_surroundings(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    if fs::metadata(path).is_ok_and(|m| m.permissions().mode() & 0o077 != 0) {
        tracing::warn!(path = %path.display(), "other users of this machine may open the store: `chmod 600` it unless that is meant");
    }
    #[cfg(target_os = "linux")]
    if rustix::fs::statfs(path).is_ok_and(|s| is_network(&s)) {
        tracing::warn!(
            path = %path.display(),
            "the store stands on a network file system, where SQLite's locks are not reliable: move it to a local disk"
        );
    }
}

/// NFS, SMB, CIFS, SMB2, AFS.
#[cfg(target_os = "linux")]
#[allow(clippy::cast_sign_loss, reason = "a bit pattern, whose type differs between architectures")]
fn is_network(fs: &rustix::fs::StatFs) -> bool {
    matches!(fs.f_type as u64 & 0xFFFF_FFFF, 0x6969 | 0x517B | 0xFF53_4D42 | 0xFE53_4D42 | 0x5346_414F)
}

/// The file beside another one, by suffix.
pub(crate) fn beside(path: &Path, suffix: &str) -> std::path::PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn immutable_uri(path: &Path) -> String {
    use std::fmt::Write as _;
    let mut uri = String::from("file://");
    for &byte in path.as_os_str().as_encoded_bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'.' | b'-' | b'_') {
            uri.push(char::from(byte));
        } else {
            let _ = write!(uri, "%{byte:02X}");
        }
    }
    uri + "?immutable=1"
}
