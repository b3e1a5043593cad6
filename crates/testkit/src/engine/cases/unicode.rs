//! Text of all kinds, everywhere.

use super::{completed, records};
use crate::engine::{Begin, Decided, Found, Mount, approvals, normal};
use crate::plugin::{Plugin, exactly, function, says};
use serde_json::json;

const TEXT: &str =
    "Grüße, 漢字 и العربية 🦀 👩\u{200d}👩\u{200d}👧 e\u{301} \u{202e}abc\u{202c} \"\\/\t\u{1b}[2J \u{feff}\u{10ffff}";

/// Values pass as they are; what people and models read of reasons and names is escaped.
pub fn everywhere(mount: &dyn Mount) -> Found {
    let cases = json!({"cases": [
        {"when": {"/event/arguments/n": 1}, "then": [says("deny", json!({"reason": TEXT}))]},
        {"when": {"/event/arguments/n": 2}, "then": [says("escalate", json!({"reason": TEXT}))]},
        {"then": [says("modify", json!({"arguments": {"ключ": TEXT}}))]},
    ]});
    let told = |reads: &str| json!(["Grüße, 漢字 и العربية 🦀", reads]);
    let plugin = Plugin::new("p")
        .server("policy", json!([function("check", cases)]))
        .server("fx", json!([function("push", json!({"text": format!("{TEXT} {{arguments}}")}))]))
        .hook(json!({"on": "pre_tool_call", "call": "policy.check", "timeout": "30s"}))
        .turns(json!([
            {"expect": exactly(TEXT), "call": [{"tool": "fx.push", "with": {"n": 1, "text": TEXT}}, {"tool": "fx.push", "with": {"n": 3}}]},
            {"expect": told("ключ"), "say": TEXT, "call": {"tool": "fx.push", "with": {"n": 2, "ключ": TEXT}}},
            {"expect": told("(declined by Зоя 🦀)"), "say": TEXT},
        ]));
    let mut engine = mount.open(mount.stage().with(plugin));
    let job = engine.begin(Begin::agent("worker").input(TEXT));
    let open = approvals(&*engine, 1);
    engine.kill();
    engine.restart(None);
    assert_eq!(engine.decide(&open[0].1, false, "Зоя 🦀", Some(TEXT)), Decided::Counted);
    completed(&*engine, &job, TEXT);
    assert_eq!(engine.stage().calls("fx"), [("push".to_owned(), json!({"ключ": TEXT}))]);
    let history = engine.history(&job);
    assert_eq!(history[0]["spec"]["input"]["value"], TEXT);
    assert_eq!(records(&history, "approval_decided")[0]["by"], "Зоя 🦀");
    let denied = &records(&history, "hook_answered")[0]["outcome"]["reason"];
    let reason = denied.as_str().unwrap_or_default();
    assert!(reason.starts_with("Grüße, 漢字 и العربية 🦀"), "{reason}");
    assert!(!reason.contains(['\u{1b}', '\u{202e}', '\u{feff}']), "{reason}");
    engine.audit();
    vec![("history".into(), normal(&*engine, &[&job]))]
}
