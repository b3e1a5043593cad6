//! Agents that start agents: child jobs, hooked, approved, cancelled and taken up again as the jobs above them (SPEC §1, §3, §8).

mod crash;
mod ends;

use crate::support::{Finished, Plugin, Running, World, exactly, function, says};
use serde_json::{Value, json};

/// A call that starts an agent.
fn start(agent: &str, input: impl Into<Value>) -> Value {
    json!({"tool": "agent.start", "with": {"agent": agent, "input": input.into()}})
}

/// The jobs of the store, oldest first.
fn jobs(world: &World) -> Vec<Value> {
    let listed = world.call(&["jobs", "list", "--db", "jobs.db", "--output", "json"]).code(0);
    let mut jobs = listed.json()["jobs"].as_array().unwrap().clone();
    jobs.reverse();
    jobs
}

fn id(job: &Value) -> &str {
    job["job"].as_str().unwrap()
}

/// The statuses of the jobs, oldest first.
fn statuses(world: &World) -> Vec<String> {
    jobs(world).iter().map(|job| job["status"].as_str().unwrap().to_owned()).collect()
}

fn history(world: &World, job: &str) -> Vec<Value> {
    let told = world.call(&["jobs", "history", job, "--db", "jobs.db", "--output", "json"]).code(0);
    told.json()["history"].as_array().unwrap().clone()
}

fn facts(world: &World, job: &str, kind: &str) -> Vec<Value> {
    history(world, job).into_iter().filter(|record| record["kind"] == kind).collect()
}

fn resume(world: &World, job: &str, more: &[&str]) -> Finished {
    world.call(&[&["jobs", "resume", job, "--db", "jobs.db", "--output", "json"], more].concat())
}

/// Every history verifies and replays.
fn replays(world: &World) {
    world.call(&["audit", "verify", "--db", "jobs.db"]).code(0);
    for job in jobs(world) {
        world.call(&["replay", id(&job), "--db", "jobs.db"]).code(0);
    }
}

/// The events that the hook was asked about.
fn events(world: &World) -> Vec<Value> {
    world.calls("policy").into_iter().map(|(_, arguments)| arguments["event"].clone()).collect()
}

/// `worker` starts `writer`, which pushes; `policy.check` is a hook at each of these moments.
fn pair(cases: &Value, moments: &[&str], reads: &Value) -> World {
    let mut plugin = Plugin::new("p")
        .server("policy", json!([function("check", json!({ "cases": cases }))]))
        .server("git", json!([function("push", json!({"text": "pushed"}))]));
    for on in moments {
        plugin = plugin.hook(json!({"on": on, "call": "policy.check", "timeout": "30s"}));
    }
    World::with(
        plugin
            .agent(json!({"subagents": ["writer"], "tools": []}))
            .turns(json!([{"call": start("writer", "Write it.")}, {"expect": reads, "say": "done"}]))
            .other(
                "writer",
                json!({"tools": ["git"], "description": "Writes."}),
                json!([{"expect": "Write it.", "call": {"tool": "git.push"}}, {"expect": "pushed", "say": "written"}]),
            ),
    )
}

fn allow() -> Value {
    json!({"then": [says("allow", json!({}))]})
}

fn when(conditions: Value, answer: Value) -> Value {
    json!({"when": conditions, "then": [answer]})
}

const MOMENTS: [&str; 4] = ["job_start", "pre_tool_call", "post_tool_call", "job_end"];

