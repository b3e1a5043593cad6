//! `hookwright acp`: a whole client's life with it, frame by frame.

mod cancel;
pub(crate) mod client;
mod compacting;
mod compaction;
mod decide;
mod hostile;
mod lifecycle;
mod real;
mod robust;
mod servers;
mod sessions;
mod subagents;

use crate::support::{Plugin, World, function, says};
use client::{Client, normal};
use serde_json::{Value, json};

/// A git server whose `push` is what a test is about, and a policy server whose `check` decides it.
fn git(check: Value, hook: Value, turns: Value) -> World {
    let mut entry = json!({"on": "pre_tool_call", "call": "policy.check", "match": {"tools": ["git.push"]}});
    entry.as_object_mut().unwrap().extend(hook.as_object().unwrap().clone());
    World::with(
        Plugin::new("p")
            .server("policy", json!([function("check", check)]))
            .server("git", json!([function("push", json!({"text": "pushed"}))]))
            .hook(entry)
            .turns(turns),
    )
}

/// A push, and a word about it.
fn push() -> Value {
    json!([
        {"say": "I push.", "call": {"tool": "git.push", "with": {"branch": "main", "path": "src/a.rs"}}},
        {"say": "Done."},
        {"expect": "and again?", "say": "No."},
    ])
}

#[test]
fn version_1_is_answered_whatever_a_client_asks_for() {
    let world = git(says("allow", json!({})), json!({}), push());
    for version in [1, 2, 99] {
        let mut client = Client::start(&world, &[]);
        let hello = client.call("initialize", json!({"protocolVersion": version, "clientCapabilities": {}}));
        assert_eq!(hello["protocolVersion"], 1, "{hello:#}");
        let can = &hello["agentCapabilities"];
        assert_eq!(can["loadSession"], true);
        assert_eq!(can["mcpCapabilities"]["http"], true);
        let takes = &can["promptCapabilities"];
        assert_eq!(takes["embeddedContext"], true);
        for refused in ["image", "audio"] {
            assert_ne!(takes[refused], true, "{refused} is refused: {hello:#}");
        }
        for key in ["list", "delete", "resume", "close"] {
            assert!(can["sessionCapabilities"][key].is_object(), "{key}: {hello:#}");
        }
        client.close().code(0);
    }
}

#[test]
fn a_session_as_a_client_sees_it() {
    let changed = says("modify", json!({"arguments": {"branch": "dev", "path": "src/a.rs"}, "reason": "not to main"}));
    let world = git(changed, json!({}), push());
    let mut client = Client::new(&world, &[]);
    let session = client.session(json!([]));
    assert_eq!(client.prompt(&session, "Push it,\nplease."), "end_turn");
    assert_eq!(client.prompt(&session, "and again?"), "end_turn");
    client.call("session/close", json!({"sessionId": session}));
    client.close().code(0);
    assert_eq!(world.calls("git"), [("push".to_owned(), json!({"branch": "dev", "path": "src/a.rs"}))]);
    insta::assert_json_snapshot!("a_session", joined(&normal(&client.seen, &world)));
}

/// Where a streamed text is cut depends on nothing that matters: its pieces are put together.
fn joined(frames: &[Value]) -> Vec<Value> {
    joined_by(frames, |frame| &frame["params"]["update"])
}

/// As [`joined`], for frames that hold their update elsewhere.
fn joined_by(frames: &[Value], update: impl Fn(&Value) -> &Value) -> Vec<Value> {
    let chunk = |f: &Value| update(f)["sessionUpdate"] == "agent_message_chunk";
    let mut out: Vec<Value> = vec![];
    let mut text = String::new();
    for frame in frames {
        let piece = update(frame)["content"]["text"].as_str().unwrap_or_default();
        match out.last_mut() {
            Some(last) if chunk(last) && chunk(frame) && update(last)["messageId"] == update(frame)["messageId"] => {
                let whole = format!("{text}{piece}");
                // The text stands once in a chunk, under this key.
                let (old, new) = (json!({ "text": text }).to_string(), json!({ "text": whole }).to_string());
                let inner = |t: &str| t[1..t.len() - 1].to_owned();
                *last = serde_json::from_str(&last.to_string().replace(&inner(&old), &inner(&new))).unwrap();
                text = whole;
            }
            _ => {
                piece.clone_into(&mut text);
                out.push(frame.clone());
            }
        }
    }
    out
}

#[test]
fn a_denied_call_is_shown_as_failed_with_the_words_that_the_model_reads() {
    let world = git(says("deny", json!({"reason": "not \u{1b}[31mtoday"})), json!({}), push());
    let mut client = Client::new(&world, &[]);
    let session = client.session(json!([]));
    assert_eq!(client.prompt(&session, "go"), "end_turn");
    let last = client.updates("tool_call_update").pop().unwrap();
    assert_eq!(last["status"], "failed");
    let text = last["content"][0]["content"]["text"].as_str().unwrap();
    assert!(
        text.starts_with("The call to git.push was not made: hook policy.check denied it: not \\u{1b}[31mtoday"),
        "{text}"
    );
    assert!(world.calls("git").is_empty());
    assert!(
        client.notices().iter().any(|n| n == "Hook policy.check denied the call to git.push"),
        "{:?}",
        client.notices()
    );
}

