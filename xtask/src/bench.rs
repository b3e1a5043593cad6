//! `cargo xtask bench`: builds everything with optimizations, and runs `crates/bench`.
//!
//! Invariant: what is measured is what is built: a release build of all programs, never of a part.

use crate::{env, say};
use anyhow::{Context, Result, bail};
use clap::Args;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// How to measure.
#[derive(Args)]
pub(crate) struct Options {
    /// Write the figures to this file too, as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Rounds of single calls; more give steadier figures [default: 40]
    #[arg(long, value_name = "N")]
    rounds: Option<u32>,
    /// Print tables in Markdown, as docs/performance.md has them.
    #[arg(long)]
    markdown: bool,
    /// Measure only these variants of single calls, by their names in the JSON, e.g. `bare,memory_1`; `acp` and `gateway` are the groups of those doors.
    #[arg(long, value_name = "NAMES")]
    only: Option<String>,
}

/// Runs it.
pub(crate) fn run(options: &Options) -> Result<()> {
    say::step("building with optimizations");
    // In the user's own environment: a figure is of what they would run.
    let mut build = Command::new("cargo");
    build.current_dir(env::root()).args(["build", "--release", "--locked", "--bins"]);
    succeed(build.args(["-p", "hookwright", "-p", "hookwright-testkit", "-p", "hookwright-bench"]))?;
    say::step("measuring, for two minutes or so; leave the machine alone meanwhile");
    let mut bench = Command::new(program()?);
    bench.current_dir(env::root());
    if let Some(file) = &options.json {
        let file = std::path::absolute(file).with_context(|| file.display().to_string())?;
        bench.arg("--json").arg(file);
    }
    if options.markdown {
        bench.arg("--markdown");
    }
    if let Some(rounds) = options.rounds {
        bench.arg("--rounds").arg(rounds.to_string());
    }
    if let Some(only) = &options.only {
        bench.args(["--only", only]);
    }
    succeed(&mut bench)
}

/// The program that was built, in the target folder in which this one was. (`cargo run` for it alone would choose other features of
/// the dependencies, and build them all again.)
fn program() -> Result<PathBuf> {
    let own = std::env::current_exe().context("where xtask itself stands")?;
    let target = own.ancestors().nth(2).context("the target folder")?;
    Ok(target.join("release").join(format!("hookwright-bench{}", std::env::consts::EXE_SUFFIX)))
}

fn succeed(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.stdin(Stdio::null()).status().with_context(|| format!("start {program}"))?;
    if !status.success() {
        bail!("{program} ended with {status}");
    }
    Ok(())
}
