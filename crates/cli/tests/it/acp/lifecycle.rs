//! Lifecycle hooks of the servers that a client brings (SPEC §9), under the variables of the agent that started the convention.

use super::client::{Client, server};
use crate::support::{Plugin, World, eventually, function, says};
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
    let ends = client.updates("notice").into_iter().find(|n| n["title"] == "todo: _SessionEnd says").unwrap();
    assert_eq!((&ends["description"], &ends["_meta"]["hookwright"]["session"]), (&json!("bye"), &json!(session)));
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

#[test]
fn the_budget_outlives_a_prompt_to_which_the_client_brought_no_servers() {
    let world = World::new();
    let say = |text: &str| json!({"say": text});
    let turns = ["one", "one again", "two", "three"].map(say);
    world.write("script.yaml", json!({ "turns": turns }).to_string());
    let env = [("MCP_HOOK_SERVERS", "*"), ("SPROUT_AGENT_STOP_MAX_REJECTIONS", "1")];
    let start = || {
        let mut client = Client::start_in(&world, &["--model", "script/script.yaml"], &env);
        client.hello();
        client
    };
    let todo = server(&world, "todo", json!({"tools": [function("_Stop", json!({"text": "2 items are open"}))]}));
    let mut client = start();
    let session = client.session(json!([todo]));
    client.prompt(&session, "one");
    client.close().code(0);
    for servers in [json!([]), json!([todo])] {
        let mut client = start();
        client.call("session/load", json!({"sessionId": session, "cwd": "/tmp", "mcpServers": servers}));
        assert_eq!(client.prompt(&session, "more"), "end_turn");
        client.close().code(0);
    }
    assert_eq!(names(&world), ["_Stop"], "the one objection is used up");
}

#[test]
fn a_session_begins_with_the_first_prompt_that_is_not_denied() {
    let check = json!([{"cases": [
        {"when": {"/event/input": "bad"}, "then": [says("deny", json!({"reason": "no"}))]},
        {"when": {}, "then": [says("allow", json!({}))]},
    ]}]);
    let world = World::with(
        Plugin::new("p")
            .server("policy", json!([function("check", check)]))
            .hook(json!({"on": "job_start", "call": "policy.check"}))
            .turns(json!([{"say": "hello"}, {"say": "hello again"}])),
    );
    let todo = server(&world, "todo", json!({"tools": [function("_SessionStart", json!({"text": "empty"}))]}));
    let mut client = Client::start_in(&world, &[], &[("MCP_HOOK_SERVERS", "todo")]);
    client.hello();
    let session = client.session(json!([todo]));
    for _ in 0..2 {
        client.prompt(&session, "bad");
    }
    assert_eq!(names(&world), [""; 0], "nothing has begun");
    for _ in 0..2 {
        client.prompt(&session, "good");
    }
    assert_eq!(names(&world), ["_SessionStart"]);

    // What a denied prompt ended with has the same id when it is loaded.
    let ids = |client: &Client| {
        let mut texts = std::collections::BTreeMap::<String, String>::new();
        for chunk in client.updates("agent_message_chunk") {
            let text = chunk["content"]["text"].as_str().unwrap();
            *texts.entry(chunk["messageId"].as_str().unwrap().to_owned()).or_default() += text;
        }
        texts
    };
    let live = ids(&client);
    assert_eq!(live.len(), 4, "{live:?}");
    client.seen.clear();
    client.call("session/load", json!({"sessionId": session, "cwd": "/tmp", "mcpServers": []}));
    assert_eq!(ids(&client), live);
}

#[test]
fn text_that_was_held_back_is_told_when_it_is_objected_to() {
    let world = World::with(
        Plugin::new("p")
            .server("policy", json!([function("check", says("allow", json!({})))]))
            .hook(json!({"on": "job_end", "call": "policy.check"}))
            .turns(json!([{"say": "I am done."}, {"say": "Now I am."}])),
    );
    let todo = server(&world, "todo", json!({"tools": [function("_Stop", json!({"text": "2 items are open"}))]}));
    let mut client = Client::start_in(&world, &[], &[("MCP_HOOK_SERVERS", "todo")]);
    client.hello();
    let session = client.session(json!([todo]));
    assert_eq!(client.prompt(&session, "go"), "end_turn");
    assert_eq!(client.said(), "I am done.Now I am.");
}

/// What an objection was raised to may still be the output: hooks at the job's end have their say before it is told.
#[test]
fn text_that_was_objected_to_and_stands_after_all_is_told_once_its_hooks_have_passed_it() {
    for (answer, said) in [("allow", "I am done."), ("deny", "hook policy.check denied the output: it is secret")] {
        let world = World::with(
            Plugin::new("p")
                .server("policy", json!([function("check", says(answer, json!({"reason": "it is secret"})))]))
                .hook(json!({"on": "job_end", "call": "policy.check"}))
                .agent(json!({"max_turns": 2}))
                .turns(json!([{"say": "I am done."}, {"call": {"tool": "todo.add"}}])),
        );
        let functions =
            [function("_Stop", json!({"text": "2 items are open"})), function("add", json!({"text": "added"}))];
        let todo = server(&world, "todo", json!({"tools": functions}));
        let mut client = Client::start_in(&world, &[], &[("MCP_HOOK_SERVERS", "todo")]);
        client.hello();
        let session = client.session(json!([todo]));
        assert_eq!(client.prompt(&session, "go"), "end_turn");
        assert_eq!(client.said(), said);
        let notices = serde_json::to_string(&client.seen).unwrap();
        assert!(notices.contains("could not go on after an objection") && notices.contains("max_turns"), "{notices}");
        client.seen.clear();
        client.call("session/load", json!({"sessionId": session, "cwd": "/tmp", "mcpServers": [todo]}));
        assert_eq!(client.said(), said, "loaded");
    }
}

#[test]
fn a_second_signal_ends_a_shutdown_that_waits() {
    let world = World::new();
    world.write("script.yaml", json!({"turns": [{"say": "hello"}]}).to_string());
    let todo = server(&world, "todo", json!({"tools": [function("_SessionEnd", json!({"sleep_ms": 600_000}))]}));
    let env = [("MCP_HOOK_SERVERS", "todo"), ("SPROUT_AGENT_HOOK_TIMEOUT_MS", "50000")];
    let mut client = Client::start_in(&world, &["--model", "script/script.yaml"], &env);
    client.hello();
    let session = client.session(json!([todo]));
    client.prompt(&session, "go");
    client.signal(rustix::process::Signal::TERM);
    eventually("_SessionEnd is asked", || (!names(&world).is_empty()).then_some(()));
    let start = std::time::Instant::now();
    client.signal(rustix::process::Signal::TERM);
    client.finish().code(143);
    assert!(start.elapsed() < std::time::Duration::from_secs(40), "{:?}", start.elapsed());
}
