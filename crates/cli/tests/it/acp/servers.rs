//! Servers that the client brings, and those that each session has for itself.

use super::client::{Client, server};
use super::{git, push};
use crate::support::{Plugin, World, eventually, function, lives, says};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

fn echo() -> Value {
    json!({"tools": [function("add", json!({"text": "added"}))]})
}

#[test]
fn eight_servers_that_take_a_second_start_side_by_side() {
    let world = git(says("allow", json!({})), json!({}), push());
    let mut client = Client::new(&world, &[]);
    let slow = |n: usize| {
        let mut script = echo();
        script["start"] = json!([{"sleep_ms": 1_000}]);
        server(&world, &format!("slow{n}"), script)
    };
    let servers: Vec<Value> = (0..8).map(slow).collect();
    let start = Instant::now();
    let made = client.call("session/new", json!({"cwd": "/tmp", "mcpServers": servers}));
    // One after the other it would be eight seconds; the machine may be busy.
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
    assert_eq!(made["_meta"]["hookwright"]["servers"].as_array().unwrap().len(), 8);
}

#[test]
fn a_bad_server_degrades_the_session_visibly_and_does_not_fail_it() {
    let world = World::with(
        Plugin::new("p")
            .server("git", json!([function("push", json!({"text": "pushed"}))]))
            .agent(json!({"tools": ["git"]}))
            .turns(push()),
    );
    let mut client = Client::new(&world, &[]);
    let servers = json!([
        {"name": "nothing", "command": "/no/such/program", "args": [], "env": []},
        server(&world, "dies", json!({"start": [{"exit": 3}]})),
        {"type": "sse", "name": "old", "url": "http://127.0.0.1:1/sse", "headers": []},
        {"type": "http", "name": "far", "url": "http://127.0.0.1:1/mcp", "headers": [{"name": "Authorization", "value": "Bearer s3cr3t-t0ken"}]},
        server(&world, "good", echo()),
    ]);
    let made = client.call("session/new", json!({"cwd": "/tmp", "mcpServers": servers}));
    let states: Vec<_> = made["_meta"]["hookwright"]["servers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| s["state"].as_str().unwrap())
        .collect();
    assert_eq!((states[0], states[1], states[2], states[4]), ("failed", "failed", "failed", "ready"), "{made:#}");
    let session = made["sessionId"].as_str().unwrap().to_owned();
    assert_eq!(client.prompt(&session, "go"), "end_turn");
    let notices = client.notices();
    for name in ["nothing", "dies", "old"] {
        assert!(notices.iter().any(|n| *n == format!("The MCP server {name} can't be used")), "{notices:?}");
    }
    client.close().code(0);
    let all = client.seen.iter().map(Value::to_string).collect::<String>();
    assert!(!all.contains("s3cr3t"), "a secret of the client's comes back");
    let db = std::fs::read(world.path("jobs.db")).unwrap();
    assert!(!db.windows(6).any(|w| w == b"s3cr3t"), "a secret of the client's is stored");
}

#[test]
fn servers_of_sessions_are_their_own_and_end_with_them() {
    let world = git(says("allow", json!({})), json!({}), push());
    let mut client = Client::new(&world, &[]);
    let with_pid = |n: usize| {
        let mut script = echo();
        script["start"] = json!([{"write_pid": world.path(&format!("pid{n}"))}]);
        server(&world, &format!("todo{n}"), script)
    };
    let (one, two) = (client.session(json!([with_pid(1)])), client.session(json!([with_pid(2)])));
    let pid =
        |n: usize| -> i32 { std::fs::read_to_string(world.path(&format!("pid{n}"))).unwrap().trim().parse().unwrap() };
    let (first, second) = (pid(1), pid(2));
    client.call("session/close", json!({"sessionId": one}));
    assert!(!lives(first) && lives(second));
    client.call("session/delete", json!({"sessionId": two}));
    eventually("the second is gone", || (!lives(second)).then_some(()));
}

#[test]
fn a_client_that_leaves_while_its_session_is_opened_leaves_no_server_behind() {
    let world = git(says("allow", json!({})), json!({}), push());
    let mut client = Client::new(&world, &[]);
    let mut script = echo();
    script["start"] = json!([{"write_pid": world.path("pid")}, {"sleep_ms": 1_000}]);
    client.send("session/new", json!({"cwd": "/tmp", "mcpServers": [server(&world, "slow", script)]}));
    let pid = eventually("the server starts", || std::fs::read_to_string(world.path("pid")).ok()?.trim().parse().ok());
    client.close().code(0);
    assert!(!lives(pid));
}

#[test]
fn a_clients_server_can_t_pose_as_a_plugins_and_hooks_that_name_it_match_it() {
    let world = git(
        says("deny", json!({"reason": "no"})),
        json!({}),
        json!([
            {"call": {"tool": "git-2.push", "with": {"branch": "main"}}}, {"say": "Done."},
        ]),
    );
    let mut client = Client::new(&world, &[]);
    let session =
        client.session(json!([server(&world, "git", json!({"tools": [function("push", json!({"text": "mine"}))]}))]));
    assert_eq!(client.prompt(&session, "go"), "end_turn");
    let last = client.updates("tool_call_update").pop().unwrap();
    let text = last["content"][0]["content"]["text"].as_str().unwrap();
    assert!(text.starts_with("The call to git-2.push was not made: hook policy.check denied it"), "{text}");
}

#[test]
fn a_clients_server_starts_in_the_sessions_folder_with_its_own_variables_alone() {
    let world = git(says("allow", json!({})), json!({}), push());
    let dump = world.path("env.txt");
    let mut script = echo();
    script["start"] = json!([{"dump_env": dump}]);
    let mut own = server(&world, "todo", script);
    own["env"] = json!([{"name": "LIST_TOKEN", "value": "t0k3n-value"}, {"name": "MODE", "value": "x"}]);
    let mut client = Client::start_in(&world, &[], &[("ANTHROPIC_API_KEY", "sk-not-for-servers")]);
    client.hello();
    let cwd = world.path("home");
    client.call("session/new", json!({"cwd": cwd, "mcpServers": [own]}));
    let env = std::fs::read_to_string(dump).unwrap();
    for part in ["LIST_TOKEN=t0k3n-value", "MODE=x", "PATH=", &format!("cwd={}", cwd.canonicalize().unwrap().display())]
    {
        assert!(env.contains(part), "{part}: {env}");
    }
    assert!(!env.contains("sk-not-for-servers"));
}

#[test]
fn a_prompt_that_waits_for_a_clients_server_says_so() {
    let world = World::new();
    world.write("script.yaml", json!({"turns": [{"say": "hello"}]}).to_string());
    let mut client = Client::new(&world, &["--model", "script/script.yaml"]);
    let mut script = echo();
    script["start"] = json!([{"sleep_ms": 8_000}]);
    let session = client.session(json!([server(&world, "slow", script)]));
    assert_eq!(client.prompt(&session, "go"), "end_turn");
    let title = "The MCP server slow is still starting: the model's turn waits for it";
    assert!(client.notices().iter().any(|n| n == title), "{:?}", client.notices());
}

#[test]
fn servers_beyond_the_limit_are_told_of() {
    let world = git(says("allow", json!({})), json!({}), push());
    let mut client = Client::new(&world, &[]);
    let servers: Vec<Value> = (0..103)
        .map(|n| json!({"type": "sse", "name": format!("s{n}"), "url": "http://127.0.0.1:1/sse", "headers": []}))
        .collect();
    client.call("session/new", json!({"cwd": "/tmp", "mcpServers": servers}));
    let told = client.until("a warning", |f| f["params"]["update"]["title"] == "The session's servers");
    let text = told["params"]["update"]["description"].as_str().unwrap();
    assert!(text.contains("the last 3 of them are left out"), "{text}");
}

#[test]
fn what_a_client_gives_a_server_is_in_no_error_that_anybody_is_told() {
    let plugin = Plugin::new("p").turns(json!([
        {"call": {"tool": "mine.fail", "with": {}}}, {"expect": "bad [client's TOKEN]", "say": "done"}
    ]));
    let world = World::with(plugin);
    let mut client = Client::new(&world, &[]);
    let failing = function("fail", json!({"error": {"code": -1, "message": "bad s3cr3t-value"}}));
    let mut mine = server(&world, "mine", json!({ "tools": [failing] }));
    mine["env"] = json!([{"name": "TOKEN", "value": "s3cr3t-value"}]);
    let session = client.session(json!([mine]));
    assert_eq!(client.prompt(&session, "go"), "end_turn");
    assert!(!client.seen.iter().any(|frame| frame.to_string().contains("s3cr3t")), "{:#?}", client.seen);
    client.close().code(0);
    let db = std::fs::read(world.path("jobs.db")).unwrap();
    assert!(!db.windows(6).any(|bytes| bytes == b"s3cr3t"), "it stands in the store");
}
