//! Opens the store that a command works on.

use crate::exit::{CliError, CliResult};
use crate::settings::{Settings, shown};
use crate::trust;
use hookwright_runtime::ports::clock::SystemClock;
use hookwright_sqlite::{OpenOptions, SqliteStore};
use std::path::Path;
use std::sync::Arc;

/// For commands that write: makes the file where there is none.
pub(crate) fn open(settings: &Settings) -> CliResult<Arc<SqliteStore>> {
    let path = settings.db()?;
    if let Some(folder) = path.parent()
        && folder.file_name().is_some_and(|n| n == ".hookwright")
        && !folder.exists()
    {
        prepare_folder(folder)?;
    }
    let mut options = OpenOptions::new(node_name(), Arc::new(SystemClock));
    options.probe = crate::work::crash_probe(&settings.env);
    if settings.is_default_db(&path) && begin_file(&path) {
        // Before its set-up, lest a store whose set-up was cut short counts as somebody else's.
        trust::remember_store(&settings.env, &path);
    }
    Ok(SqliteStore::open(&path, options)?)
}

/// Makes an empty file where there is none. True: the file is empty, so whatever it will hold comes from this user's commands. What goes
/// wrong here goes wrong again, in words, where the store is opened.
fn begin_file(path: &Path) -> bool {
    use std::os::unix::fs::OpenOptionsExt as _;
    let made = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).is_ok();
    made || std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() == 0)
}

/// For commands that look at or decide on what is there: a store that does not exist is an error, not an empty one.
pub(crate) fn existing(settings: &Settings, read_only: bool) -> CliResult<Arc<SqliteStore>> {
    let path = settings.db()?;
    if !path.exists() {
        return Err(CliError::failed(format!("there is no store at {}", shown(&path)))
            .hint("name it with --db, or go to the folder where the job was run"));
    }
    let options = OpenOptions::new(node_name(), Arc::new(SystemClock));
    let options = if read_only { options.read_only() } else { options };
    Ok(SqliteStore::open(&path, options)?)
}

/// Our own folder in a project: kept out of its git.
pub(crate) fn prepare_folder(folder: &Path) -> CliResult<()> {
    let failed = |e: std::io::Error| CliError::failed(format!("the folder {} can't be made: {e}", shown(folder)));
    std::fs::create_dir_all(folder).map_err(failed)?;
    let ignore = folder.join(".gitignore");
    if !ignore.exists() {
        std::fs::write(ignore, "*\n").map_err(failed)?;
    }
    Ok(())
}

/// The node's name: the machine's.
pub(crate) fn node_name() -> String {
    let name = whoami::hostname().unwrap_or_else(|_| "localhost".into());
    let name: String =
        name.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')).take(64).collect();
    if name.is_empty() { "localhost".into() } else { name }
}

/// As [`existing`], for running jobs: with the crash points of tests. Jobs name the programs that they start, so a store that is only
/// found in the current folder, as one that came with a clone, is not taken at its word (SPEC §2).
pub(crate) fn open_existing(settings: &Settings) -> CliResult<Arc<SqliteStore>> {
    drop(existing(settings, true)?);
    let path = settings.db()?;
    if !settings.names_db()? && !trust::knows_store(&settings.env, &path) {
        let message = format!("{} was not made by you here, and its jobs say which programs are started", shown(&path));
        return Err(CliError::usage(message).hint("if you trust it, name it with --db"));
    }
    open(settings)
}
