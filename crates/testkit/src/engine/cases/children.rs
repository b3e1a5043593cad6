//! Subagents: a tree of jobs over a restart, and its cancel.

use super::{completed, effects};
use crate::engine::{Begin, Engine, Found, Mount, Stage, approvals, end, normal};
use crate::plugin::{Plugin, function, says};
use crate::process::eventually;
use serde_json::{Value, json};

/// `worker` starts `left` and `right` at once; `left` starts `deep`, whose call a person is asked about.
fn tree(stage: Stage) -> Stage {
    let start = |agent: &str| json!({"tool": "agent.start", "with": {"agent": agent, "input": format!("Be {agent}.")}});
    let push = |by: &str| json!({"tool": "fx.push", "with": {"by": by}});
    let functions = json!([stage.appends("push", "{arguments}", "pushed")]);
    stage.with(
        Plugin::new("p")
            .server("policy", json!([function("check", says("escalate", json!({"reason": "deep"})))]))
            .server("fx", functions)
            .hook(json!({"on": "pre_tool_call", "call": "policy.check", "match": {"agents": ["deep"]}, "timeout": "30s"}))
            .agent(json!({"subagents": ["left", "right"], "tools": []}))
            .turns(json!([{"call": [start("left"), start("right")]}, {"expect": ["left: deep", "right"], "say": "done"}]))
            .other("left", json!({"subagents": ["deep"], "tools": ["fx"]}), json!([
                {"expect": "Be left.", "call": [push("left"), start("deep")]}, {"expect": ["pushed", "deep"], "say": "left: deep"}
            ]))
            .other("right", json!({"tools": ["fx"]}), json!([{"expect": "Be right.", "call": push("right")}, {"say": "right"}]))
            .other("deep", json!({"tools": ["fx"]}), json!([{"expect": "Be deep.", "call": push("deep")}, {"expect": "pushed", "say": "deep"}])),
    )
}

/// The job of an agent.
fn of(engine: &dyn Engine, agent: &str) -> Value {
    let jobs: Vec<Value> = engine.jobs().into_iter().filter(|job| job["agent"] == agent).collect();
    assert_eq!(jobs.len(), 1, "one job of {agent}: {jobs:#?}");
    jobs[0].clone()
}

const OTHERS: [&str; 2] = ["{\"by\":\"left\"}", "{\"by\":\"right\"}"];

/// Waits until only `deep`'s person is awaited.
fn until_deep_waits(engine: &dyn Engine) -> String {
    let open = approvals(engine, 1);
    eventually("right is over", || (of(engine, "right")["status"] == "completed").then_some(()));
    effects(engine, &OTHERS);
    open[0].1.clone()
}

/// All go on after a kill, and each call was made once.
pub fn a_tree(mount: &dyn Mount) -> Found {
    let mut engine = mount.open(tree(mount.stage()));
    let job = engine.begin(Begin::agent("worker"));
    let approval = until_deep_waits(&*engine);
    engine.kill();
    engine.restart(None);
    engine.decide(&approval, true, "Ada", None);
    completed(&*engine, &job, "done");
    effects(&*engine, &[OTHERS[0], OTHERS[1], "{\"by\":\"deep\"}"]);
    let jobs = ["worker", "left", "right", "deep"].map(|agent| of(&*engine, agent));
    let ids = jobs.each_ref().map(|job| job["job"].as_str().unwrap_or_default());
    for (child, parent) in [(1, 0), (2, 0), (3, 1)] {
        assert_eq!(jobs[child]["parent_job"], ids[parent]);
    }
    assert!(jobs.iter().all(|job| job["status"] == "completed"), "{jobs:#?}");
    engine.audit();
    vec![("histories".into(), normal(&*engine, &ids))]
}

/// Whatever is below a cancelled job is cancelled; what was over stays so.
pub fn cancelled_as_a_tree(mount: &dyn Mount) -> Found {
    let mut engine = mount.open(tree(mount.stage()));
    let job = engine.begin(Begin::agent("worker"));
    until_deep_waits(&*engine);
    engine.cancel(&job, "Ada");
    assert_eq!(end(&*engine, &job)["status"], "cancelled");
    for agent in ["left", "deep"] {
        let child = of(&*engine, agent);
        assert_eq!(end(&*engine, child["job"].as_str().unwrap_or_default())["status"], "cancelled", "{agent}");
    }
    assert_eq!(of(&*engine, "right")["status"], "completed");
    assert!(engine.open_approvals().is_empty());
    effects(&*engine, &OTHERS);
    engine.audit();
    vec![]
}
