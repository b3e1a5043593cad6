//! Nodes that are killed, disks that are lost.

use crate::cluster::{Cluster, Node};
use crate::support::{Plugin, Running, eventually, function, says};
use serde_json::{Value, json};
use std::os::unix::process::ExitStatusExt as _;

/// A hook before and after each call, a call that is not idempotent.
fn plugin(answer: &str) -> Plugin {
    let mut plugin = Plugin::new("p")
        .server("policy", json!([function("check", says(answer, json!({"reason": "r"})))]))
        .server("git", json!([function("push", json!({"text": "pushed"}))]))
        .turns(json!([
            {"call": {"tool": "git.push", "with": {"n": 1}}},
            {"call": {"tool": "git.push", "with": {"n": 2}}},
            {"say": "done"}
        ]));
    for on in ["pre_tool_call", "post_tool_call"] {
        plugin = plugin.hook(json!({"on": on, "call": "policy.check", "timeout": "30s"}));
    }
    plugin
}

/// The records of a job, all in one file and all on the cluster.
fn records(node: &Node, job: &str) -> Vec<Value> {
    node.json(&["jobs", "history", job])["history"].as_array().unwrap().clone()
}

fn count(records: &[Value], kind: &str) -> usize {
    records.iter().filter(|record| record["kind"] == kind).count()
}

fn lose_disk(node: &Node) {
    for name in ["jobs.db", "jobs.db-wal", "jobs.db-shm"] {
        let _ = std::fs::remove_file(node.world.path(name));
    }
}

#[test]
fn a_node_that_is_killed_before_or_after_any_effect_makes_no_call_twice() {
    for point in ["before_effect:0", "before_effect:1", "after_effect:1", "before_effect:2", "before_commit:4"] {
        let cluster = Cluster::start();
        let node = cluster.node("n1", plugin("allow"));
        let mut command = node.job(&[]);
        command.env("HOOKWRIGHT_TEST_CRASH_AT", point);
        let died = Running::start(command).finish();
        assert_eq!(died.status.signal(), Some(9), "{point} {died}");
        let job = node.only_job();
        let serving = node.serve();
        node.until(&job, "completed");
        drop(serving);
        let records = records(&node, &job);
        let said = Value::Array(records.clone()).to_string();
        let unknown = said.matches("the process ended while it was under way").count();
        // Each call is made once, or not at all where nobody knows whether it was.
        let made = node.world.calls("git").len();
        assert!(made <= 2 && made + unknown >= 2, "{point}: {made} {unknown}");
        assert!(count(&records, "resumed") <= 1, "{point}");
        // What the cluster has is what the journal has.
        node.call(&["replay", &job, "--db", "jobs.db"]).code(0);
        node.call(&["audit", "verify", "--db", "jobs.db"]).code(0);
    }
}

#[test]
fn a_job_waits_for_its_home_node_and_says_so_until_it_is_given_up() {
    let cluster = Cluster::start();
    let (node, other) = (cluster.node("n1", plugin("allow")), cluster.node("n2", plugin("allow")));
    let mut command = node.job(&[]);
    command.env("HOOKWRIGHT_TEST_CRASH_AT", "before_effect:2");
    Running::start(command).finish();
    let far = other.serve();
    let job = other.only_job();
    eventually("it waits", || {
        let shown = other.call(&["jobs", "show", &job]).code(0);
        shown.err.contains("waits for its home node n1").then_some(())
    });
    other.call(&["jobs", "abandon", &job, "--as", "ada"]).code(0).tells(&["given up"]);
    other.until(&job, "failed");
    other.call(&["jobs", "abandon", &job]).code(1);
    drop(far);
}

#[test]
fn a_disk_that_is_lost_while_nothing_was_under_way_is_made_good() {
    let cluster = Cluster::start();
    let node = cluster.node("n1", plugin("escalate"));
    let ran = node.run(&["--detach"]).code(4).json();
    let job = ran["job"].as_str().unwrap();
    lose_disk(&node);
    let serving = node.serve();
    for _ in 0..4 {
        let approval = node.open_approval();
        node.call(&["approvals", "approve", &approval, "--as", "ada"]).code(0);
    }
    node.until(job, "completed");
    assert_eq!(node.world.calls("git").len(), 2);
    drop(serving);
    node.call(&["replay", job, "--db", "jobs.db"]).code(0);
}

#[test]
fn a_disk_that_is_lost_in_the_midst_of_a_call_fails_the_job_honestly() {
    let cluster = Cluster::start();
    let node = cluster.node("n1", plugin("allow"));
    let mut command = node.job(&[]);
    command.env("HOOKWRIGHT_TEST_CRASH_AT", "after_effect:2");
    Running::start(command).finish();
    lose_disk(&node);
    let serving = node.serve();
    let job = node.only_job();
    node.until(&job, "failed");
    let shown = node.call(&["jobs", "show", &job]).code(0);
    assert!(shown.err.contains("JournalLost"), "{shown}");
    assert_eq!(node.world.calls("git").len(), 1);
    drop(serving);
}
