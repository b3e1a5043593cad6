//! Harnesses as agents: sessions over the Claude Agent SDK's control protocol, played by a client that does what a test says.

use crate::support::{Plugin, Running, World, eventually, function, lives, says};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::path::Path;

/// A plugin whose agent `worker` is a harness that plays these turns.
fn agent(world: &World, plugin: Plugin, steps: &Value, keys: Value) -> Plugin {
    let client = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/control_protocol.py");
    let steps = world.write("steps.json", steps.to_string());
    let mut all = json!({
        "harness": "claude-agent-sdk",
        "command": ["python3", client, steps, world.path("client.log")],
    });
    all.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
    plugin.agent(all)
}

fn policy(behaviour: Value, on: &str) -> Plugin {
    Plugin::new("p")
        .server("policy", json!([function("check", behaviour)]))
        .hook(json!({"on": on, "call": "policy.check", "timeout": "20s"}))
}

fn one_call(arguments: Value) -> Value {
    json!({"turns": [{"steps": [{"tool": "Bash", "with": arguments}], "result": "FINISHED"}]})
}

fn log(world: &World) -> Vec<Value> {
    let text = std::fs::read_to_string(world.path("client.log")).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn logged(world: &World, key: &str) -> Vec<Value> {
    log(world).into_iter().filter(|line| line.get(key).is_some()).collect()
}

fn world(behaviour: Value, on: &str, steps: &Value) -> World {
    let world = World::new();
    agent(&world, policy(behaviour, on), steps, json!({})).save(&world);
    world
}

/// A process's group is gone.
fn pid_of_client(world: &World) -> i32 {
    let out =
        std::process::Command::new("pgrep").args(["-f", world.path("client.log").to_str().unwrap()]).output().unwrap();
    String::from_utf8(out.stdout).unwrap().lines().next().unwrap().parse().unwrap()
}

#[test]
fn its_calls_are_asked_about_and_its_output_is_the_jobs() {
    for (behaviour, made, reads) in [
        (says("allow", json!({})), json!({"command": "ls"}), None),
        (says("modify", json!({"arguments": {"command": "ls -l"}})), json!({"command": "ls -l"}), None),
        (
            says("deny", json!({"reason": "no shells"})),
            Value::Null,
            Some("The call to claude-agent-sdk.Bash was not made: hook policy.check denied it: no shells."),
        ),
        (
            json!([{"await_cancel": true}]),
            Value::Null,
            Some(
                "The call to claude-agent-sdk.Bash was not made: hook policy.check denied it: did not answer within 300ms.",
            ),
        ),
    ] {
        let world = World::new();
        let timeout = if reads.is_some_and(|r| r.contains("300ms")) { "300ms" } else { "20s" };
        let plugin = Plugin::new("p")
            .server("policy", json!([function("check", behaviour)]))
            .hook(json!({"on": "pre_tool_call", "call": "policy.check", "timeout": timeout}));
        agent(&world, plugin, &one_call(json!({"command": "ls"})), json!({})).save(&world);
        assert_eq!(world.run(&[]).code(0).json()["output"], "FINISHED");
        let calls = logged(&world, "made");
        match reads {
            Some(reads) => {
                assert!(calls.is_empty(), "{calls:?}");
                assert_eq!(logged(&world, "denied")[0]["reads"], reads);
            }
            None => assert_eq!(calls[0]["arguments"], made),
        }
        let event = &world.calls("policy")[0].1["event"];
        assert_eq!(event["tool"], "claude-agent-sdk.Bash");
        assert_eq!(event["agent"], "worker");
        world.call(&["replay", event["job"].as_str().unwrap(), "--db", "jobs.db"]).code(0);
    }
}

#[test]
fn a_person_decides_what_hooks_escalate() {
    for (yes, made) in [("yes", 1), ("no", 0)] {
        let world = world(says("escalate", json!({"reason": "a shell"})), "pre_tool_call", &one_call(json!({})));
        world.run(&["--approve", yes]).code(0);
        assert_eq!(logged(&world, "made").len(), made, "{yes}");
    }
    // From another terminal, while the harness waits; `--detach` does not leave a session that runs.
    let world = world(says("escalate", json!({"reason": "a shell"})), "pre_tool_call", &one_call(json!({})));
    let running = Running::start(world.job(&["--approve", "wait", "--detach"]));
    let approval = world.open_approval();
    world.call(&["approvals", "approve", &approval, "--db", "jobs.db", "--as", "Ada"]).code(0);
    running.finish().code(0);
    assert_eq!(logged(&world, "made").len(), 1);
}

#[test]
fn a_result_is_withheld_or_changed_before_its_model_reads_it() {
    let deny = world(says("deny", json!({"reason": "secret"})), "post_tool_call", &one_call(json!({})));
    deny.run(&[]).code(0);
    let reads = logged(&deny, "result")[0]["reads"]["stdout"].clone();
    assert_eq!(reads, "The result of claude-agent-sdk.Bash was withheld: hook policy.check denied it: secret.");
    let change = world(says("modify", json!({"result": "redacted"})), "post_tool_call", &one_call(json!({})));
    change.run(&[]).code(0);
    assert_eq!(logged(&change, "result")[0]["reads"]["stdout"], "redacted");
}

#[test]
fn a_denied_output_sends_it_back_once_and_a_changed_one_is_the_jobs() {
    let cases = json!({"cases": [
        {"when": {"/event/output": "red"}, "then": [{"structured": {"decision": "deny", "reason": "tests are red"}}]},
        {"then": [{"structured": {"decision": "modify", "output": "green, checked"}}]}
    ]});
    let turns = |second: &str| json!({"turns": [{"steps": [], "result": "red"}, {"steps": [], "result": second}]});
    let mended = world(cases.clone(), "job_end", &turns("green"));
    assert_eq!(mended.run(&[]).code(0).json()["output"], "green, checked");
    let prompts = logged(&mended, "prompt");
    assert_eq!(prompts[0]["prompt"], "Do it.");
    assert_eq!(prompts[1]["prompt"], "Hook policy.check denied the output: tests are red. Go on until that is mended.");
    let stubborn = world(cases, "job_end", &turns("red"));
    let failed = stubborn.run(&[]).code(3);
    assert_eq!(failed.json()["error"]["type"], "HookDenied");
}

#[test]
fn parallel_calls_have_chains_of_their_own_and_subagents_jobs_of_their_own() {
    let call = |n: i32| json!({"tool": "Bash", "id": format!("toolu_{n}"), "with": {"n": n}});
    let steps = json!({"turns": [{"steps": [
        {"parallel": (0..20).map(call).collect::<Vec<_>>()},
        {"subagent": "sub-1", "steps": [{"tool": "mcp__git__push", "id": "toolu_s", "with": {"branch": "main"}}]},
    ]}]});
    let world = World::new();
    let plugin = Plugin::new("p")
        .server("policy", json!([function("check", says("allow", json!({})))]))
        .server("git", json!([function("push", json!({"text": "pushed"}))]))
        .hook(json!({"on": "pre_tool_call", "call": "policy.check", "match": {"tools": ["git.push", "claude-agent-sdk.Bash"]}}));
    agent(&world, plugin, &steps, json!({})).save(&world);
    let done = world.run(&[]).code(0).json();
    assert_eq!(logged(&world, "made").len(), 21);
    let events: Vec<Value> = world.calls("policy").into_iter().map(|(_, call)| call["event"].clone()).collect();
    assert_eq!(events.len(), 21, "an MCP call is matched by its alias too");
    let sub = events.iter().find(|e| e["tool"] == "claude-agent-sdk.mcp__git__push").unwrap();
    assert_eq!(sub["alias"], "git.push");
    assert_eq!(sub["parent_job"], done["job"]);
    assert_ne!(sub["job"], done["job"]);
    assert!(events.iter().filter(|e| e["tool"] == "claude-agent-sdk.Bash").all(|e| e["job"] == done["job"]));
    let row =
        world.call(&["jobs", "show", sub["job"].as_str().unwrap(), "--db", "jobs.db", "--output", "json"]).code(0);
    assert_eq!(row.json()["status"], "completed", "{row}");
}

#[test]
fn it_gets_a_clean_environment_and_only_the_hooks_that_fail_closed() {
    let world = World::new();
    let keys = json!({"env": {"KEY": {"from": "MY_KEY"}, "MODE": "quiet"}, "instructions": "Be brief."});
    agent(&world, Plugin::new("p"), &one_call(json!({})), keys).save(&world);
    let mut job = world.job(&[]);
    job.env("MY_KEY", "sk-test-0123456789").env("OTHER_SECRET", "x");
    Running::start(job).finish().code(0);
    let first = &log(&world)[0];
    let env: Vec<&str> = first["env"].as_array().unwrap().iter().map(|v| v.as_str().unwrap()).collect();
    assert!(env.contains(&"KEY") && env.contains(&"MODE"), "{env:?}");
    assert!(!env.contains(&"OTHER_SECRET") && !env.contains(&"MY_KEY"), "{env:?}");
    let argv = first["argv"].as_array().unwrap();
    for word in ["--setting-sources=", "--strict-mcp-config", "--append-system-prompt=Be brief."] {
        assert!(argv.contains(&json!(word)), "{argv:?}");
    }
    let hooks = &logged(&world, "hooks")[0]["hooks"];
    for event in ["PreToolUse", "PostToolUse", "PostToolUseFailure"] {
        assert_eq!(hooks[event][0]["onFailure"], "block", "{hooks}");
    }
    let told = std::fs::read(world.path("jobs.db")).unwrap();
    assert!(!told.windows(18).any(|w| w == b"sk-test-0123456789"), "a secret stands in the store");
    let mut lacks = world.job(&[]);
    lacks.env_remove("MY_KEY");
    Running::start(lacks).finish().code(2).tells(&["MY_KEY", "next:"]);
}

#[test]
fn an_agents_tools_bound_what_its_harness_may_call() {
    let world = World::new();
    let steps = json!({"turns": [{"steps": [
        {"tool": "Bash", "id": "a"}, {"tool": "Read", "id": "b"}, {"tool": "mcp__web__get", "id": "c"}
    ]}]});
    agent(&world, Plugin::new("p"), &steps, json!({"tools": ["claude-agent-sdk.Read", "web.get"]})).save(&world);
    world.run(&[]).code(0);
    let made: Vec<Value> = logged(&world, "made").into_iter().map(|line| line["made"].clone()).collect();
    assert_eq!(made, ["Read", "mcp__web__get"]);
    let reads = logged(&world, "denied")[0]["reads"].clone();
    assert_eq!(reads, "The call to claude-agent-sdk.Bash was not made: the agent worker may not use it.");
}

fn fails(steps: &Value, part: &str) {
    says_why(&world(says("allow", json!({})), "pre_tool_call", steps), part);
}

fn says_why(world: &World, part: &str) {
    let failed = world.run(&[]).code(1);
    let error = failed.json()["error"].clone();
    assert_eq!(error["type"], "HarnessFailed", "{failed}");
    assert!(error["message"].as_str().unwrap().contains(part), "{part}: {error}");
}

#[test]
fn a_session_that_goes_wrong_fails_its_job_and_says_how() {
    let steps = |steps: Value| json!({"turns": [{"steps": steps}]});
    fails(
        &steps(json!([{"exit": 7, "words": "no \u{1b}[31mcredit\n"}])),
        r"exit status: 7; its last words: no \u{1b}[31mcredit",
    );
    fails(&steps(json!([{"tool": "Bash", "dies": true}])), "exit status: 3");
    fails(&json!({"turns": [{"steps": [], "failed": "error_max_turns"}]}), "error_max_turns");
    fails(&json!({"initialize": {"hook_on_failure_supported": false}, "turns": []}), "install a newer version");
    fails(&json!({"initialize": {"hooks_applied": false}, "turns": []}), "install a newer version");
    fails(&steps(json!([{"raw": "x".repeat(1024), "times": 34 * 1024}])), "a line of more than 32 MiB");
    let world = World::new();
    let schema = json!({"output_schema": {"type": "object", "required": ["ok"]}});
    agent(&world, Plugin::new("p"), &json!({"turns": [{"steps": [], "result": "{\"ok\": 1}"}]}), schema.clone())
        .save(&world);
    assert_eq!(world.run(&[]).code(0).json()["output"], json!({"ok": 1}));
    agent(&world, Plugin::new("p"), &json!({"turns": [{"steps": [], "result": "{}"}]}), schema).save(&world);
    says_why(&world, "the output breaks the agent's schema");
    let missing = World::new();
    Plugin::new("p").agent(json!({"harness": "claude-agent-sdk", "command": ["/nowhere/claude"]})).save(&missing);
    says_why(&missing, "/nowhere/claude can't be started");
    says_why(&missing, "name it in the agent's `command`");
}

#[test]
fn lines_that_are_not_for_us_and_questions_to_nobody_are_harmless() {
    let steps = json!({"turns": [{"steps": [
        {"raw": "not json"}, {"raw": "{\"type\": \"system\"}"}, {"raw": "[1, 2]"},
        {"ask": {"subtype": "can_use_tool", "tool_name": "Bash", "input": {}}},
        {"say": "at work"},
        {"tool": "Bash", "with": {"text": "é\u{1f980}\u{202e}"}}
    ]}]});
    let world = world(says("allow", json!({})), "pre_tool_call", &steps);
    world.run(&[]).code(0);
    assert_eq!(logged(&world, "answered")[0]["answered"]["response"]["behavior"], "deny");
    assert_eq!(logged(&world, "made")[0]["arguments"]["text"], "é\u{1f980}\u{202e}");
}

#[test]
fn its_processes_end_with_the_job_and_with_us() {
    let steps = json!({"turns": [{"steps": [{"tool": "Bash"}, {"hang": true}]}]});
    for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
        let world = world(says("allow", json!({})), "pre_tool_call", &steps);
        let running = Running::start(world.job(&[]));
        eventually("its call was made", || (!logged(&world, "result").is_empty()).then_some(()));
        let client = pid_of_client(&world);
        running.signal(signal);
        running.finish();
        eventually("the client is gone", || (!lives(client)).then_some(()));
        if signal != Signal::INT {
            // What it did is known; that it goes on is not ours to say.
            world.call(&["jobs", "resume", "--all", "--db", "jobs.db"]);
        }
        let jobs = world.call(&["jobs", "list", "--db", "jobs.db", "--output", "json"]).code(0).json();
        assert_eq!(jobs["jobs"][0]["status"], "cancelled", "{signal:?}: {jobs}");
        assert_eq!(logged(&world, "made").len(), 1, "{signal:?}");
    }
}