#[test]
fn a_childs_job_is_hooked_like_any_job_and_its_events_name_its_parent() {
    let world = pair(&json!([allow()]), &MOMENTS, &exactly("written"));
    let done = world.run(&["--agent", "worker"]).code(0).json();
    assert_eq!(done["output"], "done");
    let parent = done["job"].as_str().unwrap();
    let all = jobs(&world);
    assert_eq!(all.len(), 2);
    let child = id(&all[1]);
    assert_eq!((&all[1]["parent_job"], &all[1]["agent"]), (&json!(parent), &json!("writer")));
    assert_eq!(all[0]["session"], all[1]["session"]);
    let seen: Vec<Value> = events(&world)
        .iter()
        .map(|e| json!([e["event"], e["job"] == child, e.get("parent_job"), e.get("tool")]))
        .collect();
    let (start, push) = ("agent.start", "git.push");
    assert_eq!(
        json!(seen),
        json!([
            ["job_start", false, null, null],
            ["pre_tool_call", false, null, start],
            ["job_start", true, parent, null],
            ["pre_tool_call", true, parent, push],
            ["post_tool_call", true, parent, push],
            ["job_end", true, parent, null],
            ["post_tool_call", false, null, start],
            ["job_end", false, null, null],
        ])
    );
    let events = events(&world);
    assert_eq!(events[1]["arguments"], json!({"agent": "writer", "input": "Write it."}));
    assert_eq!(events[2]["input"], "Write it.");
    assert_eq!(events[6]["result"], "written");
    assert_eq!(events[6]["structured"], json!({"agent": "writer", "job": child, "status": "completed"}));
    replays(&world);
    let shown = world.call(&["jobs", "show", parent, "--db", "jobs.db"]).code(0);
    assert!(shown.out.contains(&format!("started     {child} (writer, completed)")), "{shown}");
    let shown = world.call(&["jobs", "show", parent, "--db", "jobs.db", "--output", "json"]).code(0);
    assert_eq!(shown.json()["children"][0]["job"], child);
    let listed = world.call(&["jobs", "list", "--db", "jobs.db"]).code(0);
    assert!(listed.out.contains(&format!("started by {parent}")), "{listed}");
    let told = world.call(&["jobs", "history", parent, "--db", "jobs.db"]).code(0);
    assert!(told.out.contains(&format!("calls agent.start, as {child}, with")), "{told}");
}

#[test]
fn a_hook_before_the_start_denies_it_and_no_job_is_made() {
    let cases =
        json!([when(json!({"/event/tool": "agent.start"}), says("deny", json!({"reason": "not now"}))), allow()]);
    let reads = exactly("The call to agent.start was not made: hook policy.check denied it: not now.");
    let world = pair(&cases, &["pre_tool_call"], &reads);
    world.run(&["--agent", "worker"]).code(0);
    assert_eq!(jobs(&world).len(), 1);
    assert!(world.calls("git").is_empty());
}

#[test]
fn a_hook_before_the_start_changes_the_input_and_one_that_names_another_agent_is_no_valid_answer() {
    let modify = |agent: &str| says("modify", json!({"arguments": {"agent": agent, "input": "Write it. Be brief."}}));
    let on_start = json!({"/event/tool": "agent.start"});
    let world =
        pair(&json!([when(on_start.clone(), modify("writer")), allow()]), &["pre_tool_call"], &exactly("written"));
    world.run(&["--agent", "worker"]).code(0);
    let child = jobs(&world).remove(1);
    assert_eq!(facts(&world, id(&child), "started")[0]["spec"]["input"]["value"], "Write it. Be brief.");
    let reads = json!({"matches": "hook policy.check denied it: failed: .*writer"});
    let world = pair(&json!([when(on_start, modify("worker")), allow()]), &["pre_tool_call"], &reads);
    world.run(&["--agent", "worker"]).code(0);
    assert_eq!(jobs(&world).len(), 1, "an agent that is not named can't be started by a hook either");
}

#[test]
fn a_person_may_be_asked_before_an_agent_is_started() {
    let cases =
        json!([when(json!({"/event/tool": "agent.start"}), says("escalate", json!({"reason": "hm"}))), allow()]);
    for (approve, made) in [("yes", 2), ("no", 1)] {
        let reads = if approve == "yes" { exactly("written") } else { json!({"matches": "declined by"}) };
        let world = pair(&cases, &["pre_tool_call"], &reads);
        world.run(&["--agent", "worker", "--approve", approve]).code(0);
        assert_eq!(jobs(&world).len(), made);
        replays(&world);
    }
}

/// `worker` starts `middle`, which starts `writer`, which pushes.
fn three(push: Value, cases: &Value, reads: &Value) -> World {
    let task = "Go.";
    World::with(
        Plugin::new("p")
            .server("policy", json!([function("check", json!({ "cases": cases }))]))
            .server("git", json!([function("push", push)]))
            .hook(json!({"on": "pre_tool_call", "call": "policy.check", "timeout": "30s"}))
            .agent(json!({"subagents": ["middle"], "tools": []}))
            .turns(json!([{"call": start("middle", task)}, {"expect": exactly("passed on"), "say": "done"}]))
            .other(
                "middle",
                json!({"subagents": ["writer"], "tools": []}),
                json!([{"call": start("writer", task)}, {"expect": exactly("written"), "say": "passed on"}]),
            )
            .other(
                "writer",
                json!({"tools": ["git"]}),
                json!([{"call": {"tool": "git.push", "with": {"n": 1}}}, {"expect": reads, "say": "written"}]),
            ),
    )
}

