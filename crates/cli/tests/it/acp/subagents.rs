//! Agents that start agents, as a client sees them: their calls, their questions, their hooks' answers, their cancelling.

use super::client::Client;
use crate::support::{Plugin, World, function, says};
use serde_json::{Value, json};

/// `worker` starts `writer`, which starts nobody and pushes; `policy.check` decides on the push.
fn world(check: Value) -> World {
    World::with(
        Plugin::new("p")
            .server("policy", json!([function("check", check)]))
            .server("git", json!([function("push", json!({"text": "pushed"}))]))
            .hook(json!({"on": "pre_tool_call", "call": "policy.check", "match": {"tools": ["git.push"]}, "timeout": "1s"}))
            .agent(json!({"subagents": ["writer"], "tools": []}))
            .turns(json!([
                {"call": {"tool": "agent.start", "with": {"agent": "writer", "input": "Write it."}}},
                {"say": "All done."},
            ]))
            .other(
                "writer",
                json!({"tools": ["git"], "description": "Writes."}),
                json!([{"say": "I push.", "call": {"tool": "git.push", "with": {"branch": "main"}}}, {"say": "written"}]),
            ),
    )
}

fn client(world: &World) -> (Client, String) {
    let mut client = Client::new(world, &["--agent", "worker", "--as", "Ada"]);
    let session = client.session(json!([]));
    (client, session)
}

fn jobs(world: &World) -> Vec<Value> {
    let listed = world.call(&["jobs", "list", "--db", "jobs.db", "--output", "json"]).code(0).json();
    let mut jobs = listed["jobs"].as_array().unwrap().clone();
    jobs.reverse();
    jobs
}

/// The last status that a call was told to have.
fn status(client: &Client, id: &Value) -> Value {
    let mut updates = client.updates("tool_call_update").into_iter();
    updates.rfind(|u| u["toolCallId"] == *id && u.get("status").is_some()).unwrap()["status"].clone()
}

#[test]
fn a_subagents_question_names_the_line_of_jobs_and_the_answer_decides_its_call() {
    for (kind, calls, end) in [("allow_once", 1, "completed"), ("reject_once", 0, "failed")] {
        let world = world(says("escalate", json!({"reason": "a push to main"})));
        let (mut client, session) = client(&world);
        let prompt = client.begin(&session, "go");
        let question = client.question();
        let jobs = jobs(&world);
        let (parent, child) = (jobs[0]["job"].as_str().unwrap(), jobs[1]["job"].as_str().unwrap());
        let asked = &question["params"]["toolCall"];
        assert_eq!(asked["toolCallId"], format!("{child}/t1.c0"), "the call that the client was told of");
        assert_eq!(asked["rawInput"], json!({"branch": "main"}));
        let text = asked["content"][0]["content"]["text"].as_str().unwrap();
        assert!(text.contains("a push to main") && text.contains(&format!("{parent} > {child}")), "{text}");
        assert_eq!(question["params"]["_meta"]["hookwright"]["parentJobs"], json!([parent]));
        client.choose(&question, kind);
        assert_eq!(client.result(prompt)["stopReason"], "end_turn");
        assert_eq!(world.calls("git").len(), calls);
        // The start is a call of the prompt's, and the push one that says whose it is.
        let told = client.updates("tool_call");
        let titles: Vec<_> = told.iter().map(|c| c["title"].as_str().unwrap()).collect();
        assert_eq!(titles, ["agent.start", "writer: git.push"]);
        assert_eq!(told[1]["_meta"]["hookwright"]["parentToolCallId"], told[0]["toolCallId"]);
        assert_eq!(
            (status(&client, &told[0]["toolCallId"]), status(&client, &told[1]["toolCallId"])),
            (json!("completed"), json!(end))
        );
        // What the subagent said is a result, not a message to the user.
        assert_eq!(client.said(), "All done.");
        let started = client
            .updates("tool_call_update")
            .into_iter()
            .find(|u| u["_meta"]["hookwright"]["agent"] == "writer")
            .unwrap();
        assert_eq!(started["content"][0]["content"]["text"], format!("writer works as {child}"));
        client.close().code(0);
    }
}

