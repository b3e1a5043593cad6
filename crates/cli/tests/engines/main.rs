//! The engine conformance suite, mounted on the engine that `HOOKWRIGHT_TEST_ENGINE` names (CONTRIBUTING.md); without it the embedded one.
//!
//! Invariant: another engine is another configuration, and the same snapshots.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod chaos;

use hookwright_testkit::engine::processes::Processes;
use serde_json::{Value, json};

/// Which engine is tested: `embedded`, or `temporal` with the address of a server in the second variable.
const ENGINE: &str = "HOOKWRIGHT_TEST_ENGINE";
const TEMPORAL: &str = "HOOKWRIGHT_TEST_TEMPORAL";

#[allow(clippy::disallowed_methods, reason = "the one place where this suite reads its environment")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// What stands under `engine` in the configuration.
fn engine() -> Value {
    match variable(ENGINE).as_deref() {
        None | Some("embedded") => Value::Null,
        Some("temporal") => {
            let address = variable(TEMPORAL).unwrap_or_else(|| panic!("{TEMPORAL} names no server: 127.0.0.1:7233"));
            json!({"temporal": {"address": address}})
        }
        Some(other) => panic!("{ENGINE}={other}: expected embedded or temporal"),
    }
}

fn mount() -> Processes {
    Processes {
        program: env!("CARGO_BIN_EXE_hookwright").into(),
        base: env!("CARGO_TARGET_TMPDIR").into(),
        engine: engine(),
    }
}

hookwright_testkit::engine_suite!(crate::mount());
