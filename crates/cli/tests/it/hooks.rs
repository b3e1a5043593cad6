//! Hooks over a real job: every answer at every moment, and the exact words that the model reads (SPEC §4–§6).

use crate::support::{Plugin, World, eventually, exactly, function, says};
use serde_json::{Value, json};

const NO_ONE: Value = Value::Null;

/// A plugin whose model calls `git.push` once and must then read `reads`, exactly.
fn pushes(reads: &str) -> Plugin {
    Plugin::new("p").server("git", json!([function("push", json!({"text": "pushed"}))])).turns(json!([
        {"call": {"tool": "git.push", "with": {"branch": "main"}}},
        {"expect": exactly(reads), "say": "done"}
    ]))
}

/// A plugin of one hook server, `policy.check`.
fn policy(behaviour: Value, hook: Value) -> Plugin {
    let mut entry = json!({"call": "policy.check"});
    entry.as_object_mut().unwrap().extend(hook.as_object().unwrap().clone());
    Plugin::new("policy").server("policy", json!([function("check", behaviour)])).hook(entry)
}

fn world(plugins: impl IntoIterator<Item = Plugin>) -> World {
    let world = World::new();
    for plugin in plugins {
        plugin.save(&world);
    }
    world
}

fn hang() -> Value {
    json!([{"await_cancel": true}])
}

#[test]
fn what_the_model_reads_where_a_call_is_not_made() {
    let not_made = |why: &str| format!("The call to git.push was not made: hook policy.check denied it: {why}.");
    let long = "x".repeat(3_000);
    let cases: Vec<(Value, Value, String)> = vec![
        (says("deny", json!({"reason": "a push to main"})), json!({}), "a push to main".into()),
        (says("deny", json!({"reason": "One. Two."})), json!({}), "One. Two".into()),
        (says("deny", NO_ONE), json!({}), "no reason given".into()),
        (says("deny", json!({"reason": "a\nb\u{1b}[31m\u{202e}c"})), json!({}), "a\\nb\\u{1b}[31m\\u{202e}c".into()),
        (says("deny", json!({"reason": long})), json!({}), "x".repeat(2_000)),
        (hang(), json!({"timeout": "300ms"}), "did not answer within 300ms".into()),
        (hang(), json!({"timeout": "1s", "on_timeout": "deny"}), "did not answer within 1s".into()),
        (
            hang(),
            json!({"timeout": "1s", "on_timeout": "escalate"}),
            "did not answer within 1s (declined by Ada)".into(),
        ),
        (says("escalate", json!({"reason": "to main"})), json!({}), "to main (declined by Ada)".into()),
        (
            json!({"is_error": "boom"}),
            json!({}),
            "failed: no valid decision: the hook answered with an error: boom".into(),
        ),
        (
            says("ALLOW", NO_ONE),
            json!({}),
            "failed: no valid decision: unknown decision \"ALLOW\" (lower case: allow)".into(),
        ),
        (json!({"error": {"code": -32000, "message": "no"}}), json!({}), "failed: error -32000: no".into()),
    ];
    for (behaviour, hook, why) in cases {
        let mut keys = json!({"on": "pre_tool_call"});
        keys.as_object_mut().unwrap().extend(hook.as_object().unwrap().clone());
        let world = world([policy(behaviour, keys), pushes(&not_made(&why))]);
        let done = world.run(&["--approve", "no", "--as", "Ada"]).code(0);
        assert_eq!(world.calls("git").len(), 0, "{why}: the call was made\n{done}");
        assert_eq!(world.calls("policy").len(), 1, "{why}: one ask, no retries");
    }
}

#[test]
fn what_the_model_reads_where_a_result_is_withheld() {
    let withheld = |why: &str| format!("The result of git.push was withheld: hook policy.check denied it: {why}.");
    for (behaviour, hook, why) in [
        (says("deny", json!({"reason": "it holds a key"})), json!({}), "it holds a key"),
        (says("escalate", json!({"reason": "look"})), json!({}), "look (declined by Ada)"),
        (says("escalate", json!({"reason": "look"})), json!({"expires": "1s"}), "look (expired)"),
        (hang(), json!({"timeout": "300ms"}), "did not answer within 300ms"),
        (
            says("modify", json!({"result": {"no": "list"}})),
            json!({}),
            "failed: no valid decision: `modify`: `result` is neither a string nor a list of content blocks",
        ),
    ] {
        let mut keys = json!({"on": "post_tool_call", "match": {"tools": ["git.*"]}});
        keys.as_object_mut().unwrap().extend(hook.as_object().unwrap().clone());
        let world = world([policy(behaviour, keys), pushes(&withheld(why))]);
        let approve = if why.ends_with("(expired)") { "wait" } else { "no" };
        world.run(&["--approve", approve, "--as", "Ada"]).code(0);
        assert_eq!(world.calls("git").len(), 1, "{why}: made once, before");
    }
}

