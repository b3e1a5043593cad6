//! Unfinished jobs go on in the node, each once, and those of living processes are left to them.

use super::{jobs, plugins, serve, status, stop, until_completed};
use crate::support::{Plugin, Running, World, eventually, exactly, function, lives, says};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::time::Duration;

const UNKNOWN: &str = "It is not known whether the call to git.push was made: the process ended while it was under way. \
     Check before you call it again.";

/// An agent whose calls of `{"n": 1}` never end by themselves, and that makes two of them.
fn hangs_twice() -> World {
    let cases =
        json!({"cases": [{"when": {"/n": 1}, "then": [{"await_cancel": true}]}, {"then": [{"text": "pushed"}]}]});
    World::with(Plugin::new("p").server("git", json!([function("push", cases)])).turns(json!([
        {"call": {"tool": "git.push", "with": {"n": 1}}},
        {"expect": exactly(UNKNOWN), "call": {"tool": "git.push", "with": {"n": 1}}},
        {"expect": exactly(UNKNOWN), "call": {"tool": "git.push", "with": {"n": 2}}},
        {"expect": exactly("pushed"), "say": "done"}
    ])))
}

fn until_calls(world: &World, n: usize) {
    eventually("the server is called", || (world.calls("git").len() >= n).then_some(()));
}

/// A policy that asks a person before each push.
fn asks() -> World {
    World::with(
        Plugin::new("p")
            .server("policy", json!([function("check", says("escalate", json!({"reason": "a push"})))]))
            .server("git", json!([function("push", json!({"text": "pushed"}))]))
            .hook(json!({"on": "pre_tool_call", "call": "policy.check", "timeout": "30s"}))
            .turns(json!([{"call": {"tool": "git.push"}}, {"expect": exactly("pushed"), "say": "done"}])),
    )
}

fn starts(world: &World, tool: &str) -> usize {
    world.messages(tool).iter().filter(|m| m["method"] == "initialize").count()
}

#[test]
fn a_killed_node_started_again_goes_on_with_its_jobs_and_makes_no_call_twice() {
    let world = hangs_twice();
    let running = Running::start(world.job(&[]));
    until_calls(&world, 1);
    running.signal(Signal::KILL);
    running.finish();
    // It needs no plugins of its own: each job has those that it was begun with.
    let node = serve(&world, &[]);
    until_calls(&world, 2);
    assert_eq!(status(&world)["jobs"]["here"], json!([jobs(&world)[0]["job"]]));
    node.signal(Signal::KILL);
    node.finish();
    let node = serve(&world, &[]);
    until_completed(&world);
    assert_eq!(world.calls("git").len(), 3);
    world.call(&["audit", "verify", "--db", "jobs.db"]).code(0);
    stop(&world);
    node.finish().code(0).tells(&["goes on", "completed", "was asked to end"]);
}

#[test]
fn sigterm_ends_the_node_and_its_servers_and_leaves_its_jobs_to_be_resumed() {
    let world = World::new();
    let pid = world.path("pid");
    let script = json!({"start": [{"write_pid": pid}], "tools": [function("push", json!({"await_cancel": true}))]});
    Plugin::new("p")
        .scripted("git", script, json!({}))
        .turns(json!([{"call": {"tool": "git.push"}}, {"expect": exactly(UNKNOWN), "say": "done"}]))
        .save(&world);
    let running = Running::start(world.job(&[]));
    until_calls(&world, 1);
    running.signal(Signal::TERM);
    running.finish().code(143);
    std::fs::remove_file(&pid).unwrap();
    world.write(
        "p/script.yaml",
        json!({"turns": [
            {"call": {"tool": "git.push"}},
            {"expect": exactly(UNKNOWN), "call": {"tool": "git.push"}},
            {"expect": exactly(UNKNOWN), "say": "done"}
        ]})
        .to_string(),
    );
    let flags = plugins(&world);
    let node = serve(&world, &flags.iter().map(String::as_str).collect::<Vec<_>>());
    until_calls(&world, 2);
    let socket = super::socket(&world);
    let server: i32 = std::fs::read_to_string(&pid).unwrap().parse().unwrap();
    assert!(lives(server));
    node.signal(Signal::TERM);
    node.finish().code(143).tells(&["its jobs are left"]);
    assert!(!lives(server) && !socket.exists());
    let left = &jobs(&world)[0];
    assert_eq!((&left["running"], &left["status"]), (&json!(false), &json!("running")));
    world.call(&["jobs", "resume", left["job"].as_str().unwrap(), "--db", "jobs.db", "--output", "json"]).code(0);
    assert_eq!(world.calls("git").len(), 2);
}

