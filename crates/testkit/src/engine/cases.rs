//! The cases. Each asserts on side effects, on what the model was told, and returns normal histories.
//!
//! What the model was told stands in its script: a turn whose `expect` does not hold fails the job, and with it the case.

pub mod answers;
pub mod approvals;
pub mod children;
pub mod crashes;
pub mod lifecycle;
pub mod long;
pub mod manifests;
pub mod parallel;
pub mod unicode;
pub mod values;

use super::{Engine, end};
use serde_json::Value;

/// Waits until a job completed with this output.
#[track_caller]
fn completed(engine: &dyn Engine, job: &str, output: &str) -> Value {
    let shown = end(engine, job);
    assert_eq!((&shown["status"], &shown["output"]), (&"completed".into(), &output.into()), "{shown:#}");
    shown
}

/// The records of a kind.
fn records(history: &[Value], kind: &str) -> Vec<Value> {
    history.iter().filter(|record| record["kind"] == kind).cloned().collect()
}

/// Asserts that these lines were appended, in any order.
#[track_caller]
fn effects(engine: &dyn Engine, expected: &[&str]) {
    let mut seen = engine.stage().effects("effects.log");
    seen.sort();
    let mut expected = expected.to_vec();
    expected.sort_unstable();
    assert_eq!(seen, expected);
}
