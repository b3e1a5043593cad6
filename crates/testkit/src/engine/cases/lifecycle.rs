//! Lifecycle hooks, which advise (SPEC §9).

use super::{completed, effects, records};
use crate::engine::{Begin, Found, Mount, approvals, normal};
use crate::plugin::{Plugin, exactly, function, says};
use serde_json::{Value, json};

fn body(hook: &str, text: &str) -> Value {
    exactly(&format!("{{\"hook\":\"{hook}\",\"server\":\"todo\",\"text\":\"{text}\"}}"))
}

/// All points of one job, in their order, over a restart: an objection is delivered once, and the second one that is not heeded ends it.
pub fn points_of_a_job(mount: &dyn Mount) -> Found {
    let stage = mount.stage().tenant(json!({"lifecycle": {"servers": ["todo"], "timeout": "30s"}}));
    let says_text = |name: &str, text: &str| function(name, json!({"text": text}));
    let todo = json!([
        says_text("_SessionStart", "welcome"),
        says_text("_UserPromptSubmit", "mind the tests"),
        says_text("_Stop", "2 items are open"),
        says_text("_SessionEnd", "bye"),
        says_text("_Unknown", "never"),
    ]);
    let push = stage.appends("push", "pushed", "pushed");
    let plugin = Plugin::new("p")
        .server("todo", todo)
        .server("policy", json!([function("check", says("escalate", json!({"reason": "hm"})))]))
        .server("fx", json!([push]))
        .hook(json!({"on": "pre_tool_call", "call": "policy.check", "timeout": "30s"}))
        .turns(json!([
            {"expect": ["welcome", "mind the tests"], "call": {"tool": "todo._Stop"}},
            {"expect": "unknown tool: todo._Stop", "say": "I am done."},
            {"expect": body("_Stop", "2 items are open"), "call": {"tool": "fx.push"}},
            {"expect": exactly("pushed"), "say": "Now I am done."},
            {"expect": body("_Stop", "2 items are open"), "say": "Really."},
        ]));
    let mut engine = mount.open(stage.with(plugin));
    let job = engine.begin(Begin::agent("worker"));
    let open = approvals(&*engine, 1);
    engine.kill();
    engine.restart(None);
    engine.decide(&open[0].1, true, "Ada", None);
    completed(&*engine, &job, "Really.");
    effects(&*engine, &["pushed"]);
    crate::process::eventually("the session's end is recorded", || {
        (!records(&engine.history(&job), "session_ended").is_empty()).then_some(())
    });
    let asked: Vec<String> = engine.stage().calls("todo").into_iter().map(|(name, _)| name).collect();
    assert_eq!(asked, ["_SessionStart", "_UserPromptSubmit", "_Stop", "_Stop", "_SessionEnd"]);
    engine.audit();
    vec![("history".into(), normal(&*engine, &[&job]))]
}
