//! Chaos on the mounted engine: short in every run of the tests, long in `cargo xtask chaos`.

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

/// For 40 s, or the minutes that `cargo xtask chaos` names.
#[test]
fn whatever_is_killed_each_job_ends_and_nothing_is_lost_or_done_twice() {
    let mount = mount();
    let mut err = std::io::stderr();
    if let Some(why) = mount.unfit() {
        writeln!(err, "LEFT OUT chaos: {why}").unwrap();
        return;
    }
    let seed = number("HOOKWRIGHT_TEST_SEED").unwrap_or_else(|| RandomState::new().hash_one(0) % 1_000_000);
    // Before anything else, so that it is known whatever happens.
    writeln!(err, "chaos: HOOKWRIGHT_TEST_SEED={seed}").unwrap();
    let (short, long) = (Duration::from_millis(2_500), Duration::from_secs(4));
    let (time, longest) = match number("HOOKWRIGHT_TEST_MINUTES") {
        Some(minutes) => (Duration::from_mins(minutes), long),
        None => (Duration::from_secs(40), short),
    };
    let jobs = usize::try_from(number("HOOKWRIGHT_TEST_JOBS").unwrap_or(40)).unwrap();
    let report = run(&mount, &Options { seed, jobs, time, longest });
    writeln!(err, "chaos: {}", report.line).unwrap();
    let violations: Vec<String> = report.violations.iter().map(ToString::to_string).collect();
    let said = [report.line, violations.join("\n"), report.faults.join("\n")].join("\n");
    assert!(violations.is_empty() && report.faults.is_empty(), "{said}");
}
