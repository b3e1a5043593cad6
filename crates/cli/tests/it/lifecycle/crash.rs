//! A process that is killed (SIGKILL) around every commit and effect of a job with lifecycle hooks, and goes on.

use super::{body, git};
use crate::support::{Finished, Plugin, Running, World, exactly, function};
use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt as _;

const KINDS: [&str; 4] = ["before_commit", "after_commit", "before_effect", "after_effect"];
/// More points than the job has.
const MANY: u32 = 60;

/// Two servers that speak at each point; the model works once after an objection.
fn world() -> World {
    let hooks = |server: &str| {
        let names = ["_SessionStart", "_UserPromptSubmit", "_Stop", "_SessionEnd"];
        json!(names.map(|name| function(name, json!({"text": format!("{server} at {name}")}))))
    };
    let reads = |name: &str| ["a", "b"].map(|s| body(name, s, &format!("{s} at {name}"))).join("\n");
    World::with(Plugin::new("p").server("a", hooks("a")).server("b", hooks("b")).server("git", git()).turns(json!([
        {"expect": exactly(&format!("Do it.\n{}\n{}", reads("_SessionStart"), reads("_UserPromptSubmit"))), "say": "one"},
        {"expect": exactly(&reads("_Stop")), "call": {"tool": "git.push"}},
        {"say": "two"},
        {"expect": exactly(&reads("_Stop")), "say": "three"}
    ])))
}

fn settled(world: &World) -> Option<(String, String, Vec<String>)> {
    let db = Connection::open_with_flags(world.path("jobs.db"), OpenFlags::SQLITE_OPEN_READ_WRITE).ok()?;
    let (id, status) = db.query_row("SELECT id, status FROM jobs", [], |row| Ok((row.get(0)?, row.get(1)?))).ok()?;
    let mut texts = db.prepare("SELECT text FROM history ORDER BY seq").unwrap();
    let records: Vec<Value> = texts
        .query_map([], |row| row.get::<_, String>(0))
        .unwrap()
        .map(|text| serde_json::from_str(&text.unwrap()).unwrap())
        .collect();
    // Points whose answers are recorded.
    let answered =
        records.iter().filter(|r| r["kind"] == "lifecycle_answered").map(|r| r["effect"].as_str().unwrap().to_owned());
    Some((id, status, answered.collect()))
}

fn asks(world: &World) -> BTreeMap<String, usize> {
    let mut asks = BTreeMap::new();
    for (name, _) in world.calls("a") {
        *asks.entry(name).or_default() += 1;
    }
    asks
}

fn allowed(mut command: std::process::Command) -> Finished {
    command.env("MCP_HOOK_SERVERS", "*").env("HOOKWRIGHT_HOOK_TIMEOUT_MS", "60000");
    Running::start(command).finish()
}

/// How often each point's hooks may be asked in all, after a crash with these answers recorded.
fn most(name: &str) -> usize {
    // One ask may have been lost with the process.
    if name == "_Stop" { 3 } else { 2 }
}

#[test]
fn a_job_goes_on_wherever_it_is_killed_and_nothing_recorded_is_asked_again() {
    let handles = KINDS.map(|kind| {
        std::thread::spawn(move || {
            for n in 0..MANY {
                let (world, point) = (world(), format!("{kind}:{n}"));
                let mut command = world.job(&[]);
                command.env("HOOKWRIGHT_TEST_CRASH_AT", &point);
                let died = allowed(command).status.signal() == Some(9);
                let before = asks(&world);
                if let Some((job, status, answered)) = settled(&world) {
                    if status != "completed" {
                        let resumed =
                            allowed(world.hookwright(&["jobs", "resume", &job, "--db", "jobs.db", "--output", "json"]));
                        assert_eq!(resumed.status.code(), Some(0), "{point}\n{resumed}");
                        assert_eq!(resumed.json()["output"], "three", "{point}\n{resumed}");
                    }
                    let after = asks(&world);
                    for (effect, name) in [
                        ("session_start", "_SessionStart"),
                        ("prompt_submit", "_UserPromptSubmit"),
                        ("t4.stop", "_Stop"),
                    ] {
                        if answered.iter().any(|a| a == effect) {
                            assert_eq!(
                                before.get(name),
                                after.get(name),
                                "{point}: {effect} was recorded and asked again"
                            );
                        }
                    }
                    for (name, times) in &after {
                        assert!(*times <= most(name), "{point}: {name} was asked {times} times");
                    }
                    world.call(&["replay", &job, "--db", "jobs.db"]).code(0);
                    world.call(&["audit", "verify", "--db", "jobs.db"]).code(0);
                }
                if !died {
                    assert!(n > 5, "{kind}: {n} points, which is not the job that was meant");
                    return;
                }
            }
            panic!("{kind}: more points than the job can have");
        })
    });
    for handle in handles {
        handle.join().unwrap();
    }
}
