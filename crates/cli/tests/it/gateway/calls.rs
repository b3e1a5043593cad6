//! Lists, calls and their results.

use super::client::Client;
use super::{allowed, echo, text, watched};
use crate::support::{Plugin, World, eventually, function, says};
use serde_json::{Value, json};

#[test]
fn what_the_agent_sees_is_listed_as_its_server_lists_it() {
    let definition = json!({
        "name": "merge", "title": "Merge", "description": "Merges.", "inputSchema": {"type": "object", "properties": {"a": {"type": "string"}}},
        "outputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true, "title": "M"}, "icons": [{"src": "data:,"}],
        "_meta": {"x": [1]}, "invented": {"kept": true},
    });
    let world = allowed(json!([definition, function("_Stop", json!({"echo": true}))]));
    let mut client = Client::new(&world, &[]);
    let list = client.request("tools/list", json!({}));
    let mut named = definition.clone();
    named["name"] = json!("work.merge");
    assert_eq!(list, json!({"tools": [named]}));
}

#[test]
fn an_agent_of_the_configuration_sees_its_own_tools() {
    let world = World::with(
        Plugin::new("p")
            .server(
                "git",
                json!([function("push", json!({"text": "pushed"})), function("log", json!({"text": "log"}))]),
            )
            .server("web", json!([function("get", json!({"text": "got"}))]))
            .turns(json!([]))
            .agent(json!({"tools": ["git.push"]})),
    );
    let mut client = Client::new(&world, &["--agent", "worker"]);
    assert_eq!(client.names(), ["git.push"]);
    assert_eq!(text(&client.call("git.log", json!({}))), "unknown tool: git.log");
    assert_eq!(text(&client.call("git.push", json!({}))), "pushed");
    client.close().code(0);
    let jobs = world.call(&["jobs", "list", "--db", "jobs.db", "--output", "json"]).json();
    assert_eq!((&jobs["jobs"][0]["agent"], &jobs["jobs"][0]["status"]), (&json!("worker"), &json!("completed")));
    let wrong = world.call(&["gateway", "--plugin", "p", "--agent", "werker"]).code(2);
    assert!(wrong.err.contains("did you mean worker?"), "{wrong}");
}

#[test]
fn hidden_functions_are_not_listed_and_reach_no_server() {
    let world = allowed(json!([function("echo", json!({"echo": true})), function("_Stop", json!({"echo": true}))]));
    let mut client = Client::new(&world, &[]);
    assert_eq!(client.names(), ["work.echo"]);
    for name in ["work._Stop", "policy.check", "work.nothing", "nothing", "", "a\u{1b}[31m.b"] {
        let result = client.call(name, json!({}));
        assert_eq!(result["isError"], true, "{result}");
        let shown = name.replace('\u{1b}', "\\u{1b}");
        assert_eq!(text(&result), format!("unknown tool: {shown}"));
    }
    assert!(world.calls("work").is_empty() && world.calls("policy").is_empty());
}

#[test]
fn each_call_runs_its_chain_and_denials_are_the_exact_sentence() {
    let check = json!({"cases": [
        {"when": {"/event/arguments/a": 1}, "then": [says("deny", json!({"reason": "no ones."}))]},
        {"when": {"/event/arguments/a": 2}, "then": [says("modify", json!({"arguments": {"a": 3}}))]},
        {"when": {}, "then": [says("allow", json!({}))]},
    ]});
    let world = watched(echo(), check);
    let mut client = Client::new(&world, &[]);
    let denied = client.call("work.echo", json!({"a": 1}));
    assert_eq!(denied["isError"], true);
    assert_eq!(text(&denied), "The call to work.echo was not made: hook policy.check denied it: no ones.");
    assert_eq!(client.call("work.echo", json!({"a": 2}))["structuredContent"], json!({"a": 3}));
    assert_eq!(client.call("work.echo", json!({"a": 0}))["structuredContent"], json!({"a": 0}));
    assert_eq!(client.call("work.echo", json!(null))["structuredContent"], json!({}));
    for wrong in [json!([1]), json!("x"), json!(7)] {
        let result = client.call("work.echo", wrong);
        assert_eq!(text(&result), "The call to work.echo was not made: its arguments are not a JSON object.");
    }
    assert_eq!(world.calls("work").len(), 3);
    client.close().code(0);
    let jobs = world.call(&["jobs", "list", "--db", "jobs.db", "--output", "json"]).json();
    let job = jobs["jobs"][0]["job"].as_str().unwrap().to_owned();
    assert_eq!(jobs["jobs"][0]["agent"], "test-client");
    world.call(&["audit", "verify", "--db", "jobs.db"]).code(0);
    world.call(&["replay", &job, "--db", "jobs.db"]).code(0);
    let history = world.call(&["jobs", "history", &job, "--db", "jobs.db"]).code(0);
    assert!(history.out.contains("policy.check"), "{history}");
}

