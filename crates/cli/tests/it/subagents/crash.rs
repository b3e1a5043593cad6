//! A process that is killed (SIGKILL) before and after every commit and every effect of a job with a child, and goes on (SPEC §8).
//!
//! What must hold wherever it dies: no call is made twice, no recorded answer is asked again, there is one child for the one call that starts
//! it, and every history verifies and replays.

use super::{facts, history, id, jobs, replays, resume, start, when};
use crate::support::{Plugin, Running, World, function, says};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt as _;

const CRASH_AT: &str = "HOOKWRIGHT_TEST_CRASH_AT";
const KINDS: [&str; 4] = ["before_commit", "after_commit", "before_effect", "after_effect"];
/// More points than the job has.
const MANY: u32 = 200;

/// A parent that starts a child and pushes beside it; the child pushes too, once after a person's yes.
fn family() -> World {
    let cases = json!({"cases": [
        when(json!({"/event/event": "pre_tool_call", "/event/arguments/n": 2}), says("escalate", json!({"reason": "two"}))),
        {"then": [says("allow", json!({}))]},
    ]});
    let mut plugin = Plugin::new("p")
        .server("policy", json!([function("check", cases)]))
        .server("git", json!([function("push", json!({"text": "pushed {arguments}"}))]));
    for on in ["pre_tool_call", "job_end"] {
        plugin = plugin.hook(json!({"on": on, "call": "policy.check", "timeout": "30s"}));
    }
    World::with(
        plugin
            .agent(json!({"subagents": ["writer"], "tools": ["git"]}))
            .turns(json!([
                {"call": [start("writer", "Go."), {"tool": "git.push", "with": {"n": 1}}]},
                {"expect": "written", "say": "done"},
            ]))
            .other(
                "writer",
                json!({"tools": ["git"]}),
                json!([
                    {"call": [{"tool": "git.push", "with": {"n": 2}}, {"tool": "git.push", "with": {"n": 3}}]},
                    {"say": "written"},
                ]),
            ),
    )
}

/// How often each ask reached the hook's server: job, moment, call.
fn asks(world: &World) -> BTreeMap<String, usize> {
    let mut asks = BTreeMap::new();
    for event in super::events(world) {
        let name = format!("{} {} {}", event["job"], event["event"], event["call"]);
        *asks.entry(name).or_default() += 1;
    }
    asks
}

/// Asks whose answers are recorded.
fn answered(world: &World) -> Vec<String> {
    let mut names = vec![];
    for job in jobs(world) {
        let records = history(world, id(&job));
        let answered = |effect: &Value| records.iter().any(|r| r["kind"] == "hook_answered" && r["effect"] == *effect);
        for command in records.iter().filter(|r| r["kind"] == "begun").map(|r| &r["command"]) {
            if command["do"] == "ask" && answered(&command["effect"]) {
                let head = &command["head"];
                names.push(format!("{} {} {}", head["job"], head["event"], head["call"]));
            }
        }
    }
    names
}

/// Runs with a crash point; whether it died there.
fn dies(world: &World, point: &str) -> bool {
    let mut command = world.job(&["--agent", "worker", "--approve", "yes"]);
    command.env(CRASH_AT, point);
    let finished = Running::start(command).finish();
    match finished.status.signal() {
        Some(9) => true,
        None => {
            assert_eq!(finished.status.code(), Some(0), "{point}\n{finished}");
            false
        }
        Some(_) => panic!("{point}\n{finished}"),
    }
}

fn goes_on(world: &World, point: &str, died: bool) {
    let listed = world.call(&["jobs", "list", "--db", "jobs.db", "--output", "json"]);
    if !listed.status.success() || jobs(world).is_empty() {
        assert!(
            asks(world).is_empty() && world.calls("git").is_empty(),
            "{point}: an effect of a job that was not begun"
        );
        return;
    }
    let (before, answered) = (asks(world), answered(world));
    let parent = id(&jobs(world)[0]).to_owned();
    if jobs(world)[0]["status"] != "completed" {
        let resumed = resume(world, &parent, &["--approve", "yes"]);
        assert_eq!(resumed.status.code(), Some(0), "{point}\n{resumed}");
        assert_eq!(resumed.json()["output"], "done", "{point}");
    }
    let all = jobs(world);
    assert_eq!(all.len(), 2, "{point}: one child for one call");
    assert!(all.iter().all(|job| job["status"] == "completed"), "{point}: {all:?}");

    let mut made = BTreeMap::<i64, usize>::new();
    for (_, arguments) in world.calls("git") {
        *made.entry(arguments["n"].as_i64().unwrap()).or_default() += 1;
    }
    for (n, job, effect) in
        [(1, &parent[..], "t1.c1.call"), (2, id(&all[1]), "t1.c0.call"), (3, id(&all[1]), "t1.c1.call")]
    {
        let ends: Vec<Value> =
            facts(world, job, "tool_returned").into_iter().filter(|r| r["effect"] == effect).collect();
        assert_eq!(ends.len(), 1, "{point}: {effect} has one end");
        let made = made.get(&n).copied().unwrap_or_default();
        match ends[0]["outcome"]["end"].as_str().unwrap() {
            "returned" => assert_eq!(made, 1, "{point}: {n}"),
            "unknown" => assert!(made <= 1, "{point}: {n} was made {made} times"),
            other => panic!("{point}: {n} ended as {other}"),
        }
    }
    let started = facts(world, &parent, "tool_returned").into_iter().find(|r| r["effect"] == "t1.c0.call").unwrap();
    assert_eq!(started["outcome"]["result"]["value"], "written", "{point}");

    let after = asks(world);
    for ask in answered {
        assert_eq!(before.get(&ask), after.get(&ask), "{point}: {ask} was recorded and asked again");
    }
    assert!(after.values().all(|times| *times <= 1 + usize::from(died)), "{point}: {after:?}");
    replays(world);
}

#[test]
fn a_job_with_a_child_goes_on_wherever_its_process_is_killed() {
    let handles = KINDS.map(|kind| {
        std::thread::spawn(move || {
            let mut points = 0;
            for n in 0..MANY {
                let world = family();
                let point = format!("{kind}:{n}");
                let died = dies(&world, &point);
                goes_on(&world, &point, died);
                if !died {
                    break;
                }
                points += 1;
            }
            (kind, points)
        })
    });
    for handle in handles {
        let (kind, points) = handle.join().unwrap();
        assert!((8..MANY).contains(&points), "{kind}: {points} points, which is not the job that was meant");
    }
}