#[test]
fn an_approved_call_that_was_let_before_a_crash_does_not_hold_its_job_up() {
    let steps = json!({"turns": [{"steps": [{"tool": "Bash"}, {"hang": true}]}]});
    let world = world(says("escalate", json!({"reason": "a shell"})), "pre_tool_call", &steps);
    let running = Running::start(world.job(&["--approve", "wait"]));
    world.call(&["approvals", "approve", &world.open_approval(), "--db", "jobs.db"]).code(0);
    eventually("its call was made", || (!logged(&world, "result").is_empty()).then_some(()));
    let client = pid_of_client(&world);
    running.signal(Signal::KILL);
    running.finish();
    eventually("the client is gone", || (!lives(client)).then_some(()));
    let resumed = world.call(&["jobs", "resume", "--all", "--db", "jobs.db"]);
    let jobs = world.call(&["jobs", "list", "--db", "jobs.db", "--output", "json"]).code(0).json();
    assert_eq!(jobs["jobs"][0]["status"], "cancelled", "{resumed}\n{jobs}");
    assert_eq!(logged(&world, "made").len(), 1);
}

#[test]
fn another_agent_can_start_it_and_its_approvals_show_the_line_of_jobs() {
    let world = World::new();
    let steps = json!({"turns": [{"steps": [{"tool": "Bash"}], "result": "fixed"}]});
    let plugin = policy(says("escalate", json!({"reason": "a shell"})), "pre_tool_call");
    let client = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/control_protocol.py");
    let file = world.write("steps.json", steps.to_string());
    let keys = json!({"harness": "claude-agent-sdk", "command": ["python3", client, file, world.path("client.log")]});
    plugin
        .turns(json!([
            {"call": {"tool": "agent.start", "with": {"agent": "fixer", "input": "Mend it."}}},
            {"expect": {"matches": "fixed"}, "say": "done"}
        ]))
        .agent(json!({"subagents": ["fixer"]}))
        .other("fixer", keys, json!([]))
        .save(&world);
    // The first question is about the start itself.
    let running = Running::start(world.job(&["--approve", "wait", "--agent", "worker"]));
    let first = world.open_approval();
    world.call(&["approvals", "approve", &first, "--db", "jobs.db"]).code(0);
    let second = eventually("the harness's call waits", || {
        let open = world.open_approvals();
        open.iter().find(|a| a["id"] != first.as_str()).cloned()
    });
    assert_eq!(second["tool"], "claude-agent-sdk.Bash", "{second}");
    let id = second["id"].as_str().unwrap();
    let shown = world.call(&["approvals", "show", id, "--db", "jobs.db", "--output", "json"]).code(0).json();
    assert_eq!(shown["parent_jobs"].as_array().map(Vec::len), Some(1), "{shown}");
    world.call(&["approvals", "approve", id, "--db", "jobs.db"]).code(0);
    assert_eq!(running.finish().code(0).json()["output"], "done");
    assert_eq!(logged(&world, "prompt")[0]["prompt"], "Mend it.");
}