#[test]
fn what_hooks_did_in_a_subagents_job_is_told_with_its_name() {
    for (check, title) in [
        (says("deny", json!({"reason": "no pushes"})), "writer: Hook policy.check denied the call to git.push"),
        (json!({"sleep_ms": 5_000}), "writer: Hook policy.check gave no answer on the call to git.push"),
        (json!({"text": "maybe"}), "writer: Hook policy.check gave no valid answer on the call to git.push"),
    ] {
        let world = world(check);
        let (mut client, session) = client(&world);
        assert_eq!(client.prompt(&session, "go"), "end_turn");
        let notice = client.updates("notice").into_iter().find(|n| n["title"] == title);
        let notice = notice.unwrap_or_else(|| panic!("{title}: {:?}", client.notices()));
        let meta = &notice["_meta"]["hookwright"];
        assert_eq!(
            (&meta["agent"], &meta["parentToolCallId"]),
            (&json!("writer"), &client.updates("tool_call")[0]["toolCallId"])
        );
        assert!(world.calls("git").is_empty());
    }
}

#[test]
fn what_lifecycle_hooks_say_in_a_subagents_job_is_told_with_its_name() {
    let world = World::with(
        Plugin::new("p")
            .server("todo", json!([function("_SubagentStart", json!({"text": "be brief"})), function("_Stop", json!({"text": "not yet"}))]))
            .agent(json!({"subagents": ["writer"], "tools": []}))
            .turns(json!([{"call": {"tool": "agent.start", "with": {"agent": "writer", "input": "x"}}}, {"say": "a"}, {"say": "b"}]))
            .other("writer", json!({"tools": []}), json!([{"say": "written"}, {"say": "written, really"}])),
    );
    let mut client = Client::start_in(&world, &["--agent", "worker"], &[("MCP_HOOK_SERVERS", "todo")]);
    client.hello();
    let session = client.session(json!([]));
    assert_eq!(client.prompt(&session, "go"), "end_turn");
    let notices = client.notices();
    for title in [
        "writer: todo: _SubagentStart says",
        "writer: todo: _Stop objects",
        "writer: _Stop was not asked",
        "todo: _Stop objects",
    ] {
        assert!(notices.iter().any(|n| n == title), "{title}: {notices:?}");
    }
}

#[test]
fn a_cancel_goes_down_the_tree_and_withdraws_the_question() {
    let world = world(says("escalate", json!({"reason": "r"})));
    let (mut client, session) = client(&world);
    let prompt = client.begin(&session, "go");
    let question = client.question();
    client.notify("session/cancel", json!({"sessionId": session}));
    assert_eq!(client.result(prompt)["stopReason"], "cancelled");
    let withdrawn = |f: &Value| f["method"] == "$/cancel_request" && f["params"]["requestId"] == question["id"];
    if !client.seen.iter().any(withdrawn) {
        client.until("the question is withdrawn", withdrawn);
    }
    for call in client.updates("tool_call") {
        assert_eq!(status(&client, &call["toolCallId"]), "failed", "{call}");
    }
    let states: Vec<Value> = jobs(&world).iter().map(|j| j["status"].clone()).collect();
    assert_eq!(states, ["cancelled", "cancelled"]);
    let open = world.call(&["approvals", "list", "--db", "jobs.db", "--output", "json"]).code(0).json();
    assert_eq!(open["approvals"], json!([]));
    // A late answer is nothing, and the session goes on.
    client.choose(&question, "allow_once");
    assert_eq!(client.prompt(&session, "and?"), "end_turn");
    assert!(world.calls("git").is_empty());
    client.close().code(0);
}
