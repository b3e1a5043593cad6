//! Conversations of harnesses with a real node: what a cancel, a killed bridge and calls without ends mean for them.

use crate::node::serve_plugins;
use crate::support::{Finished, Plugin, Running, World, eventually, function, says};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::process::{Command, Stdio};

/// A node of a policy that answers so at this moment.
fn node(on: &str, check: Value) -> (World, Running) {
    let policy = Plugin::new("p")
        .server("policy", json!([function("check", check)]))
        .hook(json!({"on": on, "call": "policy.check", "timeout": "30s"}));
    let world = World::with(policy);
    let node = serve_plugins(&world);
    (world, node)
}

fn bridge(world: &World, harness: &str, event: &str, payload: &Value, flags: &[&str]) -> Command {
    let file = world.write("payload.json", payload.to_string());
    let mut command = world.hookwright(&[&["bridge", harness, event, "--db", "jobs.db"], flags].concat());
    command.stdin(Stdio::from(std::fs::File::open(file).unwrap()));
    command
}

fn ask(world: &World, harness: &str, event: &str, payload: &Value) -> Finished {
    Running::start(bridge(world, harness, event, payload, &[])).finish()
}

/// A payload of Claude Code's, of a subagent where one is named.
fn claude_payload(event: &str, agent: Option<&str>, keys: &Value) -> Value {
    let mut payload = json!({
        "session_id": "ses", "prompt_id": "p", "transcript_path": "/dev/null", "cwd": "/tmp", "permission_mode": "default",
        "hook_event_name": event,
    });
    if let Some(agent) = agent {
        payload["agent_id"] = json!(agent);
        payload["agent_type"] = json!("Explore");
    }
    payload.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
    payload
}

fn claude(world: &World, event: &str, agent: Option<&str>, keys: &Value) -> Value {
    ask(world, "claude-code", event, &claude_payload(event, agent, keys)).json()
}

fn prompt(world: &World) {
    assert_eq!(claude(world, "UserPromptSubmit", None, &json!({"prompt": "Do it."})), json!({}));
}

fn bash(id: &str, command: &str) -> Value {
    json!({"tool_name": "Bash", "tool_input": {"command": command}, "tool_use_id": id})
}

fn before(world: &World, agent: Option<&str>, id: &str) -> Value {
    claude(world, "PreToolUse", agent, &bash(id, id))
}

fn is_no(said: &Value) -> bool {
    said["hookSpecificOutput"]["permissionDecision"] == "deny"
}

fn stop(world: &World, output: &str) -> Value {
    claude(world, "Stop", None, &json!({"stop_hook_active": false, "last_assistant_message": output}))
}

fn jobs(world: &World) -> Vec<Value> {
    let listed = world.call(&["jobs", "list", "--db", "jobs.db", "--output", "json"]).code(0);
    listed.json()["jobs"].as_array().unwrap().clone()
}

fn statuses(world: &World) -> Vec<String> {
    let mut all: Vec<_> = jobs(world).iter().map(|job| job["status"].as_str().unwrap().to_owned()).collect();
    all.sort();
    all
}

fn job_of(world: &World, status: &str) -> String {
    let all = jobs(world);
    let found = all.iter().find(|job| job["status"] == status).unwrap_or_else(|| panic!("{all:#?}"));
    found["job"].as_str().unwrap().to_owned()
}

fn history(world: &World, job: &str) -> Vec<Value> {
    let told = world.call(&["jobs", "history", job, "--db", "jobs.db", "--output", "json"]).code(0).json();
    told["history"].as_array().unwrap().clone()
}

#[test]
fn a_cancel_stops_the_subagents_too_and_no_new_one_begins() {
    let (world, _node) = node("pre_tool_call", says("allow", json!({})));
    prompt(&world);
    let main = job_of(&world, "running");
    assert_eq!(before(&world, Some("a1"), "t1"), json!({}));
    world.call(&["jobs", "cancel", &main, "--db", "jobs.db"]).code(0);
    eventually("both are over", || (statuses(&world) == ["cancelled", "cancelled"]).then_some(()));
    for (agent, id) in [(None, "t2"), (Some("a1"), "t3"), (Some("a2"), "t4")] {
        let said = before(&world, agent, id);
        assert!(is_no(&said), "{agent:?}: {said}");
    }
    assert_eq!(jobs(&world).len(), 2);
    // The next prompt is a new job.
    prompt(&world);
    assert_eq!(before(&world, Some("a2"), "t5"), json!({}));
}

