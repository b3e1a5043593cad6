//! Real clients, offline: `acpx` (npm) and the official Python SDK. What they saw is kept as goldens.
//!
//! They need what `cargo xtask test` sets up: where that is missing they fail, unless `HOOKWRIGHT_TEST_TOOLS` says `none`.

use super::client::normal;
use super::{git, push};
use crate::support::{Finished, Running, World, repository, says};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Command;

#[allow(clippy::disallowed_methods, reason = "says whether the tools of the tests are there")]
fn tools() -> Option<PathBuf> {
    let named = std::env::var_os("HOOKWRIGHT_TEST_TOOLS").map(PathBuf::from);
    if named.as_ref().is_some_and(|named| named.as_os_str() == "none") {
        return None;
    }
    let tools = named.unwrap_or_else(|| repository(".tools"));
    let missing =
        "fetch real clients with `cargo xtask test --set-up`, or leave these tests out with HOOKWRIGHT_TEST_TOOLS=none";
    assert!(tools.join("venv/bin/python").exists() && tools.join("node/node_modules/acpx").exists(), "{missing}");
    Some(tools)
}

fn escalated() -> World {
    git(says("escalate", json!({"reason": "a push to main"})), json!({}), push())
}

/// The lines that a client printed, each a JSON value.
fn lines(finished: &Finished) -> Vec<Value> {
    let read = |line: &str| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}\n{finished}"));
    finished.out.lines().map(read).collect()
}

#[test]
fn the_python_sdk_drives_a_whole_session() {
    let Some(tools) = tools() else { return };
    let world = escalated();
    let mut command = Command::new(tools.join("venv/bin/python"));
    command.arg(repository("crates/cli/tests/it/acp/client.py")).arg(world.path(""));
    command.arg(env!("CARGO_BIN_EXE_hookwright")).args(["acp", "--db", "jobs.db", "--plugin", "p", "--as", "Ada"]);
    world.settle(&mut command);
    let finished = Running::start(command).finish().code(0);
    insta::assert_json_snapshot!("python", super::joined_by(&normal(&lines(&finished), &world), |f| &f["update"]));
    assert_eq!(world.calls("git").len(), 1);
}

fn acpx(world: &World, tools: &std::path::Path, permissions: &str) -> Finished {
    let agent = format!("{} acp --db jobs.db --plugin p --as Ada", env!("CARGO_BIN_EXE_hookwright"));
    let mut command = Command::new("node");
    command.arg(tools.join("node/node_modules/acpx/dist/cli.js"));
    command.args(["--format", "json", "--json-strict", permissions, "--non-interactive-permissions", "deny"]);
    command.args(["--timeout", "100", "--agent", &agent, "exec", "Push it."]);
    world.settle(&mut command);
    Running::start(command).finish()
}

#[test]
fn acpx_drives_a_prompt_and_its_permission_is_the_decision() {
    let Some(tools) = tools() else { return };
    let world = escalated();
    let finished = acpx(&world, &tools, "--approve-all").code(0);
    assert_eq!(finished.err, "", "{finished}");
    let frames = normal(&lines(&finished), &world);
    insta::assert_json_snapshot!("acpx", super::joined_by(&frames, |f| &f["params"]["update"]));
    assert_eq!(world.calls("git").len(), 1);
}

#[test]
fn what_acpx_denies_is_not_called() {
    let Some(tools) = tools() else { return };
    let world = escalated();
    let finished = acpx(&world, &tools, "--deny-all");
    assert!(!lines(&finished).is_empty());
    assert!(world.calls("git").is_empty(), "{finished}");
}
