//! Calls of one turn, beside each other.

use super::{completed, effects};
use crate::engine::{Begin, Found, Mount, approvals, normal};
use crate::plugin::{Plugin, function, says};
use crate::process::eventually;
use serde_json::json;

/// A deny stops only its own call, a person holds up only theirs; the model reads all four in their order.
pub fn one_denied_one_modified_one_waits_one_runs(mount: &dyn Mount) -> Found {
    let stage = mount.stage();
    let case = |tool: &str, answer| json!({"when": {"/event/tool": format!("fx.{tool}")}, "then": [answer]});
    let cases = json!({"cases": [
        case("denied", says("deny", json!({"reason": "no"}))),
        case("modified", says("modify", json!({"arguments": {"by": "hook"}}))),
        case("waits", says("escalate", json!({"reason": "hm"}))),
        {"then": [says("allow", json!({}))]},
    ]});
    let names = ["denied", "modified", "waits", "runs"];
    let functions =
        names.map(|name| stage.appends(name, &format!("{name} {{arguments}}"), &format!("did {name} {{arguments}}")));
    let plugin = Plugin::new("p")
        .server("policy", json!([function("check", cases)]))
        .server("fx", json!(functions))
        .hook(json!({"on": "pre_tool_call", "call": "policy.check", "timeout": "30s"}))
        .turns(json!([
            {"call": names.map(|name| json!({"tool": format!("fx.{name}"), "with": {"by": "model"}}))},
            {"expect": {"matches": "(?s)policy.check denied it: no\\..*did modified .*hook.*did waits .*model.*did runs .*model"}, "say": "done"},
        ]));
    let mut engine = mount.open(stage.with(plugin));
    let job = engine.begin(Begin::agent("worker"));
    let open = approvals(&*engine, 1);
    let others = ["modified {\"by\":\"hook\"}", "runs {\"by\":\"model\"}"];
    eventually("the other calls are made while one waits", || {
        (engine.stage().effects("effects.log").len() == 2).then_some(())
    });
    effects(&*engine, &others);
    assert!(!crate::engine::is_over(&engine.job(&job)));
    engine.decide(&open[0].1, true, "Ada", None);
    completed(&*engine, &job, "done");
    effects(&*engine, &[others[0], others[1], "waits {\"by\":\"model\"}"]);
    engine.audit();
    vec![("history".into(), normal(&*engine, &[&job]))]
}
