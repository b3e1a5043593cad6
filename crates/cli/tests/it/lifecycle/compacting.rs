//! `_PostCompact` of servers that hang or die, over real jobs whose conversation is compacted.

use super::{body, count, outcomes, run};
use crate::support::{Finished, Plugin, Running, World, eventually, function, lives};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const TURNS: usize = 14;

/// A job in a small window, with a server that answers after each compaction, and `odd`, whose `_PostCompact` is what a test is about.
fn world(odd: Value) -> World {
    let log = function("log", json!({"text": "x".repeat(700)}));
    let world = World::with(
        Plugin::new("p")
            .agent(json!({"max_turns": 20}))
            .scripted("odd", odd, json!({}))
            .server("todo", json!([function("_PostCompact", json!({"text": "2 items are open"}))]))
            .server("git", json!([log])),
    );
    let mut turns: Vec<Value> = (0..TURNS).map(|n| json!({"call": {"tool": "git.log", "with": {"n": n}}})).collect();
    turns.push(json!({"say": "done"}));
    world.write("p/script.yaml", json!({"window": 1_000, "summary": "All was fine.", "turns": turns}).to_string());
    world
}

/// What came of each `_PostCompact` of a server.
fn of(done: &Finished, server: &str) -> Vec<String> {
    let all = outcomes(done).into_iter().filter(|(point, of, _)| point == "post_compact" && of == server);
    all.map(|(_, _, outcome)| outcome).collect()
}

/// The job went on to its end, and the other server was heard each time.
fn went_on(world: &World, done: &Finished) {
    assert_eq!(done.json()["output"], "done");
    let compactions = done.records("compacted").len();
    assert!(compactions >= 2, "{done}");
    assert_eq!(of(done, "todo"), vec!["text"; compactions], "{done}");
    let said = done.records("lifecycle_answered").iter().map(Value::to_string).collect::<String>();
    assert!(said.contains(&Value::from(body("_PostCompact", "todo", "2 items are open")).to_string()), "{said}");
    assert_eq!(world.calls("git").len(), TURNS, "each call once");
    world.call(&["replay", done.json()["job"].as_str().unwrap(), "--db", "jobs.db"]).code(0);
}

#[test]
fn a_post_compact_hook_that_hangs_is_a_timeout_that_is_shown_and_the_job_goes_on() {
    let world = world(json!({"tools": [function("_PostCompact", json!({"await_cancel": true}))]}));
    let done = run(&world, "*", &[("HOOKWRIGHT_HOOK_TIMEOUT_MS", "1500")], &[]).code(0);
    went_on(&world, &done);
    let hung = of(&done, "odd");
    assert!(hung.len() >= 2 && hung.iter().all(|outcome| outcome == "timed_out"), "{hung:?}\n{done}");
    assert!(world.was_cancelled("odd"), "it was told");
    let answers = done.records("lifecycle_answered");
    let killed: Vec<&Value> = answers
        .iter()
        .flat_map(|r| r["answers"].as_array().into_iter().flatten())
        .filter(|a| a["server"] == "odd")
        .map(|a| &a["outcome"]["killed"])
        .collect();
    assert_eq!(killed[..2], [&json!(false), &json!(true)], "the second time in a row it is killed");
    let history = world.call(&["jobs", "history", done.json()["job"].as_str().unwrap(), "--db", "jobs.db"]).code(0);
    for part in ["odd._PostCompact: TIMEOUT", "odd._PostCompact: KILLED", "todo._PostCompact: says"] {
        assert!(history.out.contains(part), "{part:?} is missing\n{history}");
    }
    let told = run(&world, "*", &[("HOOKWRIGHT_HOOK_TIMEOUT_MS", "1500")], &["--output", "text"]).code(0);
    told.tells(&["odd._PostCompact", "TIMEOUT", "did not answer within 1.5s"]);
}

#[test]
fn a_server_that_is_killed_during_post_compact_is_a_failure_and_the_job_goes_on() {
    let world = world(json!({
        "start": [{"append": {"file": "pids", "line": "{pid}"}}],
        "tools": [function("_PostCompact", json!({"hang": true}))],
    }));
    let mut command = world.job(&[]);
    command.env("MCP_HOOK_SERVERS", "*").env("HOOKWRIGHT_HOOK_TIMEOUT_MS", "20000");
    let running = Running::start(command);
    // Each start of it is killed while its hook is asked.
    let mut killed = vec![];
    let done = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| running.finish());
        while !waiting.is_finished() {
            let asked = count(&world, "odd", "_PostCompact");
            let pids = std::fs::read_to_string(world.path("p/pids")).unwrap_or_default();
            let last: Option<i32> = pids.lines().last().and_then(|pid| pid.parse().ok());
            if let Some(pid) = last.filter(|pid| asked > killed.len() && !killed.contains(pid) && lives(*pid)) {
                kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
                killed.push(pid);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        waiting.join().unwrap()
    })
    .code(0);
    went_on(&world, &done);
    assert!(!killed.is_empty());
    assert_eq!(of(&done, "odd")[0], "failed", "{done}");
    let answers = done.records("lifecycle_answered");
    let why = answers.iter().find_map(|r| r["answers"][0]["outcome"]["why"].as_str()).unwrap();
    assert!(why.contains("signal 9") || why.contains("killed"), "{why}");
    assert!(done.records("tool_state").iter().any(|r| r["tool"] == "odd"), "its death is seen\n{done}");
}

#[test]
fn cancel_during_post_compact_ends_at_once_and_the_server_is_told() {
    let world = world(json!({"tools": [function("_PostCompact", json!({"await_cancel": true}))]}));
    let mut command = world.job(&[]);
    command.env("MCP_HOOK_SERVERS", "*").env("HOOKWRIGHT_HOOK_TIMEOUT_MS", "60000");
    let running = Running::start(command);
    eventually("the hook is asked", || (count(&world, "odd", "_PostCompact") == 1).then_some(()));
    let start = Instant::now();
    running.signal(Signal::INT);
    let done = running.finish().code(130);
    assert!(start.elapsed() < Duration::from_secs(5), "it took {:?}", start.elapsed());
    assert_eq!(done.json()["status"], "cancelled");
    assert!(world.was_cancelled("odd"));
}
