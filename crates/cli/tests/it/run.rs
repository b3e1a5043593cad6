//! `run`: what scripts build on. Exit codes, the JSON result, what stands on standard output.

use crate::support::{Plugin, World, function, says};
use serde_json::json;

fn one_turn(text: &str) -> Plugin {
    Plugin::new("p").turns(json!([{ "say": text }]))
}

#[test]
fn a_completed_job_is_exit_0_and_one_object_with_job_status_output_and_history() {
    let done = World::with(one_turn("All is well.")).run(&[]).code(0);
    let result = done.json();
    assert!(result["job"].as_str().unwrap().starts_with("job_"), "{done}");
    assert_eq!((&result["status"], &result["output"]), (&json!("completed"), &json!("All is well.")));
    assert!(result.get("error").is_none() && result["scripted"] == true, "{done}");
    let kinds: Vec<_> = result["history"].as_array().unwrap().iter().map(|r| r["kind"].clone()).collect();
    assert_eq!(kinds, ["started", "begun", "model_answered", "finished"]);
    for (i, record) in result["history"].as_array().unwrap().iter().enumerate() {
        assert_eq!(record["seq"], i);
        assert!(record["at_ms"].is_u64() && record["hash"].as_str().unwrap().len() == 64);
    }
}

#[test]
fn a_failed_job_is_exit_1_with_the_error_and_its_type() {
    let plugin = Plugin::new("p").turns(json!([{ "error": "context_full" }]));
    let result = World::with(plugin).run(&[]).code(1).json();
    assert_eq!((&result["status"], &result["error"]["type"]), (&json!("failed"), &json!("ContextFull")));
    assert!(result.get("output").is_none() && result["error"]["message"].is_string());

    let plugin =
        Plugin::new("p").agent(json!({"max_turns": 1})).server("git", json!([function("push", json!({"text": "ok"}))]));
    let plugin = plugin.turns(json!([{"call": {"tool": "git.push"}}, {"say": "never"}]));
    assert_eq!(World::with(plugin).run(&[]).code(1).json()["error"]["type"], "MaxTurns");
}

#[test]
fn a_denied_job_is_exit_3_with_the_hook_and_its_reason() {
    let plugin = one_turn("hello").server("policy", json!([function("check", says("deny", json!({"reason": "no."})))]));
    let result = World::with(plugin.hook(json!({"on": "job_end", "call": "policy.check"}))).run(&[]).code(3).json();
    assert_eq!(
        result["error"],
        json!({"type": "HookDenied", "message": "hook policy.check denied the output: no", "hook": "policy.check", "reason": "no"})
    );
    assert_eq!(result["status"], "failed");
}

#[test]
fn wrong_usage_and_wrong_manifests_are_exit_2_and_make_no_job() {
    let world = World::with(one_turn("hello"));
    world.run(&["--agent", "wroker"]).code(2).tells(&["no agent", "did you mean worker?"]);
    world.run(&["--plugin", "nowhere"]).code(2).tells(&["nowhere", "error:"]);
    world.run(&["--no-such-flag"]).code(2).tells(&["--no-such-flag"]);
    world.run(&["--approve", "maybe"]).code(2).tells(&["maybe"]);
    world.write("bad/plugin.yaml", "hooks: [{ on: pre_tool_cal, call: a.b }]\n");
    world.run(&["--plugin", "bad"]).code(2).tells(&["bad/plugin.yaml:1:", "pre_tool_call"]);
    world.write("p/script.yaml", "turns: 5\n");
    world.run(&[]).code(2).tells(&["script.yaml"]);
    assert!(!world.path("jobs.db").exists(), "no store was made for jobs that never began");
}

#[test]
fn waiting_with_detach_is_exit_4_and_names_the_approval() {
    let plugin =
        one_turn("hello").server("policy", json!([function("check", says("escalate", json!({"reason": "hm"})))]));
    let world = World::with(plugin.hook(json!({"on": "job_start", "call": "policy.check"})));
    let done = world.run(&["--detach"]).code(4);
    assert_eq!(done.json()["status"], "waiting");
    assert_eq!(done.json()["approvals"], json!([world.open_approval()]));
    assert!(done.records("model_answered").is_empty(), "before any token is spent");
}

#[test]
fn text_mode_writes_the_output_and_nothing_else_to_standard_output() {
    let plugin = one_turn("Two\nlines\u{1b}[1m.").server("git", json!([function("push", json!({"text": "ok"}))]));
    let world = World::with(plugin.turns(json!([
        {"say": "I push.", "call": {"tool": "git.push"}}, {"say": "Two\nlines\u{1b}[1m."}
    ])));
    let done = world.run(&["--output", "text"]).code(0);
    assert_eq!(done.out, "Two\nlines\u{1b}[1m.\n", "byte for byte: it is data");
    assert!(!done.err.contains('\u{1b}'), "what a terminal obeys never reaches people raw\n{done}");
    let done = done.tells(&["git.push", "(scripted)"]);
    assert!(done.err.contains("hookwright jobs") || done.err.contains("job_"), "the story names the job\n{done}");
}

