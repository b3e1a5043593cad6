//! Lifecycle hooks of the servers that a client brings (SPEC §9), under the variables of the agent that started the convention.

use super::client::{Client, server};
use crate::support::{World, function};
use serde_json::{Value, json};

/// A to-do server: `_Stop` objects once, the others say what they are.
fn todo(world: &World) -> Value {
    let object = json!([{"cases": [{"when": {}, "then": [{"text": "2 items are open"}]}]}]);
    let quiet = |text: &str| json!({"text": text});
    let functions = json!([
        function("add", quiet("added")),
        function("_Stop", object),
        function("_SessionStart", quiet("the list is empty")),
        function("_UserPromptSubmit", quiet("")),
        function("_SessionEnd", quiet("bye")),
        function("_Unknown", quiet("never")),
    ]);
    server(world, "todo", json!({ "tools": functions }))
}

fn world() -> World {
    let world = World::new();
    let turns = json!({"turns": [
        {"call": {"tool": "todo.add", "with": {}}},
        {"say": "I am done."},
        {"expect": ["\"hook\":\"_Stop\"", "\"server\":\"todo\"", "2 items are open"], "say": "I know, and I am done."},
        {"say": "Again."},
        {"expect": "2 items are open", "say": "Still."},
    ]});
    world.write("script.yaml", turns.to_string());
    world
}

fn names(world: &World) -> Vec<String> {
    world.calls("todo").into_iter().map(|(name, _)| name).collect()
}

#[test]
fn servers_on_the_allowlist_are_asked_at_each_point_and_what_they_say_is_seen() {
    let world = world();
    let mut client =
        Client::start_in(&world, &["--model", "script/script.yaml"], &[("MCP_HOOK_SERVERS", " todo , nobody ")]);
    client.hello();
    let session = client.session(json!([todo(&world)]));
    assert_eq!(client.prompt(&session, "one"), "end_turn");
    assert_eq!(names(&world), ["_SessionStart", "_UserPromptSubmit", "add", "_Stop"]);
    let notices = client.notices();
    for title in ["todo: _SessionStart says", "todo: _Stop objects", "_Stop was not asked"] {
        assert!(notices.iter().any(|n| n == title), "{title}: {notices:?}");
    }
    let unknown = client.updates("notice").into_iter().find(|n| n["title"] == "The session's servers").unwrap();
    assert!(unknown["description"].as_str().unwrap().contains("nobody"), "{unknown}");
    assert_eq!(client.prompt(&session, "two"), "end_turn");
    assert_eq!(names(&world)[4..], ["_UserPromptSubmit", "_Stop"]);
    client.call("session/close", json!({"sessionId": session}));
    assert_eq!(names(&world)[6..], ["_SessionEnd"]);
    client.close().code(0);
    let jobs = world.call(&["jobs", "list", "--db", "jobs.db", "--output", "json"]).code(0).json();
    for job in jobs["jobs"].as_array().unwrap() {
        world.call(&["replay", job["job"].as_str().unwrap(), "--db", "jobs.db"]).code(0);
    }
}

#[test]
fn without_the_allowlist_nobody_is_asked() {
    let world = world();
    let mut client = Client::new(&world, &["--model", "script/script.yaml"]);
    let session = client.session(json!([todo(&world)]));
    assert_eq!(client.prompt(&session, "one"), "end_turn");
    client.close().code(0);
    assert_eq!(names(&world), ["add"]);
}

#[test]
fn the_budget_is_the_sessions_and_the_end_of_the_process_is_the_sessions_end_too() {
    let world = world();
    let env = [("MCP_HOOK_SERVERS", "*"), ("SPROUT_AGENT_STOP_MAX_REJECTIONS", "1")];
    let mut client = Client::start_in(&world, &["--model", "script/script.yaml"], &env);
    client.hello();
    let session = client.session(json!([todo(&world)]));
    client.prompt(&session, "one");
    client.prompt(&session, "two");
    assert_eq!(names(&world).iter().filter(|n| *n == "_Stop").count(), 1, "{:?}", names(&world));
    client.close().code(0);
    assert_eq!(names(&world).last().unwrap(), "_SessionEnd");
}
