//! Windows and compactions, as a client sees them; and whole sessions in a small window.

use super::client::Client;
use crate::provider::{Play, Provider, Wire};
use crate::support::{Plugin, World, function};
use serde_json::{Value, json};

/// A script with a window that calls `git.log` for so many turns and then says `done`.
fn scripted(window: u64, turns: usize, more: Value) -> World {
    let log = function("log", json!({"text": "x".repeat(600)}));
    let world = World::with(Plugin::new("p").agent(json!({"max_turns": 40})).server("git", json!([log])));
    let call = |n| json!({"say": format!("I look at {n}."), "call": {"tool": "git.log", "with": {"n": n}}});
    let mut list: Vec<Value> = (0..turns).map(call).collect();
    list.push(json!({"say": "done"}));
    let mut script = json!({"window": window, "turns": list});
    script.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    world.write("p/script.yaml", script.to_string());
    world
}

/// A client that can show these.
fn client(world: &World, shows: Value) -> (Client, String) {
    let mut client = Client::start(world, &[]);
    client.call("initialize", json!({"protocolVersion": 1, "clientCapabilities": {"session": shows}}));
    let session = client.session(json!([]));
    (client, session)
}

#[test]
fn usage_is_told_after_each_turn_with_the_window_that_the_model_told_at_the_start() {
    let world = scripted(5_000, 3, json!({}));
    let (mut client, session) = client(&world, json!({"notices": {}}));
    assert_eq!(client.prompt(&session, "Look."), "end_turn");
    let usage = client.updates("usage_update");
    assert_eq!(usage.len(), 4, "{usage:#?}");
    assert!(usage.iter().all(|u| u["size"] == 5_000), "{usage:#?}");
    let used: Vec<u64> = usage.iter().map(|u| u["used"].as_u64().unwrap()).collect();
    assert!(used.is_sorted() && used[0] > 0 && used[3] < 5_000, "{used:?}");
}

#[test]
fn a_client_that_shows_compactions_gets_one_update_when_it_begins_and_one_when_it_ends() {
    let world = scripted(1_500, 8, json!({"summary": "Seven commits were fine."}));
    let (mut client, session) = client(&world, json!({"notices": {}, "compaction": {}}));
    assert_eq!(client.prompt(&session, "Look."), "end_turn");
    let told = client.updates("compaction_update");
    assert!(!told.is_empty() && told.len() % 2 == 0, "{told:#?}");
    for pair in told.chunks(2) {
        assert_eq!(pair[0]["compactionId"], pair[1]["compactionId"]);
        assert_eq!((&pair[0]["status"], &pair[1]["status"]), (&json!("in_progress"), &json!("completed")));
    }
    assert!(told[1]["summary"][0]["text"].as_str().unwrap().contains("Seven commits were fine."), "{told:#?}");
    assert!(!client.notices().iter().any(|n| n.contains("compacted")), "told once: {:?}", client.notices());
}

#[test]
fn a_client_that_does_not_show_compactions_gets_a_notice_or_meta() {
    for shows in [json!({"notices": {}}), json!({})] {
        let world = scripted(1_500, 8, json!({"summary": "Seven commits were fine."}));
        let (mut client, session) = client(&world, shows.clone());
        assert_eq!(client.prompt(&session, "Look."), "end_turn");
        assert!(client.updates("compaction_update").is_empty());
        let mut notices = client.updates("notice");
        notices
            .extend(client.updates("session_info_update").iter().map(|u| u["_meta"]["hookwright"]["notice"].clone()));
        let told = notices
            .iter()
            .find(|n| n["title"].as_str().is_some_and(|t| t.starts_with("The conversation was compacted")));
        let told = told.unwrap_or_else(|| panic!("{shows}: {notices:#?}"));
        assert!(told["description"].as_str().unwrap().contains("Seven commits were fine."), "{told:#}");
    }
}

