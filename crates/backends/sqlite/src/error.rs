//! What SQLite says, put into words: which file, what happened, what to do next.

use hookwright_core::text::escape;
use hookwright_runtime::ports::store::StoreError;
use rusqlite::ErrorCode;
use std::path::PathBuf;

/// The store's file, as errors name it.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    /// Absolute.
    pub(crate) path: PathBuf,
    /// As [`crate::OpenOptions::max_bytes`].
    pub(crate) max_bytes: Option<u64>,
}

/// Why an operation within a transaction did not happen.
#[derive(Debug)]
pub(crate) enum OpError {
    /// The store's own answer.
    Store(StoreError),
    /// SQLite's.
    Sql(rusqlite::Error),
}

impl From<rusqlite::Error> for OpError {
    fn from(e: rusqlite::Error) -> Self {
        Self::Sql(e)
    }
}

impl From<StoreError> for OpError {
    fn from(e: StoreError) -> Self {
        Self::Store(e)
    }
}

/// Whether a smaller transaction may succeed where this one failed.
pub(crate) fn is_full(e: &rusqlite::Error) -> bool {
    e.sqlite_error_code() == Some(ErrorCode::DiskFull)
}

impl Site {
    /// `failed to {doing} the store {path}: {what}; {next}`.
    pub(crate) fn failed(&self, doing: &str, what: &str, next: &str) -> StoreError {
        StoreError::Failed(format!("failed to {doing} the store {}: {what}; {next}", self.shown()))
    }

    /// The path, fit to show.
    pub(crate) fn shown(&self) -> String {
        escape(&self.path.display().to_string())
    }

    /// Something in the file is not as this program writes it.
    pub(crate) fn damaged(&self, what: &str) -> StoreError {
        self.failed("read", &format!("it is damaged ({what})"), RESTORE)
    }

    /// An error of an operation, in words.
    pub(crate) fn explain_op(&self, doing: &str, e: OpError) -> StoreError {
        match e {
            OpError::Store(e) => e,
            OpError::Sql(e) => self.explain(doing, &e),
        }
    }

    /// An error of SQLite, in words.
    pub(crate) fn explain(&self, doing: &str, e: &rusqlite::Error) -> StoreError {
        let detail = escape(&e.to_string());
        let (what, next) = match e.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => (
                match self.max_bytes {
                    Some(max) => format!("the disk is full or the store has reached its limit of {max} bytes"),
                    None => "the disk is full".to_owned(),
                },
                "make room, then resume the job; nothing of this step was stored",
            ),
            Some(ErrorCode::ReadOnly) => (
                format!("the file, its folder or the disk is read-only ({detail})"),
                "give yourself the right to write to the file and its folder, or use another --db file",
            ),
            Some(ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => (
                format!("it cannot be opened ({detail})"),
                "check that the file and its folder exist and that you may read and write both; SQLite keeps its write-ahead log in \
                 that folder",
            ),
            Some(ErrorCode::NotADatabase) => (
                "the file is not an SQLite database".to_owned(),
                "give another --db file, or restore this one from a backup",
            ),
            Some(ErrorCode::DatabaseCorrupt) => (format!("the file is damaged ({detail})"), RESTORE),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed) => (
                format!("another process has kept it locked for too long ({detail})"),
                "find the process (`fuser` on the file: a backup, an open sqlite3 shell?), end it, then try again",
            ),
            Some(ErrorCode::SystemIoFailure) => (
                format!("the disk could not be read or written ({detail})"),
                "check the disk's health, its free space and your quota, then resume the job",
            ),
            Some(ErrorCode::OutOfMemory) => ("not enough memory".to_owned(), "free some memory, then resume the job"),
            Some(ErrorCode::TooBig) => {
                ("a value is larger than SQLite can store (1 GB)".to_owned(), "make the value smaller")
            }
            _ => (detail, "this is a bug in Hookwright or a file changed by hand: please report it with this text"),
        };
        self.failed(doing, &what, next)
    }
}

const RESTORE: &str = "restore the newest backup, or save what can be read with `sqlite3 FILE .recover`";
