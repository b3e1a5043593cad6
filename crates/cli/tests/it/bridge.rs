//! `hookwright bridge` with a real node: what Claude Code would ask, and what it would be told.

use crate::node::serve_plugins;
use crate::support::{Finished, Plugin, Running, World, function, says};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::process::Stdio;

const SESSION: &str = "1a0d5892-2547-4685-9665-ca7390a37e6f";

/// A policy that answers so before calls.
fn world(check: Value) -> World {
    World::with(
        Plugin::new("p")
            .server("policy", json!([function("check", check)]))
            .hook(json!({"on": "pre_tool_call", "call": "policy.check", "timeout": "30s"})),
    )
}

fn killed(node: Running) {
    node.signal(Signal::KILL);
    drop(node);
}

/// One event of a conversation.
fn event(world: &World, name: &str, keys: &Value, flags: &[&str]) -> Finished {
    let mut payload = json!({
        "session_id": SESSION, "prompt_id": "4fc6888b", "transcript_path": "/dev/null", "cwd": world.path(""),
        "permission_mode": "default", "hook_event_name": name,
    });
    payload.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
    let file = world.write("payload.json", payload.to_string());
    let mut command = world.hookwright(&[&["bridge", "claude-code", name, "--db", "jobs.db"], flags].concat());
    command.stdin(Stdio::from(std::fs::File::open(file).unwrap()));
    Running::start(command).finish()
}

#[test]
fn a_line_of_another_version_gets_one_answer_and_it_is_the_events_no() {
    let world = World::new();
    for (harness, name) in
        [("claude-code", "PostToolUse"), ("codex", "PostToolUse"), ("copilot-cli", "userPromptSubmitted")]
    {
        let mut command = world.hookwright(&["bridge", harness, name, "--db", "jobs.db", "--of-tomorrow"]);
        command.stdin(Stdio::null());
        // Code 0: the line that `install` wrote adds its own no where it is another.
        let said = Running::start(command).finish().code(0).json();
        assert!(said.to_string().contains("--of-tomorrow"), "{harness}: {said}");
    }
    let mut command = world.hookwright(&["bridge", "claude-code", "PreToolUse", "--db", "jobs.db", "--of-tomorrow"]);
    command.stdin(Stdio::null());
    Running::start(command).finish().code(2);
}

fn prompt(world: &World) {
    let allowed = event(world, "UserPromptSubmit", &json!({"prompt": "Do it."}), &[]).code(0);
    assert_eq!(allowed.json(), json!({}));
}

fn call(id: &str, command: &str) -> Value {
    json!({"tool_name": "Bash", "tool_input": {"command": command}, "tool_use_id": id})
}

fn before(world: &World, id: &str, command: &str, flags: &[&str]) -> Value {
    event(world, "PreToolUse", &call(id, command), flags).json()
}

/// What is told of a call that was made.
fn after(world: &World, id: &str, command: &str) -> Value {
    let mut keys = call(id, command);
    keys["tool_response"] = json!({"stdout": "", "stderr": "", "interrupted": false, "isImage": false});
    event(world, "PostToolUse", &keys, &[]).json()
}

fn stop(world: &World) -> Value {
    event(world, "Stop", &json!({"stop_hook_active": false, "last_assistant_message": "DONE"}), &[]).json()
}

fn jobs(world: &World) -> Vec<Value> {
    let listed = world.call(&["jobs", "list", "--db", "jobs.db", "--output", "json"]).code(0);
    listed.json()["jobs"].as_array().unwrap().clone()
}

fn reason(said: &Value) -> String {
    let said = &said["hookSpecificOutput"];
    assert_eq!(said["permissionDecision"], "deny", "{said}");
    said["permissionDecisionReason"].as_str().unwrap().to_owned()
}