fn on_push(decision: &str) -> Value {
    json!([when(json!({"/event/tool": "git.push"}), says(decision, json!({"reason": "a push"}))), allow()])
}

#[test]
fn an_approval_of_a_grandchild_shows_the_whole_line_of_jobs_and_its_yes_goes_on() {
    let world = three(json!({"text": "pushed"}), &on_push("escalate"), &exactly("pushed"));
    let running = Running::start(world.job(&["--agent", "worker", "--approve", "wait"]));
    let approval = world.open_approval();
    let all = jobs(&world);
    let line: Vec<&str> = all.iter().map(id).collect();
    let shown = world.call(&["approvals", "show", &approval, "--db", "jobs.db"]).code(0);
    assert!(shown.out.contains(&line.join(" > ")), "{shown}");
    let json = world.call(&["approvals", "show", &approval, "--db", "jobs.db", "--output", "json"]).code(0).json();
    assert_eq!((&json["job"], &json["parent_jobs"]), (&json!(line[2]), &json!([line[0], line[1]])));
    world.call(&["approvals", "approve", &approval, "--db", "jobs.db", "--as", "Ada"]).code(0);
    assert_eq!(running.finish().code(0).json()["output"], "done");
    assert_eq!(world.calls("git").len(), 1);
    assert_eq!(facts(&world, line[2], "approval_decided")[0]["by"], "Ada");
    assert_eq!(statuses(&world), ["completed"; 3]);
    replays(&world);
}

#[test]
fn a_terminals_answer_decides_a_grandchilds_approval_too() {
    for (approve, reads) in [("yes", exactly("pushed")), ("no", json!({"matches": "declined by"}))] {
        let world = three(json!({"text": "pushed"}), &on_push("escalate"), &reads);
        world.run(&["--agent", "worker", "--approve", approve]).code(0);
        assert_eq!(world.calls("git").len(), usize::from(approve == "yes"));
    }
}

#[test]
fn a_detached_job_leaves_when_only_a_grandchild_waits_and_goes_on_after_the_yes() {
    let world = three(json!({"text": "pushed"}), &on_push("escalate"), &exactly("pushed"));
    let left = world.run(&["--agent", "worker", "--detach"]).code(4).json();
    let parent = left["job"].as_str().unwrap().to_owned();
    let approval = world.open_approval();
    assert_eq!((&left["status"], &left["approvals"]), (&json!("waiting"), &json!([approval])));
    assert_eq!(statuses(&world), ["waiting"; 3]);
    assert!(jobs(&world).iter().all(|job| job["running"] == false), "nobody holds what waits");
    let shown = world.call(&["jobs", "show", &parent, "--db", "jobs.db"]).code(0);
    assert!(shown.out.contains(&approval), "{shown}");

    resume(&world, &parent, &["--detach"]).code(4);
    let asked = events(&world).len();
    world.call(&["approvals", "approve", &approval, "--db", "jobs.db"]).code(0);
    let done = resume(&world, &parent, &["--detach"]).code(0);
    assert_eq!(done.json()["output"], "done");
    assert_eq!(world.calls("git"), [("push".to_owned(), json!({"n": 1}))]);
    assert_eq!(events(&world).len(), asked, "no answer is asked again");
    assert_eq!(statuses(&world), ["completed"; 3]);
    replays(&world);
}

