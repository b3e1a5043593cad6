//! `hookwright-demo`: the demo's two servers and its throw-away repository, for running the example without `hookwright demo`.

use clap::{Parser, Subcommand};
use hookwright_demo::git::Repository;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// The servers and the repository of `hookwright demo`.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make the throw-away repository, its remote and a key pair.
    Prepare {
        /// A new or empty folder.
        folder: PathBuf,
    },
    /// Serve the tool `git` as an MCP server on the standard streams.
    Git {
        /// The repository's folder.
        #[arg(long, value_name = "DIR")]
        repository: PathBuf,
    },
    /// Serve the hooks `guard` as an MCP server on the standard streams.
    Guard {
        /// The secret key that signs outputs; default: one that lasts as long as the server.
        #[arg(long, value_name = "FILE")]
        secret_key: Option<PathBuf>,
    },
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run(Cli::parse().command).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody to tell if standard error is closed; the exit code still says it.
            let _ = writeln!(io::stderr(), "hookwright-demo: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(command: Command) -> Result<(), Box<dyn std::error::Error>> {
    match command {
        Command::Prepare { folder } => {
            let made = hookwright_demo::prepare(&folder, &search_path()).await?;
            writeln!(io::stdout(), "{}", made.work.display())?;
        }
        Command::Git { repository } => {
            let repository = std::path::absolute(repository)?;
            hookwright_demo::serve_git_stdio(Repository::new(repository, search_path())).await?;
        }
        Command::Guard { secret_key } => {
            let key = match secret_key {
                Some(file) => hookwright_signer::key::read_secret(&file)?,
                None => hookwright_signer::key::generate()?,
            };
            hookwright_demo::serve_guard_stdio(key).await?;
        }
    }
    Ok(())
}

/// Where git is looked for.
#[expect(clippy::disallowed_methods, reason = "the one place where this program reads its environment")]
fn search_path() -> OsString {
    std::env::var_os("PATH").unwrap_or_default()
}
