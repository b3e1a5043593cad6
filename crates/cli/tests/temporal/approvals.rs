//! People who are asked, and answer from anywhere.

use crate::cluster::{Cluster, Node};
use crate::support::{Plugin, Running, eventually, function, says};
use serde_json::json;

/// One call, of which a person is asked.
fn asks(hook: serde_json::Value) -> Plugin {
    let mut on = json!({"on": "pre_tool_call", "call": "policy.check", "timeout": "30s"});
    on.as_object_mut().unwrap().extend(hook.as_object().unwrap().clone());
    Plugin::new("p")
        .server("policy", json!([function("check", says("escalate", json!({"reason": "a push"})))]))
        .server("git", json!([function("push", json!({"text": "pushed"}))]))
        .hook(on)
        .turns(json!([{"call": {"tool": "git.push", "with": {}}}, {"say": "done"}]))
}

/// A job that waits for a person, and the node that goes on with it.
fn waiting(node: &Node) -> String {
    let ran = node.run(&["--detach"]).code(4).json();
    ran["job"].as_str().unwrap().to_owned()
}

#[test]
fn a_yes_from_another_node_lets_the_call_through_once_and_a_second_one_is_told() {
    let cluster = Cluster::start();
    let (node, other) = (cluster.node("n1", asks(json!({}))), cluster.node("n2", asks(json!({}))));
    let job = waiting(&node);
    let serving = node.serve();
    assert_eq!(other.until(&job, "waiting")["status"], "waiting");
    let approval = other.open_approval();
    other.call(&["approvals", "approve", &approval, "--as", "ada"]).code(0);
    node.until(&job, "completed");
    other.call(&["approvals", "deny", &approval, "--as", "bob"]).code(1).tells(&["already approved"]);
    assert_eq!(node.world.calls("git").len(), 1);
    assert!(other.world.calls("policy").is_empty());
    drop(serving);
}

#[test]
fn a_yes_counts_once_while_the_home_node_is_away() {
    let cluster = Cluster::start();
    let (node, other) = (cluster.node("n1", asks(json!({}))), cluster.node("n2", asks(json!({}))));
    let job = waiting(&node);
    // Any node decides for the workflow, though only the home runs the job.
    let far = other.serve();
    let approval = other.open_approval();
    other.call(&["approvals", "approve", &approval, "--as", "ada"]).code(0);
    other.call(&["approvals", "deny", &approval, "--as", "bob"]).code(1).tells(&["already approved", "ada"]);
    assert_eq!(other.json(&["approvals", "list"])["approvals"], json!([]));
    assert!(node.world.calls("git").is_empty());
    let near = node.serve();
    node.until(&job, "completed");
    assert_eq!(node.world.calls("git").len(), 1);
    drop((near, far));
}

#[test]
fn a_no_stops_the_call() {
    let cluster = Cluster::start();
    let node = cluster.node("n1", asks(json!({})));
    let ran = node.run(&["--approve", "no"]).code(0);
    assert_eq!(ran.records("approval_decided")[0]["approve"], false, "{ran}");
    assert!(node.world.calls("git").is_empty());
}

#[test]
fn an_approval_expires_by_itself() {
    let cluster = Cluster::start();
    let node = cluster.node("n1", asks(json!({"expires": "2s"})));
    let ran = node.run(&["--approve", "wait"]).code(0);
    assert_eq!(ran.records("approval_expired").len(), 1, "{ran}");
    assert!(node.world.calls("git").is_empty());
}

#[test]
fn an_approval_can_be_given_while_another_call_is_under_way() {
    let cluster = Cluster::start();
    let plugin = Plugin::new("p")
        .server("policy", json!([function("check", says("escalate", json!({"reason": "a push"})))]))
        .server("git", json!([function("push", json!({"text": "pushed"}))]))
        .server("slow", json!([function("wait", json!({"hang": true}))]))
        .hook(
            json!({"on": "pre_tool_call", "call": "policy.check", "match": {"tools": ["git.push"]}, "timeout": "30s"}),
        )
        .turns(json!([
            {"call": [{"tool": "slow.wait", "with": {}}, {"tool": "git.push", "with": {}}]},
            {"say": "done"}
        ]));
    let node = cluster.node("n1", plugin);
    let running = Running::start(node.job(&["--approve", "wait"]));
    let approval = node.open_approval();
    node.call(&["approvals", "approve", &approval, "--as", "ada"]).code(0);
    eventually("the approved call is made", || (!node.world.calls("git").is_empty()).then_some(()));
    let job = node.only_job();
    node.call(&["jobs", "cancel", &job]).code(0);
    running.finish().code(130);
}
