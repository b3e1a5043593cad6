//! Running git in one repository: a clean environment, bounded time and output, no shell.
//!
//! Invariant: git sees no configuration but the repository's own, runs no hook of the repository, asks nobody for a
//! password, and reaches no remote but folders.
//! Invariant: what a caller passes stands where git expects a name, never where it could be an option.

#[cfg(test)]
mod tests;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;

/// Milliseconds that one git command may take.
const TIMEOUT_MS: u64 = 30_000;
/// Bytes of a command's output that are kept.
const OUTPUT_BYTES: u64 = 32 * 1024;
/// Characters of a branch's or remote's name.
const NAME_CHARS: usize = 100;

/// Settings of every command. Hooks, filters and monitors of a repository would run programs; protocols but `file` would use the network.
const SETTINGS: [&str; 6] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.autocrlf=false",
    "commit.gpgSign=false",
    "protocol.allow=never",
    "protocol.file.allow=always",
];

/// A git repository.
#[derive(Debug, Clone)]
pub struct Repository {
    root: PathBuf,
    search_path: OsString,
    /// Seconds since 1970 of all commits; absent: now.
    date: Option<u32>,
}

/// Why git did not do it; worded for the model that reads it.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// No repository stands there.
    #[error("there is no git repository at {}; `hookwright-demo prepare` makes one", .0.display())]
    NoRepository(PathBuf),
    /// A name that git would not take, or would take for something else.
    #[error("`{0}` is not a plain name of a branch or remote")]
    Name(String),
    /// git can't be started.
    #[error("git can't be started ({0}); is it installed?")]
    Start(std::io::Error),
    /// It took too long and was stopped.
    #[error("git took longer than {} s and was stopped", TIMEOUT_MS / 1_000)]
    Timeout,
    /// It said no.
    #[error("git: {0}")]
    Failed(String),
}

impl Repository {
    /// The repository whose work tree is `root`; git is looked for in `search_path`, in the form of the variable PATH.
    pub fn new(root: PathBuf, search_path: impl Into<OsString>) -> Self {
        Self { root, search_path: search_path.into(), date: None }
    }

    /// Gives all commits this date, in seconds since 1970, so that they have the same ids everywhere.
    pub(crate) fn dated(mut self, date: u32) -> Self {
        self.date = Some(date);
        self
    }

    /// The work tree's folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Runs git in the repository and returns what it printed.
    pub async fn run<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Result<String, GitError> {
        // Both folders are named: git would otherwise look further up and might find a repository that is none of ours.
        let git_dir = self.root.join(".git");
        if !git_dir.is_dir() {
            return Err(GitError::NoRepository(self.root.clone()));
        }
        let mut command = self.command(&self.root);
        command.arg("--git-dir").arg(git_dir).arg("--work-tree").arg(&self.root).args(arguments);
        finish(command).await
    }

    /// Runs git in a folder that is no repository yet.
    pub(crate) async fn run_outside<S: AsRef<OsStr>>(
        &self,
        folder: &Path,
        arguments: &[S],
    ) -> Result<String, GitError> {
        let mut command = self.command(folder);
        command.args(arguments);
        finish(command).await
    }

    fn command(&self, folder: &Path) -> Command {
        let mut command = Command::new("git");
        command.current_dir(folder).env_clear().env("PATH", &self.search_path);
        for (name, value) in [
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_CONFIG_SYSTEM", "/dev/null"),
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_AUTHOR_NAME", "Demo Agent"),
            ("GIT_AUTHOR_EMAIL", "agent@demo.invalid"),
            ("GIT_COMMITTER_NAME", "Demo Agent"),
            ("GIT_COMMITTER_EMAIL", "agent@demo.invalid"),
            ("LC_ALL", "C"),
            ("TZ", "UTC"),
        ] {
            command.env(name, value);
        }
        if let Some(date) = self.date {
            command
                .env("GIT_AUTHOR_DATE", format!("@{date} +0000"))
                .env("GIT_COMMITTER_DATE", format!("@{date} +0000"));
        }
        for setting in SETTINGS {
            command.arg("-c").arg(setting);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        command
    }
}

async fn finish(mut command: Command) -> Result<String, GitError> {
    let mut child = command.spawn().map_err(GitError::Start)?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let all = async { tokio::join!(read(stdout), read(stderr), child.wait()) };
    // Dropping the child on a timeout kills it.
    let Ok((stdout, stderr, status)) = tokio::time::timeout(Duration::from_millis(TIMEOUT_MS), all).await else {
        return Err(GitError::Timeout);
    };
    if status.map_err(GitError::Start)?.success() {
        return Ok(stdout);
    }
    Err(GitError::Failed(if stderr.trim().is_empty() { stdout } else { stderr }.trim_end().to_owned()))
}

/// The first bytes of a stream; the rest is read and dropped, so that its writer can end.
async fn read(stream: Option<impl AsyncRead + Unpin>) -> String {
    let Some(mut stream) = stream else { return String::new() };
    let mut kept = Vec::new();
    // A stream that breaks has said all that it will.
    let _ = (&mut stream).take(OUTPUT_BYTES).read_to_end(&mut kept).await;
    let dropped = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await.unwrap_or(0);
    let text = String::from_utf8_lossy(&kept);
    if dropped == 0 { text.into_owned() } else { format!("{text}\n[… {dropped} more bytes left out]") }
}

/// A branch's or remote's name, if it is a plain one: no option, no ref path, no URL, nothing that a refspec gives a meaning.
pub fn plain_name(name: &str) -> Result<&str, GitError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/');
    let parts_fine = name.split('/').all(|part| {
        !part.is_empty()
            && !part.starts_with(['.', '-'])
            && !part.ends_with('.')
            && !part.contains("..")
            && !part.to_ascii_lowercase().ends_with(".lock")
    });
    if name.chars().count() <= NAME_CHARS
        && name.chars().all(plain)
        && parts_fine
        && !name.starts_with("refs/")
        && name != "HEAD"
    {
        Ok(name)
    } else {
        Err(GitError::Name(name.chars().take(NAME_CHARS).collect::<String>().escape_debug().to_string()))
    }
}