#[test]
fn an_agent_that_names_itself_ends_at_the_depth_limit() {
    let deepest = "The call to agent.start was not made: subagents nest at most 3 deep.";
    let world = World::with(
        Plugin::new("p")
            .server("policy", json!([function("check", says("allow", json!({})))]))
            .hook(json!({"on": "pre_tool_call", "call": "policy.check"}))
            .agent(json!({"subagents": ["worker"], "tools": []}))
            .turns(json!([{"call": start("worker", "Go.")}, {"say": "done"}])),
    );
    world.run(&["--agent", "worker"]).code(0);
    let all = jobs(&world);
    assert_eq!(all.len(), 4);
    for (i, job) in all.iter().enumerate() {
        let spec = &facts(&world, id(job), "started")[0]["spec"];
        let above: Vec<&str> = all[..i].iter().map(id).collect();
        assert_eq!(spec["parent_jobs"].as_array().map_or(vec![], Clone::clone), above);
        let call = &facts(&world, id(job), "model_answered")[0]["calls"][0];
        assert_eq!(call.get("refused"), (i == 3).then(|| json!(deepest)).as_ref());
    }
    assert_eq!(events(&world).len(), 3, "nobody is asked about what can't be");
    replays(&world);
}

#[test]
fn a_tenant_may_allow_no_subagents() {
    let world = pair(&json!([allow()]), &[], &json!({"matches": r"this tenant's jobs start no subagents"}));
    world.write("hookwright.yaml", "tenants:\n  - id: t\n    plugins: [p]\n    limits: { subagent_depth: 0 }\n");
    world
        .call(&["run", "--config", "hookwright.yaml", "--db", "jobs.db", "--agent", "worker", "--input", "Go."])
        .code(0);
    assert_eq!(jobs(&world).len(), 1);
}

#[test]
fn children_of_one_turn_run_at_the_same_time_and_each_result_is_its_own() {
    let cases = json!([when(json!({"/event/agent": "writer"}), says("escalate", json!({"reason": "hm"}))), allow()]);
    let world = World::with(
        Plugin::new("p")
            .server("policy", json!([function("check", json!({ "cases": cases }))]))
            .hook(json!({"on": "job_start", "call": "policy.check"}))
            .agent(json!({"subagents": ["writer"], "tools": []}))
            .turns(json!([
                {"call": [start("writer", "one"), start("writer", "two")]},
                {"expect": [{"matches": "(?s)^written.*written$"}], "say": "done"},
            ]))
            .other("writer", json!({"tools": []}), json!([{"say": "written"}])),
    );
    let running = Running::start(world.job(&["--agent", "worker", "--approve", "wait"]));
    let both = crate::support::eventually("both children wait", || {
        let open = world.open_approvals();
        (open.len() == 2).then_some(open)
    });
    assert_ne!(both[0]["job"], both[1]["job"]);
    let inputs: Vec<&Value> = both.iter().map(|a| &a["value"]["value"]).collect();
    assert!(inputs.contains(&&json!("one")) && inputs.contains(&&json!("two")));
    for approval in &both {
        world.call(&["approvals", "approve", approval["id"].as_str().unwrap(), "--db", "jobs.db"]).code(0);
    }
    running.finish().code(0);
    assert_eq!(statuses(&world), ["completed"; 3]);
    replays(&world);
}

#[test]
fn a_child_goes_on_after_a_yes_while_its_parent_has_something_else_to_do() {
    let cases = json!([when(json!({"/event/agent": "writer"}), says("escalate", json!({"reason": "hm"}))), allow()]);
    let push = json!({"cases": [{"when": {"/n": 1}, "then": [{"sleep_ms": 3_000}, {"text": "pushed"}]}]});
    let world = World::with(
        Plugin::new("p")
            .server("policy", json!([function("check", json!({ "cases": cases }))]))
            .server("git", json!([function("push", push)]))
            .hook(json!({"on": "job_start", "call": "policy.check"}))
            .agent(json!({"subagents": ["writer"], "tools": ["git"]}))
            .turns(json!([
                {"call": [start("writer", "one"), {"tool": "git.push", "with": {"n": 1}}]},
                {"expect": ["written", "pushed"], "say": "done"},
            ]))
            .other("writer", json!({"tools": []}), json!([{"say": "written"}])),
    );
    let running = Running::start(world.job(&["--agent", "worker", "--detach"]));
    world.call(&["approvals", "approve", &world.open_approval(), "--db", "jobs.db"]).code(0);
    running.finish().code(0);
    assert_eq!(statuses(&world), ["completed"; 2]);
}

