//! `hookwright-todo`: a to-do list for one session, on the standard streams.

use std::io::{self, Write as _};
use std::process::ExitCode;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    if std::env::args_os().len() > 1 {
        // Nobody to tell if standard error is closed; the exit code still says it.
        let _ = writeln!(io::stderr(), "hookwright-todo takes no arguments; it speaks MCP on its standard streams");
        return ExitCode::from(2);
    }
    match hookwright_todo::server::serve().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "hookwright-todo: {error}");
            ExitCode::FAILURE
        }
    }
}