#[test]
fn a_subagent_in_the_background_leaves_no_job_behind() {
    let (world, _node) = node("pre_tool_call", says("allow", json!({})));
    prompt(&world);
    assert_eq!(before(&world, Some("a1"), "t1"), json!({}));
    assert_eq!(stop(&world, "DONE"), json!({}));
    eventually("the subagent's job ends with its parent", || {
        (statuses(&world) == ["cancelled", "completed"]).then_some(())
    });
    // It goes on: below a job of its own.
    assert_eq!(before(&world, Some("a1"), "t2"), json!({}));
    claude(&world, "SessionEnd", None, &json!({"reason": "exit"}));
    eventually("nothing is left", || (!statuses(&world).contains(&"running".to_owned())).then_some(()));
}

#[test]
fn a_subagent_that_goes_on_after_its_stop_has_a_further_job() {
    let (world, _node) = node("pre_tool_call", says("allow", json!({})));
    prompt(&world);
    for id in ["t1", "t2", "t3"] {
        assert_eq!(before(&world, Some("a1"), id), json!({}), "{id}");
        let end = json!({"stop_hook_active": false, "last_assistant_message": "found"});
        assert_eq!(claude(&world, "SubagentStop", Some("a1"), &end), json!({}));
    }
    assert_eq!(statuses(&world), ["completed", "completed", "completed", "running"]);
}

#[test]
fn calls_whose_ends_are_never_told_lock_nothing() {
    let (world, _node) = node("pre_tool_call", says("allow", json!({})));
    prompt(&world);
    for n in 0..66 {
        assert_eq!(before(&world, None, &format!("t{n}")), json!({}), "{n}");
    }
    assert_eq!(stop(&world, "DONE"), json!({}));
}

fn cline(event: &str, name: &str, agent: &str, call: &str) -> Value {
    let parent = if agent == "main" { Value::Null } else { json!("main") };
    let mut payload = json!({
        "hookName": name, "taskId": "conv", "sessionContext": {"rootSessionId": "root"}, "workspaceRoots": ["/tmp"],
        "agent_id": agent, "parent_agent_id": parent,
    });
    if event == "PreToolUse" {
        payload["tool_call"] = json!({"id": call, "name": "run_commands", "input": {"commands": [call]}});
    }
    payload
}

#[test]
fn a_cancel_holds_where_no_prompts_are_told_until_the_conversation_begins_anew() {
    let (world, _node) = node("pre_tool_call", says("allow", json!({})));
    let call = |agent: &str, call: &str| {
        let payload = cline("PreToolUse", "tool_call", agent, call);
        ask(&world, "cline", "PreToolUse", &payload).json()["cancel"] == true
    };
    let tell = |event: &str, name: &str, agent: &str| {
        ask(&world, "cline", event, &cline(event, name, agent, "")).json()["cancel"] == true
    };
    for lifted_by in [("SessionShutdown", "session_shutdown"), ("TaskStart", "agent_start")] {
        assert!(!call("main", "t1"));
        assert!(!call("sub", "t2"), "a subagent is one of the same conversation");
        let all = jobs(&world);
        let main = all.iter().find(|job| job["status"] == "running" && job["parent_job"].is_null()).unwrap();
        world.call(&["jobs", "cancel", main["job"].as_str().unwrap(), "--db", "jobs.db"]).code(0);
        eventually("it is cancelled", || (!statuses(&world).contains(&"running".to_owned())).then_some(()));
        let before = jobs(&world).len();
        for agent in ["main", "sub", "other"] {
            assert!(call(agent, "t3"), "{agent}");
        }
        // What a subagent says of its beginning lifts nothing.
        tell("TaskStart", "agent_start", "sub");
        assert!(call("main", "t4"));
        assert_eq!(jobs(&world).len(), before);
        tell(lifted_by.0, lifted_by.1, "main");
        assert!(!call("main", "t5"));
        tell("SessionShutdown", "session_shutdown", "main");
    }
}

#[test]
fn a_yes_counts_though_the_bridge_that_asked_was_killed() {
    let (world, _node) = node("pre_tool_call", says("escalate", json!({"reason": "a push"})));
    prompt(&world);
    let payload = claude_payload("PreToolUse", None, &bash("t1", "git push"));
    let asking = Running::start(bridge(&world, "claude-code", "PreToolUse", &payload, &[]));
    let approval = world.open_approval();
    asking.signal(Signal::KILL);
    drop(asking);
    let job = job_of(&world, "waiting");
    eventually("the call is left", || history(&world, &job).iter().find(|r| r["kind"] == "call_left").map(drop));
    world.call(&["approvals", "approve", &approval, "--db", "jobs.db", "--as", "Ada"]).code(0);
    assert_eq!(claude(&world, "PreToolUse", None, &bash("t2", "git push")), json!({}), "the yes lets it through");
    let asked = world.call(&["approvals", "list", "--db", "jobs.db", "--output", "json"]).json();
    assert_eq!(asked["approvals"], json!([]), "and nobody is asked again");
}

