//! Lifecycle hooks over real jobs and real servers (SPEC §9).

mod compacting;
mod crash;
mod trouble;
mod wires;

use crate::support::{Finished, Plugin, Running, World, exactly, function, repository, says};
use serde_json::{Value, json};

/// What the model reads of one server's text.
pub(crate) fn body(hook: &str, server: &str, text: &str) -> String {
    format!("{{\"hook\":\"{hook}\",\"server\":\"{server}\",\"text\":{}}}", Value::from(text))
}

/// Runs with servers allowed, and further variables.
pub(crate) fn run(world: &World, servers: &str, variables: &[(&str, &str)], more: &[&str]) -> Finished {
    let mut command = world.job(more);
    command.env("MCP_HOOK_SERVERS", servers).envs(variables.iter().copied());
    Running::start(command).finish()
}

/// The outcomes of a job's points, in order: hook, server, outcome.
pub(crate) fn outcomes(done: &Finished) -> Vec<(String, String, String)> {
    let text = |v: &Value| v.as_str().unwrap().to_owned();
    let mut points = std::collections::HashMap::new();
    for begun in done.records("begun") {
        if begun["command"]["do"] == "ask_lifecycle" {
            points.insert(text(&begun["command"]["effect"]), text(&begun["command"]["point"]));
        }
    }
    let mut all = vec![];
    for record in done.json()["history"].as_array().unwrap() {
        let point = match record["kind"].as_str().unwrap() {
            "lifecycle_answered" => points[record["effect"].as_str().unwrap()].clone(),
            "session_ended" => "session_end".into(),
            _ => continue,
        };
        for answer in record["answers"].as_array().into_iter().flatten() {
            all.push((point.clone(), text(&answer["server"]), text(&answer["outcome"]["outcome"])));
        }
    }
    all
}

/// Why nobody was asked, in order.
fn skips(done: &Finished) -> Vec<String> {
    let begun = done.records("begun");
    begun.iter().filter_map(|r| r["command"]["skip"].as_str().map(str::to_owned)).collect()
}

fn count(world: &World, server: &str, name: &str) -> usize {
    world.calls(server).iter().filter(|(function, _)| function == name).count()
}

fn git() -> Value {
    json!([function("push", json!({"text": "pushed"}))])
}

/// A to-do list that objects once, and a model that then pushes.
fn objects_once() -> Plugin {
    let stop = json!({"sequence": [[{"text": "2 items are open"}], [{"text": " \n"}]]});
    Plugin::new("p").server("todo", json!([function("_Stop", stop)])).server("git", git()).turns(json!([
        {"say": "I am done."},
        {"expect": exactly(&body("_Stop", "todo", "2 items are open")), "call": {"tool": "git.push"}},
        {"expect": exactly("pushed"), "say": "Now I am done."}
    ]))
}

#[test]
fn an_objection_is_delivered_and_the_agent_goes_on_until_there_is_none() {
    let world = World::with(objects_once());
    let done = run(&world, "todo", &[], &[]).code(0);
    assert_eq!(done.json()["output"], "Now I am done.");
    let stop = |outcome: &str| ("stop".to_owned(), "todo".to_owned(), outcome.to_owned());
    assert_eq!(outcomes(&done), [stop("text"), stop("nothing")]);
    assert_eq!(world.calls("todo"), [("_Stop".to_owned(), json!({})), ("_Stop".to_owned(), json!({}))], "exactly {{}}");
    let job = done.json()["job"].as_str().unwrap().to_owned();
    let before = world.messages("todo").len();
    world.call(&["replay", &job, "--db", "jobs.db"]).code(0);
    world.call(&["audit", "verify", "--db", "jobs.db"]).code(0);
    assert_eq!(world.messages("todo").len(), before, "a replay asks nobody");
}

#[test]
fn a_second_end_of_turn_without_calls_ends_the_job_heard_and_declined() {
    let world = World::with(
        Plugin::new("p")
            .server("todo", json!([function("_Stop", json!({"text": "no"}))]))
            .turns(json!([{"say": "one"}, {"expect": exactly(&body("_Stop", "todo", "no")), "say": "two"}])),
    );
    let done = run(&world, "*", &[], &[]).code(0);
    assert_eq!((done.json()["output"].clone(), skips(&done)), (json!("two"), vec!["declined".to_owned()]));
    assert_eq!(count(&world, "todo", "_Stop"), 1);
}