#[test]
fn a_call_goes_on_where_the_hook_allows_or_fails_with_on_timeout_allow_or_a_person_says_yes() {
    for (behaviour, hook) in [
        (says("allow", NO_ONE), json!({"on": "pre_tool_call"})),
        (json!({"text": "{\"decision\": \"allow\"}"}), json!({"on": "pre_tool_call"})),
        (json!({"structured": {"result": {"decision": "allow"}}}), json!({"on": "pre_tool_call"})),
        (json!({"result": {"decision": "allow"}}), json!({"on": "pre_tool_call"})),
        (hang(), json!({"on": "pre_tool_call", "timeout": "300ms", "on_timeout": "allow"})),
        (json!({"exit": 1}), json!({"on": "pre_tool_call", "on_timeout": "allow"})),
        (json!({"is_error": "x"}), json!({"on": "post_tool_call", "on_timeout": "allow"})),
        (says("escalate", NO_ONE), json!({"on": "pre_tool_call"})),
        (says("escalate", NO_ONE), json!({"on": "post_tool_call"})),
        (hang(), json!({"on": "post_tool_call", "timeout": "300ms", "on_timeout": "escalate"})),
    ] {
        let world = world([policy(behaviour, hook), pushes("pushed")]);
        world.run(&["--approve", "yes"]).code(0);
        assert_eq!(world.calls("git"), [("push".to_owned(), json!({"branch": "main"}))]);
    }
}

#[test]
fn the_event_that_a_hook_gets_holds_the_keys_of_its_moment() {
    let everything = ["job_start", "pre_tool_call", "post_tool_call", "job_end"];
    let mut plugin = policy(says("allow", NO_ONE), json!({"on": everything[0]}));
    for on in &everything[1..] {
        plugin = plugin.hook(json!({"on": on, "call": "policy.check"}));
    }
    let world = world([plugin, pushes("pushed")]);
    let job = world.run(&[]).code(0).json()["job"].clone();
    let events: Vec<Value> =
        world.calls("policy").into_iter().map(|(_, arguments)| arguments["event"].clone()).collect();
    assert_eq!(events.iter().map(|e| e["event"].as_str().unwrap()).collect::<Vec<_>>(), everything);
    for event in &events {
        assert_eq!((&event["job"], &event["agent"], &event["tenant"]), (&job, &json!("worker"), &json!("default")));
    }
    assert_eq!(events[0]["input"], "Do it.");
    for event in &events[1..3] {
        assert_eq!((&event["tool"], &event["arguments"]), (&json!("git.push"), &json!({"branch": "main"})));
        assert_eq!(event["call"], "t1.c0");
    }
    assert_eq!((&events[2]["result"], &events[2]["error"]), (&json!("pushed"), &json!(false)));
    assert_eq!(events[3]["output"], "done");
}

#[test]
fn modify_replaces_the_value_of_each_moment() {
    let answer = |on: &str, more: Value| json!({"when": {"/event/event": on}, "then": [says("modify", more)]});
    let cases = json!({"cases": [
        answer("job_start", json!({"input": "Do it well."})),
        answer("pre_tool_call", json!({"arguments": {"branch": "fix"}})),
        answer("post_tool_call", json!({"result": "pushed, seen"})),
        answer("job_end", json!({"output": "signed"})),
    ]});
    let mut plugin = policy(cases, json!({"on": "job_start"}));
    for on in ["pre_tool_call", "post_tool_call", "job_end"] {
        plugin = plugin.hook(json!({"on": on, "call": "policy.check"}));
    }
    let agent = Plugin::new("p").server("git", json!([function("push", json!({"text": "pushed"}))])).turns(json!([
        {"expect": exactly("Do it well."), "call": {"tool": "git.push", "with": {"branch": "main"}}},
        {"expect": exactly("pushed, seen"), "say": "done"}
    ]));
    let world = world([plugin, agent]);
    assert_eq!(world.run(&[]).code(0).json()["output"], "signed");
    assert_eq!(world.calls("git"), [("push".to_owned(), json!({"branch": "fix"}))]);
}

