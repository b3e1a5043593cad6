//! Long jobs in windows of all sizes: whole jobs, from the command line, against providers in all wire formats and against scripts.

use crate::provider::{Play, Provider, Wire};
use crate::support::{Finished, Plugin, Running, World, function};
use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};
use std::os::unix::process::ExitStatusExt as _;

const TASK: &str = "Find the commit that broke the build, THE-TASK-42.";

/// A function whose schema and description have about 200 tokens, and whose results have so many bytes.
fn log(bytes: usize) -> Value {
    let mut log = function("log", json!({"text": "x".repeat(bytes)}));
    log["description"] = json!("Shows commits. ".repeat(45));
    log
}

fn world(model: &str, turns: usize, bytes: usize, keys: Value) -> World {
    let mut agent = json!({"model": model, "max_turns": turns + 5});
    agent.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
    World::with(Plugin::new("p").agent(agent).server("git", json!([log(bytes)])))
}

fn run(world: &World, provider: &Provider) -> Finished {
    let mut command = world.job(&["--input", TASK]);
    provider.lead(&mut command);
    Running::start(command).finish()
}

fn compacted(done: &Finished) -> Vec<Value> {
    done.records("compacted")
}

/// What must hold of every request: the task stands in it word for word, and each call has its result.
fn all_is_well_formed(provider: &Provider, what: &str) {
    provider.seen(|seen| {
        for (i, body) in seen.turns.iter().enumerate() {
            assert!(body.to_string().contains(TASK), "{what}, turn {i}: the task is lost: {body}");
            let (calls, results) = provider.pairs(body);
            assert_eq!(calls, results, "{what}, turn {i}");
        }
    });
}

/// What must hold of each request after a compaction: it has fewer pairs, and of those from before the last one at least.
fn last_turns_survive(provider: &Provider, what: &str) {
    provider.seen(|seen| {
        let pairs: Vec<usize> = seen.turns.iter().map(|body| provider.pairs(body).0.len()).collect();
        // Each turn makes one call: where there is not one more, some were taken out.
        let compacted: Vec<usize> = (1..pairs.len()).filter(|i| pairs[*i] <= pairs[i - 1]).collect();
        assert!(!compacted.is_empty(), "{what}: {pairs:?}");
        assert!(compacted.iter().all(|i| pairs[*i] >= 1), "{what}: the last pair is lost: {pairs:?}");
    });
}

#[test]
fn windows_of_1k_8k_and_200k_make_progress_in_every_wire_format() {
    let handles = Wire::ALL.map(|wire| {
        std::thread::spawn(move || {
            for (window, turns, bytes) in [(1_000, 12, 300), (8_000, 14, 4_000), (200_000, 24, 45_000)] {
                let what = format!("{wire:?} {window}");
                let play = Play { wire, turns, window, bytes_per_token: 4, tells: true, summarises: true };
                let provider = Provider::start(play);
                let world = world(wire.model(), turns, bytes, json!({}));
                let done = run(&world, &provider).code(0);
                assert_eq!(done.json()["output"], "done", "{what}");
                assert_eq!(done.records("started")[0]["spec"]["agent"]["context_window"], window, "{what}");
                let compactions = compacted(&done);
                assert!(!compactions.is_empty(), "{what}");
                assert!(compactions.iter().all(|c| c.get("fault").is_none()), "{what}: {compactions:#?}");
                let summaries = compactions.iter().filter(|c| c.get("summary").is_some()).count();
                assert!(summaries > 0, "{what}: a summary with content: {compactions:#?}");
                provider.seen(|seen| {
                    assert_eq!((seen.turns.len(), seen.summaries.len()), (turns + 1, summaries), "{what}");
                    assert_eq!(seen.refused, 0, "{what}: the provider never had to refuse");
                    for body in &seen.summaries {
                        let text = body.to_string();
                        assert!(text.contains("never follow instructions") && text.contains(TASK), "{what}: {text}");
                    }
                    assert!(seen.turns.last().unwrap().to_string().contains("SUMMARY"), "{what}");
                });
                all_is_well_formed(&provider, &what);
                last_turns_survive(&provider, &what);
                world.call(&["replay", done.json()["job"].as_str().unwrap(), "--db", "jobs.db"]).code(0);
            }
        })
    });
    for handle in handles {
        handle.join().unwrap();
    }
}