#[test]
fn an_answer_that_comes_too_late_is_no_let_in_the_history() {
    let (world, _node) = node("pre_tool_call", json!([{"await_cancel": true}]));
    prompt(&world);
    let payload = claude_payload("PreToolUse", None, &bash("t1", "ls"));
    let said = Running::start(bridge(&world, "claude-code", "PreToolUse", &payload, &["--deadline", "5"])).finish();
    assert!(is_no(&said.json()));
    let job = job_of(&world, "running");
    eventually("the call is taken back", || {
        history(&world, &job).iter().find(|r| r["kind"] == "call_cancelled").map(drop)
    });
    stop(&world, "DONE");
    let records = history(&world, &job);
    assert!(!records.iter().any(|r| r["command"]["do"] == "let_call"), "{records:#?}");
}

#[test]
fn what_a_person_approves_is_the_output_that_is_given() {
    let (world, _node) = node("job_end", says("escalate", json!({"reason": "read it"})));
    prompt(&world);
    let offer = |output: &str| {
        let keys = json!({"stop_hook_active": false, "last_assistant_message": output});
        let payload = claude_payload("Stop", None, &keys);
        Running::start(bridge(&world, "claude-code", "Stop", &payload, &["--deadline", "6"])).finish().json()
    };
    assert_eq!(offer("A")["decision"], "block");
    let first = world.open_approval();
    assert_eq!(offer("B")["decision"], "block");
    let second = world.open_approval();
    assert_ne!(first, second, "another output is another question");
    world.call(&["approvals", "approve", &second, "--db", "jobs.db", "--as", "Ada"]).code(0);
    let job = eventually("the job is over", || {
        let all = jobs(&world);
        (all[0]["status"] == "completed").then(|| all[0]["job"].as_str().unwrap().to_owned())
    });
    let over = history(&world, &job).pop().unwrap();
    assert_eq!(over["outcome"]["output"]["value"], "B", "{over}");
}

fn opencode(world: &World, event: &str, keys: &Value) -> Value {
    let mut payload = json!({"event": event, "session": "child", "parent": "main", "cwd": "/tmp"});
    payload.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
    ask(world, "opencode", event, &payload).json()
}

#[test]
fn hooks_see_a_subagents_prompt_where_it_is_told_and_a_changed_one_is_refused() {
    let main = json!({"session": "main", "parent": null, "prompt": "tidy up"});
    let child = json!({"prompt": "look around"});
    let call = json!({"call": "t1", "tool": "bash", "servers": [], "arguments": {"command": "ls"}});
    let (world, _node) = node("job_start", says("allow", json!({})));
    assert_eq!(opencode(&world, "chat.message", &main)["decision"], "allow");
    assert_eq!(opencode(&world, "chat.message", &child)["decision"], "allow");
    assert_eq!(opencode(&world, "tool.execute.before", &call)["decision"], "allow");
    let inputs: Vec<Value> =
        world.calls("policy").into_iter().map(|(_, asked)| asked["event"]["input"].clone()).collect();
    assert_eq!(inputs, ["tidy up", "look around"]);

    let cases = json!({"cases": [
        {"when": {"/event/input": "look around"}, "then": [says("modify", json!({"input": "look away"}))]},
        {"then": [says("allow", json!({}))]}
    ]});
    let (world, _node) = node("job_start", cases);
    assert_eq!(opencode(&world, "chat.message", &main)["decision"], "allow");
    let said = opencode(&world, "chat.message", &child);
    assert!(said["text"].as_str().unwrap().contains("a hook changed the prompt"), "{said}");
    assert_eq!(opencode(&world, "tool.execute.before", &call)["decision"], "deny");
}

#[test]
fn a_command_line_that_is_not_understood_is_one_no_of_the_harness_and_event() {
    let world = World::new();
    for (words, code, stdout) in [
        (vec!["bridge", "claude-code", "PreToolUse", "--new-flag"], 2, Some("deny")),
        (vec!["bridge", "claude-code", "PostToolUse", "--new-flag"], 0, None),
        (vec!["bridge", "cline", "PreToolUse", "--new-flag"], 0, Some("cancel")),
    ] {
        let said = world.call(&words).code(code);
        let said = said.json();
        assert!(said.is_object(), "{words:?}");
        assert!(stdout.is_none_or(|part| said.to_string().contains(part)), "{words:?}: {said}");
    }
    // Of a harness that is not known nobody can say a no: the line around it does, and finds nothing printed before its own.
    let said = world.call(&["bridge", "claude-codex", "PreToolUse"]).code(2);
    assert_eq!(said.out, "");
    assert!(said.err.contains("claude-codex"), "{}", said.err);
}