#[test]
fn a_job_that_waits_for_a_person_holds_nothing_and_goes_on_when_one_decides() {
    let world = asks();
    world.run(&["--detach"]).code(4);
    let before = (starts(&world, "policy"), starts(&world, "git"));
    let node = serve(&world, &[]);
    // Longer than the node takes to look again.
    std::thread::sleep(Duration::from_secs(4));
    let status = status(&world);
    assert_eq!((&status["jobs"]["here"], &status["jobs"]["unfinished"]), (&json!([]), &json!(1)));
    assert_eq!(status["approvals"]["open"], 1);
    assert_eq!((starts(&world, "policy"), starts(&world, "git")), before, "no server is held for it");
    let approval = world.open_approval();
    world.call(&["approvals", "approve", &approval, "--db", "jobs.db"]).code(0);
    until_completed(&world);
    assert_eq!(world.calls("git").len(), 1);
    node.signal(Signal::INT);
    node.finish().code(143);
}

#[test]
fn an_approval_that_opens_in_the_node_is_decided_from_another_terminal() {
    let world = World::with(
        Plugin::new("p")
            .server(
                "policy",
                json!([function(
                    "check",
                    json!({"cases": [
                        {"when": {"/event/arguments/n": 2}, "then": [says("escalate", json!({"reason": "a push"}))]},
                        {"then": [says("allow", json!({}))]},
                    ]})
                )]),
            )
            .server(
                "git",
                json!([function(
                    "push",
                    json!({"cases": [
                        {"when": {"/n": 1}, "then": [{"await_cancel": true}]}, {"then": [{"text": "pushed"}]}
                    ]})
                )]),
            )
            .hook(json!({"on": "pre_tool_call", "call": "policy.check", "timeout": "30s"}))
            .turns(json!([
                {"call": {"tool": "git.push", "with": {"n": 1}}},
                {"call": {"tool": "git.push", "with": {"n": 2}}},
                {"expect": exactly("pushed"), "say": "done"}
            ])),
    );
    let running = Running::start(world.job(&[]));
    until_calls(&world, 1);
    running.signal(Signal::KILL);
    running.finish();
    let node = serve(&world, &[]);
    let approval = world.open_approval();
    let listed = status(&world)["approvals"]["listed"][0].clone();
    assert_eq!((&listed["approval"], &listed["about"]), (&json!(approval), &json!("git.push")));
    world.call(&["approvals", "deny", &approval, "--db", "jobs.db", "--as", "Ada"]).code(0);
    // The script expects a result: it fails, which is an end as well.
    eventually("the job is over", || (jobs(&world)[0]["status"] == "failed").then_some(()));
    assert_eq!(world.calls("git").len(), 1, "what was denied is not called");
    stop(&world);
    node.finish().code(0).tells(&["a person is awaited", &approval]);
}

#[test]
fn a_job_of_a_living_process_is_left_to_it_until_that_ends() {
    let world = hangs_twice();
    let running = Running::start(world.job(&[]));
    until_calls(&world, 1);
    let node = serve(&world, &[]);
    std::thread::sleep(Duration::from_secs(4));
    let seen = status(&world);
    assert_eq!((&seen["jobs"]["running"], &seen["jobs"]["here"]), (&json!(1), &json!([])));
    assert_eq!(world.calls("git").len(), 1);
    let text = world.call(&["status", "--db", "jobs.db"]).code(0);
    assert!(text.out.contains("in another process"), "{text}");
    running.signal(Signal::KILL);
    running.finish();
    // The node notices by itself, and the second call hangs there.
    until_calls(&world, 2);
    let job = jobs(&world)[0]["job"].as_str().unwrap().to_owned();
    world.call(&["jobs", "cancel", &job, "--db", "jobs.db", "--as", "Ada"]).code(0);
    eventually("it is cancelled", || (jobs(&world)[0]["status"] == "cancelled").then_some(()));
    stop(&world);
    node.finish().code(0).tells(&["cancelled"]);
}