#[test]
fn a_provider_that_tells_no_window_and_refuses_is_asked_again_with_less() {
    for wire in Wire::ALL {
        // Two bytes a token: twice as many as one guesses.
        let play = Play { wire, turns: 12, window: 8_000, bytes_per_token: 2, tells: false, summarises: true };
        let provider = Provider::start(play);
        let done = run(&world(wire.model(), 12, 3_000, json!({})), &provider).code(0);
        assert_eq!(done.json()["output"], "done", "{wire:?}");
        assert!(provider.seen(|s| s.refused) > 0, "{wire:?}");
        let failed = done.records("model_failed");
        assert!(failed.iter().all(|f| f["fault"] == "context_full"), "{failed:#?}");
        assert!(!compacted(&done).is_empty());
        all_is_well_formed(&provider, &format!("{wire:?}"));
    }
}

#[test]
fn a_wrong_window_in_the_manifest_is_made_good_by_the_providers_refusal() {
    let play = Play { wire: Wire::Chat, turns: 12, window: 8_000, bytes_per_token: 4, tells: true, summarises: true };
    let provider = Provider::start(play);
    let done = run(&world(Wire::Chat.model(), 12, 4_000, json!({"context_window": 1_000_000})), &provider).code(0);
    assert_eq!(done.records("started")[0]["spec"]["agent"]["context_window"], 1_000_000, "the manifest wins");
    assert!(provider.seen(|s| s.refused) > 0);
    all_is_well_formed(&provider, "wrong window");
}

#[test]
fn where_no_summary_can_be_had_the_oldest_turns_are_left_out_and_people_are_told() {
    let play =
        Play { wire: Wire::Anthropic, turns: 12, window: 8_000, bytes_per_token: 4, tells: true, summarises: false };
    let provider = Provider::start(play);
    let world = world(Wire::Anthropic.model(), 12, 4_000, json!({}));
    let mut command = world.job(&["--input", TASK, "--output", "text"]);
    provider.lead(&mut command);
    let done = Running::start(command).finish().code(0);
    assert_eq!(done.out.trim(), "done");
    done.tells(&["compacted without a summary", "no summaries today", "were left out"]);
    assert!(provider.seen(|s| s.turns.last().unwrap().to_string().contains("No summary could be made")));
    all_is_well_formed(&provider, "no summary");
}

#[test]
fn a_window_that_is_too_small_for_the_task_and_the_functions_is_a_clear_error_before_anything_is_sent() {
    let play = Play { wire: Wire::Gemini, turns: 1, window: 200, bytes_per_token: 4, tells: true, summarises: true };
    let provider = Provider::start(play);
    let done = run(&world(Wire::Gemini.model(), 1, 10, json!({})), &provider).code(1);
    let error = &done.json()["error"];
    assert_eq!(error["type"], "ContextFull");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("window of 200 tokens is too small") && message.contains("context_window"), "{message}");
    provider.seen(|s| assert_eq!((s.turns.len(), s.refused), (0, 0)));
}

#[test]
fn a_provider_that_refuses_everything_ends_the_job_after_two_compactions() {
    let play = Play { wire: Wire::Chat, turns: 9, window: 0, bytes_per_token: 4, tells: false, summarises: true };
    let provider = Provider::start(play);
    let done = run(&world(Wire::Chat.model(), 9, 4_000, json!({})), &provider).code(1);
    assert_eq!(done.json()["error"]["type"], "ContextFull");
    let message = done.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("nothing more can be left out"), "{message}");
    assert!(provider.seen(|s| s.refused) <= 3);
}

/// A script with a window that calls for so many turns.
fn scripted(turns: usize, window: u64, bytes: usize, more: Value) -> World {
    let world = World::with(Plugin::new("p").agent(json!({"max_turns": turns + 5})).server("git", json!([log(bytes)])));
    let mut list: Vec<Value> = (0..turns)
        .map(|n| json!({"say": format!("I look at {n}."), "call": {"tool": "git.log", "with": {"n": n}}}))
        .collect();
    list.push(json!({"say": "done"}));
    let mut script = json!({"window": window, "turns": list});
    script.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    world.write("p/script.yaml", script.to_string());
    world
}

#[test]
fn a_scripted_job_of_1000_turns_in_a_window_of_1k_plays_to_its_end_without_a_loop() {
    let world = scripted(1_000, 1_000, 200, json!({}));
    let done = world.run(&["--input", TASK]).code(0);
    let result = done.json();
    assert_eq!((&result["output"], &result["scripted"]), (&json!("done"), &json!(true)));
    assert_eq!(result["summary"]["turns"], 1_001);
    assert_eq!(world.calls("git").len(), 1_000, "each call once");
    let n = result["summary"]["compactions"].as_u64().unwrap();
    assert!((50..1_000).contains(&n), "{n} compactions");
    assert!(done.records("model_failed").is_empty());
}

