//! Calls that wait for a person.

use super::client::Client;
use super::{echo, text, watched};
use crate::support::{Plugin, World, eventually, function, says};
use serde_json::{Value, json};

/// Escalates calls whose `a` is 2, with 3 in its place.
fn escalating() -> World {
    watched(
        echo(),
        json!({"cases": [
            {"when": {"/event/arguments/a": 2}, "then": [says("escalate", json!({"reason": "a two"}))]},
            {"when": {}, "then": [says("allow", json!({}))]},
        ]}),
    )
}

fn decide(world: &World, word: &str, approval: &str) {
    world.call(&["approvals", word, approval, "--db", "jobs.db", "--as", "Ada"]).code(0);
}

/// What a client reads that did not wait long enough: the approval's id is in it.
fn left(result: &Value) -> String {
    assert_eq!(result["isError"], true, "{result}");
    let said = text(result);
    assert!(said.contains("Nobody has decided within"), "{said}");
    let at = said.find("ap_").unwrap();
    said[at..].chars().take(19).collect()
}

#[test]
fn a_call_waits_with_progress_until_a_person_says_yes() {
    let world = escalating();
    let mut client = Client::new(&world, &[]);
    let id =
        client.send("tools/call", json!({"name": "work.echo", "arguments": {"a": 2}, "_meta": {"progressToken": 5}}));
    let progress = client.until("the progress", |m| m["method"] == "notifications/progress");
    let approval = world.open_approval();
    assert_eq!(progress["params"]["progressToken"], 5);
    let message = progress["params"]["message"].as_str().unwrap();
    assert!(message.contains(&approval) && message.contains("policy.check: a two"), "{message}");
    assert!(world.calls("work").is_empty());
    decide(&world, "approve", &approval);
    assert_eq!(client.result(id)["structuredContent"], json!({"a": 2}));
    assert_eq!(world.calls("work").len(), 1);
}

#[test]
fn a_no_is_the_exact_sentence() {
    let world = escalating();
    let mut client = Client::new(&world, &[]);
    let id = client.begin("work.echo", json!({"a": 2}));
    decide(&world, "deny", &world.open_approval());
    let result = client.result(id);
    assert_eq!(
        text(&result),
        "The call to work.echo was not made: hook policy.check denied it: a two (declined by Ada)."
    );
    assert!(world.calls("work").is_empty());
}

#[test]
fn a_client_that_gives_up_is_told_and_the_same_call_goes_through_once() {
    let world = escalating();
    let mut client = Client::new(&world, &["--wait", "1"]);
    let approval = left(&client.call("work.echo", json!({"a": 2})));
    // The same call waits for the same person, another call does not.
    assert_eq!(client.call("work.echo", json!({"a": 1}))["structuredContent"], json!({"a": 1}));
    assert_eq!(left(&client.call("work.echo", json!({"a": 2}))), approval);
    assert_eq!(world.open_approvals().len(), 1);
    decide(&world, "approve", &approval);
    assert_eq!(client.call("work.echo", json!({"a": 2}))["structuredContent"], json!({"a": 2}));
    let made = || world.calls("work").iter().filter(|(_, arguments)| arguments["a"] == 2).count();
    assert_eq!(made(), 1);
    // Once: the yes is used up.
    let again = left(&client.call("work.echo", json!({"a": 2})));
    assert_ne!(again, approval);
    assert_eq!(made(), 1);
}

#[test]
fn what_is_made_is_the_approved_final_call() {
    let world = World::with(
        Plugin::new("p")
            .server(
                "policy",
                json!([
                    function("rewrite", says("modify", json!({"arguments": {"to": "staging"}}))),
                    function("check", says("escalate", json!({"reason": "a push"}))),
                ]),
            )
            .server("work", echo())
            .hook(json!({"on": "pre_tool_call", "call": "policy.rewrite"}))
            .hook(json!({"on": "pre_tool_call", "call": "policy.check"})),
    );
    let mut client = Client::new(&world, &["--wait", "1"]);
    let approval = left(&client.call("work.echo", json!({"to": "main"})));
    decide(&world, "approve", &approval);
    // The final arguments are another call than the one that was asked for.
    let other = left(&client.call("work.echo", json!({"to": "staging"})));
    assert_ne!(other, approval);
    assert_eq!(client.call("work.echo", json!({"to": "main"}))["structuredContent"], json!({"to": "staging"}));
    assert_eq!(world.calls("work").len(), 1);
}