#[test]
fn a_childs_failure_is_an_error_that_the_parents_model_reads() {
    for (turns, reads) in [
        (json!([{"error": "refused"}]), "^The agent writer failed: ModelFailed: .*scripted: refused"),
        (json!([{"say": "no", "stop": "refusal"}]), "^The agent writer failed: Refused: "),
    ] {
        let world = World::with(
            Plugin::new("p")
                .agent(json!({"subagents": ["writer"]}))
                .turns(json!([{"call": start("writer", "x")}, {"expect": {"matches": reads}, "say": "done"}]))
                .other("writer", json!({}), turns),
        );
        let done = world.run(&["--agent", "worker"]).code(0);
        let outcome = &done.records("tool_returned")[0]["outcome"];
        assert_eq!((&outcome["end"], &outcome["is_error"]), (&json!("returned"), &json!(true)));
        assert_eq!(statuses(&world), ["completed", "failed"]);
        replays(&world);
    }
}

#[test]
fn a_denied_childs_output_is_withheld_from_its_parent() {
    let cases = json!([
        when(json!({"/event/event": "job_end", "/event/agent": "writer"}), says("deny", json!({"reason": "secret"}))),
        allow()
    ]);
    let reads = json!({"matches": r"^The agent writer failed: HookDenied: hook policy.check denied the output: secret \(job job_[0-9a-f]{16}\)\.$"});
    pair(&cases, &["job_end"], &reads).run(&["--agent", "worker"]).code(0);
}

#[test]
fn wrong_starts_are_refused_in_words_and_nobody_is_asked() {
    for (with, words) in [
        (json!({"agent": "other", "input": "x"}), "it can't start an agent `other`; it can start: writer."),
        (json!({"agent": "worker", "input": "x"}), "it can't start an agent `worker`; it can start: writer."),
        (json!({"agent": "writer"}), "`input` is missing: what the agent is to do."),
        (json!({"input": "x"}), "`agent` is missing; it is one of: writer."),
        (json!({"agent": "writer", "input": 7}), "`input` is not a text, and the agent `writer` takes text."),
        (json!({"agent": "writer", "input": "x", "model": "y"}), "it takes `agent` and `input`, and no `model`."),
    ] {
        let reads = exactly(&format!("The call to agent.start was not made: {words}"));
        let world = World::with(
            Plugin::new("p")
                .server("policy", json!([function("check", says("allow", json!({})))]))
                .hook(json!({"on": "pre_tool_call", "call": "policy.check"}))
                .agent(json!({"subagents": ["writer"], "tools": []}))
                .turns(json!([{"call": {"tool": "agent.start", "with": with}}, {"expect": reads, "say": "done"}]))
                .other("writer", json!({}), json!([{"say": "written"}])),
        );
        world.run(&["--agent", "worker"]).code(0);
        assert_eq!(jobs(&world).len(), 1, "{with}");
        assert!(events(&world).is_empty(), "{with}");
    }
}

#[test]
fn an_agent_that_names_no_subagents_has_no_such_function() {
    for keys in [json!({}), json!({"tools": ["*"]}), json!({"tools": ["agent.start"]})] {
        let world = World::with(
            Plugin::new("p")
                .agent(keys)
                .turns(json!([
                    {"call": start("writer", "x")}, {"expect": exactly("unknown tool: agent.start"), "say": "done"},
                ]))
                .other("writer", json!({}), json!([{"say": "written"}])),
        );
        world.run(&["--agent", "worker"]).code(0);
    }
}

