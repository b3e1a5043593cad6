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

/// The job, its status and its records, as they are stored.
fn settled(world: &World) -> Option<(String, String, Vec<Value>)> {
    let db = Connection::open_with_flags(world.path("jobs.db"), OpenFlags::SQLITE_OPEN_READ_WRITE).ok()?;
    let (id, status) = db.query_row("SELECT id, status FROM jobs", [], |row| Ok((row.get(0)?, row.get(1)?))).ok()?;
    let mut texts = db.prepare("SELECT text FROM history ORDER BY seq").unwrap();
    let records = texts.query_map([], |row| row.get::<_, String>(0)).unwrap();
    Some((id, status, records.map(|text| serde_json::from_str(&text.unwrap()).unwrap()).collect()))
}

/// How often each server was asked at each point: in truth, or as these records' answers say.
type Asks = BTreeMap<(String, String), usize>;

fn asked(world: &World) -> Asks {
    let mut asks = Asks::new();
    for server in ["a", "b"] {
        for (name, _) in world.calls(server) {
            *asks.entry((server.to_owned(), name)).or_default() += 1;
        }
    }
    asks
}

fn recorded(records: &[Value]) -> Asks {
    let mut asks = Asks::new();
    for record in records {
        let name = match (record["kind"].as_str().unwrap(), record["effect"].as_str()) {
            ("session_ended", _) => "_SessionEnd",
            ("lifecycle_answered", Some("session_start")) => "_SessionStart",
            ("lifecycle_answered", Some("prompt_submit")) => "_UserPromptSubmit",
            ("lifecycle_answered", Some(effect)) if effect.ends_with(".stop") => "_Stop",
            _ => continue,
        };
        for answer in record["answers"].as_array().into_iter().flatten() {
            *asks.entry((answer["server"].as_str().unwrap().to_owned(), name.to_owned())).or_default() += 1;
        }
    }
    asks
}

fn has(records: &[Value], kind: &str) -> bool {
    records.iter().any(|r| r["kind"] == kind)
}

fn allowed(mut command: std::process::Command) -> Finished {
    command.env("MCP_HOOK_SERVERS", "*").env("HOOKWRIGHT_HOOK_TIMEOUT_MS", "60000");
    Running::start(command).finish()
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
                let before = asked(&world);
                if let Some((job, status, records)) = settled(&world) {
                    let begins_end = records.iter().any(|r| r["command"]["effect"] == "session_end");
                    let end_is_lost = begins_end && !has(&records, "session_ended");
                    if status != "completed" || end_is_lost {
                        let resumed =
                            allowed(world.hookwright(&["jobs", "resume", &job, "--db", "jobs.db", "--output", "json"]));
                        assert_eq!(resumed.status.code(), Some(0), "{point}\n{resumed}");
                        assert_eq!(resumed.json()["output"], "three", "{point}\n{resumed}");
                    }
                    // What was asked and lost with the process is asked once more; what was recorded is not.
                    let (then, all, after) = (recorded(&records), settled(&world).unwrap().2, asked(&world));
                    let mut expected = recorded(&all);
                    for (ask, times) in &before {
                        let lost = times - then.get(ask).copied().unwrap_or_default();
                        assert!(lost <= 1, "{point}: {ask:?} was asked {times} times in one life");
                        *expected.entry(ask.clone()).or_default() += lost;
                    }
                    assert_eq!(after, expected, "{point}");
                    // One that died between the job's end and the session's leaves the latter out.
                    assert!(has(&all, "session_ended") || status == "completed" && !begins_end, "{point}");
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
