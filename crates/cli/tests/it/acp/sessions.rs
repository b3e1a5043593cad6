//! Sessions: listed, loaded, resumed, closed, deleted; their conversation goes on over prompts and processes.

use super::client::Client;
use super::{git, push};
use crate::support::{World, says};
use serde_json::{Value, json};

fn world() -> World {
    git(says("allow", json!({})), json!({}), push())
}

fn ids(list: &Value) -> Vec<String> {
    list["sessions"].as_array().unwrap().iter().map(|s| s["sessionId"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_session_goes_on_in_another_process_with_its_conversation() {
    let world = world();
    let mut client = Client::new(&world, &[]);
    let session = client.session(json!([]));
    assert_eq!(client.prompt(&session, "Push it."), "end_turn");
    client.close().code(0);

    // The script's third turn fits only behind the two of the first prompt.
    let mut client = Client::new(&world, &[]);
    client.call("session/load", json!({"sessionId": session, "cwd": "/", "mcpServers": []}));
    let told: Vec<Value> = client
        .seen
        .iter()
        .map(|f| f["params"]["update"].clone())
        .filter(|u| u.is_object() && u["sessionUpdate"] != "notice")
        .collect();
    let brief: Vec<_> = told
        .iter()
        .map(|u| {
            let text = u["content"]["text"].as_str().or_else(|| u["content"][0]["content"]["text"].as_str());
            (u["sessionUpdate"].as_str().unwrap(), text.unwrap_or_default(), u["status"].as_str().unwrap_or_default())
        })
        .collect();
    assert_eq!(
        brief,
        [
            ("user_message_chunk", "Push it.", ""),
            ("agent_message_chunk", "I push.", ""),
            ("tool_call", "pushed", "completed"),
            ("agent_message_chunk", "Done.", ""),
        ]
    );
    assert_eq!(client.prompt(&session, "and again?"), "end_turn");
    assert!(client.said().ends_with("No."), "{}", client.said());
    client.close().code(0);

    let jobs = world.call(&["jobs", "list", "--db", "jobs.db", "--output", "json"]).code(0).json();
    let jobs: Vec<&str> = jobs["jobs"].as_array().unwrap().iter().map(|j| j["job"].as_str().unwrap()).collect();
    assert_eq!(jobs.len(), 2);
    for job in &jobs {
        world.call(&["replay", job, "--db", "jobs.db"]).code(0);
    }
    let records = world.call(&["jobs", "history", jobs[0], "--db", "jobs.db", "--output", "json"]).code(0).json();
    let continues = &records["history"][0]["spec"]["continues"];
    assert_eq!((&continues["job"], &continues["messages"]), (&json!(jobs[1]), &json!(4)));
}

#[test]
fn resume_tells_nothing_and_goes_on() {
    let world = world();
    let mut client = Client::new(&world, &[]);
    let session = client.session(json!([]));
    client.prompt(&session, "Push it.");
    client.call("session/close", json!({"sessionId": session}));
    assert_eq!(
        client.error("session/prompt", json!({"sessionId": session, "prompt": [{"type": "text", "text": "x"}]})).0,
        -32_002
    );
    let before = client.seen.len();
    client.call("session/resume", json!({"sessionId": session, "cwd": "/tmp", "mcpServers": []}));
    assert_eq!(client.seen.len(), before + 1, "the response alone");
    assert_eq!(client.prompt(&session, "and again?"), "end_turn");
}

#[test]
fn what_was_chosen_for_a_session_is_kept_with_it() {
    let world = world();
    let mut client = Client::new(&world, &[]);
    let session = client.session(json!([]));
    client.call("session/set_mode", json!({"sessionId": session, "modeId": "deny"}));
    client.close().code(0);
    let mut client = Client::new(&world, &[]);
    let loaded = client.call("session/load", json!({"sessionId": session, "cwd": "/", "mcpServers": []}));
    assert_eq!(loaded["modes"]["currentModeId"], "deny");
    assert_eq!(loaded["configOptions"][1]["currentValue"], "script/script.yaml");
}

#[test]
fn sessions_are_listed_newest_first_by_folder_in_pages() {
    let world = world();
    let mut client = Client::new(&world, &[]);
    let mut made = vec![];
    for n in 0..53 {
        let cwd = if n == 0 { "/a" } else { "/b" };
        let new = client.call("session/new", json!({"cwd": cwd, "mcpServers": []}));
        made.push(new["sessionId"].as_str().unwrap().to_owned());
    }
    client.prompt(&made[0], "  \n First line\u{7}\nsecond");
    let all = client.call("session/list", json!({}));
    let first = &all["sessions"][0];
    assert_eq!(
        (&first["sessionId"], &first["title"], &first["cwd"]),
        (&json!(made[0]), &json!("First line\\u{7}"), &json!("/a"))
    );
    assert!(first["updatedAt"].as_str().unwrap().ends_with('Z'));
    let next = client.call("session/list", json!({"cursor": all["nextCursor"]}));
    assert!(next.get("nextCursor").is_none());
    let mut seen = [ids(&all), ids(&next)].concat();
    assert_eq!(seen.len(), 53);
    seen.sort();
    made.sort();
    assert_eq!(seen, made);
    assert_eq!(ids(&client.call("session/list", json!({"cwd": "/a"}))).len(), 1);
    assert_eq!(client.error("session/list", json!({"cursor": "x"})).0, -32_602);
}

#[test]
fn a_deleted_session_is_gone_with_what_was_said_and_its_histories_still_verify() {
    let world = world();
    let mut client = Client::new(&world, &[]);
    let session = client.session(json!([]));
    client.prompt(&session, "The password is hunter2.");
    client.call("session/delete", json!({"sessionId": session}));
    client.call("session/delete", json!({"sessionId": session}));
    assert_eq!(ids(&client.call("session/list", json!({}))), Vec::<String>::new());
    assert_eq!(client.error("session/load", json!({"sessionId": session, "cwd": "/", "mcpServers": []})).0, -32_002);
    client.close().code(0);
    world.call(&["audit", "verify", "--db", "jobs.db"]).code(0);
    for name in ["jobs.db", "jobs.db-wal"] {
        let bytes = std::fs::read(world.path(name)).unwrap_or_default();
        assert!(!bytes.windows(7).any(|w| w == b"hunter2"), "{name}");
    }
}

#[test]
fn a_session_that_runs_is_cancelled_before_it_is_closed_or_deleted() {
    let world = git(says("escalate", json!({"reason": "r"})), json!({}), push());
    let mut client = Client::new(&world, &[]);
    for method in ["session/close", "session/delete"] {
        let session = client.session(json!([]));
        let prompt = client.begin(&session, "go");
        client.question();
        let end = client.send(method, json!({"sessionId": session}));
        assert_eq!(client.result(prompt)["stopReason"], "cancelled", "{method}");
        client.result(end);
    }
}

#[test]
fn a_forgotten_job_of_a_session_leaves_a_gap_that_says_so() {
    let world = world();
    let mut client = Client::new(&world, &[]);
    let session = client.session(json!([]));
    client.prompt(&session, "Push it.");
    client.close().code(0);
    let jobs = world.call(&["jobs", "list", "--db", "jobs.db", "--output", "json"]).code(0).json();
    let job = jobs["jobs"][0]["job"].as_str().unwrap();
    world.call(&["jobs", "forget", job, "--db", "jobs.db"]).code(0);
    let mut client = Client::new(&world, &[]);
    client.call("session/load", json!({"sessionId": session, "cwd": "/", "mcpServers": []}));
    assert_eq!(client.updates("user_message_chunk")[0]["content"]["text"], "[deleted]");
    assert_eq!(client.prompt(&session, "and again?"), "end_turn");
}

#[test]
fn an_idle_session_costs_less_than_100_kb() {
    const SESSIONS: u64 = 300;
    let world = world();
    let mut client = Client::new(&world, &[]);
    for _ in 0..20 {
        client.session(json!([]));
    }
    let before = resident(client.pid());
    for _ in 0..SESSIONS {
        client.session(json!([]));
    }
    let each = resident(client.pid()).saturating_sub(before) / SESSIONS;
    assert!(each < 100, "{each} KB");
}

/// Kilobytes that a process holds.
fn resident(pid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