#[test]
fn a_childs_input_and_output_are_json_where_it_declares_schemas() {
    let number = json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}});
    let world = World::with(
        Plugin::new("p")
            .agent(json!({"subagents": ["counter"], "tools": []}))
            .turns(json!([
                {"call": start("counter", json!({"n": "x"}))},
                {"expect": {"matches": "^The call to agent.start was not made: the input does not fit the agent counter: .*"}, "call": start("counter", json!({"n": 1}))},
                {"expect": exactly(r#"{"n":2}"#), "say": "done"},
            ]))
            .other(
                "counter",
                json!({"input_schema": number, "output_schema": number}),
                json!([{"expect": "1", "say": "{\"n\": 2}"}]),
            ),
    );
    world.run(&["--agent", "worker"]).code(0);
    assert_eq!(statuses(&world), ["completed"; 2]);
    replays(&world);
}

#[test]
fn an_agent_whose_model_cant_be_had_is_told_of_in_words() {
    let reads = json!({"matches": "^The call to agent.start was not made: the agent writer can't be started: the model can't be used: "});
    let world = World::with(
        Plugin::new("p")
            .agent(json!({"subagents": ["writer"]}))
            .turns(json!([{"call": start("writer", "x")}, {"expect": reads, "say": "done"}]))
            .other("writer", json!({"model": "anthropic/claude-sonnet-4-5"}), json!([{"say": "x"}])),
    );
    world.run(&["--agent", "worker"]).code(0);
    assert_eq!(jobs(&world).len(), 1);
}

#[test]
fn the_story_tells_a_childs_part_behind_the_childs_name() {
    let world = pair(&on_push("deny"), &["pre_tool_call"], &exactly("written"));
    world.write("p/writer.yaml", json!({"turns": [{"call": {"tool": "git.push"}}, {"say": "written"}]}).to_string());
    let told = world.run(&["--agent", "worker", "--output", "text"]).code(0);
    let child: Vec<&str> = told.err.lines().filter(|line| line.starts_with("  writer │ ")).collect();
    for part in ["agent    ", "git.push", "policy.check          deny", "hook policy.check", "written", "completed"] {
        assert!(child.iter().any(|line| line.contains(part)), "{part}\n{told}");
    }
    assert!(told.err.lines().any(|line| line.starts_with("t1.c0") && line.contains("agent.start")), "{told}");
    assert_eq!(told.out, "done\n");
}

#[test]
fn lifecycle_hooks_at_a_childs_start_and_end_are_its_own() {
    let todo = json!([
        function("_SubagentStart", json!({"text": "Mind the style."})),
        function("_UserPromptSubmit", json!({"text": "prompted"})),
        function("_Stop", json!({"text": "really?"})),
    ]);
    let world = World::with(
        Plugin::new("p")
            .server("todo", todo)
            .agent(json!({"subagents": ["writer"], "tools": []}))
            .turns(json!([
                {"expect": "prompted", "call": start("writer", "x")}, {"expect": "written", "say": "done"}, {"expect": "really?", "say": "done"},
            ]))
            .other(
                "writer",
                json!({"tools": []}),
                json!([{"expect": "Mind the style.", "say": "written"}, {"expect": "really?", "say": "written"}]),
            ),
    );
    let mut command = world.job(&["--agent", "worker"]);
    command.env("MCP_HOOK_SERVERS", "todo");
    Running::start(command).finish().code(0);
    let child = jobs(&world).remove(1);
    let points: Vec<Value> = facts(&world, id(&child), "begun")
        .iter()
        .filter(|r| r["command"]["do"] == "ask_lifecycle")
        .map(|r| r["command"]["effect"].clone())
        .collect();
    assert_eq!(points, ["subagent_start", "t1.stop", "t2.stop"]);
    assert!(facts(&world, id(&child), "session_ended").is_empty(), "its session is its parent's");
    replays(&world);
}

#[test]
fn whoever_decides_a_childs_approval_is_sent_to_the_first_job_of_the_line() {
    let pushes = when(json!({"/event/tool": "git.push"}), says("escalate", json!({"reason": "careful"})));
    let world = pair(&json!([pushes, allow()]), &["pre_tool_call"], &exactly("written"));
    world.run(&["--agent", "worker", "--detach"]).code(4);
    let (parent, child) = (id(&jobs(&world)[0]).to_owned(), id(&jobs(&world)[1]).to_owned());
    let list = world.call(&["jobs", "list", "--db", "jobs.db"]).code(0);
    assert!(list.out.contains(&format!("started by {parent}")), "{list}");
    let resume = format!("jobs resume {parent} --db jobs.db");
    let shown = world.call(&["jobs", "show", &child, "--db", "jobs.db"]).code(0);
    assert!(shown.out.contains(&resume), "{shown}");
    world.call(&["approvals", "approve", &world.open_approval(), "--db", "jobs.db"]).code(0).tells(&[&resume]);
    // Whoever goes on with the child alone is told that its parent is not over.
    world.call(&["jobs", "resume", &child, "--db", "jobs.db"]).code(0).tells(&["not over", &resume]);
    let done = world.call(&["jobs", "resume", &parent, "--db", "jobs.db"]).code(0);
    assert!(done.err.contains("1 subagent's job (counted apart)"), "{done}");
}
