//! Exit codes, in one place, and the error that carries one. Documented in docs/cli.md: scripts depend on them.

use crate::next::Next;
use std::fmt;

/// The job completed, or the command did what it was asked.
pub(crate) const OK: u8 = 0;
/// The job failed, a history does not verify or replay, the store can't be used, or standard output can't be written.
pub(crate) const FAILED: u8 = 1;
/// Usage, a manifest or the configuration is wrong; nothing was run.
pub(crate) const USAGE: u8 = 2;
/// A hook denied the job or its output (`HookDenied`).
pub(crate) const DENIED: u8 = 3;
/// A person is awaited.
pub(crate) const WAITING: u8 = 4;
/// The job was cancelled.
pub(crate) const CANCELLED: u8 = 130;
/// Stopped by SIGTERM, or because its terminal was closed (SIGHUP); the job is not over and can be resumed.
pub(crate) const STOPPED: u8 = 143;

/// An error that ends a command: what happened, what to do next, and the exit code.
#[derive(Debug)]
pub(crate) struct CliError {
    pub(crate) code: u8,
    /// The error's type in JSON: `Usage`, `Manifest`, `Store`, `NotFound` or `Failed`.
    pub(crate) kind: &'static str,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
    /// A command on the same store that helps, and what it does: becomes the hint where there is none.
    pub(crate) look: Option<(&'static str, &'static str)>,
}

pub(crate) type CliResult<T = u8> = Result<T, CliError>;

impl CliError {
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { code: USAGE, kind: "Usage", message: message.into(), hint: None, look: None }
    }

    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self { code: FAILED, kind: "Failed", message: message.into(), hint: None, look: None }
    }

    #[must_use]
    pub(crate) fn kind(mut self, kind: &'static str) -> Self {
        self.kind = kind;
        self
    }

    #[must_use]
    pub(crate) fn look(mut self, words: &'static str, does: &'static str) -> Self {
        self.look = Some((words, does));
        self
    }

    /// The same with its hint in words, now that it is known which store the command worked on.
    pub(crate) fn with_next(mut self, next: &Next) -> Self {
        if let (None, Some((words, does))) = (&self.hint, self.look) {
            self.hint = Some(format!("`{}` {does}", next.command(words)));
        }
        self
    }

    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for CliError {}

impl From<hookwright_runtime::ports::store::StoreError> for CliError {
    fn from(error: hookwright_runtime::ports::store::StoreError) -> Self {
        use hookwright_runtime::ports::store::StoreError;
        let (hint, look) = match &error {
            StoreError::NotFound { kind: "job", .. } => (None, Some(("jobs list", "shows the jobs of this store"))),
            StoreError::NotFound { .. } => (None, Some(("approvals list --all", "shows the approvals of this store"))),
            StoreError::Leased { .. } => (Some("wait until that process ends, or decide and cancel from here"), None),
            StoreError::Full { .. } => {
                (None, Some(("jobs list --unfinished", "shows them; try again when one is over")))
            }
            StoreError::Ambiguous { .. }
            | StoreError::LeaseLost { .. }
            | StoreError::SessionMoved { .. }
            | StoreError::Failed(_) => (None, None),
        };
        let kind = match error {
            StoreError::NotFound { .. } => "NotFound",
            StoreError::Full { .. } => "JobLimit",
            _ => "Store",
        };
        Self { code: FAILED, kind, message: error.to_string(), hint: hint.map(str::to_owned), look }
    }
}

impl From<std::io::Error> for CliError {
    fn from(error: std::io::Error) -> Self {
        Self::failed(error.to_string())
    }
}