#[test]
fn a_modified_value_must_fit_the_functions_schema() {
    let schema = json!({"type": "object", "properties": {"branch": {"type": "string"}}, "required": ["branch"]});
    let agent = Plugin::new("p")
        .server("git", json!([{"name": "push", "inputSchema": schema, "behaviour": {"text": "pushed"}}]))
        .turns(json!([
            {"call": {"tool": "git.push", "with": {"branch": "main"}}},
            {"expect": ["was not made: hook policy.check denied it: failed: no valid decision: `modify`", "break the input schema"], "say": "done"}
        ]));
    let world =
        world([policy(says("modify", json!({"arguments": {"branch": 5}})), json!({"on": "pre_tool_call"})), agent]);
    world.run(&[]).code(0);
    assert!(world.calls("git").is_empty());
}

#[test]
fn a_deny_at_the_start_spends_no_turn_and_at_the_end_gives_no_output() {
    let deny = || says("deny", json!({"reason": "closed"}));
    let world1 = world([policy(deny(), json!({"on": "job_start"})), pushes("never")]);
    let done = world1.run(&[]).code(3);
    assert!(done.records("model_answered").is_empty() && world1.calls("git").is_empty());
    assert_eq!(done.json()["error"]["message"], "hook policy.check denied the job: closed");

    let world = world([
        policy(deny(), json!({"on": "job_end"})),
        Plugin::new("p").turns(json!([{"say": "The launch code is 1234."}])),
    ]);
    let done = world.run(&["--output", "text"]).code(3);
    assert_eq!(done.out, "");
    assert!(!done.err.contains("launch code"), "an output is not shown before its verdict\n{done}");
}

#[test]
fn hooks_are_asked_in_the_order_of_plugins_and_each_gets_what_the_one_before_made_of_it() {
    let adds = |tool: &str, to: &str, from: &str| {
        let cases = json!({"cases": [
            {"when": {"/event/arguments/trail": from}, "then": [says("modify", json!({"arguments": {"trail": to}}))]},
            {"then": [says("deny", json!({"reason": "out of order"}))]},
        ]});
        Plugin::new(tool)
            .server(tool, json!([function("check", cases)]))
            .hook(json!({"on": "pre_tool_call", "call": format!("{tool}.check")}))
    };
    let agent = Plugin::new("p").server("git", json!([function("push", json!({"text": "pushed"}))])).turns(json!([
        {"call": {"tool": "git.push", "with": {"trail": "0"}}}, {"expect": exactly("pushed"), "say": "done"}
    ]));
    let world = world([adds("zeta", "0z", "0"), adds("alpha", "0za", "0z"), agent]);
    world.run(&[]).code(0);
    assert_eq!(world.calls("git"), [("push".to_owned(), json!({"trail": "0za"}))]);
}

#[test]
fn the_first_deny_ends_the_chain_and_spares_the_person() {
    let plugin = Plugin::new("policy")
        .server(
            "policy",
            json!([
                function("escalates", says("escalate", json!({"reason": "hm"}))),
                function("denies", says("deny", json!({"reason": "never"}))),
                function("last", says("allow", NO_ONE)),
            ]),
        )
        .hook(json!({"on": "pre_tool_call", "call": "policy.escalates"}))
        .hook(json!({"on": "pre_tool_call", "call": "policy.denies"}))
        .hook(json!({"on": "pre_tool_call", "call": "policy.last"}));
    let world = world([plugin, pushes("The call to git.push was not made: hook policy.denies denied it: never.")]);
    // With --approve wait this would wait for ever if the person were asked.
    let done = world.run(&["--approve", "wait"]).code(0);
    let asked: Vec<String> = world.calls("policy").into_iter().map(|(name, _)| name).collect();
    assert_eq!(asked, ["escalates", "denies"], "{done}");
    assert_eq!(done.json()["summary"]["approvals"], 0);
}