mod codex {
    use super::*;

    fn codex(behaviour: Value, on: &str, steps: &Value) -> World {
        let world = World::new();
        let client = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/exec_hooks.py");
        let steps = world.write("steps.json", steps.to_string());
        let command = json!(["python3", client, steps, world.path("client.log")]);
        let keys = json!({"harness": "codex", "command": command, "instructions": "Be brief."});
        policy(behaviour, on).agent(keys).save(&world);
        world
    }

    fn one() -> Value {
        json!({"steps": [{"tool": "Bash", "with": {"command": "ls"}}], "output": "FINISHED"})
    }

    #[test]
    fn its_hooks_are_asked_over_the_sessions_own_socket() {
        let allow = codex(says("allow", json!({})), "pre_tool_call", &one());
        assert_eq!(allow.run(&[]).code(0).json()["output"], "FINISHED");
        assert_eq!(logged(&allow, "made").len(), 1);
        let first = &log(&allow)[0];
        assert_eq!(first["prompt"], "Be brief.\n\nDo it.");
        let argv = first["argv"].to_string();
        assert!(!argv.contains("Do it.") && !argv.contains("Be brief."), "a prompt is nobody's who lists processes");
        let socket = argv.split("--socket ").nth(1).unwrap().split(' ').next().unwrap().to_owned();
        assert!(!Path::new(&socket).exists(), "{socket} goes with the session");
        let modify = says("modify", json!({"arguments": {"command": "ls -l"}}));
        let modify = codex(modify, "pre_tool_call", &one());
        modify.run(&[]).code(0);
        assert_eq!(logged(&modify, "made")[0]["arguments"]["command"], "ls -l");
        let deny = codex(says("deny", json!({"reason": "no shells"})), "pre_tool_call", &one());
        deny.run(&[]).code(0);
        assert!(logged(&deny, "made").is_empty());
        let reads = logged(&deny, "denied")[0]["reads"].as_str().unwrap().trim().to_owned();
        assert_eq!(reads, "The call to codex.Bash was not made: hook policy.check denied it: no shells.");
        let withheld = codex(says("deny", json!({"reason": "secret"})), "post_tool_call", &one());
        withheld.run(&[]).code(0);
        let reads = logged(&withheld, "result")[0]["reads"].clone();
        assert_eq!(reads, "The result of codex.Bash was withheld: hook policy.check denied it: secret.");
    }