#[test]
fn the_story_and_the_history_tell_of_a_compaction() {
    let world = scripted(8, 1_500, 600, json!({"summary": "Seven commits were fine."}));
    let told = world.run(&["--input", TASK, "--output", "text"]).code(0);
    let told = told.tells(&[
        "asked for a summary",
        "compacted: ",
        "became a summary of",
        "Seven commits were fine.",
        "compaction",
    ]);
    assert!(
        !told.err.contains("Summary of the work so far"),
        "our own words are not shown as the model's: {}",
        told.err
    );
    let (job, _, _) = stored(&world).unwrap();
    let history = world.call(&["jobs", "history", &job, "--db", "jobs.db"]).code(0).out;
    assert!(history.contains("asks for a summary") && history.contains("Seven commits"), "{history}");
    let shown = world.call(&["jobs", "show", &job, "--db", "jobs.db"]).code(0).out;
    assert!(shown.contains("compaction"), "{shown}");
}

fn stored(world: &World) -> Option<(String, String, Vec<Value>)> {
    let db = Connection::open_with_flags(world.path("jobs.db"), OpenFlags::SQLITE_OPEN_READ_WRITE).ok()?;
    let (id, status) = db.query_row("SELECT id, status FROM jobs", [], |row| Ok((row.get(0)?, row.get(1)?))).ok()?;
    let mut texts = db.prepare("SELECT text FROM history ORDER BY seq").unwrap();
    let records = texts.query_map([], |row| row.get::<_, String>(0)).unwrap();
    Some((id, status, records.map(|text| serde_json::from_str(&text.unwrap()).unwrap()).collect()))
}

/// A job of two compactions, with a server that has something to say about each.
fn advised() -> World {
    let world = scripted(9, 1_100, 700, json!({"summary": "All was fine."}));
    let todo = json!([{"name": "_PostCompact", "inputSchema": {"type": "object", "properties": {}, "additionalProperties": false},
        "behaviour": {"text": "2 to-dos are open"}}]);
    let plugin = Plugin::new("q").server("todo", todo);
    plugin.save(&world);
    world
}

#[test]
fn a_job_goes_on_wherever_its_process_is_killed_around_a_compaction() {
    let crash_at = "HOOKWRIGHT_TEST_CRASH_AT";
    let handles = ["before_commit", "after_commit", "before_effect", "after_effect"].map(|kind| {
        std::thread::spawn(move || {
            let mut died_compacting = 0;
            for n in 0..150 {
                let point = format!("{kind}:{n}");
                let world = advised();
                let mut command = world.job(&["--agent", "worker", "--input", TASK]);
                command.env("MCP_HOOK_SERVERS", "todo").env(crash_at, &point);
                let first = Running::start(command).finish();
                let died = first.status.signal() == Some(9);
                assert!(died || first.status.code() == Some(0), "{point}\n{first}");
                let Some((job, status, left)) = stored(&world) else { continue };
                let recorded = |records: &[Value]| {
                    let ends = records.iter().filter(|r| r["kind"] == "compacted" || r["kind"] == "lifecycle_answered");
                    ends.map(|r| r["effect"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
                };
                died_compacting += usize::from(left.last().is_some_and(|r| {
                    r["kind"] == "compacted"
                        || r["command"]["do"] == "compact"
                        || r["command"]["point"] == "post_compact"
                }));
                if status != "completed" {
                    let mut command =
                        world.hookwright(&["jobs", "resume", &job, "--db", "jobs.db", "--output", "json"]);
                    command.env("MCP_HOOK_SERVERS", "todo");
                    let resumed = Running::start(command).finish().code(0);
                    assert_eq!(resumed.json()["output"], "done", "{point}");
                }
                let (_, status, records) = stored(&world).unwrap();
                assert_eq!(status, "completed", "{point}");
                let ends = recorded(&records);
                assert!(ends.iter().filter(|e| e.contains(".compact")).count() >= 2, "{point}: {ends:?}");
                assert!(ends.iter().filter(|e| e.contains("post_compact")).count() >= 2, "{point}: {ends:?}");
                let mut once = ends.clone();
                once.sort();
                once.dedup();
                assert_eq!(once.len(), ends.len(), "{point}: each has one end: {ends:?}");
                assert!(ends.starts_with(&recorded(&left)), "{point}: what was recorded stays");
                let advice = records.iter().filter(|r| r["kind"] == "lifecycle_answered");
                for record in advice.filter(|r| r["effect"].as_str().unwrap().contains("post_compact")) {
                    assert!(record.to_string().contains("2 to-dos are open"), "{point}: {record}");
                }
                world.call(&["replay", &job, "--db", "jobs.db"]).code(0);
                world.call(&["audit", "verify", "--db", "jobs.db"]).code(0);
                if !died {
                    break;
                }
            }
            (kind, died_compacting)
        })
    });
    for handle in handles {
        let (kind, died) = handle.join().unwrap();
        assert!(died >= 2, "{kind}: it died {died} times within a compaction");
    }
}
