//! The tool `git`: an MCP server whose functions work in one repository.
//!
//! Invariant: a function that fails says so as a result that the model can read; nothing panics.

use crate::ServeError;
use crate::files;
use crate::git::{GitError, Repository, plain_name};
use rmcp::handler::server::wrapper::Parameters;
use rmcp::{ServiceExt, tool, tool_router};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;
use tokio::sync::Mutex;

/// Commits that `log` shows at most.
const LOG_COMMITS: u32 = 50;
/// Bytes of a commit message.
const MESSAGE_BYTES: usize = 8 * 1024;

/// Arguments of `log`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Log {
    /// How many commits, at most 50. Default 10.
    pub count: Option<u32>,
}

/// Arguments of `read_file`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadFile {
    /// Relative to the repository's root, e.g. `docs/guide.md`.
    pub path: String,
}

/// Arguments of `write_file`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WriteFile {
    /// Relative to the repository's root, e.g. `docs/guide.md`.
    pub path: String,
    /// The file's whole new text.
    pub text: String,
}

/// Arguments of `commit`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Commit {
    /// What was changed and why.
    pub message: String,
}

/// Arguments of `push`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Push {
    /// The remote's name, e.g. `origin`.
    pub remote: String,
    /// The branch's name, e.g. `main`.
    pub branch: String,
}

/// Arguments of `delete_branch`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeleteBranch {
    /// The remote's name, e.g. `origin`.
    pub remote: String,
    /// The branch's name.
    pub branch: String,
}

/// The MCP server.
#[derive(Clone)]
pub struct GitServer {
    repository: Arc<Repository>,
    /// Held by functions that change something: git's own lock would fail the second of two parallel calls.
    changing: Arc<Mutex<()>>,
}

impl GitServer {
    /// A server for one repository.
    pub fn new(repository: Repository) -> Self {
        Self { repository: Arc::new(repository), changing: Arc::new(Mutex::new(())) }
    }

    async fn git(&self, arguments: &[&str]) -> Result<String, String> {
        self.repository.run(arguments).await.map_err(|e| e.to_string())
    }
}

fn names<'a>(remote: &'a str, branch: &'a str) -> Result<(&'a str, &'a str), String> {
    let both = || -> Result<_, GitError> { Ok((plain_name(remote)?, plain_name(branch)?)) };
    both().map_err(|e| e.to_string())
}

#[tool_router(server_handler)]
impl GitServer {
    /// The branch, and which files are changed.
    #[tool(annotations(read_only_hint = true))]
    async fn status(&self) -> Result<String, String> {
        self.git(&["status", "--short", "--branch"]).await
    }

    /// What was changed since the last commit.
    #[tool(annotations(read_only_hint = true))]
    async fn diff(&self) -> Result<String, String> {
        let diff = self.git(&["diff", "--no-ext-diff", "--no-textconv", "HEAD", "--"]).await?;
        Ok(if diff.is_empty() { "nothing changed".to_owned() } else { diff })
    }

    /// The last commits, newest first, and the branches that point at them.
    #[tool(annotations(read_only_hint = true))]
    async fn log(&self, Parameters(log): Parameters<Log>) -> Result<String, String> {
        let count = format!("-{}", log.count.unwrap_or(10).clamp(1, LOG_COMMITS));
        self.git(&["log", "--oneline", "--decorate", &count, "--"]).await
    }

    /// The text of a file.
    #[tool(annotations(read_only_hint = true))]
    async fn read_file(&self, Parameters(file): Parameters<ReadFile>) -> Result<String, String> {
        files::read(self.repository.root(), &file.path).map_err(|e| e.to_string())
    }

    /// Write a file, with its folders. Its old text is replaced.
    #[tool(annotations(destructive_hint = true, idempotent_hint = true))]
    async fn write_file(&self, Parameters(file): Parameters<WriteFile>) -> Result<String, String> {
        let _alone = self.changing.lock().await;
        files::write(self.repository.root(), &file.path, &file.text).map_err(|e| e.to_string())?;
        Ok(format!("wrote {} bytes to {}", file.text.len(), file.path))
    }

    /// Commit all changes.
    #[tool(annotations(destructive_hint = false))]
    async fn commit(&self, Parameters(commit): Parameters<Commit>) -> Result<String, String> {
        if commit.message.trim().is_empty() || commit.message.len() > MESSAGE_BYTES {
            return Err(format!("a commit needs a message, of at most {MESSAGE_BYTES} bytes"));
        }
        let _alone = self.changing.lock().await;
        self.git(&["add", "--all", "--", "."]).await?;
        self.git(&["commit", "--quiet", "--message", &commit.message]).await?;
        self.git(&["log", "-1", "--stat", "--format=%h %B", "--"]).await
    }

    /// Push a branch to a remote.
    #[tool(annotations(destructive_hint = true))]
    async fn push(&self, Parameters(push): Parameters<Push>) -> Result<String, String> {
        let (remote, branch) = names(&push.remote, &push.branch)?;
        let _alone = self.changing.lock().await;
        self.git(&["push", "--porcelain", "--", remote, &format!("refs/heads/{branch}:refs/heads/{branch}")]).await?;
        Ok(format!("pushed {branch} to {remote}"))
    }

    /// Delete a branch of a remote.
    #[tool(annotations(destructive_hint = true))]
    async fn delete_branch(&self, Parameters(delete): Parameters<DeleteBranch>) -> Result<String, String> {
        let (remote, branch) = names(&delete.remote, &delete.branch)?;
        let _alone = self.changing.lock().await;
        self.git(&["push", "--porcelain", "--delete", "--", remote, &format!("refs/heads/{branch}")]).await?;
        Ok(format!("deleted {branch} of {remote}"))
    }
}

/// Serves the tool `git` on the standard streams, until the client closes them.
pub async fn serve_git_stdio(repository: Repository) -> Result<(), ServeError> {
    let service =
        GitServer::new(repository).serve(rmcp::transport::stdio()).await.map_err(|e| ServeError(e.to_string()))?;
    service.waiting().await.map_err(|e| ServeError(e.to_string()))?;
    Ok(())
}