    #[test]
    fn a_person_decides_while_it_waits() {
        let world = codex(says("escalate", json!({"reason": "a shell"})), "pre_tool_call", &one());
        let running = Running::start(world.job(&["--approve", "wait"]));
        let approval = world.open_approval();
        world.call(&["approvals", "approve", &approval, "--db", "jobs.db"]).code(0);
        running.finish().code(0);
        assert_eq!(logged(&world, "made").len(), 1);
    }

    #[test]
    fn a_denied_output_holds_its_stop_once() {
        let cases = json!({"cases": [
            {"when": {"/event/output": "red"}, "then": [{"structured": {"decision": "deny", "reason": "tests are red"}}]},
            {"then": [{"structured": {"decision": "modify", "output": "green, checked"}}]}
        ]});
        let steps = |again: &str| json!({"steps": [], "output": "red", "again": again});
        let mended = codex(cases.clone(), "job_end", &steps("green"));
        assert_eq!(mended.run(&[]).code(0).json()["output"], "green, checked");
        assert!(logged(&mended, "held")[0]["held"].as_str().unwrap().contains("tests are red"));
        let stubborn = codex(cases, "job_end", &steps("red"));
        assert_eq!(stubborn.run(&[]).code(3).json()["error"]["type"], "HookDenied");
    }

