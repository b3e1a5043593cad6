//! Clients and processes that fail: killed, deaf, silent, many at once.

use super::client::{Client, server};
use super::{git, push};
use crate::support::{World, eventually, function, says};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::time::Duration;

fn history(world: &World, job: &str) -> Vec<Value> {
    let told = world.call(&["jobs", "history", job, "--db", "jobs.db", "--output", "json"]).code(0).json();
    told["history"].as_array().unwrap().clone()
}

/// The ids of the store's jobs, oldest first.
fn jobs(world: &World) -> Vec<String> {
    let listed = world.call(&["jobs", "list", "--db", "jobs.db", "--output", "json"]).code(0).json();
    listed["jobs"].as_array().unwrap().iter().rev().map(|j| j["job"].as_str().unwrap().to_owned()).collect()
}

/// Kilobytes that a process holds.
fn resident(client: &Client) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", client.pid())).unwrap();
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_prompt_whose_process_was_killed_during_a_call_is_told_as_far_as_it_came_and_the_next_one_knows() {
    let world = World::with(
        crate::support::Plugin::new("p").server("git", json!([function("push", json!({"sleep_ms": 60_000}))])).turns(
            json!([
                {"say": "I push.", "call": {"tool": "git.push", "with": {"branch": "main"}}},
                {"expect": ["It is not known whether the call to git.push was made", "go on"], "say": "I check first."},
            ]),
        ),
    );
    let mut client = Client::new(&world, &[]);
    let session = client.session(json!([]));
    client.begin(&session, "go");
    eventually("the call is under way", || (!world.calls("git").is_empty()).then_some(()));
    client.signal(Signal::KILL);
    drop(client);

    let mut client = Client::new(&world, &[]);
    client.call("session/load", json!({"sessionId": session, "cwd": "/", "mcpServers": []}));
    assert_eq!(client.updates("user_message_chunk")[0]["content"]["text"], "go");
    assert_eq!(client.said(), "I push.");
    let call = client.updates("tool_call").pop().unwrap();
    assert_eq!(
        (&call["status"], &call["content"][0]["content"]["text"]),
        (&json!("failed"), &json!("[left unfinished]"))
    );
    assert!(
        client.notices().iter().any(|n| n.starts_with("The prompt before was left unfinished")),
        "{:?}",
        client.notices()
    );
    assert_eq!(client.prompt(&session, "go on"), "end_turn");
    assert!(client.said().ends_with("I check first."), "{}", client.said());
    assert_eq!(world.calls("git").len(), 1, "no call is made again");
    client.close().code(0);
    for job in jobs(&world) {
        world.call(&["replay", &job, "--db", "jobs.db"]).code(0);
    }
}

#[test]
fn two_processes_that_prompt_a_session_at_the_same_instant_do_not_fork_it() {
    const ROUNDS: usize = 12;
    let turns: Vec<Value> = (0..40).map(|n| json!({"say": format!("Answer {n}.")})).collect();
    let world = World::with(crate::support::Plugin::new("p").turns(json!(turns)));
    let (mut one, mut two) = (Client::new(&world, &[]), Client::new(&world, &[]));
    let session = one.session(json!([]));
    two.call("session/resume", json!({"sessionId": session, "cwd": "/", "mcpServers": []}));
    let (mut taken, mut refused) = (0, 0);
    for round in 0..ROUNDS {
        let ids = (one.begin(&session, &format!("one {round}")), two.begin(&session, &format!("two {round}")));
        for response in [one.response(ids.0), two.response(ids.1)] {
            if response["result"]["stopReason"] == "end_turn" {
                taken += 1;
            } else {
                let message = response["error"]["message"].as_str().unwrap();
                assert_eq!(response["error"]["code"], -32_600, "{response:#}");
                assert!(message.contains("another process"), "{message}");
                refused += 1;
            }
        }
    }
    assert!(taken >= ROUNDS, "one of the two goes on, each time: {taken}");
    assert_eq!(taken + refused, 2 * ROUNDS);
    // Each job goes on with the one before it: nothing was forked, and nothing lost.
    let jobs = jobs(&world);
    assert_eq!(jobs.len(), taken);
    let before: Vec<Value> =
        jobs.iter().map(|job| history(&world, job)[0]["spec"]["continues"]["job"].clone()).collect();
    let expected: Vec<Value> =
        std::iter::once(Value::Null).chain(jobs.iter().map(|job| json!(job))).take(taken).collect();
    assert_eq!(before, expected);
    let mut three = Client::new(&world, &[]);
    three.call("session/load", json!({"sessionId": session, "cwd": "/", "mcpServers": []}));
    assert_eq!(three.updates("user_message_chunk").len(), taken);
}

