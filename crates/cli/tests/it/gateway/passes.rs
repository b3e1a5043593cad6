//! What hooks don't see: passed to and fro only where the manifest says so.

use super::client::Client;
use super::echo;
use crate::support::{Plugin, World, function};
use serde_json::{Value, json};

/// A server with resources, prompts, completions and a log, all under its own name.
fn rich(name: &str) -> Value {
    json!({
        "name": name,
        "tools": [function("log", json!([{"notify": {"method": "notifications/message", "params": {"level": "info", "data": "said"}}},
            {"notify": {"method": "notifications/resources/updated", "params": {"uri": format!("test://{name}/1")}}}, {"text": "done"}]))],
        "capabilities": {"resources": {"subscribe": true}, "prompts": {}, "completions": {}, "logging": {}},
        "answers": {
            "resources/list": {"resources": [{"uri": format!("test://{name}/1"), "name": "one", "_meta": {"kept": 1}}]},
            "resources/templates/list": {"resourceTemplates": [{"uriTemplate": format!("test://{name}/t/{{id}}"), "name": "t"}]},
            "resources/read": {"contents": [{"uri": "x", "text": format!("read from {name}")}], "_meta": {"kept": 2}},
            "resources/subscribe": {}, "resources/unsubscribe": {},
            "prompts/list": {"prompts": [{"name": "greet", "title": name}]},
            "prompts/get": {"messages": [{"role": "user", "content": {"type": "text", "text": format!("from {name}")}}]},
            "completion/complete": {"completion": {"values": [name]}},
            "logging/setLevel": {},
        },
    })
}

fn world(passes: &[&str]) -> World {
    let keys = if passes.is_empty() { json!({}) } else { json!({ "passes": passes }) };
    World::with(Plugin::new("p").scripted("a", rich("a"), keys.clone()).scripted("b", rich("b"), keys))
}

#[test]
fn nothing_is_passed_that_no_manifest_passes() {
    let world = world(&[]);
    let mut client = Client::start(&world, &[]);
    let hello = client.hello("2025-11-25", json!({"sampling": {}, "roots": {}, "elicitation": {}}));
    assert_eq!(hello["capabilities"], json!({"tools": {"listChanged": true}}));
    for method in [
        "resources/list",
        "resources/read",
        "resources/templates/list",
        "resources/subscribe",
        "prompts/list",
        "prompts/get",
        "completion/complete",
        "logging/setLevel",
        "tasks/list",
        "nonsense",
    ] {
        assert_eq!(
            client.error(method, json!({"uri": "test://a/1", "name": "greet", "level": "debug"})).0,
            -32_601,
            "{method}"
        );
    }
    client.call("a.log", json!({}));
    client.close().code(0);
    assert!(
        client.told("notifications/message").is_empty() && client.told("notifications/resources/updated").is_empty()
    );
    let asked = world.messages("a");
    assert!(asked.iter().all(|m| !m["method"].as_str().unwrap_or_default().starts_with("resources")), "{asked:?}");
}

