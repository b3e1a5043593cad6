//! Tenants: what is one's own, and what nobody else reaches.

mod attacks;
mod bridges;
mod limits;
mod reload;
mod run_as;

use crate::support::{Finished, Running, World, eventually, function, says};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::process::Stdio;

/// A plugin in a folder of this name. Its tools, hook and agent are called the same in each: only the folder differs. What its servers get
/// stands in logs that are named after the folder: `world.calls("one-policy")`.
fn plugin(world: &World, folder: &str, check: Value, hook: Value, turns: Value) {
    let bin = hookwright_testkit::bins::bin("scripted-mcp");
    let server = |tool: &str, functions: Value| {
        let script = json!({"log": world.path(&format!("{folder}-{tool}.log")), "tools": functions});
        json!({"id": tool, "mcp": [bin, world.write(&format!("{folder}/{tool}.json"), script.to_string())]})
    };
    let policy = server("policy", json!([function("check", check)]));
    let git = server("git", json!([function("push", json!([{"text": format!("pushed by {folder}")}]))]));
    let mut on = json!({"on": "pre_tool_call", "call": "policy.check", "timeout": "20s"});
    on.as_object_mut().unwrap().extend(hook.as_object().unwrap().clone());
    let manifest = json!({
        "id": folder,
        "tools": [policy, git],
        "hooks": [on],
        "agents": [{"id": "worker", "model": "script/script.yaml"}],
    });
    world.write(&format!("{folder}/plugin.yaml"), manifest.to_string());
    world.write(&format!("{folder}/script.yaml"), json!({"turns": turns}).to_string());
}

fn allow() -> Value {
    says("allow", json!({}))
}

fn escalate() -> Value {
    says("escalate", json!({"reason": "a push"}))
}

/// One call, and then an end.
fn pushes() -> Value {
    json!([{"call": {"tool": "git.push"}}, {"say": "done"}])
}

/// A configuration, as its user trusts it.
fn configure(world: &World, tenants: Value) {
    write(world, tenants);
    world.call(&["trust"]).code(0);
}

/// A configuration that is not trusted, or can't be: it has to be named.
fn write(world: &World, tenants: Value) {
    world.write("hookwright.yaml", json!({"store": "jobs.db", "tenants": tenants}).to_string());
}

/// What names it.
const NAMED: [&str; 2] = ["--config", "hookwright.yaml"];

/// The tenants `a` and `b`, with the plugins `one` and `two`.
fn two(a: Value, b: Value) -> World {
    let world = World::new();
    plugin(&world, "one", a, json!({}), pushes());
    plugin(&world, "two", b, json!({}), pushes());
    configure(&world, json!([{"id": "a", "plugins": ["one"]}, {"id": "b", "plugins": ["two"]}]));
    world
}

/// Runs a job of a tenant's agent.
fn run(world: &World, tenant: &str, more: &[&str]) -> Finished {
    world.call(&[&["run", "--tenant", tenant, "--input", "Do it.", "--output", "json"], more].concat())
}

/// A job of a tenant that waits for a person, and what it waits for.
fn waiting(world: &World, tenant: &str) -> (String, String) {
    let result = run(world, tenant, &["--detach"]).code(4).json();
    (result["job"].as_str().unwrap().to_owned(), result["approvals"][0].as_str().unwrap().to_owned())
}

fn serve(world: &World, flags: &[&str]) -> Running {
    let node = Running::start(world.hookwright(&[&["serve"], flags].concat()));
    let pid = node.pid();
    eventually("the node answers", || (status(world)["node"]["pid"] == pid).then_some(()));
    node
}

fn status(world: &World) -> Value {
    world.call(&["status", "--db", "jobs.db", "--output", "json"]).json()
}

fn stop(world: &World, node: Running) -> Finished {
    world.call(&["stop", "--db", "jobs.db"]).code(0);
    node.finish().code(0)
}

/// How a job stands.
fn stands(world: &World, job: &str) -> String {
    let shown = world.call(&["jobs", "show", job, "--output", "json"]).code(0).json();
    shown["status"].as_str().unwrap().to_owned()
}

/// What Claude Code is answered to a call of its own in a conversation.
fn bridge(world: &World, tenant: &[&str], conversation: &str, event: &str) -> Value {
    let mut command = world.hookwright(&[&["bridge", "claude-code", event, "--db", "jobs.db"], tenant].concat());
    command.stdin(Stdio::piped());
    let mut running = Running::start(command);
    let payload = json!({
        "session_id": conversation, "hook_event_name": event, "cwd": world.path("home"), "transcript_path": "",
        "tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": format!("toolu_{conversation}"),
    });
    running.stdin().unwrap().write_all(payload.to_string().as_bytes()).unwrap();
    let done = running.finish();
    serde_json::from_str(&done.out).unwrap_or_else(|e| panic!("{e}\n{done}"))
}

/// Whether Claude Code may make its call.
fn lets(world: &World, tenant: &[&str], conversation: &str) -> bool {
    let answer = bridge(world, tenant, conversation, "PreToolUse");
    match answer["hookSpecificOutput"]["permissionDecision"].as_str() {
        Some("deny") => false,
        None | Some("allow") => true,
        other => panic!("{other:?} {answer}"),
    }
}

/// One line to the node's socket, and its answer.
fn says_to_node(world: &World, request: &Value) -> Value {
    let socket = status(world)["node"]["socket"].as_str().unwrap().to_owned();
    let mut stream = UnixStream::connect(socket).unwrap();
    writeln!(stream, "{request}").unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap()
}