#[test]
fn jobs_of_the_nodes_own_plugins_use_its_warm_servers_and_many_go_on_at_once() {
    let world = asks();
    for _ in 0..4 {
        world.run(&["--detach"]).code(4);
    }
    for approval in world.open_approvals() {
        world.call(&["approvals", "approve", approval["id"].as_str().unwrap(), "--db", "jobs.db"]).code(0);
    }
    let before = starts(&world, "git");
    let flags = plugins(&world);
    let node = serve(&world, &flags.iter().map(String::as_str).collect::<Vec<_>>());
    until_completed(&world);
    assert_eq!(starts(&world, "git"), before + 1, "one server for all of them");
    assert_eq!(world.calls("git").len(), 4);
    stop(&world);
    node.finish().code(0);
}

#[test]
fn a_job_that_cannot_go_on_holds_nobody_up_and_says_why() {
    let world = asks();
    world.run(&["--detach"]).code(4);
    let lost = jobs(&world)[0]["job"].as_str().unwrap().to_owned();
    // Its plugin is gone when somebody decides.
    Plugin::new("q").turns(json!([{"say": "done"}])).save(&world);
    std::fs::rename(world.path("p"), world.path("away")).unwrap();
    let approval = world.open_approval();
    world.call(&["approvals", "approve", &approval, "--db", "jobs.db"]).code(0);
    let node = serve(&world, &[]);
    let left = eventually("it is left", || {
        let left = status(&world)["jobs"]["left_listed"][0].clone();
        left.is_object().then_some(left)
    });
    assert_eq!(left["job"], lost);
    assert!(left["why"].as_str().unwrap().contains("folder"), "{left}");
    let text = world.call(&["status", "--db", "jobs.db"]).code(0);
    assert!(text.out.contains("can't go on"), "{text}");
    std::fs::rename(world.path("away"), world.path("p")).unwrap();
    let resumed = world.call(&["jobs", "resume", &lost, "--db", "jobs.db", "--output", "json"]).code(0);
    assert_eq!(resumed.json()["output"], "done");
    let gone = |status: Value| (status["jobs"]["left"] == 0).then_some(());
    eventually("it is not left any more", || gone(status(&world)));
    stop(&world);
    node.finish().code(0).tells(&["it can't go on"]);
}

#[test]
fn a_job_of_an_agent_that_somebody_else_runs_is_left_to_its_door() {
    let world = asks();
    for _ in 0..2 {
        world.run(&["--detach"]).code(4);
    }
    for approval in world.open_approvals() {
        world.call(&["approvals", "approve", approval["id"].as_str().unwrap(), "--db", "jobs.db"]).code(0);
    }
    let theirs = jobs(&world)[0]["job"].as_str().unwrap().to_owned();
    let db = rusqlite::Connection::open(world.path("jobs.db")).unwrap();
    let external = "UPDATE records SET text = json_set(text, '$.spec.agent.external', json('{}')) \
        WHERE seq = 0 AND job = (SELECT n FROM jobs WHERE id = ?1)";
    assert_eq!(db.execute(external, [&theirs]).unwrap(), 1);
    drop(db);
    let node = serve(&world, &[]);
    let is = |job: &Value, status: &str| job["job"] != *theirs && job["status"] == status;
    eventually("the other one is over", || jobs(&world).iter().any(|job| is(job, "completed")).then_some(()));
    std::thread::sleep(Duration::from_secs(4));
    let left = jobs(&world).into_iter().find(|job| job["job"] == *theirs).unwrap();
    assert_eq!((&left["status"], &left["running"]), (&json!("waiting"), &json!(false)));
    assert_eq!((world.calls("git").len(), &status(&world)["jobs"]["left"]), (1, &json!(0)));
    stop(&world);
    node.finish().code(0);
}
