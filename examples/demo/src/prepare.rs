//! Making the throw-away repository.
//!
//! Invariant: only a folder that is new or empty is filled; nothing is overwritten.

#[cfg(test)]
pub(crate) mod tests;

use crate::files::{self, FileError};
use crate::git::{GitError, Repository};
use hookwright_signer::key::{self, KeyError};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// 2026-01-01, so that the first commits have the same ids everywhere.
const DATE: u32 = 1_767_225_600;

/// What was made. All paths are absolute.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// The repository that the agent works in.
    pub work: PathBuf,
    /// The bare repository that stands for the remote `origin`.
    pub remote: PathBuf,
    /// The key that signs the output.
    pub secret_key: PathBuf,
    /// The key that verifies it.
    pub public_key: PathBuf,
}

/// Why the repository was not made.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// The folder holds something.
    #[error("{} is not empty; name another folder, or remove it", .0.display())]
    NotEmpty(PathBuf),
    /// The system says no.
    #[error("{}: {source}", path.display())]
    Io {
        /// The folder.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// git says no.
    #[error(transparent)]
    Git(#[from] GitError),
    /// A file can't be written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The keys can't be made.
    #[error(transparent)]
    Key(#[from] KeyError),
}

const README: &str = "# Greeter\n\nSays hello. `greeting.txt` is what it says.\n";
const CHANGELOG: &str = "# Changelog\n\n## 1.0.0\n\n- It greets.\n";

/// Makes, in a new or empty folder, a repository `work` with a history, its remote, and a key pair. git is looked for in
/// `search_path`, in the form of the variable PATH.
pub async fn prepare(folder: &Path, search_path: &OsStr) -> Result<Prepared, PrepareError> {
    let io = |source| PrepareError::Io { path: folder.to_owned(), source };
    std::fs::create_dir_all(folder).map_err(io)?;
    if std::fs::read_dir(folder).map_err(io)?.next().is_some() {
        return Err(PrepareError::NotEmpty(folder.to_owned()));
    }
    let folder = folder.canonicalize().map_err(io)?;
    let made = Prepared {
        work: folder.join("work"),
        remote: folder.join("origin.git"),
        secret_key: folder.join("signer.key"),
        public_key: folder.join("signer.pub"),
    };
    key::write(&key::generate()?, &made.secret_key, &made.public_key)?;

    let repository = Repository::new(made.work.clone(), search_path).dated(DATE);
    repository.run_outside(&folder, &["init", "--quiet", "--template=", "--bare", "origin.git"]).await?;
    repository.run_outside(&folder, &["init", "--quiet", "--template=", "work"]).await?;
    // Spelled so that it works with any version of git and any `init.defaultBranch`.
    repository.run_outside(&made.remote, &["--git-dir=.", "symbolic-ref", "HEAD", "refs/heads/main"]).await?;
    repository.run(&["symbolic-ref", "HEAD", "refs/heads/main"]).await?;
    repository.run(&["remote", "add", "origin", "../origin.git"]).await?;

    files::write(&made.work, "README.md", README)?;
    files::write(&made.work, "greeting.txt", "Hullo, world!\n")?;
    commit(&repository, "Greet the world").await?;
    files::write(&made.work, "CHANGELOG.md", CHANGELOG)?;
    commit(&repository, "Start a changelog").await?;
    repository.run(&["branch", "release"]).await?;
    repository.run(&["push", "--quiet", "--set-upstream", "origin", "main", "release"]).await?;
    Ok(made)
}

async fn commit(repository: &Repository, message: &str) -> Result<(), GitError> {
    repository.run(&["add", "--all"]).await?;
    repository.run(&["commit", "--quiet", "--message", message]).await.map(drop)
}