#[test]
fn a_compaction_without_a_summary_is_a_warning_and_one_that_is_cancelled_ends_so() {
    let world = scripted(1_500, 8, json!({"summary_error": "unavailable"}));
    let (mut failing, session) = client(&world, json!({"notices": {}, "compaction": {}}));
    assert_eq!(failing.prompt(&session, "Look."), "end_turn");
    let warned = failing
        .updates("notice")
        .into_iter()
        .find(|n| n["title"].as_str().unwrap().starts_with("No summary could be made"));
    assert_eq!(warned.unwrap()["severity"], "warning");
    let ended = failing.updates("compaction_update").into_iter().find(|u| u["status"] == "completed").unwrap();
    assert!(ended["summary"][0]["text"].as_str().unwrap().contains("left out"), "{ended:#}");
}

/// What a session's prompts say: the first and the last must reach the provider word for word.
const FIRST: &str = "Find the commit that broke the build, THE-TASK-42. Don't \"guess\".";

#[test]
fn over_several_prompts_in_a_small_window_the_first_and_the_last_prompt_reach_the_provider_word_for_word() {
    for wire in Wire::ALL {
        let play = Play { wire, turns: 4, window: 3_000, bytes_per_token: 4, tells: true, summarises: true };
        let provider = Provider::start(play);
        let log = function("log", json!({"text": "x".repeat(1_500)}));
        let agent = json!({"model": wire.model(), "max_turns": 40});
        let world = World::with(Plugin::new("p").agent(agent).server("git", json!([log])));
        let mut lead = std::process::Command::new("true");
        provider.lead(&mut lead);
        let env: Vec<(String, String)> = lead
            .get_envs()
            .map(|(k, v)| (k.to_str().unwrap().to_owned(), v.unwrap().to_str().unwrap().to_owned()))
            .collect();
        let env: Vec<(&str, &str)> = env.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        let mut client = Client::start_in(&world, &[], &env);
        client.call("initialize", json!({"protocolVersion": 1, "clientCapabilities": {"session": {"compaction": {}}}}));
        let session = client.session(json!([]));
        let prompts: Vec<String> = std::iter::once(FIRST.to_owned())
            .chain((2..7).map(|n| format!("Go on, LATER-{n}. {}", "why? ".repeat(400))))
            .collect();
        for prompt in &prompts {
            let seen = provider.seen(|s| s.turns.len());
            assert_eq!(client.prompt(&session, prompt), "end_turn", "{wire:?}");
            provider.seen(|s| {
                for body in &s.turns[seen..] {
                    let text = body.to_string();
                    for said in [FIRST, prompt] {
                        let quoted = json!(said).to_string();
                        assert!(text.contains(quoted.trim_matches('"')), "{wire:?}: {said}: {text}");
                    }
                    let (calls, results) = provider.pairs(body);
                    assert_eq!(calls, results, "{wire:?}");
                }
            });
        }
        assert!(!client.updates("compaction_update").is_empty(), "{wire:?}: there was something to see");
        assert_eq!(provider.seen(|s| s.refused), 0, "{wire:?}");
        let jobs = world.call(&["jobs", "list", "--db", "jobs.db", "--output", "json"]).code(0).json();
        let mut said_again = 0;
        for job in jobs["jobs"].as_array().unwrap() {
            let job = job["job"].as_str().unwrap();
            world.call(&["replay", job, "--db", "jobs.db"]).code(0);
            let history = world.call(&["jobs", "history", job, "--db", "jobs.db", "--output", "json"]).code(0).json();
            let records = history["history"].as_array().unwrap();
            said_again += records.iter().filter(|r| r["kind"] == "compacted" && r.get("go_on").is_some()).count();
        }
        assert!(said_again > 0, "{wire:?}: an earlier job's prompt was kept");
        world.call(&["audit", "verify", "--db", "jobs.db"]).code(0);

        // All that was said comes back, whatever was compacted.
        let said = client.said();
        let calls = client.updates("tool_call").len();
        client.close().code(0);
        let mut client = Client::start_in(&world, &[], &env);
        client.call("initialize", json!({"protocolVersion": 1, "clientCapabilities": {}}));
        client.call("session/load", json!({"sessionId": session, "cwd": "/", "mcpServers": []}));
        let users: Vec<Value> =
            client.updates("user_message_chunk").iter().map(|u| u["content"]["text"].clone()).collect();
        assert_eq!(users, prompts, "{wire:?}");
        assert_eq!(client.said(), said, "{wire:?}");
        assert_eq!(client.updates("tool_call").len(), calls, "{wire:?}");
    }
}
