//! Several processes on one store, and processes that are stopped: signals, leases, servers that must not stay behind.

use crate::support::{Finished, Plugin, Running, World, eventually, exactly, function, lives, says};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

fn jobs(world: &World) -> Vec<Value> {
    let listed = world.call(&["jobs", "list", "--db", "jobs.db", "--output", "json"]).code(0);
    listed.json()["jobs"].as_array().unwrap().clone()
}

fn only_job(world: &World) -> String {
    jobs(world)[0]["job"].as_str().unwrap().to_owned()
}

fn resume(world: &World, job: &str) -> Finished {
    world.call(&["jobs", "resume", job, "--db", "jobs.db", "--output", "json"])
}

/// A job whose one call never ends by itself.
fn hangs(reads: &Value) -> World {
    let cases =
        json!({"cases": [{"when": {"/n": 1}, "then": [{"await_cancel": true}]}, {"then": [{"text": "pushed"}]}]});
    World::with(Plugin::new("p").server("git", json!([function("push", cases)])).turns(json!([
        {"call": {"tool": "git.push", "with": {"n": 1}}},
        {"expect": reads, "say": "done"}
    ])))
}

fn until_called(world: &World, tool: &str) {
    eventually("the server is called", || (!world.calls(tool).is_empty()).then_some(()));
}

const UNKNOWN: &str = "It is not known whether the call to git.push was made: the process ended while it was under way. \
     Check before you call it again.";

#[test]
fn eight_processes_share_one_store() {
    let plugin = Plugin::new("p")
        .server("policy", json!([function("check", says("allow", json!({})))]))
        .server("git", json!([function("push", json!({"text": "pushed"}))]))
        .hook(json!({"on": "pre_tool_call", "call": "policy.check", "timeout": "30s"}));
    let world = World::with(plugin.turns(json!([
        {"call": {"tool": "git.push"}}, {"call": {"tool": "git.push"}}, {"expect": exactly("pushed"), "say": "done"}
    ])));
    let running: Vec<Running> = (0..8).map(|_| Running::start(world.job(&[]))).collect();
    for process in running {
        assert_eq!(process.finish().code(0).json()["output"], "done");
    }
    let jobs = jobs(&world);
    assert_eq!(jobs.len(), 8);
    assert!(jobs.iter().all(|job| job["status"] == "completed" && job["running"] == false), "{jobs:?}");
    world.call(&["audit", "verify", "--db", "jobs.db"]).code(0);
    assert_eq!(world.calls("git").len(), 16);
}

#[test]
fn a_job_that_a_living_process_runs_is_resumed_by_no_other() {
    let world = hangs(&json!([]));
    let running = Running::start(world.job(&[]));
    until_called(&world, "git");
    let job = only_job(&world);
    let refused =
        resume(&world, &job).code(1).tells(&["is run by another process", &running.pid().to_string(), "next:"]);
    assert_eq!(refused.json()["error"]["type"], "Store");
    world.call(&["jobs", "resume", "--all", "--db", "jobs.db"]).code(0).tells(&["no unfinished jobs"]);
    world.call(&["jobs", "cancel", &job, "--db", "jobs.db"]).code(0);
    running.finish().code(130);
    assert_eq!(world.calls("git").len(), 1);
}

#[test]
fn a_killed_runners_job_is_taken_over_at_once_and_its_call_is_not_repeated() {
    let world = hangs(&exactly(UNKNOWN));
    let running = Running::start(world.job(&[]));
    until_called(&world, "git");
    running.signal(Signal::KILL);
    running.finish();
    let start = Instant::now();
    let done = resume(&world, &only_job(&world)).code(0);
    assert!(start.elapsed() < Duration::from_mins(1), "no lease is waited for: {:?}", start.elapsed());
    assert_eq!(world.calls("git").len(), 1, "{done}");
    assert_eq!(done.records("resumed").len(), 1);
}

#[test]
fn sigterm_stops_with_143_and_leaves_the_job_to_be_resumed() {
    let world = hangs(&exactly(UNKNOWN));
    let running = Running::start(world.job(&[]));
    until_called(&world, "git");
    running.signal(Signal::TERM);
    let job = only_job(&world);
    running.finish().code(143).tells(&["jobs resume", &job]);
    assert!(["running", "waiting"].iter().any(|s| jobs(&world)[0]["status"] == *s));
    resume(&world, &job).code(0);
    assert_eq!(world.calls("git").len(), 1);
}

#[test]
fn all_unfinished_jobs_can_be_resumed_with_one_command() {
    let world = World::with(
        Plugin::new("p")
            .server("policy", json!([function("check", says("escalate", json!({"reason": "hm"})))]))
            .hook(json!({"on": "job_start", "call": "policy.check"}))
            .turns(json!([{"say": "done"}])),
    );
    for _ in 0..2 {
        world.run(&["--detach"]).code(4);
    }
    world.call(&["jobs", "resume", "--all", "--db", "jobs.db", "--approve", "yes"]).code(0);
    assert!(jobs(&world).iter().all(|job| job["status"] == "completed"));
}