#[test]
fn a_job_goes_on_where_its_node_was_killed_between_two_events() {
    let world = world(says("allow", json!({})));
    let node = serve_plugins(&world);
    prompt(&world);
    assert_eq!(before(&world, "toolu_1", "ls", &[]), json!({}));
    let mut below = call("toolu_s", "find");
    below["agent_id"] = json!("s1");
    below["agent_type"] = json!("Explore");
    assert_eq!(event(&world, "PreToolUse", &below, &[]).json(), json!({}));
    killed(node);
    // Nobody is there: nothing goes through.
    assert!(reason(&before(&world, "toolu_2", "rm x", &[])).contains("no node"));
    let _node = serve_plugins(&world);
    assert_eq!(after(&world, "toolu_1", "ls"), json!({}), "the call that was allowed before has its end");
    below["tool_response"] = json!({"stdout": "", "stderr": "", "interrupted": false, "isImage": false});
    assert_eq!(event(&world, "PostToolUse", &below, &[]).json(), json!({}), "a subagent's too");
    assert_eq!(before(&world, "toolu_3", "pwd", &[]), json!({}));
    assert_eq!(after(&world, "toolu_3", "pwd"), json!({}));
    assert_eq!(stop(&world), json!({}));
    let (below, all): (Vec<Value>, Vec<Value>) =
        jobs(&world).into_iter().partition(|job| job["parent_job"].is_string());
    assert_eq!((all.len(), below.len()), (1, 1), "{all:#?} {below:#?}");
    assert_eq!((&all[0]["status"], &all[0]["agent"]), (&json!("completed"), &json!("claude-code")));
    let job = all[0]["job"].as_str().unwrap();
    let history = world.call(&["jobs", "history", job, "--db", "jobs.db"]).code(0);
    let asked = world.calls("policy").len();
    assert_eq!(asked, 3, "nothing was asked again\n{history}");
    world.call(&["replay", job, "--db", "jobs.db"]).code(0);
    world.call(&["audit", "verify", "--db", "jobs.db"]).code(0);
    // The next prompt is the next job.
    prompt(&world);
    assert_eq!(jobs(&world).len(), 3);
}

#[test]
fn a_question_that_was_open_when_the_node_was_killed_is_answered_to_the_same_call_once() {
    let world = world(says("escalate", json!({"reason": "a push"})));
    let node = serve_plugins(&world);
    prompt(&world);
    let left = reason(&before(&world, "toolu_1", "git push", &["--deadline", "3"]));
    let approval = world.open_approval();
    assert!(left.contains(&approval), "{left}");
    killed(node);
    let _node = serve_plugins(&world);
    let again = reason(&before(&world, "toolu_2", "git push", &["--deadline", "3"]));
    assert!(again.contains(&approval), "the same question: {again}");
    world.call(&["approvals", "approve", &approval, "--db", "jobs.db", "--as", "Ada"]).code(0);
    assert_eq!(before(&world, "toolu_3", "git push", &[]), json!({}), "the yes lets it through");
    assert_eq!(after(&world, "toolu_3", "git push"), json!({}));
    let next = reason(&before(&world, "toolu_4", "git push", &["--deadline", "3"]));
    assert!(next.contains("ap_") && !next.contains(&approval), "once: {next}");
    assert_eq!(jobs(&world).len(), 1);
}

#[test]
fn a_conversation_without_a_job_and_another_one_take_nothing_up() {
    let world = world(says("allow", json!({})));
    let node = serve_plugins(&world);
    prompt(&world);
    killed(node);
    let _node = serve_plugins(&world);
    let other = json!({"session_id": "another", "tool_name": "Bash", "tool_input": {}, "tool_use_id": "toolu_9"});
    assert_eq!(event(&world, "PreToolUse", &other, &[]).json(), json!({}));
    assert_eq!(jobs(&world).len(), 2, "a job of its own");
    // The end of the conversation ends its job too, though it was begun elsewhere.
    event(&world, "SessionEnd", &json!({"reason": "exit"}), &[]).code(0);
    let mut statuses: Vec<Value> = jobs(&world).into_iter().map(|job| job["status"].clone()).collect();
    statuses.sort_by_key(ToString::to_string);
    assert_eq!(statuses, ["completed", "running"]);
}

