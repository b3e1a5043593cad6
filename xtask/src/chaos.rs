//! `cargo xtask chaos`: many jobs for minutes, while what runs them is killed (docs/reliability.md).

use crate::say;
use crate::steps::{cargo_command, succeed};
use anyhow::Result;
use clap::Args;

/// How long, and which.
#[derive(Args)]
pub(crate) struct Options {
    /// How long processes are killed.
    #[arg(long, value_name = "N", default_value_t = 10)]
    minutes: u32,
    /// What jobs, kills and decisions follow from; printed, and another one each time where it is not given.
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// How many jobs.
    #[arg(long, value_name = "N", default_value_t = 200)]
    jobs: u32,
}

/// Runs it.
pub(crate) fn run(options: &Options) -> Result<()> {
    say::step("building");
    let all = ["build", "--locked", "--package", "hookwright", "--package", "hookwright-testkit", "--bins"];
    succeed(&mut cargo_command(&all)?)?;
    say::step(&format!("chaos for {} minutes, {} jobs", options.minutes, options.jobs));
    let mut test = cargo_command(&[
        "test",
        "--locked",
        "--quiet",
        "--package",
        "hookwright",
        "--test",
        "engines",
        "--",
        "--exact",
        "--nocapture",
        "chaos::whatever_is_killed_each_job_ends_and_nothing_is_lost_or_done_twice",
    ])?;
    test.env("HOOKWRIGHT_TEST_MINUTES", options.minutes.to_string());
    test.env("HOOKWRIGHT_TEST_JOBS", options.jobs.to_string());
    if let Some(seed) = options.seed {
        test.env("HOOKWRIGHT_TEST_SEED", seed.to_string());
    }
    succeed(&mut test).map(|_| ())
}