#[test]
fn a_job_that_ended_by_itself_is_not_said_to_be_cancelled() {
    let world = World::with(Plugin::new("p").turns(json!([{"say": "done"}])));
    let job = world.run(&[]).code(0).json()["job"].as_str().unwrap().to_owned();
    // As if its end stood in the history only: what is looked at before the cancel is older than what it finds.
    let db = rusqlite::Connection::open(world.path("jobs.db")).unwrap();
    db.execute("UPDATE jobs SET status = 'running'", []).unwrap();
    let said = world.call(&["jobs", "cancel", &job, "--db", "jobs.db"]).code(1);
    said.tells(&["ended by itself before it could be cancelled"]);
    assert_eq!(jobs(&world)[0]["status"], "completed");
}

#[test]
fn a_job_that_nobody_runs_is_cancelled_at_once_and_nothing_is_called() {
    let world = hangs(&json!([]));
    let running = Running::start(world.job(&[]));
    until_called(&world, "git");
    running.signal(Signal::KILL);
    running.finish();
    let job = only_job(&world);
    world.call(&["jobs", "cancel", &job, "--db", "jobs.db", "--as", "Ada"]).code(0);
    assert_eq!(jobs(&world)[0]["status"], "cancelled");
    resume(&world, &job).code(130).tells(&["is over, it was cancelled by Ada"]);
    world.call(&["jobs", "cancel", &job, "--db", "jobs.db"]).code(1).tells(&["is over"]);
    world.call(&["replay", &job, "--db", "jobs.db"]).code(0);
    assert_eq!(world.calls("git").len(), 1);
}

/// Where a job is when Ctrl-C comes.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Stage {
    Model,
    StartHook,
    Hook,
    Call,
    Approval,
    EndHook,
}

#[test]
fn ctrl_c_cancels_at_each_stage_and_leaves_nothing_behind() {
    use Stage::{Approval, Call, EndHook, Hook, Model, StartHook};
    for stage in [Model, StartHook, Hook, Call, Approval, EndHook] {
        let world = World::new();
        let pids = ["policy", "git"].map(|tool| world.path(&format!("{tool}.pid")));
        let hang = json!([{"await_cancel": true}]);
        let allow = json!([says("allow", json!({}))]);
        let when = |stage_of: Stage, other: &Value| if stage == stage_of { hang.clone() } else { other.clone() };
        let before =
            if stage == Approval { json!([says("escalate", json!({"reason": "hm"}))]) } else { when(Hook, &allow) };
        let cases = json!({"cases": [
            {"when": {"/event/event": "job_start"}, "then": when(StartHook, &allow)},
            {"when": {"/event/event": "pre_tool_call"}, "then": before},
            {"then": when(EndHook, &allow)},
        ]});
        let mut plugin = Plugin::new("p");
        for (tool, pid, functions) in [
            ("policy", &pids[0], json!([function("check", cases)])),
            ("git", &pids[1], json!([function("push", when(Call, &json!([{"text": "pushed"}])))])),
        ] {
            plugin = plugin.scripted(tool, json!({"start": [{"write_pid": pid}], "tools": functions}), json!({}));
        }
        for on in ["job_start", "pre_tool_call", "job_end"] {
            plugin = plugin.hook(json!({"on": on, "call": "policy.check", "timeout": "30s"}));
        }
        let delay = if stage == Model { "1m" } else { "1ms" };
        plugin.turns(json!([{"call": {"tool": "git.push"}, "delay": delay}, {"say": "done"}])).save(&world);

        let running = Running::start(world.job(&["--approve", "wait", "--as", "Ada"]));
        let asked = |on: &str| world.calls("policy").iter().any(|(_, a)| a["event"]["event"] == on);
        eventually("the stage is reached", || {
            let reached = match stage {
                Model => {
                    asked("job_start")
                        && world.messages("git").iter().filter(|m| m["method"] == "tools/list").count() > 0
                }
                StartHook => asked("job_start"),
                Hook => asked("pre_tool_call"),
                Call => !world.calls("git").is_empty(),
                Approval => asked("pre_tool_call") && !world.open_approval().is_empty(),
                EndHook => asked("job_end"),
            };
            reached.then_some(())
        });
        let job = only_job(&world);
        running.signal(Signal::INT);
        let start = Instant::now();
        let done = running.finish();
        assert_eq!(done.status.code(), Some(130), "{stage:?}\n{done}");
        assert!(start.elapsed() < Duration::from_secs(25), "{stage:?}: not when the hook's timeout ends");
        let result = done.json();
        assert_eq!((&result["status"], &result["cancelled_by"]), (&json!("cancelled"), &json!("Ada")), "{stage:?}");
        assert_eq!(jobs(&world)[0]["status"], "cancelled");
        for pid in &pids {
            let pid: i32 = std::fs::read_to_string(pid).unwrap().parse().unwrap();
            eventually("the servers are gone", || (!lives(pid)).then_some(()));
        }
        match stage {
            StartHook | Hook | EndHook => assert!(world.was_cancelled("policy"), "{stage:?}"),
            Call => assert!(world.was_cancelled("git"), "{stage:?}"),
            Model | Approval => {}
        }
        world.call(&["replay", &job, "--db", "jobs.db"]).code(0);
    }
}

