//! Huge values: by digest in records, whole at servers, cut for the model.

use super::{completed, records};
use crate::engine::{Begin, Found, Mount, approvals, normal};
use crate::plugin::{Plugin, exactly, function, says};
use serde_json::{Value, json};

/// A value in a record that is there by its digest alone.
#[track_caller]
fn by_digest(value: &Value, least: u64) {
    let bytes = value["bytes"].as_u64().unwrap_or_default();
    assert!(value.get("value").is_none() && value["sha256"].is_string() && bytes >= least, "{value}");
}

/// Input, arguments, results and output, and a restart between.
pub fn large_ones(mount: &dyn Mount) -> Found {
    let long = "ab c".repeat(25_000);
    let cases = json!({"cases": [
        {"when": {"/event/tool": "fx.wide"}, "then": [says("modify", json!({"result": "was wide"}))]},
        {"when": {"/event/tool": "fx.last"}, "then": [says("escalate", json!({"reason": "hm"}))]},
        {"then": [says("allow", json!({}))]},
    ]});
    let plugin = Plugin::new("p")
        .server("policy", json!([function("check", cases)]))
        .server(
            "fx",
            json!([
                function("take", json!({"text": "taken"})),
                function("wide", json!({"big_text": 200_000})),
                function("huge", json!({"big_text": 3_000_000})),
                function("bulk", json!({"big_text": 3_000_000})),
                function("last", json!({"text": "at last"})),
            ]),
        )
        .hook(json!({"on": "pre_tool_call", "call": "policy.check", "match": {"tools": ["fx.take", "fx.last"]}, "timeout": "30s"}))
        .hook(json!({"on": "post_tool_call", "call": "policy.check", "match": {"tools": ["fx.wide", "fx.huge"]}, "timeout": "30s"}))
        .turns(json!([
            {"expect": exactly(&long), "call": [{"tool": "fx.take", "with": {"text": long}}, {"tool": "fx.wide"}]},
            {"expect": {"matches": "(?s)taken.*was wide"}, "call": [{"tool": "fx.huge"}, {"tool": "fx.bulk"}]},
            {"expect": {"matches": "(?s)hook policy.check denied it: failed: event too large.*xxx"}, "call": {"tool": "fx.last"}},
            {"expect": "at last", "say": long},
        ]));
    let mut engine = mount.open(mount.stage().with(plugin));
    let job = engine.begin(Begin::agent("worker").input(&long));
    let open = approvals(&*engine, 1);
    engine.kill();
    engine.restart(None);
    engine.decide(&open[0].1, true, "Ada", None);
    completed(&*engine, &job, &long);
    let history = engine.history(&job);
    by_digest(&history[0]["spec"]["input"], 100_000);
    let answered = records(&history, "model_answered");
    by_digest(&answered[0]["calls"][0]["arguments"], 100_000);
    by_digest(&answered[3]["text"], 100_000);
    let returned = records(&history, "tool_returned");
    let result = |effect: &str| {
        returned.iter().find(|r| r["effect"] == effect).map(|r| r["outcome"]["result"].clone()).unwrap_or_default()
    };
    by_digest(&result("t1.c1.call"), 200_000);
    by_digest(&result("t2.c0.call"), 3_000_000);
    by_digest(&result("t2.c1.call"), 3_000_000);
    let taken = engine.stage().calls("fx").into_iter().find(|(name, _)| name == "take").map(|(_, arguments)| arguments);
    assert_eq!(taken, Some(json!({"text": long})), "servers get all of it");
    engine.audit();
    vec![("history".into(), normal(&*engine, &[&job]))]
}

/// A result that no message may hold is a failure of that call alone.
pub fn beyond_a_message(mount: &dyn Mount) -> Found {
    let plugin = Plugin::new("p")
        .server("fx", json!([function("flood", json!({"big_text": 17_000_000})), function("push", json!({"text": "pushed"}))]))
        .turns(json!([
            {"call": [{"tool": "fx.flood"}]}, {"call": {"tool": "fx.push"}}, {"expect": exactly("pushed"), "say": "done"}
        ]));
    let mut engine = mount.open(mount.stage().with(plugin));
    let job = engine.begin(Begin::agent("worker"));
    completed(&*engine, &job, "done");
    let history = engine.history(&job);
    let returned = records(&history, "tool_returned");
    assert!(["failed", "unknown"].iter().any(|end| returned[0]["outcome"]["end"] == *end), "{}", returned[0]);
    assert_eq!(engine.stage().calls("fx").iter().filter(|(name, _)| name == "flood").count(), 1);
    engine.audit();
    vec![]
}