#[test]
fn duplicated_keys_in_arguments_are_refused_since_two_readers_could_differ() {
    let world = allowed(echo());
    let mut client = Client::new(&world, &[]);
    client.raw(b"{\"jsonrpc\":\"2.0\",\"id\":77,\"method\":\"tools/call\",\"params\":{\"name\":\"work.echo\",\"arguments\":{\"a\":1,\"a\":2}}}\n");
    let result = client.result(77);
    assert!(text(&result).starts_with("The call to work.echo was not made: its arguments can't be read"), "{result}");
    assert!(world.calls("work").is_empty());
}

#[test]
fn a_result_keeps_all_that_its_server_gave_it() {
    let whole = json!({
        "content": [
            {"type": "text", "text": "x", "annotations": {"audience": ["user"], "priority": 0.5}, "_meta": {"a": 1}},
            {"type": "image", "data": "aGk=", "mimeType": "image/png"},
            {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"},
            {"type": "resource", "resource": {"uri": "test://x", "text": "y", "mimeType": "text/plain"}},
            {"type": "resource_link", "uri": "test://z", "name": "z"},
        ],
        "structuredContent": {"n": 1.50, "big": 12_345_678_901_234_567_u64, "nested": {"b": [null, true]}},
        "_meta": {"vendor/x": {"y": [1, 2]}},
        "isError": true,
        "invented": ["kept"],
    });
    let one_text = json!({"content": [{"type": "text", "text": "only", "annotations": {"priority": 1}}]});
    let world = allowed(json!([
        function("whole", json!({"result": whole})),
        function("one", json!({"result": one_text})),
        function("none", json!({"result": {"content": []}})),
        function("fails", json!({"is_error": "it failed"})),
        function("rpc", json!({"error": {"code": -32_602, "message": "bad"}})),
    ]));
    let mut client = Client::new(&world, &[]);
    assert_eq!(client.call("work.whole", json!({})), whole);
    assert_eq!(client.call("work.one", json!({})), one_text);
    assert_eq!(client.call("work.none", json!({})), json!({"content": []}));
    assert_eq!(
        client.call("work.fails", json!({})),
        json!({"content": [{"type": "text", "text": "it failed"}], "isError": true})
    );
    let rpc = client.call("work.rpc", json!({}));
    assert!(rpc["isError"] == true && text(&rpc).contains("error -32602: bad"), "{rpc}");
}

#[test]
fn a_cancelled_call_reaches_its_server_and_gets_no_answer() {
    let world = allowed(json!([
        function("slow", json!([{"await_cancel": true}, {"text": "late"}])),
        function("echo", json!({"echo": true}))
    ]));
    let mut client = Client::new(&world, &[]);
    let id = client.begin("work.slow", json!({}));
    eventually("the call is made", || (!world.calls("work").is_empty()).then_some(()));
    client.notify("notifications/cancelled", json!({"requestId": id, "reason": "changed my mind"}));
    eventually("the server is told", || world.was_cancelled("work").then_some(()));
    client.call("work.echo", json!({}));
    client.close().code(0);
    assert!(!client.seen.iter().any(|m| m["id"] == id), "{:#?}", client.seen);
}

#[test]
fn sixty_four_calls_are_in_flight_at_once() {
    let world = allowed(json!([function("meet", json!([{"sleep_ms": 1_500}, {"echo": true}]))]));
    let mut client = Client::new(&world, &[]);
    client.call("work.meet", json!({"n": -1}));
    let start = std::time::Instant::now();
    let ids: Vec<i64> = (0..64).map(|n| client.begin("work.meet", json!({ "n": n }))).collect();
    for (n, id) in ids.into_iter().enumerate() {
        assert_eq!(client.result(id)["structuredContent"]["n"], n);
    }
    // One after the other they would take a minute and a half.
    assert!(start.elapsed() < std::time::Duration::from_secs(30), "{:?}", start.elapsed());
}

#[test]
fn the_list_follows_its_servers() {
    let new = json!({"add_tool": {"name": "new", "inputSchema": {"type": "object"}}});
    let script = json!({"list_changed": true, "tools": [function("grow", json!([new, {"text": "grown"}]))]});
    let world = World::with(Plugin::new("p").scripted("work", script, json!({})));
    let mut client = Client::new(&world, &[]);
    assert_eq!(client.names(), ["work.grow"]);
    client.call("work.grow", json!({}));
    if client.told("notifications/tools/list_changed").is_empty() {
        client.until("the change", |m| m["method"] == "notifications/tools/list_changed");
    }
    assert_eq!(client.names(), ["work.grow", "work.new"]);
}

#[test]
fn a_server_that_dies_fails_its_calls_and_is_listed_again_when_it_is_back() {
    let world = allowed(json!([function("die", json!({"exit": 3})), function("echo", json!({"echo": true}))]));
    let mut client = Client::new(&world, &[]);
    assert_eq!(client.names().len(), 2);
    let result = client.call("work.die", json!({}));
    assert!(result["isError"] == true && text(&result).contains("work.die"), "{result}");
    client.until("its going", |m| m["method"] == "notifications/tools/list_changed");
    eventually("it is back", || (text(&client.call("work.echo", json!({}))) == "{}").then_some(()));
    assert_eq!(client.names().len(), 2);
}

#[test]
fn a_dead_or_slow_policy_lets_nothing_through() {
    for (check, says) in [
        (json!({"exit": 1}), "hook policy.check denied it: failed"),
        (json!({"hang": true}), "hook policy.check denied it: did not answer within 300ms"),
        (json!({"text": "sure, go ahead"}), "hook policy.check denied it: failed"),
    ] {
        let world = World::with(
            Plugin::new("p")
                .server("policy", json!([function("check", check)]))
                .server("work", echo())
                .hook(json!({"on": "pre_tool_call", "call": "policy.check", "timeout": "300ms"})),
        );
        let mut client = Client::new(&world, &[]);
        for _ in 0..2 {
            let result = client.call("work.echo", json!({}));
            assert!(text(&result).contains(says), "{result}");
        }
        assert!(world.calls("work").is_empty());
    }
}

#[test]
fn short_names_are_given_where_they_are_unique() {
    let functions = || json!([function("echo", json!({"echo": true})), function("own", json!({"text": "own"}))]);
    let world = World::with(
        Plugin::new("p")
            .server("policy", json!([function("check", json!({"cases": [
                {"when": {"/event/tool": "a.only"}, "then": [says("deny", json!({"reason": "by its full name"}))]},
                {"when": {}, "then": [says("allow", json!({}))]},
            ]}))]))
            .server("a", json!([function("echo", json!({"echo": true})), function("only", json!({"text": "only"}))]))
            .server("b", functions())
            .hook(json!({"on": "pre_tool_call", "call": "policy.check"})),
    );
    let mut client = Client::new(&world, &["--bare-names"]);
    // Known without the list being asked for.
    assert_eq!(text(&client.call("own", json!({}))), "own");
    assert_eq!(client.names(), ["a.echo", "only", "b.echo", "own"]);
    assert_eq!(
        text(&client.call("only", json!({}))),
        "The call to a.only was not made: hook policy.check denied it: by its full name."
    );
    assert_eq!(text(&client.call("echo", json!({}))), "unknown tool: echo");
    assert_eq!(text(&client.call("check", json!({}))), "unknown tool: check");
    assert_eq!(client.call("b.echo", json!({"x": 1}))["structuredContent"], json!({"x": 1}));
}

#[test]
fn a_session_is_a_job_from_the_hello_to_the_end_of_stdin() {
    let world = World::with(
        Plugin::new("p")
            .server("policy", json!([function("check", json!({"cases": [
                {"when": {"/event/event": "job_start"}, "then": [says("deny", json!({"reason": "not this client"}))]},
                {"when": {}, "then": [says("allow", json!({}))]},
            ]}))]))
            .server("work", echo())
            .hook(json!({"on": "job_start", "call": "policy.check", "match": {"agents": ["test-client"]}})),
    );
    let mut client = Client::new(&world, &[]);
    let result = client.call("work.echo", json!({}));
    let said = text(&result);
    assert!(said.starts_with("The call to work.echo was not made: ") && said.contains("not this client"), "{said}");
    assert!(world.calls("work").is_empty());
    client.close().code(0);
    let event: Value = world.calls("policy")[0].1["event"].clone();
    assert_eq!((&event["agent"], &event["input"]), (&json!("test-client"), &json!("the MCP client test client 1")));
    let jobs = world.call(&["jobs", "list", "--db", "jobs.db", "--output", "json"]).json();
    assert_eq!(jobs["jobs"][0]["status"], "failed", "{jobs}");
}

#[test]
fn a_gateway_that_is_stopped_ends_its_job_and_says_so_by_its_exit_code() {
    let world = allowed(json!([function("slow", json!({"sleep_ms": 60_000}))]));
    let mut client = Client::new(&world, &[]);
    client.begin("work.slow", json!({}));
    eventually("the call is made", || (!world.calls("work").is_empty()).then_some(()));
    client.signal(rustix::process::Signal::TERM);
    client.finish().code(143);
    let jobs = world.call(&["jobs", "list", "--db", "jobs.db", "--output", "json"]).json();
    assert_eq!(jobs["jobs"][0]["status"], "cancelled", "{jobs}");
}
