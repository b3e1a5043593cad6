//! Manifests that change while a job runs (SPEC §8).

use super::{completed, effects};
use crate::engine::{Begin, Found, Mount, Stage, approvals, normal};
use crate::plugin::{Plugin, function, says};
use serde_json::{Value, json};

/// The job keeps the hooks that it was begun with; the next one has those that stand there now.
pub fn changed_while_a_job_runs(mount: &dyn Mount) -> Found {
    let plugin = |stage: &Stage, hooked: bool| {
        let on = |when: Value, then: Value| json!({"when": when, "then": [then]});
        let cases = json!({"cases": [
            on(json!({"/event/event": "job_end"}), says("modify", json!({"output": "done, signed"}))),
            on(json!({"/event/arguments/n": 1}), says("escalate", json!({"reason": "one"}))),
            on(json!({"/event/arguments/n": 2}), says("deny", json!({"reason": "two"}))),
            {"then": [says("allow", json!({}))]},
        ]});
        let plugin = Plugin::new("p")
            .server("policy", json!([function("check", cases)]))
            .server("fx", json!([stage.appends("push", "{arguments}", "pushed")]))
            .turns(json!([
                {"call": {"tool": "fx.push", "with": {"n": 1}}}, {"call": {"tool": "fx.push", "with": {"n": 2}}}, {"say": "done"}
            ]));
        if !hooked {
            return plugin;
        }
        ["pre_tool_call", "job_end"]
            .iter()
            .fold(plugin, |plugin, on| plugin.hook(json!({"on": on, "call": "policy.check", "timeout": "30s"})))
    };
    let stage = mount.stage();
    let first = plugin(&stage, true);
    let mut engine = mount.open(stage.with(first));
    let old = engine.begin(Begin::agent("worker"));
    let open = approvals(&*engine, 1);
    plugin(engine.stage(), false).save(engine.stage());
    let new = engine.begin(Begin::agent("worker"));
    completed(&*engine, &new, "done");
    effects(&*engine, &["{\"n\":1}", "{\"n\":2}"]);
    engine.kill();
    engine.restart(None);
    engine.decide(&open[0].1, true, "Ada", None);
    completed(&*engine, &old, "done, signed");
    effects(&*engine, &["{\"n\":1}", "{\"n\":1}", "{\"n\":2}"]);
    engine.audit();
    vec![("old".into(), normal(&*engine, &[&old])), ("new".into(), normal(&*engine, &[&new]))]
}
