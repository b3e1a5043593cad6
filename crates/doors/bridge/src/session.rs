//! Harnesses whose sessions are run here, as the agents of jobs (docs/decisions/0116).
//!
//! Invariant: a session's processes end with its job, and with us.
//! Invariant: a child's environment holds PATH, HOME, LANG, TMPDIR and what its agent names, nothing else of ours.

mod child;
mod claude;
mod codex;

pub use claude::Claude;
pub use codex::Codex;

use std::path::PathBuf;

/// How a harness is started.
#[derive(Clone)]
pub struct Launch {
    /// Program and first arguments.
    pub command: Vec<String>,
    /// Its whole environment.
    pub env: Vec<(String, String)>,
    /// The folder that it works in.
    pub cwd: PathBuf,
}

impl std::fmt::Debug for Launch {
    /// Without values: they may be secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> = self.env.iter().map(|(name, _)| name).collect();
        f.debug_struct("Launch").field("command", &self.command).field("env", &names).field("cwd", &self.cwd).finish()
    }
}