#[test]
fn a_deny_among_parallel_calls_stops_only_its_own() {
    let cases = json!({"cases": [
        {"when": {"/event/arguments/n": 2}, "then": [says("deny", json!({"reason": "two"}))]},
        {"then": [says("allow", NO_ONE)]},
    ]});
    let calls = [1, 2, 3].map(|n| json!({"tool": "git.push", "with": {"n": n}}));
    let agent =
        Plugin::new("p").server("git", json!([function("push", json!({"text": "{arguments}"}))])).turns(json!([
            {"call": calls},
            {"expect": ["{\"n\":1}", "was not made: hook policy.check denied it: two.", "{\"n\":3}"], "say": "done"}
        ]));
    let world = world([policy(cases, json!({"on": "pre_tool_call"})), agent]);
    world.run(&[]).code(0);
    let mut made: Vec<i64> = world.calls("git").iter().map(|(_, a)| a["n"].as_i64().unwrap()).collect();
    made.sort_unstable();
    assert_eq!(made, [1, 3]);
}

#[test]
fn hidden_functions_and_those_of_hooks_are_unknown_to_the_model_and_reach_no_server() {
    let plugin = Plugin::new("p")
        .server(
            "git",
            json!([
                function("_Stop", json!({"text": "secret"})),
                function("check", says("allow", NO_ONE)),
                function("push", json!({"text": "ok"}))
            ]),
        )
        .hook(json!({"on": "job_start", "call": "git.check"}))
        .turns(json!([
            {"say": "Hm.", "call": {"tool": "git._Stop"}},
            {"expect": exactly("unknown tool: git._Stop"), "call": {"tool": "git.check", "with": {"event": {}}}},
            {"expect": exactly("unknown tool: git.check"), "call": {"tool": "git.nothing"}},
            {"expect": exactly("unknown tool: git.nothing"), "call": {"tool": "web.get"}},
            {"expect": exactly("unknown tool: web.get"), "call": {"tool": "push\u{1b}[1m"}},
            {"expect": exactly("unknown tool: push\\u{1b}[1m"), "say": "done"}
        ]));
    let world = World::with(plugin);
    world.run(&[]).code(0);
    let asked: Vec<Value> = world.calls("git").into_iter().map(|(_, a)| a["event"]["event"].clone()).collect();
    assert_eq!(asked, ["job_start"], "the one ask of the hook and nothing else");
}

#[test]
fn arguments_that_are_no_object_reach_no_server() {
    let world = World::with(Plugin::new("p").server("git", json!([function("push", json!({"text": "ok"}))])).turns(json!([
        {"call": {"tool": "git.push", "raw": "{\"branch\": "}},
        {"expect": exactly("The call to git.push was not made: its arguments are not a JSON object."), "say": "done"}
    ])));
    world.run(&[]).code(0);
    assert!(world.calls("git").is_empty());
}

#[test]
fn a_late_answer_is_recorded_as_late_and_the_server_was_told_to_stop() {
    let slow = json!([{"sleep_ms": 1500}, says("allow", NO_ONE)]);
    let agent = Plugin::new("p").server("git", json!([function("push", json!({"text": "pushed"}))])).turns(json!([
        {"call": {"tool": "git.push"}},
        {"expect": "did not answer within 200ms", "say": "ok", "delay": "2s"}
    ]));
    let world = world([policy(slow, json!({"on": "pre_tool_call", "timeout": "200ms"})), agent]);
    let done = world.run(&[]).code(0);
    let late = done.records("hook_late");
    assert_eq!(late.len(), 1, "{done}");
    assert!(late[0]["after_ms"].as_u64().unwrap() >= 1_000);
    assert_eq!(done.records("hook_answered")[0]["outcome"]["decision"], "timed_out");
    assert!(world.was_cancelled("policy") && world.calls("git").is_empty());
}

#[test]
fn an_event_over_a_mebibyte_is_not_sent_and_never_cut() {
    let agent = Plugin::new("p").server("git", json!([function("read", json!({"big_text": 1_100_000}))])).turns(json!([
        {"call": {"tool": "git.read"}},
        {"expect": exactly("The result of git.read was withheld: hook policy.check denied it: failed: event too large."), "say": "ok"}
    ]));
    let world = world([policy(says("allow", NO_ONE), json!({"on": "post_tool_call"})), agent]);
    world.run(&[]).code(0);
    assert!(world.calls("policy").is_empty());
}

