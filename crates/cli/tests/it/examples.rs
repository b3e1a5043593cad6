//! Every example: `ask` prints for `events/NAME.json` what `events/NAME.expected.json` says.
//!
//! Those in Python and JavaScript need what `cargo xtask test` sets up, and run where `HOOKWRIGHT_TEST_TOOLS` says that it did.

use crate::support::{Running, World, repository};
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

#[allow(clippy::disallowed_methods, reason = "says whether the tools of the tests are there")]
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// Puts all events of a plugin to it; how many there were.
fn asks_all(world: &World, plugin: &Path, settle: impl Fn(&mut std::process::Command)) -> usize {
    let mut events: Vec<PathBuf> =
        std::fs::read_dir(plugin.join("events")).unwrap().map(|e| e.unwrap().path()).collect();
    events.retain(|path| !path.to_string_lossy().ends_with(".expected.json"));
    events.sort();
    for event in &events {
        let args = [
            "ask".as_ref(),
            "--plugin".as_ref(),
            plugin,
            "--output".as_ref(),
            "json".as_ref(),
            "--event".as_ref(),
            event,
            "--expect".as_ref(),
            &event.with_extension("expected.json"),
        ];
        let mut command = world.hookwright(&args);
        settle(&mut command);
        Running::start(command).finish().code(0);
    }
    events.len()
}

#[test]
fn the_demos_events() {
    let world = World::new();
    std::fs::create_dir_all(world.path("demo/events")).unwrap();
    let example = repository("examples/demo");
    for file in ["plugin.yaml", "demo.yaml"] {
        std::fs::copy(example.join(file), world.path("demo").join(file)).unwrap();
    }
    for event in std::fs::read_dir(example.join("events")).unwrap() {
        let event = event.unwrap();
        std::fs::copy(event.path(), world.path("demo/events").join(event.file_name())).unwrap();
    }
    // `hookwright-demo` is the same servers as a program of its own.
    let hookwright = env!("CARGO_BIN_EXE_hookwright");
    let program = world.write("bin/hookwright-demo", format!("#!/bin/sh\nexec '{hookwright}' demo-server \"$@\"\n"));
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    world.call(&["demo", "--approve", "yes", "--dir", "demo/.demo"]).code(0);
    let mut folders = vec![world.path("bin")];
    folders.extend(std::env::split_paths(&variable("PATH").unwrap()));
    let path = std::env::join_paths(folders).unwrap();
    assert_eq!(
        asks_all(&world, &world.path("demo"), |command| {
            command.env("PATH", &path);
        }),
        5
    );
}

/// Puts all events of an example in Python, JavaScript or Rust to it, where the tools of the tests are there.
fn asks_example(name: &str, at_least: usize) {
    let Some(tools) = variable("HOOKWRIGHT_TEST_TOOLS") else { return };
    let world = World::new();
    let mut folders = vec![PathBuf::from(tools).join("venv/bin")];
    folders.extend(Path::new(env!("CARGO_BIN_EXE_hookwright")).parent().map(Path::to_owned));
    folders.extend(std::env::split_paths(&variable("PATH").unwrap()));
    let path = std::env::join_paths(folders).unwrap();
    if name == "signature" {
        let mut keygen = std::process::Command::new("hookwright-signer");
        keygen.args(["keygen", "--secret", "signer.key", "--public", "signer.pub"]);
        world.settle(&mut keygen);
        assert!(keygen.env("PATH", &path).status().unwrap().success());
    }
    let count = asks_all(&world, &repository(&format!("examples/{name}")), |command| {
        command.env("PATH", &path).env("SIGNER_KEY_FILE", world.path("signer.key"));
    });
    assert!(count >= at_least, "{count} events");
}

#[test]
fn the_events_of_policy() {
    asks_example("policy", 6);
}

#[test]
fn the_events_of_policy_fastmcp() {
    asks_example("policy-fastmcp", 3);
}

#[test]
fn the_events_of_policy_typescript() {
    asks_example("policy-typescript", 3);
}

#[test]
fn the_events_of_rules() {
    asks_example("rules", 9);
}

#[test]
fn the_events_of_risk_score() {
    asks_example("risk-score", 3);
}

#[test]
fn the_events_of_signature() {
    asks_example("signature", 2);
}