#[test]
fn ctrl_c_ends_ask_and_check_and_their_servers() {
    let world = World::new();
    let pid = world.path("pid");
    let functions = json!([function("check", json!({"await_cancel": true}))]);
    Plugin::new("p")
        .scripted("policy", json!({"start": [{"write_pid": pid}], "tools": functions}), json!({}))
        .scripted("slow", json!({"initialize": "never"}), json!({}))
        .hook(json!({"on": "job_start", "call": "policy.check", "timeout": "30s"}))
        .save(&world);
    world.write("event.json", r#"{"event": "job_start", "input": "x"}"#);
    for args in [&["ask", "--plugin", "p", "--event", "event.json"][..], &["check", "p"]] {
        let before = world.messages("policy").len();
        let running = Running::start(world.hookwright(args));
        let wanted = if args[0] == "ask" { "tools/call" } else { "tools/list" };
        eventually("it is under way", || {
            world.messages("policy")[before..].iter().any(|m| m["method"] == wanted).then_some(())
        });
        running.signal(Signal::INT);
        running.finish().code(130);
        let pid: i32 = std::fs::read_to_string(&pid).unwrap().parse().unwrap();
        eventually("the server is gone", || (!lives(pid)).then_some(()));
    }
}

/// A job whose call never ends, at a server that minds neither the end of its input nor SIGTERM; and the file of its process's number.
fn stubborn() -> (World, std::path::PathBuf) {
    let world = World::new();
    let pid = world.path("pid");
    let shell = "trap '' TERM INT HUP; echo $$ > \"$0\"; \"$@\"; while :; do sleep 1; done";
    let program = hookwright_testkit::bins::bin("scripted-mcp");
    let script = json!({"tools": [function("push", json!({"hang": true}))]});
    Plugin::new("p")
        .scripted("git", script, json!({"mcp": ["sh", "-c", shell, pid, program, world.path("p/git.json")]}))
        .turns(json!([{"call": {"tool": "git.push"}}, {"say": "done"}]))
        .save(&world);
    (world, pid)
}

fn number(pid: &std::path::Path) -> i32 {
    std::fs::read_to_string(pid).unwrap().trim().parse().unwrap()
}

#[test]
fn a_second_ctrl_c_ends_at_once_and_leaves_no_server_behind() {
    let (world, pid) = stubborn();
    let running = Running::start(world.job(&[]));
    until_called(&world, "git");
    let server = number(&pid);
    running.signal(Signal::INT);
    std::thread::sleep(Duration::from_millis(200));
    running.signal(Signal::INT);
    running.finish().code(130);
    eventually("the server is gone", || (!lives(server)).then_some(()));
    world.call(&["audit", "verify", "--db", "jobs.db"]).code(0);
}

#[test]
fn servers_of_a_process_that_was_killed_are_ended_however_stubborn_they_are() {
    let (world, pid) = stubborn();
    let running = Running::start(world.job(&[]));
    until_called(&world, "git");
    let server = number(&pid);
    assert!(lives(server));
    running.signal(Signal::KILL);
    running.finish();
    eventually("the server is gone", || (!lives(server)).then_some(()));
}

#[test]
fn sigterm_before_the_job_is_stored_says_so_and_names_nothing_to_resume() {
    let world = World::with(Plugin::new("p").server("git", json!([])).turns(json!([{"say": "done"}])));
    world.run(&[]).code(0);
    let before = world.messages("git").len();
    let lock = rusqlite::Connection::open(world.path("jobs.db")).unwrap();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    let running = Running::start(world.job(&[]));
    eventually("it is under way", || (world.messages("git").len() > before).then_some(()));
    running.signal(Signal::TERM);
    let done = running.finish().code(143).tells(&["stopped before the job was stored"]);
    assert!(!done.err.contains("jobs resume"), "{done}");
    lock.execute_batch("ROLLBACK").unwrap();
    assert_eq!(jobs(&world).len(), 1);
}
