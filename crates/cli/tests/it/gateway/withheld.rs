//! Hooks after a call: nothing of its result leaves before they have said so.

use super::client::Client;
use super::{allowed, text};
use crate::support::{Plugin, World, function, says};
use serde_json::{Value, json};

/// A function that tells its progress, logs, and gives a rich result; with `secret` in all of it.
fn telling() -> Value {
    let progress = |n: u32| {
        let params =
            r#"{"progressToken":{token},"progress":N,"total":10,"message":"secret N"}"#.replace('N', &n.to_string());
        json!({"line": format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{params}}}"#)})
    };
    let log = json!({"notify": {"method": "notifications/message", "params": {"level": "info", "data": "secret log"}}});
    let result = json!({"result": {
        "content": [{"type": "text", "text": "secret text"}], "structuredContent": {"secret": 1}, "_meta": {"secret": 2},
    }});
    json!([{
        "name": "tell", "inputSchema": {"type": "object"}, "outputSchema": {"type": "object"},
        "behaviour": [progress(1), progress(2), log, {"sleep_ms": 100}, result],
    }])
}

fn after(check: Value) -> World {
    let script = json!({"tools": telling(), "capabilities": {"logging": {}}, "answers": {"logging/setLevel": {}}});
    World::with(
        Plugin::new("p")
            .server("policy", json!([function("check", check)]))
            .scripted("work", script, json!({"passes": ["logging"]}))
            .hook(json!({"on": "post_tool_call", "call": "policy.check", "match": {"tools": ["work.*"]}})),
    )
}

fn call(client: &mut Client) -> Value {
    client.request("tools/call", json!({"name": "work.tell", "arguments": {}, "_meta": {"progressToken": "p"}}))
}

#[test]
fn a_withheld_result_leaves_nothing_behind_not_even_in_progress_and_logs() {
    let world = after(says("deny", json!({"reason": "not for you"})));
    let mut client = Client::new(&world, &[]);
    let result = call(&mut client);
    assert_eq!(result["isError"], true);
    assert_eq!(text(&result), "The result of work.tell was withheld: hook policy.check denied it: not for you.");
    client.close().code(0);
    let all = json!(client.seen).to_string();
    assert!(!all.contains("secret"), "{all}");
    let progress = client.told("notifications/progress");
    assert!(
        !progress.is_empty()
            && progress.iter().all(|p| p["progressToken"] == "p" && p["progress"].as_f64() < Some(0.1))
    );
}

#[test]
fn a_changed_result_drops_what_the_hook_did_not_see_and_no_output_schema_is_promised() {
    let world = after(says("modify", json!({"result": "clean"})));
    let mut client = Client::new(&world, &[]);
    assert_eq!(client.request("tools/list", json!({}))["tools"][0].get("outputSchema"), None);
    assert_eq!(call(&mut client), json!({"content": [{"type": "text", "text": "clean"}]}));
    assert!(!json!(client.seen).to_string().contains("secret"));
}

#[test]
fn an_allowed_result_comes_whole_once_it_is_allowed() {
    let world = after(says("allow", json!({})));
    let mut client = Client::new(&world, &[]);
    let result = call(&mut client);
    assert_eq!((&result["structuredContent"], &result["_meta"]), (&json!({"secret": 1}), &json!({"secret": 2})));
}

#[test]
fn without_a_hook_after_it_a_call_tells_its_progress_as_its_server_does() {
    let world = allowed(telling());
    let mut client = Client::new(&world, &[]);
    call(&mut client);
    let expected: Vec<Value> = (1..=2)
        .map(|n| json!({"progressToken": "p", "progress": n, "total": 10, "message": format!("secret {n}")}))
        .collect();
    assert_eq!(client.told("notifications/progress"), expected);
    // What nobody asked for is not told, and the server does not learn the client's token.
    client.seen.clear();
    client.call("work.tell", json!({}));
    assert!(client.told("notifications/progress").is_empty());
    let tokens: Vec<Value> = world
        .messages("work")
        .iter()
        .filter(|m| m["method"] == "tools/call")
        .map(|m| m["params"]["_meta"]["progressToken"].clone())
        .collect();
    assert!(tokens[0].is_u64() && tokens[1].is_null(), "{tokens:?}");
}
