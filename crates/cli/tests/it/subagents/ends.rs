//! Trees of jobs that are stopped, cancelled, and taken up again.

use super::{facts, id, jobs, on_push, replays, resume, start, statuses, three};
use crate::support::{Plugin, Running, World, eventually, exactly, function};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const UNKNOWN: &str = "It is not known whether the call to git.push was made: the process ended while it was under way. \
     Check before you call it again.";

/// Three jobs deep, the innermost's call never ends by itself.
fn hangs(reads: &Value) -> World {
    three(json!({"await_cancel": true}), &on_push("allow"), reads)
}

fn until_called(world: &World) {
    eventually("the server is called", || (!world.calls("git").is_empty()).then_some(()));
}

/// Who cancelled each job, oldest first.
fn cancelled_by(world: &World) -> Vec<Value> {
    let by = |job: &Value| facts(world, id(job), "cancelled").iter().map(|r| r["by"].clone()).collect::<Vec<_>>();
    jobs(world).iter().flat_map(by).collect()
}

/// Begins the job of `worker` and kills its process in the call of the innermost job.
fn dies_in_its_call(world: &World) {
    let running = Running::start(world.job(&["--agent", "worker"]));
    until_called(world);
    running.signal(Signal::KILL);
    running.finish();
}

#[test]
fn ctrl_c_cancels_the_whole_tree_and_each_history_says_so() {
    let world = hangs(&json!([]));
    let running = Running::start(world.job(&["--agent", "worker", "--approve", "wait", "--as", "Ada"]));
    until_called(&world);
    let start = Instant::now();
    running.signal(Signal::INT);
    running.finish().code(130);
    assert!(start.elapsed() < Duration::from_secs(25), "{:?}", start.elapsed());
    assert_eq!(statuses(&world), ["cancelled"; 3]);
    assert_eq!(cancelled_by(&world), ["Ada"; 3]);
    assert!(world.was_cancelled("git"));
    replays(&world);
}

#[test]
fn another_process_cancels_the_whole_tree_by_its_root() {
    let world = hangs(&json!([]));
    let running = Running::start(world.job(&["--agent", "worker", "--approve", "wait"]));
    until_called(&world);
    world.call(&["jobs", "cancel", id(&jobs(&world)[0]), "--db", "jobs.db", "--as", "Bob"]).code(0);
    running.finish().code(130);
    assert_eq!(statuses(&world), ["cancelled"; 3]);
    assert_eq!(cancelled_by(&world), ["Bob"; 3]);
    replays(&world);
}

#[test]
fn a_tree_that_nobody_runs_is_cancelled_by_its_root_and_nothing_is_called() {
    let world = hangs(&json!([]));
    dies_in_its_call(&world);
    let all = jobs(&world);
    world.call(&["jobs", "cancel", id(&all[0]), "--db", "jobs.db", "--as", "Bob"]).code(0).tells(&[
        id(&all[0]),
        id(&all[1]),
        id(&all[2]),
    ]);
    assert_eq!(statuses(&world), ["cancelled"; 3]);
    assert_eq!(cancelled_by(&world), ["Bob"; 3]);
    assert_eq!(world.calls("git").len(), 1);
    replays(&world);
}

#[test]
fn a_child_alone_can_be_cancelled_and_its_parent_reads_so() {
    let task = "Go.";
    let world = World::with(
        Plugin::new("p")
            .server("git", json!([function("push", json!({"await_cancel": true}))]))
            .agent(json!({"subagents": ["writer"], "tools": []}))
            .turns(json!([
                {"call": start("writer", task)},
                {"expect": {"matches": r"^The agent writer was cancelled by Bob \(job job_[0-9a-f]{16}\)\.$"}, "say": "done"},
            ]))
            .other("writer", json!({"tools": ["git"]}), json!([{"call": {"tool": "git.push"}}])),
    );
    let running = Running::start(world.job(&["--agent", "worker"]));
    until_called(&world);
    world.call(&["jobs", "cancel", id(&jobs(&world)[1]), "--db", "jobs.db", "--as", "Bob"]).code(0);
    running.finish().code(0);
    assert_eq!(statuses(&world), ["completed", "cancelled"]);
}

#[test]
fn sigterm_leaves_the_whole_tree_to_be_resumed_by_its_root() {
    for signal in [Signal::TERM, Signal::KILL] {
        let world = hangs(&exactly(UNKNOWN));
        let running = Running::start(world.job(&["--agent", "worker"]));
        until_called(&world);
        running.signal(signal);
        let stopped = running.finish();
        assert!(signal == Signal::KILL || stopped.status.code() == Some(143), "{stopped}");
        let all = jobs(&world);
        assert!(all.iter().all(|job| job["running"] == false && job["status"] == "running"), "{all:?}");
        let done = resume(&world, id(&all[0]), &[]).code(0);
        assert_eq!(done.json()["output"], "done");
        assert_eq!(world.calls("git").len(), 1, "what may have been made is not made again");
        assert_eq!(statuses(&world), ["completed"; 3]);
        let by = facts(&world, id(&all[1]), "resumed");
        assert_eq!(by[0]["process"], format!("job {}", id(&all[0])));
        replays(&world);
    }
}

#[test]
fn resuming_all_jobs_leaves_children_to_their_parents() {
    let world = hangs(&exactly(UNKNOWN));
    dies_in_its_call(&world);
    Plugin::new("q").agent(json!({"id": "quick"})).turns(json!([{"say": "done"}])).save(&world);
    world.run(&["--agent", "quick"]).code(0).tells(&["1 earlier job(s) are not over"]);
    world.call(&["jobs", "resume", "--all", "--db", "jobs.db"]).code(0);
    let all = jobs(&world);
    for job in &all[..3] {
        assert_eq!((&job["status"], facts(&world, id(job), "resumed").len()), (&json!("completed"), 1));
    }
    replays(&world);
}

