//! What a hook escalates: asked in the client, decided by whoever is first (SPEC §7).

use super::client::Client;
use super::{git, push};
use crate::support::{Plugin, World, function, says};
use serde_json::{Value, json};

fn escalated() -> World {
    git(says("escalate", json!({"reason": "a push to main"})), json!({}), push())
}

fn history(world: &World) -> Vec<Value> {
    let jobs = world.call(&["jobs", "list", "--db", "jobs.db", "--output", "json"]).code(0).json();
    let job = jobs["jobs"][0]["job"].as_str().unwrap().to_owned();
    let shown = world.call(&["jobs", "history", &job, "--db", "jobs.db", "--output", "json"]).code(0).json();
    world.call(&["replay", &job, "--db", "jobs.db"]).code(0);
    shown["history"].as_array().unwrap().clone()
}

fn decision(world: &World) -> Value {
    history(world).into_iter().find(|r| r["kind"] == "approval_decided").unwrap()
}

#[test]
fn the_clients_user_sees_reason_and_final_arguments_and_a_yes_makes_the_call() {
    let world = escalated();
    let mut client = Client::new(&world, &[]);
    let session = client.session(json!([]));
    let prompt = client.begin(&session, "go");
    let question = client.question();
    let params = &question["params"];
    assert_eq!(params["sessionId"], session.as_str());
    let kinds: Vec<_> = params["options"].as_array().unwrap().iter().map(|o| o["kind"].clone()).collect();
    assert_eq!(kinds, ["allow_once", "reject_once"]);
    let call = &params["toolCall"];
    assert_eq!((&call["title"], &call["rawInput"]["branch"]), (&json!("git.push"), &json!("main")));
    assert_eq!(call["toolCallId"], client.updates("tool_call")[0]["toolCallId"], "the call that the client knows");
    let text = call["content"][0]["content"]["text"].as_str().unwrap();
    for part in ["policy.check asks: a push to main", "\"branch\": \"main\"", "expires after 24h", "Approval ap_"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(world.calls("git").is_empty());
    client.choose(&question, "allow_once");
    assert_eq!(client.result(prompt)["stopReason"], "end_turn");
    assert_eq!(world.calls("git").len(), 1);
    let decided = decision(&world);
    assert_eq!((&decided["approve"], &decided["verified"]), (&json!(true), &json!(true)));
    assert_eq!(decided["note"], "answered in test-client");
}

#[test]
fn a_no_in_the_client_is_a_no() {
    let world = escalated();
    let mut client = Client::new(&world, &["--as", "Grace"]);
    let session = client.session(json!([]));
    let prompt = client.begin(&session, "go");
    let question = client.question();
    client.choose(&question, "reject_once");
    client.result(prompt);
    assert!(world.calls("git").is_empty());
    let last = client.updates("tool_call_update").pop().unwrap();
    let text = last["content"][0]["content"]["text"].as_str().unwrap();
    assert_eq!(
        text,
        "The call to git.push was not made: hook policy.check denied it: a push to main (declined by Grace)."
    );
    assert_eq!((&decision(&world)["by"], &decision(&world)["verified"]), (&json!("Grace"), &json!(false)));
}

#[test]
fn whoever_decides_elsewhere_first_counts_and_the_client_is_told_and_its_question_withdrawn() {
    let world = escalated();
    let mut client = Client::new(&world, &[]);
    let session = client.session(json!([]));
    let prompt = client.begin(&session, "go");
    let question = client.question();
    world.call(&["approvals", "approve", &world.open_approval(), "--db", "jobs.db", "--as", "Ada"]).code(0);
    let withdrawn = client.until("the question is withdrawn", |f| f["method"] == "$/cancel_request");
    assert_eq!(withdrawn["params"]["requestId"], question["id"]);
    // Too late, and the other way round.
    client.choose(&question, "reject_once");
    assert_eq!(client.result(prompt)["stopReason"], "end_turn");
    assert_eq!(world.calls("git").len(), 1);
    assert!(client.notices().iter().any(|n| n.ends_with("was approved by Ada")), "{:?}", client.notices());
    assert_eq!(decision(&world)["by"], "Ada");
}

#[test]
fn in_mode_deny_nobody_is_asked_and_in_mode_wait_others_decide() {
    let world = escalated();
    let mut client = Client::new(&world, &["--mode", "deny"]);
    let made = client.call("session/new", json!({"cwd": "/", "mcpServers": []}));
    assert_eq!(made["modes"]["currentModeId"], "deny");
    assert_eq!(made["configOptions"][0]["currentValue"], "deny");
    let session = made["sessionId"].as_str().unwrap().to_owned();
    client.prompt(&session, "go");
    assert!(world.calls("git").is_empty());
    assert_eq!(decision(&world)["note"], "the session's mode is deny");

    let other = client.session(json!([]));
    client.call("session/set_mode", json!({"sessionId": other, "modeId": "wait"}));
    let prompt = client.begin(&other, "go");
    let notice = client.until("it is told who is awaited", |f| {
        f["params"]["update"]["title"].as_str().is_some_and(|t| t.starts_with("Waiting for a person"))
    });
    assert!(notice["params"]["update"]["description"].as_str().unwrap().contains("hookwright approvals show ap_"));
    world.call(&["approvals", "approve", &world.open_approval(), "--db", "jobs.db"]).code(0);
    assert_eq!(client.result(prompt)["stopReason"], "end_turn");
    assert_eq!(world.calls("git").len(), 1);
    assert!(!client.seen.iter().any(|f| f["method"] == "session/request_permission"));
}

#[test]
fn modes_and_options_are_the_same_thing_and_unknown_ones_are_refused() {
    let world = escalated();
    world.write("p/other.yaml", json!({"turns": [{"say": "I am the other."}]}).to_string());
    let mut client = Client::new(&world, &["--model", "script/script.yaml", "--model", "script/other.yaml"]);
    let session = client.session(json!([]));
    let set = |id: &str, value: &str| json!({"sessionId": session, "configId": id, "value": value});
    let options = client.call("session/set_config_option", set("mode", "deny"));
    assert_eq!(options["configOptions"][0]["currentValue"], "deny");
    assert_eq!(client.updates("current_mode_update")[0]["currentModeId"], "deny");
    client.call("session/set_mode", json!({"sessionId": session, "modeId": "ask"}));
    assert_eq!(client.updates("config_option_update")[0]["configOptions"][0]["currentValue"], "ask");
    let options = client.call("session/set_config_option", set("model", "script/other.yaml"));
    assert_eq!(options["configOptions"][1]["currentValue"], "script/other.yaml");
    client.prompt(&session, "who are you?");
    assert_eq!(client.said(), "I am the other.");
    for (id, value) in [("model", "gpt-0"), ("mode", "yolo"), ("colour", "red")] {
        assert_eq!(client.error("session/set_config_option", set(id, value)).0, -32_602, "{id}");
    }
    assert_eq!(client.error("session/set_mode", json!({"sessionId": session, "modeId": "yolo"})).0, -32_602);
}

#[test]
fn a_client_that_can_t_ask_leaves_the_decision_to_others() {
    let world = escalated();
    let mut client = Client::new(&world, &[]);
    let session = client.session(json!([]));
    let prompt = client.begin(&session, "go");
    let question = client.question();
    let error = json!({"jsonrpc": "2.0", "id": question["id"], "error": {"code": -32601, "message": "no such method"}});
    client.raw(format!("{error}\n").as_bytes());
    client.until("others are asked", |f| {
        f["params"]["update"]["title"].as_str().is_some_and(|t| t.starts_with("Waiting for a person"))
    });
    world.call(&["approvals", "deny", &world.open_approval(), "--db", "jobs.db"]).code(0);
    client.result(prompt);
    assert!(world.calls("git").is_empty());
}

#[test]
fn only_those_who_may_decide_are_asked() {
    let world = git(says("escalate", json!({"reason": "r"})), json!({"approvers": ["Ada"]}), push());
    let mut client = Client::new(&world, &["--as", "Grace"]);
    let session = client.session(json!([]));
    let prompt = client.begin(&session, "go");
    let notice = client.until("it is told who is awaited", |f| {
        f["params"]["update"]["title"].as_str().is_some_and(|t| t.starts_with("Waiting for a person"))
    });
    assert!(notice["params"]["update"]["description"].as_str().unwrap().ends_with("It may be decided by Ada."));
    world.call(&["approvals", "approve", &world.open_approval(), "--db", "jobs.db", "--as", "Ada"]).code(0);
    client.result(prompt);
    assert_eq!(world.calls("git").len(), 1);
}

#[test]
fn a_question_about_a_result_shows_all_that_the_yes_lets_through() {
    let world = World::with(
        Plugin::new("p")
            .server("policy", json!([function("check", says("escalate", json!({"reason": "look"})))]))
            .server(
                "git",
                json!([function("push", json!({"result": {"content": [], "structuredContent": {"token": "t0p"}}}))]),
            )
            .hook(json!({"on": "post_tool_call", "call": "policy.check"}))
            .turns(push()),
    );
    let mut client = Client::new(&world, &[]);
    let session = client.session(json!([]));
    let prompt = client.begin(&session, "go");
    let question = client.question();
    let text = question["params"]["toolCall"]["content"][0]["content"]["text"].as_str().unwrap();
    for part in [
        "The model would read this result:\n```text\n│ []\n```\n",
        "structured content:",
        "\"token\": \"t0p\"",
        "\"branch\": \"main\"",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    client.choose(&question, "allow_once");
    assert_eq!(client.result(prompt)["stopReason"], "end_turn");
}
