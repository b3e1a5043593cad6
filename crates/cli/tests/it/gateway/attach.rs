//! Sessions that live in the node (`--attach`).

use super::client::Client;
use super::{allowed, echo, text, watched};
use crate::support::{Plugin, Running, World, eventually, function, lives, says};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// Ends the world's node, which outlives its clients.
struct Node<'a>(&'a World);

impl Drop for Node<'_> {
    fn drop(&mut self) {
        let _ = Running::start(self.0.hookwright(&["stop", "--db", "jobs.db"])).finish();
    }
}

fn status(world: &World) -> Value {
    world.call(&["status", "--db", "jobs.db", "--output", "json"]).json()
}

fn pid(world: &World) -> i32 {
    i32::try_from(status(world)["node"]["pid"].as_i64().expect("a node")).unwrap()
}

fn kill(pid: i32) {
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    eventually("it is dead", || (!lives(pid)).then_some(()));
}

fn jobs(world: &World) -> Vec<Value> {
    let listed = world.call(&["jobs", "list", "--db", "jobs.db", "--output", "json"]).code(0);
    listed.json()["jobs"].as_array().unwrap().clone()
}

fn statuses(world: &World) -> Vec<String> {
    let mut all: Vec<String> = jobs(world).iter().map(|job| job["status"].as_str().unwrap().to_owned()).collect();
    all.sort();
    all
}

#[test]
fn the_first_one_starts_the_node_and_all_share_its_servers() {
    let check = json!({"cases": [
        {"when": {"/event/arguments/a": 1}, "then": [says("deny", json!({"reason": "no ones."}))]},
        {"when": {"/event/arguments/a": 2}, "then": [says("modify", json!({"arguments": {"a": 3}}))]},
        {"when": {}, "then": [says("allow", json!({}))]},
    ]});
    let world = watched(echo(), check);
    let _node = Node(&world);
    let mut one = Client::new(&world, &["--attach"]);
    let mut two = Client::modern(&world, &["--attach", "--bare-names"], json!({}));
    assert_eq!(one.names(), ["work.echo"]);
    assert_eq!(two.names(), ["echo"]);
    let denied = one.call("work.echo", json!({"a": 1}));
    assert_eq!(text(&denied), "The call to work.echo was not made: hook policy.check denied it: no ones.");
    assert_eq!(one.call("work.echo", json!({"a": 2}))["structuredContent"], json!({"a": 3}));
    let result = two.call("echo", json!({"a": 7}));
    assert_eq!((&result["structuredContent"], &result["resultType"]), (&json!({"a": 7}), &json!("complete")));
    let begun = world.messages("work").iter().filter(|m| m["method"] == "initialize").count();
    assert_eq!(begun, 1, "one server for both clients");
    let node = pid(&world);
    assert_eq!(status(&world)["jobs"]["unfinished"], 2);
    one.close().code(0);
    two.signal(Signal::TERM);
    two.finish().code(143);
    eventually("their jobs are over", || (statuses(&world) == ["cancelled", "completed"]).then_some(()));
    for job in jobs(&world) {
        assert_eq!(job["agent"], "test-client");
        world.call(&["replay", job["job"].as_str().unwrap(), "--db", "jobs.db"]).code(0);
    }
    world.call(&["audit", "verify", "--db", "jobs.db"]).code(0);
    assert_eq!(pid(&world), node, "the node stays for the next one");
}

#[test]
fn progress_cancels_and_long_messages_go_through() {
    let line = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":{token},"progress":1,"message":"half"}}"#;
    let slow = json!([{"line": line}, {"await_cancel": true}]);
    let world = allowed(json!([function("echo", json!({"echo": true})), function("slow", slow)]));
    let _node = Node(&world);
    let mut client = Client::new(&world, &["--attach"]);
    let long = "é".repeat(200_000);
    let result = client.call("work.echo", json!({"s": long}));
    assert!(result["structuredContent"]["s"] == long, "{:.500}", result.to_string());
    let id = client.send("tools/call", json!({"name": "work.slow", "arguments": {}, "_meta": {"progressToken": "p"}}));
    let progress = client.until("the progress", |m| m["method"] == "notifications/progress");
    assert_eq!(progress["params"], json!({"progressToken": "p", "progress": 1, "message": "half"}));
    client.notify("notifications/cancelled", json!({"requestId": id}));
    eventually("its server is told", || world.was_cancelled("work").then_some(()));
    assert_eq!(client.call("work.echo", json!({"a": 1}))["structuredContent"], json!({"a": 1}));
    client.close().code(0);
}