#[test]
fn a_child_that_was_resumed_by_itself_is_not_run_again_by_its_parent() {
    let world = hangs(&exactly(UNKNOWN));
    dies_in_its_call(&world);
    let all = jobs(&world);
    assert_eq!(resume(&world, id(&all[1]), &[]).code(0).json()["output"], "passed on");
    let before = facts(&world, id(&all[1]), "resumed").len();
    assert_eq!(resume(&world, id(&all[0]), &[]).code(0).json()["output"], "done");
    assert_eq!(facts(&world, id(&all[1]), "resumed").len(), before);
    replays(&world);
}

#[test]
fn a_parent_waits_for_a_child_that_another_process_runs() {
    let world = three(json!({"text": "pushed"}), &on_push("escalate"), &exactly("pushed"));
    world.run(&["--agent", "worker", "--detach"]).code(4);
    let all = jobs(&world);
    let mut child = world.hookwright(&["jobs", "resume", id(&all[1]), "--db", "jobs.db", "--approve", "wait"]);
    child.arg("--output").arg("json");
    let child = Running::start(child);
    eventually("the child runs", || (jobs(&world)[1]["running"] == true).then_some(()));
    let parent =
        Running::start(world.hookwright(&["jobs", "resume", id(&all[0]), "--db", "jobs.db", "--output", "json"]));
    eventually("the parent runs", || (jobs(&world)[0]["running"] == true).then_some(()));
    std::thread::sleep(Duration::from_millis(1_500));
    world.call(&["approvals", "approve", &world.open_approval(), "--db", "jobs.db"]).code(0);
    child.finish().code(0);
    assert_eq!(parent.finish().code(0).json()["output"], "done");
    assert_eq!(world.calls("git").len(), 1);
    replays(&world);
}

#[test]
fn a_cancel_reaches_a_child_that_another_process_runs() {
    let world = three(json!({"text": "pushed"}), &on_push("escalate"), &exactly("pushed"));
    world.run(&["--agent", "worker", "--detach"]).code(4);
    let all = jobs(&world);
    let child =
        Running::start(world.hookwright(&["jobs", "resume", id(&all[1]), "--db", "jobs.db", "--approve", "wait"]));
    eventually("the child runs", || (jobs(&world)[1]["running"] == true).then_some(()));
    let parent =
        Running::start(world.hookwright(&["jobs", "resume", id(&all[0]), "--db", "jobs.db", "--approve", "wait"]));
    eventually("the parent looks at its child", || (jobs(&world)[0]["running"] == true).then_some(()));
    std::thread::sleep(Duration::from_millis(1_500));
    world.call(&["jobs", "cancel", id(&all[0]), "--db", "jobs.db", "--as", "Bob"]).code(0);
    parent.finish().code(130);
    child.finish().code(130);
    assert_eq!(cancelled_by(&world), ["Bob"; 3]);
}

#[test]
fn a_child_whose_parent_is_over_is_cancelled_when_it_is_taken_up() {
    // Somebody cancels the root while it is taken up; that process dies when the root's end is durable and its child's is not.
    for n in 0..20 {
        let world = hangs(&json!([]));
        dies_in_its_call(&world);
        let all = jobs(&world);
        let db = rusqlite::Connection::open(world.path("jobs.db")).unwrap();
        let cancel = json!({"kind": "cancel", "by": "Bob", "at_ms": 1}).to_string();
        db.execute("INSERT INTO inbox (job, what) SELECT n, ?2 FROM jobs WHERE id = ?1", [id(&all[0]), &cancel])
            .unwrap();
        drop(db);
        let mut resumed = world.hookwright(&["jobs", "resume", id(&all[0]), "--db", "jobs.db"]);
        resumed.env("HOOKWRIGHT_TEST_CRASH_AT", format!("after_commit:{n}"));
        Running::start(resumed).finish();
        let stand = statuses(&world);
        if stand[0] != "cancelled" {
            continue;
        }
        assert_eq!(stand[1..], ["running", "running"]);
        resume(&world, id(&all[1]), &[]).code(130);
        assert_eq!(statuses(&world), ["cancelled"; 3]);
        let by = |job: &Value| facts(&world, id(job), "cancelled")[0]["by"].clone();
        assert_eq!([by(&all[0]), by(&all[1])], [json!("Bob"), json!(format!("the end of {}", id(&all[0])))]);
        assert_eq!(world.calls("git").len(), 1);
        replays(&world);
        return;
    }
    panic!("the parent was never cancelled alone");
}

#[test]
fn forgetting_a_job_forgets_what_it_told_its_children() {
    let world = three(json!({"text": "pushed"}), &on_push("allow"), &exactly("pushed"));
    world.run(&["--agent", "worker"]).code(0);
    let told = |world: &World| {
        let all = jobs(world);
        let texts = all.iter().flat_map(|job| super::history(world, id(job))).map(|r| r.to_string());
        texts.filter(|text| text.contains("\"Go.\"") || text.contains("\"written\"")).count()
    };
    assert!(told(&world) > 0);
    world.call(&["jobs", "forget", id(&jobs(&world)[0]), "--db", "jobs.db"]).code(0);
    assert_eq!(told(&world), 0);
    replays(&world);
}