#[test]
fn a_session_that_another_process_works_on_is_loaded_with_a_word_about_it_and_takes_no_prompt() {
    let world = git(says("escalate", json!({"reason": "r"})), json!({}), push());
    let (mut one, mut two) = (Client::new(&world, &[]), Client::new(&world, &[]));
    let session = one.session(json!([]));
    let prompt = one.begin(&session, "go");
    let question = one.question();
    two.call("session/load", json!({"sessionId": session, "cwd": "/", "mcpServers": []}));
    assert!(
        two.notices().iter().any(|n| n.starts_with("Another process works on the prompt before")),
        "{:?}",
        two.notices()
    );
    let (code, message) =
        two.error("session/prompt", json!({"sessionId": session, "prompt": [{"type": "text", "text": "x"}]}));
    assert_eq!((code, message.contains("another process runs job job_")), (-32_600, true), "{message}");
    one.choose(&question, "allow_once");
    assert_eq!(one.result(prompt)["stopReason"], "end_turn");
    assert_eq!(two.prompt(&session, "and again?"), "end_turn");
}

#[test]
fn a_session_whose_prompt_another_process_runs_is_deleted_when_that_has_ended_as_it_was_asked_to() {
    let world = git(says("escalate", json!({"reason": "r"})), json!({}), push());
    let (mut one, mut two) = (Client::new(&world, &[]), Client::new(&world, &[]));
    let session = one.session(json!([]));
    let prompt = one.begin(&session, "go");
    one.question();
    two.call("session/delete", json!({"sessionId": session}));
    assert_eq!(one.result(prompt)["stopReason"], "cancelled");
    let left = two.call("session/list", json!({}));
    assert_eq!(left["sessions"], json!([]));
}

#[test]
fn a_question_that_is_never_answered_expires_is_withdrawn_and_is_a_no() {
    let world = git(says("escalate", json!({"reason": "r"})), json!({"expires": "2s"}), push());
    let mut client = Client::new(&world, &[]);
    let session = client.session(json!([]));
    let prompt = client.begin(&session, "go");
    let question = client.question();
    let withdrawn = client.until("it is withdrawn", |f| f["method"] == "$/cancel_request");
    assert_eq!(withdrawn["params"]["requestId"], question["id"]);
    assert_eq!(client.result(prompt)["stopReason"], "end_turn");
    assert!(world.calls("git").is_empty());
    assert!(client.notices().iter().any(|n| n.contains("in time: it counts as a no")), "{:?}", client.notices());
    // An answer that comes after all is nothing.
    client.choose(&question, "allow_once");
    assert_eq!(client.prompt(&session, "and again?"), "end_turn");
    assert!(world.calls("git").is_empty());
}

#[test]
fn a_second_answer_is_nothing_and_an_unknown_option_decides_nothing() {
    let world = git(says("escalate", json!({"reason": "r"})), json!({}), push());
    let mut client = Client::new(&world, &[]);
    let session = client.session(json!([]));
    let prompt = client.begin(&session, "go");
    let question = client.question();
    client.choose(&question, "reject_once");
    client.choose(&question, "allow_once");
    assert_eq!(client.result(prompt)["stopReason"], "end_turn");
    assert!(world.calls("git").is_empty(), "the first answer counts");

    let other = client.session(json!([]));
    let prompt = client.begin(&other, "go");
    let question = client.question();
    client.answer(&question, json!({"outcome": {"outcome": "selected", "optionId": "allow_always"}}));
    client.until("others are asked", |f| {
        f["params"]["update"]["title"].as_str().is_some_and(|t| t.starts_with("Waiting for a person"))
    });
    assert!(world.calls("git").is_empty());
    world.call(&["approvals", "approve", &world.open_approval(), "--db", "jobs.db"]).code(0);
    assert_eq!(client.result(prompt)["stopReason"], "end_turn");
    assert_eq!(world.calls("git").len(), 1);
}

