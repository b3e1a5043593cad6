//! Ends the process at a chosen point, for the crash test. Only in builds with debug assertions; release builds know no such points.

use crate::environment::Environment;
use hookwright_runtime::job::Checkpoint;
use hookwright_sqlite::Probe;

/// The variable that names a point: `before_commit:N`, `after_commit:N`, `before_effect:N` or `after_effect:N`, counted from 0.
#[cfg(debug_assertions)]
const VARIABLE: &str = "HOOKWRIGHT_TEST_CRASH_AT";

#[cfg(debug_assertions)]
fn point(env: &Environment) -> Option<(String, u64)> {
    let value = env.get(VARIABLE)?;
    let (what, n) = value.split_once(':')?;
    Some((what.to_owned(), n.parse().ok()?))
}

/// As a power cut: no destructor runs, nothing is flushed.
#[cfg(debug_assertions)]
fn die() -> ! {
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    std::process::abort()
}

/// The store's point, if one is named.
#[cfg(debug_assertions)]
pub(crate) fn crash_probe(env: &Environment) -> Option<Probe> {
    use hookwright_sqlite::ProbePoint;
    let (what, n) = point(env)?;
    Some(std::sync::Arc::new(move |point| match point {
        ProbePoint::BeforeCommit { n: at } if what == "before_commit" && at == n => die(),
        ProbePoint::AfterCommit { n: at } if what == "after_commit" && at == n => die(),
        ProbePoint::BeforeCommit { .. } | ProbePoint::AfterCommit { .. } => {}
    }))
}

/// The effects' point, if one is named.
#[cfg(debug_assertions)]
pub(crate) fn checkpoint(env: &Environment) -> Option<Checkpoint> {
    use hookwright_runtime::job::When;
    use std::sync::atomic::{AtomicU64, Ordering};
    let (what, n) = point(env)?;
    let (before, after) = (AtomicU64::new(0), AtomicU64::new(0));
    Some(std::sync::Arc::new(move |when, _| {
        let (name, counter) = match when {
            When::Before => ("before_effect", &before),
            When::After => ("after_effect", &after),
        };
        if counter.fetch_add(1, Ordering::SeqCst) == n && what == name {
            die();
        }
    }))
}

#[cfg(not(debug_assertions))]
pub(crate) fn crash_probe(_: &Environment) -> Option<Probe> {
    None
}

#[cfg(not(debug_assertions))]
pub(crate) fn checkpoint(_: &Environment) -> Option<Checkpoint> {
    None
}
