//! `hookwright-test-runner -- COMMAND…`: a project's tests, on the standard streams.

use clap::Parser;
use hookwright_test_runner::server::{TestServer, serve};
use hookwright_test_runner::suite::Suite;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

/// Serves a project's tests to an agent, and objects to the end of its turn while they fail.
#[derive(Parser)]
#[command(version)]
struct Cli {
    /// The project's folder.
    #[arg(long, value_name = "DIR", default_value = ".", env = "TEST_RUNNER_FOLDER")]
    folder: PathBuf,
    /// Seconds that a run of the tests may take.
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
    /// Object also while the tests were never run in this session.
    #[arg(long)]
    require_run: bool,
    /// The command that runs the tests; exit code 0 is a pass. No shell is involved.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    let suite = Suite { command: cli.command, folder: cli.folder, seconds: cli.timeout };
    match serve(TestServer::new(suite, cli.require_run)).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody to tell if standard error is closed; the exit code still says it.
            let _ = writeln!(io::stderr(), "hookwright-test-runner: {error}");
            ExitCode::FAILURE
        }
    }
}