#[test]
fn a_client_without_notices_gets_them_in_meta_of_updates_that_change_nothing() {
    let world = git(says("deny", json!({"reason": "no"})), json!({}), push());
    let mut client = Client::start(&world, &[]);
    client.call("initialize", json!({"protocolVersion": 1}));
    let session = client.session(json!([]));
    client.prompt(&session, "go");
    assert!(client.updates("notice").is_empty());
    let infos = client.updates("session_info_update");
    let notice = infos.iter().map(|u| &u["_meta"]["hookwright"]["notice"]).find(|n| n.is_object()).unwrap();
    assert_eq!(notice["title"], "Hook policy.check denied the call to git.push");
    assert_eq!((&notice["details"]["outcome"], &notice["description"]), (&json!("deny"), &json!("no")));
}

#[test]
fn an_output_that_a_hook_may_still_deny_is_not_streamed_and_a_denied_one_is_never_shown() {
    for (answer, shown) in [
        (says("deny", json!({"reason": "secret"})), "I push.hook policy.check denied the output: secret"),
        (says("modify", json!({"output": "All fine."})), "I push.All fine."),
        (says("allow", json!({})), "I push.Done."),
    ] {
        let world =
            git(json!([{"sleep_ms": 300}, answer]), json!({"on": "job_end", "match": {"agents": ["worker"]}}), push());
        let mut client = Client::new(&world, &[]);
        let session = client.session(json!([]));
        assert_eq!(client.prompt(&session, "go"), "end_turn");
        assert_eq!(client.said(), shown);
    }
}

#[test]
fn a_prompt_that_a_hook_denies_ends_with_the_hooks_words() {
    let world = World::with(
        Plugin::new("p")
            .server("policy", json!([function("check", says("deny", json!({"reason": "not on Fridays"})))]))
            .hook(json!({"on": "job_start", "call": "policy.check"}))
            .turns(push()),
    );
    let mut client = Client::new(&world, &[]);
    let session = client.session(json!([]));
    let id = client.begin(&session, "go");
    let result = client.result(id);
    assert_eq!(
        (&result["stopReason"], &result["_meta"]["hookwright"]["outcome"]),
        (&json!("end_turn"), &json!("HookDenied"))
    );
    assert_eq!(client.said(), "hook policy.check denied the job: not on Fridays");
}

#[test]
fn without_a_plugin_the_clients_servers_and_a_model_suffice() {
    let world = World::new();
    world.write(
        "script.yaml",
        json!({"turns": [{"call": {"tool": "todo.add", "with": {"item": "x"}}}, {"say": "Noted."}]}).to_string(),
    );
    let mut client = Client::new(&world, &["--model", "script/script.yaml"]);
    let todo = client::server(&world, "todo", json!({"tools": [function("add", json!({"text": "added"}))]}));
    let session = client.session(json!([todo]));
    assert_eq!(client.prompt(&session, "Note x."), "end_turn");
    assert_eq!(client.said(), "Noted.");
    assert_eq!(world.calls("todo"), [("add".to_owned(), json!({"item": "x"}))]);
    client.close().code(0);
    let none = world.call(&["acp"]);
    none.code(2).tells(&["no model was named", "--model"]);
}

#[test]
fn a_failing_model_is_the_prompts_error_and_the_session_goes_on() {
    let world = git(says("allow", json!({})), json!({}), json!([{"error": "refused"}]));
    let mut client = Client::new(&world, &[]);
    let session = client.session(json!([]));
    let params = json!({"sessionId": session, "prompt": [{"type": "text", "text": "go"}]});
    for _ in 0..2 {
        let id = client.send("session/prompt", params.clone());
        let response = client.response(id);
        assert_eq!(
            (&response["error"]["code"], &response["error"]["data"]["type"]),
            (&json!(-32_603), &json!("ModelFailed"))
        );
    }
}

#[test]
fn the_plain_assistant_can_be_chosen_beside_plugins_that_declare_agents() {
    let world = git(says("allow", json!({})), json!({}), push());
    world.write("script.yaml", json!({"turns": [{"call": {"tool": "git.push"}}, {"say": "I am plain."}]}).to_string());
    let mut client = Client::new(&world, &["--agent", "assistant", "--model", "script/script.yaml"]);
    let session = client.session(json!([]));
    assert_eq!(client.prompt(&session, "go"), "end_turn");
    assert_eq!(client.said(), "I am plain.");
    client.close().code(0);
    assert_eq!(world.calls("git").len(), 1, "it may use every tool");
    let jobs = world.call(&["jobs", "list", "--db", "jobs.db", "--output", "json"]).code(0).json();
    assert_eq!(jobs["jobs"][0]["agent"], "assistant");
}
