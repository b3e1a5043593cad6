//! `cargo xtask test`: sets up, runs the steps, and says how long each took.

use crate::steps::{Ended, Step};
use crate::{env, harnesses, say, temporal, tools};
use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use std::fs;
use std::time::Instant;

/// Which steps run. Each ends what it starts; Ctrl-C ends all.
#[derive(Args)]
pub(crate) struct Options {
    /// Leave out documentation, doc tests, fuzzing and cargo-deny.
    #[arg(long)]
    quick: bool,
    /// Run these steps only, e.g. `--only fmt,clippy`.
    #[arg(long, value_name = "STEPS", value_delimiter = ',', conflicts_with = "quick")]
    only: Vec<Step>,
    /// Run all but these.
    #[arg(long, value_name = "STEPS", value_delimiter = ',')]
    skip: Vec<Step>,
    /// Go on after a step that failed, and fail at the end.
    #[arg(long)]
    keep_going: bool,
    /// Set up what the tests need, and stop there.
    #[arg(long, conflicts_with_all = ["quick", "only", "skip"])]
    set_up: bool,
    /// Test the bridges to all coding agents, not only to Claude Code and Codex. Fetches 2 GB, takes half an hour.
    #[arg(long)]
    harnesses: bool,
    /// Test the Temporal engine too: builds some 110 crates more, fetches a development server (45 MB) and starts it on loopback.
    #[arg(long)]
    temporal: bool,
}

impl Options {
    fn steps(&self) -> Vec<Step> {
        let chosen = |step: &Step| {
            let wanted = if self.only.is_empty() { !self.quick || step.is_quick() } else { self.only.contains(step) };
            wanted && !self.skip.contains(step)
        };
        Step::value_variants().iter().copied().filter(chosen).collect()
    }
}

/// Runs it.
pub(crate) fn run(options: &Options) -> Result<()> {
    let all = Instant::now();
    let steps = options.steps();
    empty_temporary()?;
    if options.set_up || steps.iter().any(|step| step.needs_tools()) {
        say::step("setting up what the tests need (Python and Node packages, in .tools)");
        tools::set_up()?;
    }
    if options.set_up {
        return empty_temporary();
    }

    let mut report = Vec::new();
    let mut failed = Vec::new();
    for step in steps {
        let name = step.name();
        say::step(&name);
        let started = Instant::now();
        let ended = match step {
            Step::Harnesses => harnesses::run(options.harnesses),
            Step::Temporal => temporal::run(options.temporal || options.only.contains(&Step::Temporal)),
            step => step.run(),
        };
        let time = say::duration(started.elapsed());
        report.push(match ended {
            Ok(Ended::Well) => format!("  {name:<8}  ok        {time}"),
            Ok(Ended::LeftOut(why)) => format!("  {name:<8}  left out  {why}"),
            Err(error) => {
                failed.push(name.clone());
                format!("  {name:<8}  FAILED    {time}  {error:#}")
            }
        });
        if !failed.is_empty() && !options.keep_going {
            break;
        }
    }
    empty_temporary()?;

    say::step(&format!("all steps, in {}\n{}", say::duration(all.elapsed()), report.join("\n")));
    if failed.is_empty() {
        return Ok(());
    }
    bail!("{}; again: `cargo xtask test --only {}`", failed.join(", "), failed.join(","))
}

fn empty_temporary() -> Result<()> {
    let folder = env::temporary();
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
    }
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())
}