#[test]
fn what_hooks_escalate_is_asked_in_the_harness_and_the_history_says_what_is_known_of_it() {
    let check = json!({"cases": [
        {"when": {"/event/arguments/command": "ls"}, "then": [says("modify", json!({"arguments": {"command": "ls -l"}}))]},
        {"when": {}, "then": [says("allow", json!({}))]},
    ]});
    let world = World::with(
        Plugin::new("p")
            .server("policy", json!([function("check", check)]))
            .server("second", json!([function("check", says("escalate", json!({"reason": "a “shell”"})))]))
            .hook(json!({"on": "pre_tool_call", "call": "policy.check", "timeout": "30s"}))
            .hook(json!({"on": "pre_tool_call", "call": "second.check", "timeout": "30s"})),
    );
    let _node = serve_plugins(&world);
    prompt(&world);
    let ask = ["--escalate", "ask"];
    let asked = before(&world, "toolu_1", "pwd", &ask);
    assert_eq!(
        asked["hookSpecificOutput"],
        json!({"hookEventName": "PreToolUse", "permissionDecision": "ask",
            "permissionDecisionReason": "Hook second.check asks for a person: a “shell”"})
    );
    assert_eq!(after(&world, "toolu_1", "pwd"), json!({}), "the person said yes");
    let changed = before(&world, "toolu_2", "ls", &ask);
    assert_eq!(changed["hookSpecificOutput"]["updatedInput"], json!({"command": "ls -l"}), "{changed}");
    assert_eq!(changed["hookSpecificOutput"]["permissionDecision"], "ask");
    // Nobody hears of a no. And where nobody may be asked, an approval is waited for.
    let mut bypassed = call("toolu_3", "rm x");
    bypassed["permission_mode"] = json!("bypassPermissions");
    let waits = event(&world, "PreToolUse", &bypassed, &["--escalate", "ask", "--deadline", "3"]).json();
    assert!(reason(&waits).contains("waits for a person (approval ap_"), "{waits}");
    assert_eq!(stop(&world), json!({}));
    let job = jobs(&world)[0]["job"].as_str().unwrap().to_owned();
    world.call(&["replay", &job, "--db", "jobs.db"]).code(0);
    let history = world.call(&["jobs", "history", &job, "--db", "jobs.db"]).code(0);
    assert!(history.out.contains("has the person there asked (second.check"), "{history}");
    let records = world.call(&["jobs", "history", &job, "--db", "jobs.db", "--output", "json"]).code(0).json();
    let let_calls = records["history"].as_array().unwrap().iter().filter(|r| r["command"]["do"] == "let_call");
    let asked: Vec<&Value> = let_calls.map(|r| &r["command"]["asked"][0]["hook"]).collect();
    assert_eq!(asked, [&json!("second.check"), &json!("second.check")], "{history}");
    world.call(&["audit", "verify", "--db", "jobs.db"]).code(0);
}

#[test]
fn a_harness_whose_prompt_hooks_cannot_reach_is_not_installed_with_it() {
    let world = World::new();
    for (harness, why) in [
        ("codex", "asks nobody"),
        ("gemini-cli", "was not seen to ask"),
        ("cursor", "but not to act on it"),
        ("opencode", "has no prompt"),
        ("cline", "has no prompt"),
        ("goose", "has no prompt"),
    ] {
        let refused = world.call(&["install", harness, "--escalate", "ask", "--dry-run"]).code(2);
        assert!(refused.err.contains(why), "{refused}");
    }
    for harness in ["claude-code", "claude-agent-sdk", "copilot-cli"] {
        let shown = world.call(&["install", harness, "--escalate", "ask", "--dry-run"]).code(0);
        assert!(shown.out.contains("--escalate ask"), "{shown}");
        let plain = world.call(&["install", harness, "--dry-run"]).code(0);
        assert!(!plain.out.contains("--escalate"), "{plain}");
    }
}
