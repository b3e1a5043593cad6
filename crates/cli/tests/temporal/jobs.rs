//! Jobs from their beginning to their end.

use crate::cluster::Cluster;
use crate::support::{Plugin, Running, World, eventually, function, says};
use serde_json::{Value, json};

/// Hooks at all moments; `git.push` with 2 is denied, `git.read` is changed.
fn rich() -> Plugin {
    let on = |when: Value, then: Value| json!({"when": when, "then": [then]});
    let cases = json!({"cases": [
        on(json!({"/event/event": "job_start"}), says("modify", json!({"input": "Do it well."}))),
        on(json!({"/event/event": "job_end"}), says("modify", json!({"output": "done, signed"}))),
        on(json!({"/event/event": "post_tool_call", "/event/tool": "git.read"}), says("modify", json!({"result": "read, seen"}))),
        on(json!({"/event/event": "pre_tool_call", "/event/arguments/n": 2}), says("deny", json!({"reason": "two"}))),
        {"then": [says("allow", json!({}))]},
    ]});
    let mut plugin = Plugin::new("p")
        .server("policy", json!([function("check", cases)]))
        .server(
            "git",
            json!([
                function("push", json!({"text": "pushed {arguments}"})),
                function("read", json!({"text": "read"})),
                function("big", json!({"big_text": 100_000})),
            ]),
        )
        .turns(json!([
            {"call": [
                {"tool": "git.push", "with": {"n": 1}}, {"tool": "git.push", "with": {"n": 2}},
                {"tool": "git.read", "with": {"n": 3}}, {"tool": "git.big", "with": {"n": 4}},
            ]},
            {"call": {"tool": "git.push", "with": {"n": 5}}},
            {"say": "done"}
        ]));
    for on in ["job_start", "pre_tool_call", "post_tool_call", "job_end"] {
        plugin = plugin.hook(json!({"on": on, "call": "policy.check", "timeout": "30s"}));
    }
    plugin
}

/// What happened, without what differs from run to run: times, ids, hashes, durations, names of nodes.
fn story(history: &Value, job: &str) -> Vec<String> {
    let mut story: Vec<String> = history
        .as_array()
        .unwrap()
        .iter()
        .map(|record| {
            let mut record = record.clone();
            let keys = record.as_object_mut().unwrap();
            for key in ["seq", "at_ms", "prev", "hash", "ms", "decided_ms"] {
                keys.shift_remove(key);
            }
            if let Some(spec) = keys.get_mut("spec") {
                let spec = spec.as_object_mut().unwrap();
                for key in ["node", "session", "hooks"] {
                    spec.shift_remove(key);
                }
            }
            if let Some(head) = keys.get_mut("command").and_then(|command| command.get_mut("head")) {
                head.as_object_mut().unwrap().shift_remove("node");
            }
            if keys["kind"] == "begun" && keys["command"]["do"] == "call_model" {
                keys["command"].as_object_mut().unwrap().shift_remove("conversation");
            }
            record.to_string().replace(job, "JOB")
        })
        .filter(|record| !record.contains("\"kind\":\"tool_state\""))
        .collect();
    // Independent calls end in any order.
    story.sort();
    story
}

#[test]
fn a_job_on_the_cluster_has_the_history_of_one_in_one_file() {
    let cluster = Cluster::start();
    let node = cluster.node("n1", rich());
    let here = node.run(&[]).code(0).json();
    assert_eq!(here["output"], "done, signed");
    let job = here["job"].as_str().unwrap();
    let embedded = World::with(rich());
    let there = embedded.run(&[]).code(0).json();
    assert_eq!(story(&here["history"], job), story(&there["history"], there["job"].as_str().unwrap()));
    assert_eq!(node.world.calls("git").len(), 4);

    // The cluster has it all, for whoever looks from anywhere.
    let other = cluster.node("n2", rich());
    let shown = other.until(job, "completed");
    assert_eq!(shown["output"], "done, signed");
    let history = other.json(&["jobs", "history", job]);
    assert_eq!(story(&history["history"], job), story(&here["history"], job));
    assert!(!other.world.path("jobs.db").exists());

    // The start, three turns, two times calls, the end: one activity each, however many hooks were asked.
    let scheduled =
        cluster.events(job).iter().filter(|e| e["eventType"] == "EVENT_TYPE_ACTIVITY_TASK_SCHEDULED").count();
    assert_eq!(scheduled, 7);
}

#[test]
fn a_denied_job_ends_as_one() {
    let cluster = Cluster::start();
    let plugin = Plugin::new("p")
        .server("policy", json!([function("check", says("deny", json!({"reason": "not today"})))]))
        .hook(json!({"on": "job_start", "call": "policy.check", "timeout": "30s"}))
        .turns(json!([{"say": "done"}]));
    let node = cluster.node("n1", plugin);
    let ran = node.run(&[]).code(3).json();
    assert_eq!(ran["status"], "failed");
    let job = node.until(ran["job"].as_str().unwrap(), "failed");
    assert_eq!(job["error"]["type"], "HookDenied");
}

#[test]
fn a_job_is_cancelled_from_anywhere_while_a_call_is_under_way() {
    let cluster = Cluster::start();
    let plugin = || {
        Plugin::new("p")
            .server("git", json!([function("push", json!({"hang": true}))]))
            .turns(json!([{"call": {"tool": "git.push", "with": {}}}, {"say": "done"}]))
    };
    let (node, other) = (cluster.node("n1", plugin()), cluster.node("n2", plugin()));
    let running = Running::start(node.job(&[]));
    eventually("the call is made", || (!node.world.calls("git").is_empty()).then_some(()));
    let job = other.only_job();
    other.call(&["jobs", "cancel", &job, "--as", "ada"]).code(0);
    let ended = running.finish().code(130).json();
    assert_eq!(ended["status"], "cancelled");
    other.until(&job, "cancelled");
    assert!(node.world.was_cancelled("git"));
}

#[test]
fn a_long_job_continues_as_new_and_keeps_its_history() {
    let cluster = Cluster::start();
    let turns: Vec<Value> = (0..12).map(|n| json!({"call": {"tool": "git.push", "with": {"n": n}}})).collect();
    let plugin = Plugin::new("p")
        .server("git", json!([function("push", json!({"text": "pushed"}))]))
        .turns(Value::Array(turns.into_iter().chain([json!({"say": "done"})]).collect()));
    let node = cluster.node("n1", plugin);
    let mut command = node.job(&[]);
    command.env("HOOKWRIGHT_TEST_EVENTS_AT_MOST", "40");
    let ran = Running::start(command).finish().code(0).json();
    let job = ran["job"].as_str().unwrap();
    assert_eq!(node.world.calls("git").len(), 12);
    let history = node.json(&["jobs", "history", job]);
    assert_eq!(story(&history["history"], job), story(&ran["history"], job));
    let first = &cluster.events(job)[0]["workflowExecutionStartedEventAttributes"];
    assert!(first["continuedExecutionRunId"].is_string(), "{first}");
}

#[test]
fn a_server_that_does_not_answer_is_said_with_what_to_do() {
    let cluster = Cluster::start();
    let node = cluster.node("n1", rich());
    drop(cluster);
    node.run(&[]).code(1);
    node.call(&["jobs", "list"]).code(1).tells(&["can't be reached", "nothing is lost"]);
}