#[test]
fn large_values_stand_in_records_by_digest_and_the_model_reads_their_ends() {
    let agent = Plugin::new("p").server("git", json!([function("read", json!({"big_text": 200_000}))])).turns(json!([
        {"call": {"tool": "git.read"}}, {"expect": {"matches": "^x{1000,}[^x]+x{1000,}$"}, "say": "ok"}
    ]));
    let world = world([policy(says("allow", NO_ONE), json!({"on": "post_tool_call"})), agent]);
    let done = world.run(&[]).code(0);
    let result = &done.records("tool_returned")[0]["outcome"]["result"];
    assert_eq!(result["bytes"], 200_002, "with its quotes");
    assert!(result["sha256"].as_str().unwrap().len() == 64 && result.get("value").is_none(), "{result}");
    assert_eq!(world.calls("policy")[0].1["event"]["result"].as_str().unwrap().len(), 200_000, "a hook gets it whole");
    assert!(done.out.len() < 60_000, "the history stays small");
}

#[test]
fn a_changed_result_has_no_structured_content() {
    let plugin = Plugin::new("policy")
        .server(
            "policy",
            json!([
                function("first", says("modify", json!({"result": "changed"}))),
                function("second", says("allow", NO_ONE)),
            ]),
        )
        .hook(json!({"on": "post_tool_call", "call": "policy.first"}))
        .hook(json!({"on": "post_tool_call", "call": "policy.second"}));
    let result = json!({"result": {"content": [{"type": "text", "text": "plain"}], "structuredContent": {"secret": 1}, "_meta": {"x": 1}}});
    let agent = Plugin::new("p").server("git", json!([function("push", result)])).turns(json!([
        {"call": {"tool": "git.push"}}, {"expect": exactly("changed"), "say": "ok"}
    ]));
    let world = world([plugin, agent]);
    world.run(&[]).code(0);
    let events: Vec<Value> = world.calls("policy").into_iter().map(|(_, a)| a["event"].clone()).collect();
    assert_eq!((&events[0]["result"], &events[0]["structured"]), (&json!("plain"), &json!({"secret": 1})));
    assert_eq!(events[1]["result"], "changed");
    assert!(events[1].get("structured").is_none());
}

#[test]
fn a_hook_server_that_dies_is_restarted_and_its_hooks_fail_visibly_meanwhile() {
    let cases = json!({"cases": [
        {"when": {"/event/arguments/n": 1}, "then": [{"exit": 3}]}, {"then": [says("allow", NO_ONE)]}
    ]});
    let agent = Plugin::new("p").server("git", json!([function("push", json!({"text": "pushed"}))])).turns(json!([
        {"call": {"tool": "git.push", "with": {"n": 1}}},
        {"expect": "was not made: hook policy.check denied it: failed:", "call": {"tool": "git.push", "with": {"n": 2}}, "delay": "3s"},
        {"expect": exactly("pushed"), "say": "done"}
    ]));
    let world = world([policy(cases, json!({"on": "pre_tool_call"})), agent]);
    let done = world.run(&[]).code(0);
    let states: Vec<String> =
        done.records("tool_state").iter().map(|r| r["state"].as_str().unwrap().to_owned()).collect();
    assert!(states.contains(&"restarting".to_owned()) && states.contains(&"ready".to_owned()), "{states:?}\n{done}");
}

#[test]
fn a_declared_hook_that_cannot_be_asked_denies_and_is_said_at_once() {
    let missing = Plugin::new("policy")
        .server("policy", json!([function("other", says("allow", NO_ONE))]))
        .hook(json!({"on": "pre_tool_call", "call": "policy.check"}));
    let reads = "The call to git.push was not made: hook policy.check denied it: failed: the tool policy lists no function check.";
    let world = world([missing, pushes(reads)]);
    world.run(&["--output", "text"]).code(0).tells(&["policy/plugin.yaml:1", "policy.check"]);
    assert!(world.calls("git").is_empty());
    world.call(&["check", "policy"]).code(2).tells(&["policy.check"]);
}

#[test]
fn no_server_outlives_its_job() {
    let world = World::new();
    let (pid, grandchild) = (world.path("pid"), world.path("grandchild"));
    Plugin::new("p")
        .scripted("git", json!({"start": [{"write_pid": pid}, {"grandchild": grandchild}], "tools": [function("push", json!({"text": "ok"}))]}), json!({}))
        .turns(json!([{"call": {"tool": "git.push"}}, {"say": "done"}]))
        .save(&world);
    world.run(&[]).code(0);
    for file in [pid, grandchild] {
        let pid: i32 = std::fs::read_to_string(&file).unwrap().parse().unwrap();
        eventually("a server's process ends", || (!crate::support::lives(pid)).then_some(()));
    }
}