#[test]
fn what_is_passed_goes_to_the_right_server_and_comes_back_whole() {
    let world = world(&["resources", "prompts", "completions", "logging"]);
    let mut client = Client::start(&world, &[]);
    let hello = client.hello("2025-11-25", json!({}));
    assert_eq!(
        hello["capabilities"],
        json!({
            "tools": {"listChanged": true}, "resources": {"listChanged": true, "subscribe": true},
            "prompts": {"listChanged": true}, "completions": {}, "logging": {},
        })
    );
    let first = client.request("resources/list", json!({}));
    assert_eq!(first["resources"], json!([{"uri": "test://a/1", "name": "one", "_meta": {"kept": 1}}]));
    let second = client.request("resources/list", json!({"cursor": first["nextCursor"]}));
    assert_eq!((&second["resources"][0]["uri"], second.get("nextCursor")), (&json!("test://b/1"), None));
    for (uri, from) in [("test://b/1", "b"), ("test://a/1", "a"), ("test://b/t/7", "b"), ("test://a/t/x", "a")] {
        let read = client.request("resources/read", json!({"uri": uri}));
        assert_eq!(read["contents"][0]["text"], format!("read from {from}"), "{uri}");
        assert_eq!(read["_meta"], json!({"kept": 2}));
    }
    assert_eq!(client.error("resources/read", json!({"uri": "test://c/1"})).0, -32_002);
    let prompts = client.request("prompts/list", json!({}));
    assert_eq!(prompts["prompts"], json!([{"name": "a.greet", "title": "a"}]));
    let got = client.request("prompts/get", json!({"name": "b.greet", "arguments": {"x": "y"}}));
    assert_eq!(got["messages"][0]["content"]["text"], "from b");
    let asked = world.messages("b").into_iter().find(|m| m["method"] == "prompts/get").unwrap();
    assert_eq!(asked["params"], json!({"name": "greet", "arguments": {"x": "y"}}));
    let completed = client.request(
        "completion/complete",
        json!({"ref": {"type": "ref/prompt", "name": "b.greet"}, "argument": {"name": "x", "value": ""}}),
    );
    assert_eq!(completed["completion"]["values"], json!(["b"]));
    assert_eq!(client.request("logging/setLevel", json!({"level": "debug"})), json!({}));
    for tool in ["a", "b"] {
        assert!(
            world.messages(tool).iter().any(|m| m["method"] == "logging/setLevel" && m["params"]["level"] == "debug")
        );
    }
    client.request("resources/subscribe", json!({"uri": "test://a/1"}));
    client.call("a.log", json!({}));
    client.close().code(0);
    assert_eq!(client.told("notifications/message"), [json!({"level": "info", "data": "said"})]);
    assert_eq!(client.told("notifications/resources/updated"), [json!({"uri": "test://a/1"})]);
}

#[test]
fn a_tool_that_the_agent_may_not_use_passes_nothing_either() {
    let world = World::with(
        Plugin::new("p")
            .scripted("a", rich("a"), json!({"passes": ["resources"]}))
            .server("work", echo())
            .turns(json!([]))
            .agent(json!({"tools": ["work"]})),
    );
    let mut client = Client::new(&world, &["--agent", "worker"]);
    assert_eq!(client.error("resources/list", json!({})).0, -32_601);
    assert_eq!(client.error("resources/read", json!({"uri": "test://a/1"})).0, -32_601);
}

#[test]
fn roots_and_sampling_go_to_the_client_and_its_errors_back() {
    let ask = |id: &str, method: &str| json!([{"request": {"id": id, "method": method, "params": {"n": 1}}}, {"answered": id}]);
    let script = json!({"tools": [function("roots", ask("r", "roots/list")), function("sample", ask("s", "sampling/createMessage"))]});
    let world = World::with(Plugin::new("p").scripted("work", script, json!({"passes": ["roots", "sampling"]})));
    let mut client =
        Client::with(&world, &[], json!({"roots": {"listChanged": true}, "sampling": {}, "elicitation": {}}));
    let hello = world.messages("work").into_iter().find(|m| m["method"] == "initialize").unwrap();
    assert_eq!(hello["params"]["capabilities"], json!({"sampling": {}, "roots": {"listChanged": true}}));
    let id = client.begin("work.roots", json!({}));
    let asked = client.until("the question", |m| m["method"] == "roots/list");
    client.message(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"roots": [{"uri": "file:///x"}]}}));
    assert!(client.result(id)["content"][0]["text"].as_str().unwrap().contains("file:///x"));
    let id = client.begin("work.sample", json!({}));
    let asked = client.until("the question", |m| m["method"] == "sampling/createMessage");
    client.message(&json!({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -1, "message": "User rejected"}}));
    assert!(client.result(id)["content"][0]["text"].as_str().unwrap().contains("User rejected"));
    client.notify("notifications/roots/list_changed", json!({}));
    client.request("ping", json!({}));
    client.close().code(0);
    assert!(world.messages("work").iter().any(|m| m["method"] == "notifications/roots/list_changed"));
}
