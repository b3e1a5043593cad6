//! The client library with the real program: whoever needs a node starts it.

use super::status;
use crate::support::{World, eventually};
use hookwright_node::client::ClientError;
use hookwright_node::{EnsureError, Place, Start, ask_or_start, ensure};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_mins(1);

/// `serve --detached` in the world's clean environment.
#[allow(clippy::disallowed_methods, reason = "programs that tests start are found by PATH")]
fn start(world: &World, more: &[&str]) -> Start {
    let variable = |name: &str, value: OsString| {
        let mut text = OsString::from(format!("{name}="));
        text.push(value);
        text
    };
    let mut args = vec![
        "-i".into(),
        variable("PATH", std::env::var_os("PATH").unwrap_or_default()),
        variable("HOME", world.path("home").into()),
        variable("XDG_CONFIG_HOME", world.path("config").into()),
        env!("CARGO_BIN_EXE_hookwright").into(),
    ];
    args.extend(["serve", "--detached", "--db", "jobs.db"].into_iter().chain(more.iter().copied()).map(OsString::from));
    Start { program: "env".into(), args, folder: world.path("") }
}

/// Asks a door that the node does not have: the answer is the node's all the same.
fn ask(place: &Place, start: &Start) -> Result<Value, EnsureError> {
    ask_or_start(place, start, ("nowhere", &json!({"a": 1})), PATIENCE, PATIENCE)
}

fn is_answer(answer: &Result<Value, EnsureError>) -> bool {
    matches!(answer, Err(EnsureError::Client(ClientError::Refused(why))) if why.kind == "unknown")
}

#[test]
fn asking_starts_the_node_and_starts_it_again_after_it_has_ended() {
    let world = World::new();
    let (place, start) = (Place::of(&world.path("jobs.db")), start(&world, &["--idle", "1"]));
    let mut pids = vec![];
    for _ in 0..2 {
        let answer = ask(&place, &start);
        assert!(is_answer(&answer), "{answer:?}");
        pids.push(status(&world)["node"]["pid"].as_u64());
        eventually("it is idle and ends", || place.is_free().then_some(()));
    }
    assert!(pids[0].is_some() && pids[0] != pids[1], "{pids:?}");
}

#[test]
fn questions_at_the_moment_of_an_idle_nodes_end_are_answered_all_the_same() {
    let world = World::new();
    let (place, start) = (Place::of(&world.path("jobs.db")), start(&world, &["--idle", "1"]));
    std::thread::scope(|scope| {
        for offset in 0..4_u64 {
            let (place, start) = (&place, &start);
            scope.spawn(move || {
                for _ in 0..4 {
                    let answer = ask(place, start);
                    assert!(is_answer(&answer), "{answer:?}");
                    std::thread::sleep(Duration::from_millis(960 + offset * 30));
                }
            });
        }
    });
    eventually("it is idle and ends", || place.is_free().then_some(()));
}

#[test]
fn a_node_that_cannot_start_says_why_to_who_wanted_it() {
    let world = World::new();
    world.write("hookwright.yaml", "tenants: [{id: a, plugins: [nowhere]}]\n");
    let start = start(&world, &["--config", "hookwright.yaml"]);
    let failed = ensure(&Place::of(&world.path("jobs.db")), &start, PATIENCE);
    assert!(matches!(&failed, Err(EnsureError::Ended { said }) if said.contains("nowhere")), "{failed:?}");
    assert!(!world.path("jobs.db").exists());
}