#[test]
fn a_question_about_a_prompt_itself_does_not_stay_open_in_the_client() {
    for (kind, status) in [("allow_once", "completed"), ("reject_once", "failed")] {
        let world = World::with(
            crate::support::Plugin::new("p")
                .server("policy", json!([function("check", says("escalate", json!({"reason": "r"})))]))
                .hook(json!({"on": "job_start", "call": "policy.check"}))
                .turns(json!([{"say": "Hello."}])),
        );
        let mut client = Client::new(&world, &[]);
        let session = client.session(json!([]));
        let prompt = client.begin(&session, "go");
        let question = client.question();
        client.choose(&question, kind);
        assert_eq!(client.result(prompt)["stopReason"], "end_turn");
        let id = &question["params"]["toolCall"]["toolCallId"];
        let told = client.updates("tool_call_update").into_iter().find(|u| u["toolCallId"] == *id).unwrap();
        assert_eq!(told["status"], status);
    }
}

#[test]
fn twenty_sessions_are_prompted_at_once() {
    let world = git(says("escalate", json!({"reason": "r"})), json!({}), push());
    let mut client = Client::new(&world, &[]);
    let sessions: Vec<String> = (0..20).map(|_| client.session(json!([]))).collect();
    let prompts: Vec<i64> = sessions.iter().map(|session| client.begin(session, "go")).collect();
    for _ in &sessions {
        let question = client.question();
        client.choose(&question, "allow_once");
    }
    let mut due: Vec<i64> = prompts;
    for frame in &client.seen {
        due.retain(|id| frame["id"] != *id || frame["result"]["stopReason"] != "end_turn");
    }
    while !due.is_empty() {
        let end = client.until("a prompt ends", |f| f["result"]["stopReason"] == "end_turn");
        due.retain(|id| end["id"] != *id);
    }
    assert_eq!(world.calls("git").len(), 20);
    for session in &sessions {
        let mine = client.seen.iter().filter(|f| f["params"]["sessionId"] == session.as_str());
        let said: String = mine
            .filter(|f| f["params"]["update"]["sessionUpdate"] == "agent_message_chunk")
            .map(|f| f["params"]["update"]["content"]["text"].as_str().unwrap())
            .collect();
        assert_eq!(said, "I push.Done.", "no session hears of another");
    }
}

#[test]
fn a_flood_of_bad_frames_is_answered_frame_by_frame_and_costs_no_memory() {
    const FRAMES: usize = 10_000;
    let world = git(says("allow", json!({})), json!({}), push());
    let mut client = Client::new(&world, &[]);
    let session = client.session(json!([]));
    let before = resident(&client);
    client.raw("{\"broken\n".repeat(FRAMES).as_bytes());
    assert_eq!(client.prompt(&session, "go"), "end_turn");
    let errors = client.seen.iter().filter(|f| f["error"]["code"] == -32_700).count();
    assert_eq!(errors, FRAMES);
    let grown = resident(&client).saturating_sub(before);
    assert!(grown < 100_000, "{grown} KB");
}

#[test]
fn a_client_that_asks_without_reading_is_not_read_on_and_gets_every_answer_when_it_reads() {
    const ASKED: usize = 8_000;
    let world = git(says("allow", json!({})), json!({}), push());
    let mut client = Client::new(&world, &[]);
    let session = client.session(json!([]));
    for _ in 0..4 {
        client.session(json!([]));
    }
    client.deaf(true);
    let frame = |n| json!({"jsonrpc": "2.0", "id": format!("f{n}"), "method": "session/list", "params": {}});
    let frames: String = (0..ASKED).map(|n| format!("{}\n", frame(n))).collect();
    let writing = client.write_aside(frames.into_bytes());
    std::thread::sleep(Duration::from_secs(4));
    assert!(!writing.is_finished(), "all was read, so all answers are kept");
    client.deaf(false);
    client.take_back(writing);
    assert_eq!(client.prompt(&session, "go"), "end_turn");
    client.close().code(0);
    assert_eq!(client.seen.iter().filter(|f| f["result"]["sessions"].is_array()).count(), ASKED);
}

#[test]
fn a_client_that_stops_reading_costs_bounded_memory_and_reads_on_where_it_stopped() {
    let words = 8_000;
    let world = World::with(crate::support::Plugin::new("p").turns(json!([{"say": "word ".repeat(words)}])));
    let mut client = Client::new(&world, &[]);
    let (one, two) = (client.session(json!([])), client.session(json!([])));
    client.deaf(true);
    let prompts = [client.begin(&one, "go"), client.begin(&two, "go")];
    // The jobs go on to their ends, unread.
    eventually("both jobs are over", || {
        let listed = world.call(&["jobs", "list", "--db", "jobs.db", "--output", "json"]);
        let listed = listed.status.success().then(|| listed.json())?;
        let jobs = listed["jobs"].as_array()?;
        (jobs.len() == 2 && jobs.iter().all(|j| j["status"] == "completed")).then_some(())
    });
    let held = resident(&client);
    assert!(held < 250_000, "{held} KB");
    client.deaf(false);
    for prompt in prompts {
        if !client.seen.iter().any(|f| f["id"] == prompt && f.get("result").is_some()) {
            assert_eq!(client.result(prompt)["stopReason"], "end_turn");
        }
    }
    assert_eq!(client.said().len(), 2 * "word ".len() * words);
    client.close().code(0);
}