#[test]
fn a_node_that_dies_in_a_call_is_told_and_the_next_call_starts_another_one() {
    let world = allowed(json!([
        function("echo", json!({"echo": true})),
        function("slow", json!([{"sleep_ms": 600_000}, {"text": "done"}])),
    ]));
    let _node = Node(&world);
    let mut client = Client::new(&world, &["--attach"]);
    assert_eq!(client.call("work.echo", json!({"a": 1}))["structuredContent"], json!({"a": 1}));
    let slow = client.begin("work.slow", json!({}));
    eventually("the call is under way", || world.calls("work").iter().any(|(name, _)| name == "slow").then_some(()));
    let first = pid(&world);
    kill(first);
    let lost = client.result(slow);
    assert_eq!(lost["isError"], true);
    assert_eq!(
        text(&lost),
        "It is not known whether the call to work.slow was made: the node ended meanwhile. Check before you call it again."
    );
    assert_eq!(client.call("work.echo", json!({"a": 2}))["structuredContent"], json!({"a": 2}));
    assert_ne!(pid(&world), first);
    assert_eq!(client.told("notifications/tools/list_changed").len(), 1);
    client.close().code(0);
    // The first session's job has nobody any more; the node says so.
    eventually("both jobs are over", || (statuses(&world) == ["cancelled", "completed"]).then_some(()));
    world.call(&["audit", "verify", "--db", "jobs.db"]).code(0);
    let slow = world.calls("work").iter().filter(|(name, _)| name == "slow").count();
    assert_eq!(slow, 1, "it was not made again");
}

#[test]
fn an_escalation_waits_in_the_node_and_the_same_call_goes_through_once() {
    let world = watched(echo(), says("escalate", json!({"reason": "a push"})));
    let _node = Node(&world);
    let mut client = Client::new(&world, &["--attach", "--wait", "1"]);
    let left = client.call("work.echo", json!({"a": 1}));
    assert!(text(&left).contains("Nobody has decided within 1"), "{left}");
    let approval = world.open_approval();
    world.call(&["approvals", "approve", &approval, "--db", "jobs.db", "--as", "Ada"]).code(0);
    assert_eq!(client.call("work.echo", json!({"a": 1}))["structuredContent"], json!({"a": 1}));
    let again = client.call("work.echo", json!({"a": 1}));
    assert!(text(&again).contains("Nobody has decided"), "{again}");
    let mut modern = Client::modern(&world, &["--attach"], json!({"elicitation": {}}));
    let question = modern.call("work.echo", json!({"a": 2}));
    assert_eq!(question["resultType"], "input_required");
    let params = json!({
        "name": "work.echo", "arguments": {"a": 2}, "requestState": question["requestState"],
        "inputResponses": {"approval": {"action": "accept", "content": {"decision": "approve"}}},
    });
    assert_eq!(modern.request("tools/call", params)["structuredContent"], json!({"a": 2}));
}

#[test]
fn what_the_command_line_means_must_be_what_the_node_runs() {
    let world = allowed(echo());
    let _node = Node(&world);
    Client::new(&world, &["--attach"]).close().code(0);
    Plugin::new("q").server("other", echo()).save(&world);
    let other = world.call(&["gateway", "--attach", "--db", "jobs.db", "--plugin", "q"]).code(1);
    assert!(other.err.contains("runs with other plugins") && other.err.contains("hookwright stop"), "{other}");
    let http = world.call(&["gateway", "--attach", "--http", "0", "--db", "jobs.db", "--plugin", "p"]).code(2);
    assert!(http.err.contains("--http"), "{http}");
    // A manifest that was changed: what it says now is not what the node does.
    let manifest = std::fs::read_to_string(world.path("p/plugin.yaml")).unwrap();
    world.write("p/plugin.yaml", manifest + "\n");
    let stale = world.call(&["gateway", "--attach", "--db", "jobs.db", "--plugin", "p"]).code(1);
    assert!(stale.err.contains("before the manifest in") && stale.err.contains("hookwright stop"), "{stale}");
    world.call(&["stop", "--db", "jobs.db"]).code(0);
    let none = world.call(&["gateway", "--attach", "--db", "jobs.db"]).code(1);
    assert!(none.err.contains("no node runs") && none.err.contains("--plugin"), "{none}");
}

#[test]
fn a_node_that_is_stopped_ends_its_sessions_in_order() {
    let world = allowed(echo());
    let mut client = Client::new(&world, &["--attach"]);
    assert_eq!(client.call("work.echo", json!({"a": 1}))["structuredContent"], json!({"a": 1}));
    world.call(&["stop", "--db", "jobs.db"]).code(0);
    assert_eq!(statuses(&world), ["cancelled"], "its job is over when the node is");
    client.close().code(0);
}

#[test]
fn the_job_of_a_gateway_that_was_killed_is_ended_by_the_next_node() {
    let world = allowed(echo());
    let mut client = Client::new(&world, &[]);
    assert_eq!(client.call("work.echo", json!({"a": 1}))["structuredContent"], json!({"a": 1}));
    client.signal(Signal::KILL);
    client.finish();
    assert_eq!(statuses(&world), ["running"]);
    let node = Running::start(world.hookwright(&["serve", "--db", "jobs.db"]));
    eventually("it is over", || (statuses(&world) == ["cancelled"]).then_some(()));
    let job = jobs(&world)[0]["job"].as_str().unwrap().to_owned();
    let history = world.call(&["jobs", "history", &job, "--db", "jobs.db"]).code(0);
    assert!(history.out.contains("its agent is gone"), "{history}");
    drop(node);
}