/// A server that always objects, and a model that works after each objection.
fn stubborn(turns: usize) -> World {
    let mut script: Vec<Value> =
        (0..turns).flat_map(|_| [json!({"say": "done"}), json!({"call": {"tool": "git.push"}})]).collect();
    script.push(json!({"say": "enough"}));
    World::with(
        Plugin::new("p")
            .server("todo", json!([function("_Stop", json!({"text": "no"}))]))
            .server("git", git())
            .turns(json!(script)),
    )
}

#[test]
fn the_variables_set_timeout_and_budget_and_hookwrights_spelling_wins() {
    for (variables, asked) in [
        (vec![], 3),
        (vec![("SPROUT_AGENT_STOP_MAX_REJECTIONS", "1")], 1),
        (vec![("SPROUT_AGENT_STOP_MAX_REJECTIONS", "1"), ("HOOKWRIGHT_STOP_MAX_REJECTIONS", "2")], 2),
        (vec![("HOOKWRIGHT_STOP_MAX_REJECTIONS", "0")], 0),
    ] {
        let world = stubborn(asked);
        let done = run(&world, " todo ,, git", &variables, &[]).code(0);
        assert_eq!(count(&world, "todo", "_Stop"), asked, "{variables:?}");
        let expect: Vec<String> = if asked == 0 { vec![] } else { vec!["budget_used_up".into()] };
        assert_eq!(skips(&done), expect, "used up is in the history, off is not");
    }
    for (name, value) in [
        ("HOOKWRIGHT_STOP_MAX_REJECTIONS", "many"),
        ("SPROUT_AGENT_STOP_MAX_REJECTIONS", "-1"),
        ("SPROUT_AGENT_HOOK_TIMEOUT_MS", "0"),
        ("HOOKWRIGHT_HOOK_TIMEOUT_MS", "2.5s"),
        ("HOOKWRIGHT_HOOK_TIMEOUT_MS", "99999999999999999999999"),
    ] {
        let done = run(&stubborn(0), "*", &[(name, value)], &[]).code(2).tells(&[name, value, "expected"]);
        assert_eq!(done.json()["error"]["type"], "Usage", "{done}");
    }
    run(&stubborn(0), "*,todo", &[], &[]).code(2).tells(&["MCP_HOOK_SERVERS", "`*` together with names"]);
}

#[test]
fn only_servers_on_the_allowlist_are_asked() {
    for (servers, asked) in [
        ("", [0, 0]),
        (" , ,", [0, 0]),
        ("b", [0, 1]),
        ("a,b", [1, 1]),
        ("*", [1, 1]),
        (" b ,nobody", [0, 1]),
        ("A", [0, 0]),
    ] {
        let nothing = json!([function("_Stop", json!({"text": ""}))]);
        let plugin = Plugin::new("p").server("a", nothing.clone()).server("b", nothing);
        let world = World::with(plugin.turns(json!([{"say": "done"}])));
        let done = run(&world, servers, &[], &[]).code(0);
        assert_eq!([count(&world, "a", "_Stop"), count(&world, "b", "_Stop")], asked, "{servers:?}\n{done}");
        if servers.contains("nobody") {
            done.tells(&["lifecycle hooks are allowed for nobody, which is no tool of these plugins"]);
        }
    }
    let world = World::with(objects_once());
    world.run(&[]).code(0);
    assert!(world.calls("todo").is_empty(), "off by default");
}

#[test]
fn a_configuration_allows_servers_and_the_variable_wins() {
    let world = World::with(objects_once());
    world.write(
        "hookwright.yaml",
        "tenants:\n- id: default\n  plugins: [p]\n  lifecycle: { servers: [todo], timeout: 20s, max_rejections: 2 }\n",
    );
    let args = ["run", "--config", "hookwright.yaml", "--db", "jobs.db", "--output", "json", "--input", "Do it."];
    let done = world.call(&args).code(0);
    assert_eq!(done.json()["output"], "Now I am done.");
    let spec = &done.records("started")[0]["spec"]["lifecycle"];
    assert_eq!((&spec["timeout_ms"], &spec["max_rejections"]), (&json!(20_000), &json!(2)));
    let mut off = world.hookwright(&args);
    off.env("MCP_HOOK_SERVERS", "");
    assert_eq!(Running::start(off).finish().code(0).json()["output"], "I am done.");
}