#[test]
fn a_client_that_never_reads_again_does_not_keep_the_process_alive() {
    let world = World::with(crate::support::Plugin::new("p").turns(json!([{"say": "word ".repeat(8_000)}])));
    let mut client = Client::new(&world, &[]);
    let session = client.session(json!([]));
    client.deaf(true);
    client.begin(&session, "go");
    std::thread::sleep(Duration::from_secs(1));
    client.close();
    let listed = world.call(&["jobs", "list", "--db", "jobs.db", "--output", "json"]).code(0).json();
    assert_ne!(listed["jobs"][0]["status"], "running");
}

#[test]
fn a_job_with_a_clients_own_servers_is_not_resumed_without_them() {
    let world = World::new();
    let turns = json!({"turns": [{"call": {"tool": "notes.add", "with": {}}}, {"say": "Done."}]});
    world.write("script.yaml", turns.to_string());
    let notes = server(&world, "notes", json!({"tools": [function("add", json!({"sleep_ms": 60_000}))]}));
    let mut client = Client::new(&world, &["--model", "script/script.yaml"]);
    let session = client.session(json!([notes]));
    client.begin(&session, "go");
    eventually("the call is under way", || (!world.calls("notes").is_empty()).then_some(()));
    client.signal(Signal::KILL);
    drop(client);
    let job = jobs(&world).remove(0);
    let refused = world.call(&["jobs", "resume", &job, "--db", "jobs.db"]).code(1);
    for part in ["servers of its ACP client", "notes", "session/load"] {
        assert!(refused.err.contains(part), "{part}: {refused}");
    }
    let all = world.call(&["jobs", "resume", "--all", "--db", "jobs.db"]);
    assert!(all.err.contains("servers of its ACP client"), "{all}");
    let listed = world.call(&["jobs", "list", "--db", "jobs.db", "--output", "json"]).code(0).json();
    assert_eq!(listed["jobs"][0]["status"], "running", "it is left to its session");
    let mut client = Client::new(&world, &["--model", "script/script.yaml"]);
    client.call("session/load", json!({"sessionId": session, "cwd": "/", "mcpServers": []}));
    let notice = client
        .updates("notice")
        .into_iter()
        .find(|n| n["title"].as_str().unwrap().starts_with("The prompt before"))
        .unwrap();
    assert!(!notice["description"].as_str().unwrap().contains("jobs resume"), "{notice:#}");
    assert_eq!(client.prompt(&session, "and?"), "end_turn");
}

#[test]
fn jobs_of_a_session_read_well_on_the_command_line() {
    let world = git(says("escalate", json!({"reason": "a push to main"})), json!({}), push());
    let mut client = Client::new(&world, &["--as", "Ada"]);
    let session = client.session(json!([]));
    let prompt = client.begin(&session, "Push it.");
    let question = client.question();
    client.choose(&question, "allow_once");
    client.result(prompt);
    assert_eq!(client.prompt(&session, "and again?"), "end_turn");
    client.close().code(0);
    let jobs = jobs(&world);
    let listed = world.call(&["jobs", "list", "--db", "jobs.db"]).code(0);
    assert!(jobs.iter().all(|job| listed.out.contains(&job[..8])), "{listed}");
    let shown = world.call(&["jobs", "show", &jobs[1], "--db", "jobs.db"]).code(0);
    for part in [session.as_str(), &jobs[0], "door        acp", "continues   job_"] {
        assert!(shown.out.contains(part), "{part}: {shown}");
    }
    let shown = world.call(&["jobs", "show", &jobs[1], "--db", "jobs.db", "--output", "json"]).code(0).json();
    assert_eq!((&shown["session"], &shown["continues"]), (&json!(session), &json!(jobs[0])));
    let told = world.call(&["jobs", "history", &jobs[0], "--db", "jobs.db"]).code(0);
    assert!(told.out.contains("Ada") && told.out.contains("answered in test-client"), "{told}");
    world.call(&["audit", "verify", "--db", "jobs.db"]).code(0);
}