    #[test]
    fn subagents_have_jobs_of_their_own_and_a_session_that_goes_wrong_fails_its_job() {
        let steps = json!({"steps": [{"subagent": "sub-1", "steps": [{"tool": "Bash"}]}]});
        let world = codex(says("allow", json!({})), "pre_tool_call", &steps);
        let done = world.run(&[]).code(0).json();
        let event = &world.calls("policy")[0].1["event"];
        assert_eq!(event["parent_job"], done["job"]);
        says_why(
            &codex(says("allow", json!({})), "pre_tool_call", &json!({"steps": [{"exit": 4}]})),
            "no credit (exit status: 4)",
        );
        for unasked in ["command_execution", "mcp_tool_call"] {
            let steps = json!({"steps": [{"tool": "Bash"}, {"unasked": unasked}, {"hang": true}]});
            says_why(
                &codex(says("allow", json!({})), "pre_tool_call", &steps),
                "it made a call that its hooks were not asked about",
            );
        }
        let ended =
            codex(says("allow", json!({})), "pre_tool_call", &json!({"steps": [{"tool": "Bash"}, {"hang": true}]}));
        let running = Running::start(ended.job(&[]));
        eventually("its call was made", || (!logged(&ended, "result").is_empty()).then_some(()));
        let client = pid_of_client(&ended);
        running.signal(Signal::INT);
        running.finish().code(130);
        eventually("the client is gone", || (!lives(client)).then_some(()));
    }
}