#[test]
fn several_servers_objections_come_in_configured_order_and_are_one_rejection() {
    let server = |text: &str, ms: u64| json!([function("_Stop", json!([{"sleep_ms": ms}, {"text": text}]))]);
    let reads = ["slow", "quick"].map(|s| body("_Stop", s, &format!("{s} objects"))).join("\n");
    let world = World::with(
        Plugin::new("p")
            .server("slow", server("slow objects", 700))
            .server("silent", server("", 0))
            .server("quick", server("quick objects", 0))
            .server("git", git())
            .turns(json!([
                {"say": "one"}, {"expect": exactly(&reads), "call": {"tool": "git.push"}}, {"say": "two"}
            ])),
    );
    let variables = [("HOOKWRIGHT_STOP_MAX_REJECTIONS", "1"), ("HOOKWRIGHT_HOOK_TIMEOUT_MS", "30000")];
    let done = run(&world, "quick,silent,slow", &variables, &[]).code(0);
    assert_eq!(skips(&done), ["budget_used_up"], "two objections are one rejection");
    let servers: Vec<String> = outcomes(&done).into_iter().map(|(_, server, _)| server).collect();
    assert_eq!(servers, ["slow", "silent", "quick"], "the tools' order, not the list's and not that of the answers");
}

#[test]
fn every_point_of_a_session_is_asked_in_order_with_the_context_that_it_declares() {
    let schema = json!({"type": "object", "properties": {
        "prompt": {"type": "string"}, "attempt": {"type": "integer"}, "rejections_left": {"type": "integer"},
        "stop_reason": {"type": "string"}, "agent": {"type": "string"}, "job": {"type": "string"}, "session": {"type": "string"},
    }});
    let names = ["_SessionStart", "_UserPromptSubmit", "_Stop", "_SessionEnd", "_PostCompact", "_Odd"];
    let functions: Vec<Value> = names
        .iter()
        .map(|name| json!({"name": name, "inputSchema": schema, "behaviour": {"text": format!("{name} speaks")}}))
        .collect();
    let first = ["_SessionStart", "_UserPromptSubmit"].map(|n| body(n, "memory", &format!("{n} speaks"))).join("\n");
    let world = World::with(Plugin::new("p").server("memory", json!(functions)).turns(json!([
        {"expect": exactly(&format!("Do it.\n{first}")), "say": "one"},
        {"expect": exactly(&body("_Stop", "memory", "_Stop speaks")), "say": "two"}
    ])));
    let done = run(&world, "memory", &[], &[]).code(0);
    let points: Vec<String> = outcomes(&done).into_iter().map(|(point, _, _)| point).collect();
    assert_eq!(points, ["session_start", "user_prompt_submit", "stop", "session_end"]);
    let spec = &done.records("started")[0]["spec"];
    let mut context = json!({"prompt": "Do it.", "agent": "worker", "job": spec["job"], "session": spec["session"]});
    let mut at_stop = context.clone();
    for (key, value) in [("attempt", json!(1)), ("rejections_left", json!(3)), ("stop_reason", json!("end_turn"))] {
        at_stop[key] = value;
    }
    let calls = world.calls("memory");
    assert_eq!(calls[0], ("_SessionStart".to_owned(), context.clone()));
    assert_eq!(calls[1], ("_UserPromptSubmit".to_owned(), context.clone()));
    assert_eq!(calls[2], ("_Stop".to_owned(), at_stop));
    assert_eq!(calls[3], ("_SessionEnd".to_owned(), context.take()), "unknown `_names` are never called");
    let history = done.json()["history"].clone();
    let kinds: Vec<&str> =
        history.as_array().unwrap().iter().rev().take(3).map(|r| r["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["session_ended", "begun", "finished"]);
    let job = done.json()["job"].as_str().unwrap().to_owned();
    world.call(&["replay", &job, "--db", "jobs.db"]).code(0);
    world.call(&["audit", "verify", "--db", "jobs.db"]).code(0);
}

#[test]
fn stop_comes_before_job_end_which_sees_the_accepted_output() {
    let plugin = objects_once()
        .server("policy", json!([function("check", says("allow", json!({})))]))
        .hook(json!({"on": "job_end", "call": "policy.check", "timeout": "30s"}));
    let world = World::with(plugin);
    run(&world, "todo", &[], &[]).code(0);
    let asks = world.calls("policy");
    assert_eq!(asks.len(), 1);
    assert_eq!(asks[0].1["event"]["output"], "Now I am done.");
}

#[test]
fn a_models_own_call_of_a_hook_is_an_unknown_tool_and_reaches_no_server() {
    let world = World::with(Plugin::new("p").server("todo", json!([function("_Stop", json!({"text": ""})), function("add", json!({"text": "ok"}))])).turns(json!([
        {"call": [{"tool": "todo._Stop"}, {"tool": "_Stop"}, {"tool": "todo__Stop"}]},
        {"expect": exactly("unknown tool: todo._Stop\nunknown tool: _Stop\nunknown tool: todo__Stop"), "say": "done"}
    ])));
    let done = run(&world, "todo", &[], &[]).code(0);
    assert_eq!(count(&world, "todo", "_Stop"), 1, "the one of the end of the turn\n{done}");
}

#[test]
fn an_ordinary_function_of_a_server_whose_name_ends_in_an_underscore_is_no_hook() {
    let plugin = Plugin::new("p")
        .server(
            "fake_",
            json!([function("Stop", json!({"text": "called"})), function("_stop", json!({"text": "called"}))]),
        )
        .server("fake", json!([function("other", json!({"text": "ok"}))]));
    let world = World::with(plugin.turns(json!([{"say": "done"}])));
    for servers in ["*", "fake", "fake_"] {
        let done = run(&world, servers, &[], &[]).code(0);
        assert_eq!((world.calls("fake_"), world.calls("fake"), outcomes(&done)), (vec![], vec![], vec![]), "{servers}");
    }
}

#[test]
fn max_tokens_refusal_and_failures_are_not_gated() {
    for (turn, kind) in [
        (json!({"say": "half", "stop": "max_tokens"}), "MaxTokens"),
        (json!({"say": "no", "stop": "refusal"}), "Refused"),
        (json!({"error": "unavailable"}), "ModelFailed"),
    ] {
        let world = World::with(
            Plugin::new("p").server("todo", json!([function("_Stop", json!({"text": "no"}))])).turns(json!([turn])),
        );
        let done = run(&world, "todo", &[], &[]).code(1);
        assert_eq!(done.json()["error"]["type"], kind, "{done}");
        assert!(world.calls("todo").is_empty(), "{kind}");
    }
}

#[test]
fn an_objection_that_no_turn_is_left_for_never_fails_the_job() {
    let plugin = Plugin::new("p").server("todo", json!([function("_Stop", json!({"text": "no"}))]));
    let world = World::with(plugin.agent(json!({"max_turns": 1})).turns(json!([{"say": "done"}])));
    let done = run(&world, "todo", &[], &[]).code(0);
    assert_eq!((skips(&done), world.calls("todo")), (vec!["no_turn_left".to_owned()], vec![]));
}

#[test]
fn the_story_and_the_history_tell_every_outcome() {
    let plugin = Plugin::new("p")
        .server("todo", json!([function("_Stop", json!({"text": "2 items\u{1b}[31m are open"}))]))
        .server("broken", json!([function("_Stop", json!({"is_error": "disk full"}))]))
        .server("slow", json!([function("_Stop", json!({"await_cancel": true}))]))
        .server("quiet", json!([function("_Stop", json!({"text": ""}))]));
    let world = World::with(plugin.turns(json!([{"say": "one"}, {"say": "two"}])));
    let variables = [("HOOKWRIGHT_HOOK_TIMEOUT_MS", "3000")];
    let told = [
        "todo._Stop",
        "objects",
        "2 items\\u{1b}[31m are open",
        "broken._Stop",
        "FAILED",
        "disk full",
        "slow._Stop",
        "TIMEOUT",
        "did not answer within 3s",
        "quiet._Stop",
        "nothing",
        "the model is told, and goes on",
        "_Stop is not asked:\n          │ the objection was heard, and the model ended its turn again",
    ];
    let done = run(&world, "*", &variables, &["--output", "text"]).code(0).tells(&told);
    assert!(!done.err.contains('\u{1b}'), "{done}");
    assert_eq!(done.out.trim(), "two", "standard output is the output alone");
    let listed = world.call(&["jobs", "list", "--db", "jobs.db", "--output", "json"]).code(0);
    let job = listed.json()["jobs"][0]["job"].as_str().unwrap().to_owned();
    let history = world.call(&["jobs", "history", &job, "--db", "jobs.db"]).code(0);
    for part in [
        "asks _Stop of todo, broken, slow, quiet",
        "todo._Stop: objects",
        "2 items",
        "broken._Stop: FAILED",
        "slow._Stop: TIMEOUT",
        "quiet._Stop: nothing",
        "_Stop is not asked",
    ] {
        assert!(history.out.contains(part), "{part:?} is missing\n{history}");
    }
    let show = world.call(&["jobs", "show", &job, "--db", "jobs.db"]).code(0);
    assert!(show.out.contains("1 lifecycle text heard"), "{show}");
}

#[test]
fn check_says_which_lifecycle_hooks_are_on_and_names_the_unknown() {
    let functions =
        ["_Stop", "_PostCompact", "_Stopp", "_private", "add"].map(|name| function(name, json!({"text": ""})));
    let world = World::with(Plugin::new("p").server("todo", json!(functions)));
    let check = |servers: Option<&str>, json: bool, more: &[(&str, &str)]| {
        let mut command = world.hookwright(&["check", "p", "--output", if json { "json" } else { "text" }]);
        command.envs(more.iter().copied());
        if let Some(servers) = servers {
            command.env("MCP_HOOK_SERVERS", servers);
        }
        Running::start(command).finish().code(0)
    };
    let off = check(None, false, &[]).tells(&["_Stopp", "did you mean `_Stop`?", "_private", "never called"]);
    assert!(off.out.contains("todo._Stop") && off.out.contains("off: the tool is not on the allowlist"), "{off}");
    let on = check(Some("todo, tudo"), false, &[]).tells(&["allowed for tudo", "did you mean todo?"]);
    assert!(on.out.lines().filter(|l| l.contains("lifecycle") && l.ends_with(" on")).count() == 2, "{on}");
    let json = check(Some("*"), true, &[("HOOKWRIGHT_STOP_MAX_REJECTIONS", "0")]).json();
    assert_eq!(
        json["lifecycle"],
        json!({"servers": ["todo"], "unknown": [], "timeout_ms": 2_500, "max_rejections": 0})
    );
    let hooks = &json["plugins"][0]["lifecycle"];
    assert_eq!(
        (&hooks[0]["function"], &hooks[0]["on"], &hooks[0]["why"]),
        (&json!("_Stop"), &json!(false), &json!("max_rejections is 0"))
    );
    assert_eq!((&hooks[1]["function"], &hooks[1]["on"]), (&json!("_PostCompact"), &json!(true)));
}

/// Histories that are kept for ever are made by these worlds: `crates/core/tests/histories/v2-*.json`.
#[test]
fn a_recorded_history_of_lifecycle_hooks_is_what_is_written_today() {
    let world = World::with(objects_once());
    let done = run(&world, "todo", &[], &[]).code(0);
    let kinds = |history: &Value| -> Vec<String> {
        history.as_array().unwrap().iter().map(|r| r["kind"].as_str().unwrap().to_owned()).collect()
    };
    let recorded = std::fs::read_to_string(repository("crates/core/tests/histories/v2-stop.json")).unwrap();
    let recorded: Value = serde_json::from_str(&recorded).unwrap();
    assert_eq!(kinds(&done.json()["history"]), kinds(&recorded["history"]));
}
