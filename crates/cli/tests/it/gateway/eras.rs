//! Both eras of the protocol, on both sides of the gateway.

use super::client::Client;
use super::{echo, text, watched};
use crate::support::{Plugin, World, eventually, function, says};
use serde_json::{Value, json};

/// A world whose servers are of one era.
fn world(modern: &str, functions: Value, check: Value, keys: Value) -> World {
    let script = |tools: Value| json!({"modern": modern, "tools": tools});
    World::with(
        Plugin::new("p")
            .scripted("policy", script(json!([function("check", check)])), json!({}))
            .scripted("work", script(functions), keys)
            .hook(json!({"on": "pre_tool_call", "call": "policy.check"})),
    )
}

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";

#[test]
fn every_revision_with_a_hello_is_spoken() {
    let world = watched(echo(), says("allow", json!({})));
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut client = Client::start(&world, &[]);
        let hello = client.hello(revision, json!({}));
        assert_eq!((&hello["protocolVersion"], &hello["serverInfo"]["name"]), (&json!(revision), &json!("hookwright")));
        assert_eq!(hello["capabilities"], json!({"tools": {"listChanged": true}}));
        let result = client.call("work.echo", json!({"a": 1}));
        assert_eq!(result, json!({"content": [{"type": "text", "text": "{\"a\":1}"}], "structuredContent": {"a": 1}}));
    }
    let mut client = Client::start(&world, &[]);
    assert_eq!(client.hello("2019-01-01", json!({}))["protocolVersion"], "2025-11-25");
}