#[test]
fn the_input_comes_from_stdin_where_it_is_a_dash() {
    use std::io::Write as _;
    let world =
        World::with(Plugin::new("p").turns(json!([{"expect": crate::support::exactly("from a pipe"), "say": "ok"}])));
    let mut command = world.job(&["--input", "-"]);
    command.stdin(std::process::Stdio::piped());
    let mut running = crate::support::Running::start(command);
    running.stdin().unwrap().write_all(b"from a pipe\n").unwrap();
    running.finish().code(0);
}

#[test]
fn an_output_schema_makes_the_output_json_and_tells_the_model_what_is_wrong() {
    let schema =
        json!({"output_schema": {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}});
    let told = "not an output that this task accepts";
    let plugin = Plugin::new("p").agent(schema.clone());
    let world = World::with(plugin.turns(json!([
        {"say": "nope"}, {"expect": told, "say": "{\"n\": \"x\"}"}, {"expect": told, "say": "{\"n\": 3}"}
    ])));
    assert_eq!(world.run(&[]).code(0).json()["output"], json!({"n": 3}));

    let plugin = Plugin::new("p").agent(schema);
    let world = World::with(plugin.turns(json!([{"say": "nope"}, {"say": "nope"}, {"say": "nope"}])));
    assert_eq!(world.run(&[]).code(1).json()["error"]["type"], "BadOutput");
}

#[test]
fn an_input_schema_wants_json_that_fits() {
    let plugin = Plugin::new("p").agent(json!({"input_schema": {"type": "object", "required": ["pr"]}}));
    let world = World::with(plugin.turns(json!([{"expect": "12", "say": "ok"}])));
    world.run(&["--input", "{\"pr\": 12}"]).code(0);
    world.run(&["--input", "{}"]).code(2).tells(&["pr"]);
    world.run(&["--input", "twelve"]).code(2).tells(&["JSON"]);
}

#[test]
fn servers_get_four_variables_and_what_env_names_and_nothing_else() {
    let world = World::new();
    let (env, dump) = (world.path("env.txt"), json!([{"dump_env": world.path("env.txt")}, {"text": "ok"}]));
    let keys = json!({"env": {"LEVEL": "warning", "TOKEN": {"from": "MY_TOKEN"}}});
    Plugin::new("p")
        .scripted("git", json!({"tools": [function("push", dump)]}), keys)
        .turns(json!([{"call": {"tool": "git.push"}}, {"say": "done"}]))
        .save(&world);
    let mut command = world.job(&[]);
    command.env("MY_TOKEN", "t0p").env("ANTHROPIC_API_KEY", "secret").env("TMPDIR", world.path("home"));
    crate::support::Running::start(command).finish().code(0);
    let seen = std::fs::read_to_string(env).unwrap();
    let mut names: Vec<&str> = seen.lines().filter_map(|l| l.split('=').next()).filter(|n| *n != "cwd").collect();
    names.sort_unstable();
    assert_eq!(names, ["HOME", "LANG", "LEVEL", "PATH", "TMPDIR", "TOKEN"], "{seen}");
    assert!(seen.contains("TOKEN=t0p") && seen.contains("LEVEL=warning"));
    assert!(seen.contains(&format!("cwd={}", world.path("p").canonicalize().unwrap().display())), "{seen}");
    let history = std::fs::read(world.path("jobs.db")).unwrap();
    assert!(!history.windows(3).any(|w| w == b"t0p"), "a secret is stored nowhere");
}

#[test]
fn of_seventy_calls_64_are_made_eight_at_a_time_and_results_come_in_the_calls_order() {
    let first = json!({"when": {"/n": 0}, "then": [{"append": {"file": "log", "line": "begin"}}, {"sleep_ms": 400}, {"append": {"file": "log", "line": "end"}}, {"text": "{arguments}"}]});
    let others = json!({"when": {}, "then": [{"append": {"file": "log", "line": "begin"}}, {"sleep_ms": 30}, {"append": {"file": "log", "line": "end"}}, {"text": "{arguments}"}]});
    let calls: Vec<_> = (0..70).map(|n| json!({"tool": "git.log", "with": {"n": n}})).collect();
    let made: Vec<String> = (0..64).map(|n| format!("{{\"n\":{n}}}")).collect();
    let reads = json!({"matches": format!("^{}\n.*a turn may make 64 calls", made.join("\n").replace('{', "\\{").replace('}', "\\}"))});
    let world = World::with(
        Plugin::new("p")
            .server("git", json!([function("log", json!({"cases": [first, others]}))]))
            .turns(json!([{"call": calls}, {"expect": reads, "say": "done"}])),
    );
    world.run(&[]).code(0);
    assert_eq!(world.calls("git").len(), 64);
    let (mut now, mut most) = (0, 0);
    for line in std::fs::read_to_string(world.path("p/log")).unwrap().lines() {
        if line == "begin" {
            now += 1;
        } else {
            now -= 1;
        }
        most = most.max(now);
    }
    assert_eq!(most, 8, "at the same time");
}
