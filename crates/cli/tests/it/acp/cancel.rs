//! Cancelling a prompt at each of its stages, and what follows.

use super::client::Client;
use super::{git, push};
use crate::support::{World, eventually, lives, says};
use rustix::process::Signal;
use serde_json::{Value, json};

fn cancelled(world: &World, reached: impl Fn(&mut Client)) {
    let mut client = Client::new(world, &[]);
    let session = client.session(json!([]));
    let prompt = client.begin(&session, "go");
    reached(&mut client);
    client.notify("session/cancel", json!({"sessionId": session}));
    assert_eq!(client.result(prompt)["stopReason"], "cancelled");
    // What had begun is told as failed: no client waits for it for ever.
    let begun: Vec<Value> = client.updates("tool_call").iter().map(|u| u["toolCallId"].clone()).collect();
    for id in begun {
        let last = client.updates("tool_call_update").into_iter().rfind(|u| u["toolCallId"] == id).unwrap();
        assert_eq!(last["status"], "failed", "{last:#}");
    }
    client.close().code(0);
    let jobs = world.call(&["jobs", "list", "--db", "jobs.db", "--output", "json"]).code(0).json();
    assert_eq!(jobs["jobs"][0]["status"], "cancelled");
    let open = world.call(&["approvals", "list", "--db", "jobs.db", "--output", "json"]).code(0).json();
    assert_eq!(open["approvals"], json!([]));
}

#[test]
fn during_the_models_turn() {
    let world = git(says("allow", json!({})), json!({}), json!([{"say": "word ".repeat(50), "delay": "1s"}]));
    cancelled(&world, |client| {
        client.update("agent_message_chunk");
    });
}

#[test]
fn right_behind_the_prompt() {
    let world = git(says("allow", json!({})), json!({}), json!([{"say": "word ".repeat(50), "delay": "1s"}]));
    cancelled(&world, |_| {});
}

#[test]
fn during_a_hook() {
    let world = git(json!({"sleep_ms": 60_000}), json!({"timeout": "30s"}), push());
    cancelled(&world, |_| eventually("the hook is asked", || (!world.calls("policy").is_empty()).then_some(())));
    assert!(world.was_cancelled("policy"));
    assert!(world.calls("git").is_empty());
}

#[test]
fn during_a_question_which_is_withdrawn() {
    let world = git(says("escalate", json!({"reason": "r"})), json!({}), push());
    cancelled(&world, |client| {
        client.question();
    });
    assert!(world.calls("git").is_empty());
}

#[test]
fn a_question_answered_with_cancelled_cancels_the_prompt() {
    let world = git(says("escalate", json!({"reason": "r"})), json!({}), push());
    let mut client = Client::new(&world, &[]);
    let session = client.session(json!([]));
    let prompt = client.begin(&session, "go");
    let question = client.question();
    client.answer(&question, json!({"outcome": {"outcome": "cancelled"}}));
    assert_eq!(client.result(prompt)["stopReason"], "cancelled");
}

#[test]
fn the_request_itself_can_be_cancelled_and_the_session_goes_on() {
    let world = git(says("escalate", json!({"reason": "r"})), json!({}), push());
    let mut client = Client::new(&world, &[]);
    let session = client.session(json!([]));
    let prompt = client.begin(&session, "go");
    client.question();
    client.notify("$/cancel_request", json!({"requestId": prompt}));
    assert_eq!(client.result(prompt)["stopReason"], "cancelled");
    // The conversation is well-formed: the call has a result, and the model goes on behind it.
    assert_eq!(client.prompt(&session, "so?"), "end_turn");
    assert!(client.said().ends_with("Done."), "{}", client.said());
}

#[test]
fn closed_standard_input_cancels_what_runs_and_ends_every_process() {
    let world = git(json!([{"write_pid": "PID"}, {"sleep_ms": 60_000}]), json!({"timeout": "30s"}), push());
    let world = pid_in(world);
    let mut client = Client::new(&world, &[]);
    let session = client.session(json!([]));
    client.begin(&session, "go");
    let pid = eventually("the hook runs", || std::fs::read_to_string(world.path("pid")).ok()?.trim().parse().ok());
    client.close().code(0);
    // It was still answered: a client may read on.
    assert!(client.seen.iter().any(|f| f["result"]["stopReason"] == "cancelled"), "{:#?}", client.seen);
    eventually("the server is gone", || (!lives(pid)).then_some(()));
    let jobs = world.call(&["jobs", "list", "--db", "jobs.db", "--output", "json"]).code(0).json();
    assert_eq!(jobs["jobs"][0]["status"], "cancelled");
}

/// The same world, its hook writing its process's id to a file of the world.
fn pid_in(world: World) -> World {
    let file = world.path("p/policy.json");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("PID", world.path("pid").to_str().unwrap())).unwrap();
    world
}

#[test]
fn sigterm_ends_it_as_closed_input_does() {
    let world = git(says("escalate", json!({"reason": "r"})), json!({}), push());
    let mut client = Client::new(&world, &[]);
    let session = client.session(json!([]));
    client.begin(&session, "go");
    client.question();
    client.signal(Signal::TERM);
    client.finish().code(143);
    // Whoever waits for the prompt is answered before it leaves.
    assert!(client.seen.iter().any(|f| f["result"]["stopReason"] == "cancelled"), "{:#?}", client.seen);
    let jobs = world.call(&["jobs", "list", "--db", "jobs.db", "--output", "json"]).code(0).json();
    assert_eq!(jobs["jobs"][0]["status"], "cancelled");
}

#[test]
fn a_prompt_of_a_killed_process_is_told_of_when_the_session_is_loaded_and_cancelled_by_the_next() {
    let world = git(says("escalate", json!({"reason": "r"})), json!({}), push());
    let mut client = Client::new(&world, &[]);
    let session = client.session(json!([]));
    client.begin(&session, "go");
    client.question();
    client.signal(Signal::KILL);
    drop(client);
    let mut client = Client::new(&world, &[]);
    client.call("session/load", json!({"sessionId": session, "cwd": "/", "mcpServers": []}));
    let notice = client.updates("notice").pop().unwrap();
    assert!(notice["title"].as_str().unwrap().starts_with("The prompt before was left unfinished (job job_"));
    assert!(notice["description"].as_str().unwrap().starts_with("`hookwright jobs resume job_"));
    assert_eq!(client.prompt(&session, "go on"), "end_turn");
    let jobs = world.call(&["jobs", "list", "--db", "jobs.db", "--output", "json"]).code(0).json();
    let states: Vec<_> = jobs["jobs"].as_array().unwrap().iter().map(|j| j["status"].clone()).collect();
    assert_eq!(states, ["completed", "cancelled"]);
}