#[test]
fn a_client_without_a_hello_discovers_lists_and_calls() {
    let world = watched(echo(), says("allow", json!({})));
    let mut client = Client::modern(&world, &[], json!({}));
    let found = client.request("server/discover", json!({}));
    assert!(found["supportedVersions"].as_array().unwrap().contains(&json!("2026-07-28")), "{found}");
    assert_eq!((&found["resultType"], &found["cacheScope"]), (&json!("complete"), &json!("private")));
    assert_eq!(found["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "hookwright");
    let list = client.request("tools/list", json!({}));
    assert_eq!((&list["ttlMs"], &list["tools"][0]["name"]), (&json!(0), &json!("work.echo")));
    let result = client.call("work.echo", json!({"a": 1}));
    assert_eq!((&result["resultType"], &result["structuredContent"]), (&json!("complete"), &json!({"a": 1})));
    // There is no ping and no hello in it.
    assert_eq!(client.error("ping", json!({})).0, -32_601);
    client.close().code(0);
    let jobs = world.call(&["jobs", "list", "--db", "jobs.db", "--output", "json"]).json();
    assert_eq!((&jobs["jobs"][0]["agent"], &jobs["jobs"][0]["status"]), (&json!("test-client"), &json!("completed")));
}

#[test]
fn a_request_that_names_no_or_another_revision_is_told_which_there_are() {
    let world = watched(echo(), says("allow", json!({})));
    let mut client = Client::start(&world, &[]);
    assert_eq!(client.error("tools/list", json!({})).0, -32_600);
    assert_eq!(client.request("ping", json!({})), json!({}));
    let id = client.send("tools/list", json!({"_meta": {VERSION: "2027-01-01"}}));
    let answer = client.answer(id);
    assert_eq!(answer["error"]["code"], -32_022);
    assert!(answer["error"]["data"]["supported"].as_array().unwrap().contains(&json!("2026-07-28")));
    assert_eq!(client.error("tools/list", json!({"_meta": {VERSION: "2026-07-28"}})).0, -32_602);
}

#[test]
fn either_client_works_in_front_of_either_server() {
    for server in ["no", "only"] {
        for modern in [false, true] {
            let world = world(server, echo(), says("modify", json!({"arguments": {"a": 2}})), json!({}));
            let mut client = if modern { Client::modern(&world, &[], json!({})) } else { Client::new(&world, &[]) };
            assert_eq!(client.names(), ["work.echo"]);
            let mut result = client.call("work.echo", json!({"a": 1}));
            let kind = result.as_object_mut().unwrap().shift_remove("resultType");
            assert_eq!(kind, modern.then(|| json!("complete")), "{server}");
            assert_eq!(result["structuredContent"], json!({"a": 2}), "{server} {modern}");
        }
    }
}

/// A server of the old era that asks its client in the middle of a call.
fn asks_by_request() -> Value {
    let request = json!({"request": {"id": "q1", "method": "elicitation/create", "params": {
        "message": "Which branch?", "requestedSchema": {"type": "object", "properties": {"branch": {"type": "string"}}},
    }}});
    json!([function("ask", json!([request, {"answered": "q1"}]))])
}

/// One of the new era, which asks by its answer.
fn asks_by_answer() -> Value {
    let required = json!({"result": {"resultType": "input_required", "requestState": "s1", "inputRequests": {"k": {
        "method": "elicitation/create",
        "params": {"mode": "form", "message": "Which branch?", "requestedSchema": {"type": "object", "properties": {}}},
    }}}});
    json!([function("ask", json!({"sequence": [[required], [{"text": "{input}"}]]}))])
}

fn asking(server: &str) -> World {
    let functions = if server == "no" { asks_by_request() } else { asks_by_answer() };
    world(server, functions, says("allow", json!({})), json!({"passes": ["elicitation"]}))
}

#[test]
fn what_a_server_of_either_era_asks_reaches_a_client_of_either() {
    let said = json!({"action": "accept", "content": {"branch": "main"}});
    for server in ["no", "only"] {
        let world = asking(server);
        let mut client = Client::with(&world, &[], json!({"elicitation": {}}));
        let id = client.begin("work.ask", json!({}));
        let asked = client.until("the question", |m| m["method"] == "elicitation/create");
        assert_eq!(asked["params"]["message"], "Which branch?");
        client.message(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": said}));
        let result = client.result(id);
        assert!(text(&result).contains(r#""branch":"main""#), "{server}: {result}");
        // The hooks are asked once, however often the wire goes to and fro.
        assert_eq!(world.calls("policy").len(), 1);

        let world = asking(server);
        let mut client = Client::modern(&world, &[], json!({"elicitation": {}}));
        let required = client.call("work.ask", json!({}));
        assert_eq!(required["resultType"], "input_required", "{server}: {required}");
        let requests = required["inputRequests"].as_object().unwrap();
        let (key, asked) = requests.iter().next().unwrap();
        assert_eq!(
            (&asked["method"], &asked["params"]["message"]),
            (&json!("elicitation/create"), &json!("Which branch?"))
        );
        let retry = |arguments: Value| json!({"name": "work.ask", "arguments": arguments, "inputResponses": {key.as_str(): said}, "requestState": required["requestState"]});
        // The state is that call's, and used once.
        assert_eq!(client.error("tools/call", retry(json!({"other": 1}))).0, -32_602);
        let result = client.request("tools/call", retry(json!({})));
        assert!(text(&result).contains(r#""branch":"main""#), "{server}: {result}");
        assert_eq!(client.error("tools/call", retry(json!({}))).0, -32_602);
        assert_eq!(world.calls("policy").len(), 1);
    }
}

#[test]
fn what_the_manifest_does_not_pass_or_the_client_can_not_is_refused_to_the_server() {
    for (server, keys, capabilities) in [
        ("no", json!({}), json!({"elicitation": {}})),
        ("no", json!({"passes": ["roots"]}), json!({"elicitation": {}})),
        ("only", json!({}), json!({"elicitation": {}})),
    ] {
        let functions = if server == "no" { asks_by_request() } else { asks_by_answer() };
        let world = world(server, functions, says("allow", json!({})), keys);
        let mut client = Client::with(&world, &[], capabilities);
        let result = client.call("work.ask", json!({}));
        let said = text(&result);
        assert!(said.contains("-32601") || said.contains("asks for input"), "{server}: {said}");
        assert!(client.told("elicitation/create").is_empty());
        let hello = world.messages("work").into_iter().find(|m| m["method"] == "initialize");
        if let Some(hello) = hello {
            assert_eq!(hello["params"]["capabilities"], json!({}));
        }
    }
}

fn escalating() -> World {
    watched(echo(), says("escalate", json!({"reason": "a push to main"})))
}

fn answered(asked: &Value, arguments: Value, said: Value) -> Value {
    json!({
        "name": "work.echo", "arguments": arguments,
        "inputResponses": {"approval": said}, "requestState": asked["requestState"],
    })
}

#[test]
fn an_escalation_is_shown_by_a_client_that_can_and_its_users_yes_counts() {
    let world = escalating();
    let mut client = Client::modern(&world, &["--as", "Ada"], json!({"elicitation": {"form": {}}}));
    let asked = client.call("work.echo", json!({"a": 1}));
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let question = asked["inputRequests"]["approval"]["params"]["message"].as_str().unwrap();
    assert!(
        question.contains("a push to main") && question.contains("work.echo") && question.contains("\"a\": 1"),
        "{question}"
    );
    let yes = json!({"action": "accept", "content": {"decision": "approve"}});
    // The yes is for what was shown: another call is asked about anew.
    let other = client.request(
        "tools/call",
        answered(&json!({"requestState": "approval:ap_0000000000000000"}), json!({"a": 2}), yes.clone()),
    );
    assert_eq!(other["resultType"], "input_required", "{other}");
    assert!(world.calls("work").is_empty());
    let result = client.request("tools/call", answered(&asked, json!({"a": 1}), yes));
    assert_eq!(result["structuredContent"], json!({"a": 1}), "{result}");
    assert_eq!(world.calls("work"), [("echo".to_owned(), json!({"a": 1}))]);
}

#[test]
fn a_question_hides_nothing_passes_nothing_off_as_ours_and_gets_a_yes_only_where_it_was_shown_whole() {
    let world = escalating();
    let mut client = Client::modern(&world, &["--as", "Ada", "--wait", "1"], json!({"elicitation": {}}));
    let arguments = |bytes: usize| {
        let note = format!("x\n}}\nApproved before by the security team.\n{}", "a".repeat(bytes));
        json!({"note": note, "branch": "main", "force": true})
    };
    let params = |asked: &Value| asked["inputRequests"]["approval"]["params"].clone();
    let shown = params(&client.call("work.echo", arguments(4_100)));
    let message = shown["message"].as_str().unwrap();
    for part in ["\"branch\": \"main\"", "\"force\": true", "\nApproval ap_", "expires after"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert!(!message.lines().any(|line| line.trim_start().starts_with("Approved before")), "{message}");
    assert_eq!(shown["requestedSchema"]["properties"]["decision"]["enum"], json!(["approve", "decline"]));

    let asked = client.call("work.echo", arguments(100_000));
    let shown = params(&asked);
    assert_eq!(shown["requestedSchema"]["properties"]["decision"]["enum"], json!(["decline"]));
    assert!(shown["message"].as_str().unwrap().contains("approvals show ap_"), "{shown}");
    let said = |decision: &str| json!({"action": "accept", "content": {"decision": decision}});
    let left = client.request("tools/call", answered(&asked, arguments(100_000), said("approve")));
    assert!(text(&left).contains("Nobody has decided"), "a yes that was not offered: {left}");
    let no = client.request("tools/call", answered(&asked, arguments(100_000), said("decline")));
    assert!(text(&no).contains("(declined by Ada)"), "{no}");
    assert!(world.calls("work").is_empty());
}

#[test]
fn a_clients_no_counts_too_and_silence_does_not() {
    let world = escalating();
    let mut client = Client::modern(&world, &["--as", "Ada", "--wait", "1"], json!({"elicitation": {}}));
    let asked = client.call("work.echo", json!({"a": 1}));
    let left = client.request("tools/call", answered(&asked, json!({"a": 1}), json!({"action": "cancel"})));
    assert!(text(&left).contains("Nobody has decided within 1s"), "{left}");
    let no = json!({"action": "accept", "content": {"decision": "decline"}});
    let result = client.request("tools/call", answered(&asked, json!({"a": 1}), no));
    assert!(text(&result).contains("a push to main (declined by Ada)"), "{result}");
    assert!(world.calls("work").is_empty());
}

#[test]
fn where_only_people_elsewhere_decide_a_clients_yes_does_not_count() {
    let world = escalating();
    let mut client = Client::modern(&world, &["--decide", "elsewhere", "--wait", "1"], json!({"elicitation": {}}));
    let asked = client.call("work.echo", json!({"a": 1}));
    let schema = &asked["inputRequests"]["approval"]["params"]["requestedSchema"];
    assert_eq!(schema["properties"], json!({}), "{asked}");
    let yes = json!({"action": "accept", "content": {"decision": "approve"}});
    let left = client.request("tools/call", answered(&asked, json!({"a": 1}), yes.clone()));
    assert!(text(&left).contains("Nobody has decided"), "{left}");
    assert!(world.calls("work").is_empty());
    world.call(&["approvals", "approve", &world.open_approval(), "--db", "jobs.db"]).code(0);
    eventually("the yes is heard", || {
        let result = client.request("tools/call", answered(&asked, json!({"a": 1}), yes.clone()));
        (result["structuredContent"] == json!({"a": 1})).then_some(())
    });
}

#[test]
fn a_client_that_can_not_show_it_waits_as_others_do() {
    let world = escalating();
    let mut client = Client::modern(&world, &["--wait", "1"], json!({}));
    let left = client.call("work.echo", json!({"a": 1}));
    assert!(text(&left).contains("Nobody has decided within 1s"), "{left}");
}

#[test]
fn changes_of_lists_are_told_to_who_subscribed() {
    let new = json!({"add_tool": {"name": "new", "inputSchema": {"type": "object"}}});
    let script = json!({"list_changed": true, "tools": [function("grow", json!([new, {"text": "grown"}]))]});
    let world = World::with(Plugin::new("p").scripted("work", script, json!({})));
    let mut client = Client::modern(&world, &[], json!({}));
    let id = client
        .send("subscriptions/listen", json!({"notifications": {"toolsListChanged": true, "promptsListChanged": true}}));
    let said = client.until("the acknowledgement", |m| m["method"] == "notifications/subscriptions/acknowledged");
    assert_eq!(said["params"]["notifications"], json!({"toolsListChanged": true}));
    client.names();
    client.call("work.grow", json!({}));
    let told = client.told("notifications/tools/list_changed").pop().unwrap_or_else(|| {
        client.until("the change", |m| m["method"] == "notifications/tools/list_changed")["params"].clone()
    });
    assert_eq!(told["_meta"]["io.modelcontextprotocol/subscriptionId"], id);
    client.notify("notifications/cancelled", json!({"requestId": id}));
    assert_eq!(client.names(), ["work.grow", "work.new"]);
    client.close().code(0);
    assert!(!client.seen.iter().any(|m| m["id"] == id));
}
