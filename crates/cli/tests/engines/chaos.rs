//! Chaos on the mounted engine: a short form that every run of the tests has, and the one of `cargo xtask chaos`.

use crate::{mount, variable};
use hookwright_testkit::chaos::{Options, run};
use hookwright_testkit::engine::Mount as _;
use std::hash::{BuildHasher as _, RandomState};
use std::io::Write as _;
use std::time::Duration;

/// A number from the environment.
fn number(name: &str) -> Option<u64> {
    let text = variable(name)?;
    Some(text.parse().unwrap_or_else(|e| panic!("{name}={text}: {e}")))
}

fn wreaks(jobs: u64, time: Duration, longest: Duration) {
    let mount = mount();
    let mut err = std::io::stderr();
    if let Some(why) = mount.unfit() {
        writeln!(err, "LEFT OUT chaos: {why}").unwrap();
        return;
    }
    let seed = number("HOOKWRIGHT_TEST_SEED").unwrap_or_else(|| RandomState::new().hash_one(0) % 1_000_000);
    // Before anything else, so that it is known whatever happens.
    writeln!(err, "chaos: HOOKWRIGHT_TEST_SEED={seed}").unwrap();
    let report = run(&mount, &Options { seed, jobs: usize::try_from(jobs).unwrap(), time, longest });
    writeln!(err, "chaos: {}", report.line).unwrap();
    let violations: Vec<String> = report.violations.iter().map(ToString::to_string).collect();
    assert!(
        violations.is_empty() && report.faults.is_empty(),
        "{}\n{}\n{}",
        report.line,
        violations.join("\n"),
        report.faults.join("\n")
    );
}

#[test]
fn whatever_is_killed_each_job_ends_and_nothing_is_lost_or_done_twice() {
    wreaks(40, Duration::from_secs(40), Duration::from_millis(2_500));
}

#[test]
#[ignore = "takes minutes: `cargo xtask chaos`"]
fn for_minutes() {
    let minutes = number("HOOKWRIGHT_TEST_MINUTES").unwrap_or(10);
    let jobs = number("HOOKWRIGHT_TEST_JOBS").unwrap_or(200);
    wreaks(jobs, Duration::from_mins(minutes), Duration::from_secs(4));
}
