//! `cargo xtask`: the chores of this repository.
//!
//! Invariant: whatever it makes stays in the clone, under `.tools`, the target folder, and ignored `node_modules`.
//! Invariant: it says what it does before it does it, and how long it took after.

mod bench;
mod chaos;
mod env;
mod harnesses;
mod say;
mod schemas;
mod steps;
mod temporal;
mod test;
mod tools;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// The chores of this repository.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Set up what the tests need, and run everything that must hold before a change goes in.
    Test(test::Options),
    /// Measure what Hookwright costs on this machine (docs/performance.md).
    Bench(bench::Options),
    /// Kill what runs jobs for minutes, and check that nothing is lost or done twice (docs/reliability.md).
    Chaos(chaos::Options),
    /// Write `schemas/`, the published JSON Schemas.
    Schemas {
        /// Change nothing; fail if a file is not what the code says.
        #[arg(long)]
        check: bool,
    },
}

fn main() -> ExitCode {
    let done = match Cli::parse().chore {
        Chore::Test(options) => test::run(&options),
        Chore::Bench(options) => bench::run(&options),
        Chore::Chaos(options) => chaos::run(&options),
        Chore::Schemas { check: true } => schemas::check(&env::root()),
        Chore::Schemas { check: false } => schemas::write(&env::root()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say::problem(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}