#[test]
fn a_no_to_a_call_that_was_left_is_read_when_it_is_repeated() {
    let world = escalating();
    let mut client = Client::new(&world, &["--wait", "1"]);
    let approval = left(&client.call("work.echo", json!({"a": 2})));
    decide(&world, "deny", &approval);
    assert!(text(&client.call("work.echo", json!({"a": 2}))).contains("(declined by Ada)"));
    assert!(world.calls("work").is_empty());
}

#[test]
fn another_session_gets_nothing_of_a_yes() {
    let world = escalating();
    let mut first = Client::new(&world, &["--wait", "1"]);
    let approval = left(&first.call("work.echo", json!({"a": 2})));
    decide(&world, "approve", &approval);
    let mut second = Client::new(&world, &["--wait", "1"]);
    assert_ne!(left(&second.call("work.echo", json!({"a": 2}))), approval);
    assert!(world.calls("work").is_empty());
}

#[test]
fn the_job_of_a_gateway_that_was_killed_ends_when_it_is_taken_up() {
    let world = escalating();
    let mut client = Client::new(&world, &[]);
    client.begin("work.echo", json!({"a": 2}));
    world.open_approval();
    drop(client);
    let resumed = world.call(&["jobs", "resume", "--all", "--db", "jobs.db"]);
    let jobs = world.call(&["jobs", "list", "--db", "jobs.db", "--output", "json"]).code(0).json();
    assert_eq!(jobs["jobs"][0]["status"], "cancelled", "{resumed}\n{jobs}");
    let list = world.call(&["approvals", "list", "--db", "jobs.db", "--output", "json"]).json();
    assert_eq!(list["approvals"], json!([]));
    assert!(world.calls("work").is_empty());
}

#[test]
fn a_cancelled_call_closes_its_question() {
    let world = escalating();
    let mut client = Client::new(&world, &[]);
    let id = client.begin("work.echo", json!({"a": 2}));
    world.open_approval();
    client.notify("notifications/cancelled", json!({"requestId": id}));
    eventually("nothing waits", || {
        let list = world.call(&["approvals", "list", "--db", "jobs.db", "--output", "json"]).json();
        list["approvals"].as_array().unwrap().is_empty().then_some(())
    });
    assert!(world.calls("work").is_empty());
}

#[test]
fn a_result_that_waits_for_a_person_is_given_when_the_call_is_repeated_and_not_made_again() {
    let world = World::with(
        Plugin::new("p")
            .server("policy", json!([function("check", says("escalate", json!({"reason": "a look at it"})))]))
            .server("work", echo())
            .hook(json!({"on": "post_tool_call", "call": "policy.check"})),
    );
    let mut client = Client::new(&world, &["--wait", "1"]);
    let result = client.call("work.echo", json!({"a": "secret"}));
    let approval = left(&result);
    assert!(text(&result).starts_with("The call to work.echo was made, and its result waits for a person"), "{result}");
    assert!(!result.to_string().contains("secret"));
    decide(&world, "approve", &approval);
    assert_eq!(client.call("work.echo", json!({"a": "secret"}))["structuredContent"], json!({"a": "secret"}));
    assert_eq!(world.calls("work").len(), 1);
}

#[test]
fn a_session_that_waits_for_a_person_takes_no_calls_until_they_say_yes() {
    let world = World::with(
        Plugin::new("p")
            .server("policy", json!([function("check", says("escalate", json!({"reason": "a new client"})))]))
            .server("work", echo())
            .hook(json!({"on": "job_start", "call": "policy.check"})),
    );
    let mut client = Client::new(&world, &["--wait", "1"]);
    let approval = left(&client.call("work.echo", json!({})));
    decide(&world, "approve", &approval);
    assert_eq!(text(&client.call("work.echo", json!({}))), "{}");
}
