//! All moments, all decisions, and all that can go wrong with a hook under each `on_timeout`.

use super::{completed, effects};
use crate::engine::{Begin, Found, Mount, approvals, end, normal};
use crate::plugin::{Plugin, function, says};
use crate::process::eventually;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// A hook's name, its function, its `on_timeout`, what a person says, and whether it goes ahead.
type Row = (&'static str, &'static str, &'static str, Option<bool>, bool);

const ROWS: [Row; 12] = [
    ("allow", "allows", "deny", None, true),
    ("deny", "denies", "allow", None, false),
    ("modify", "modifies", "deny", None, true),
    ("yes", "escalates", "allow", Some(true), true),
    ("no", "escalates", "allow", Some(false), false),
    ("fails-deny", "fails", "deny", None, false),
    ("fails-allow", "fails", "allow", None, true),
    ("fails-ask", "fails", "escalate", Some(true), true),
    ("late-deny", "hangs", "deny", None, false),
    ("late-allow", "hangs", "allow", None, true),
    ("late-ask", "hangs", "escalate", Some(false), false),
    ("nonsense", "mumbles", "deny", None, false),
];

/// What each function of the hooks' server does; `changed` is what a modify answers.
fn policy(changed: Value) -> Value {
    json!([
        function("allows", says("allow", json!({}))),
        function("denies", says("deny", json!({"reason": "because"}))),
        function("modifies", says("modify", changed)),
        function("escalates", says("escalate", json!({"reason": "somebody should look"}))),
        function("fails", json!({"is_error": "boom"})),
        function("hangs", json!({"hang": true})),
        function("mumbles", json!({"text": "maybe"})),
    ])
}

fn hook(on: &str, row: Row, which: Value) -> Value {
    let (_, function, on_timeout, ..) = row;
    let timeout = if function == "hangs" { "300ms" } else { "30s" };
    json!({"on": on, "call": format!("policy.{function}"), "match": which, "timeout": timeout, "on_timeout": on_timeout})
}

/// Why something was denied, as it is told.
fn reason(row: Row) -> String {
    let (_, function, _, person, _) = row;
    let reason = match function {
        "denies" => "because",
        "escalates" => "somebody should look",
        "hangs" => "did not answer within 300ms",
        _ => "failed: ",
    };
    let declined = if person == Some(false) { " (declined by Ada)" } else { "" };
    format!("hook policy.{function} denied it: {reason}{declined}")
}

/// One turn with a call for each row, hooked before the call and, in a second job, after it.
pub fn calls(mount: &dyn Mount) -> Found {
    ["pre_tool_call", "post_tool_call"].map(|on| (on.to_owned(), hooked_calls(mount, on))).into()
}

fn hooked_calls(mount: &dyn Mount, on: &str) -> String {
    let before = on == "pre_tool_call";
    let stage = mount.stage();
    let changed = if before { json!({"arguments": {"by": "hook"}}) } else { json!({"result": "changed by hook"}) };
    let mut plugin = Plugin::new("p").server("policy", policy(changed));
    let functions: Vec<Value> = ROWS
        .iter()
        .map(|row| stage.appends(row.0, &format!("{} {{arguments}}", row.0), &format!("did {}", row.0)))
        .collect();
    plugin = plugin.server("fx", json!(functions));
    let (mut calls, mut told, mut lines) = (vec![], vec![], vec![]);
    for row in ROWS {
        let (name, _, _, _, ahead) = row;
        plugin = plugin.hook(hook(on, row, json!({"tools": [format!("fx.{name}")]})));
        calls.push(json!({"tool": format!("fx.{name}"), "with": {"by": "model"}}));
        told.push(match (ahead, before) {
            (true, false) if name == "modify" => "changed by hook".to_owned(),
            (true, _) => format!("did {name}"),
            (false, true) => format!("The call to fx.{name} was not made: {}", reason(row)),
            (false, false) => format!("The result of fx.{name} was withheld: {}", reason(row)),
        });
        if ahead || !before {
            let by = if before && name == "modify" { "hook" } else { "model" };
            lines.push(format!("{name} {{\"by\":\"{by}\"}}"));
        }
    }
    let turns = json!([{"call": calls}, {"expect": told, "say": "done"}]);
    let mut engine = mount.open(stage.with(plugin.turns(turns)));
    let job = engine.begin(Begin::agent("worker"));
    for (tool, id) in approvals(&*engine, 4) {
        let row = ROWS.iter().find(|row| format!("fx.{}", row.0) == tool);
        engine.decide(&id, row.and_then(|row| row.3).unwrap_or(false), "Ada", None);
    }
    completed(&*engine, &job, "done");
    effects(&*engine, &lines.iter().map(String::as_str).collect::<Vec<_>>());
    engine.audit();
    normal(&*engine, &[&job])
}

/// A job for each row, hooked at its start and, in further ones, at its end.
pub fn starts_and_ends(mount: &dyn Mount) -> Found {
    ["job_start", "job_end"].map(|on| (on.to_owned(), hooked_jobs(mount, on))).into()
}

fn hooked_jobs(mount: &dyn Mount, on: &str) -> String {
    let at_start = on == "job_start";
    let changed = if at_start { json!({"input": "Do it well."}) } else { json!({"output": "said, and signed"}) };
    let mut plugin = Plugin::new("p").server("policy", policy(changed)).turns(json!([{"say": "x"}]));
    for row in ROWS {
        let input = if at_start && row.0 == "modify" { "Do it well." } else { "Do it." };
        plugin = plugin.hook(hook(on, row, json!({"agents": [row.0]}))).other(
            row.0,
            json!({}),
            json!([{"expect": crate::plugin::exactly(input), "say": "said"}]),
        );
    }
    let mut engine = mount.open(mount.stage().with(plugin));
    let jobs: Vec<String> = ROWS.iter().map(|row| engine.begin(Begin::agent(row.0))).collect();
    let mut text = String::new();
    for (row, job) in ROWS.into_iter().zip(&jobs) {
        let (name, function, _, person, ahead) = row;
        if let Some(yes) = person {
            let id = eventually("its approval waits", || {
                let open = engine.open_approvals();
                open.iter().find(|a| a["job"] == **job)?["id"].as_str().map(str::to_owned)
            });
            engine.decide(&id, yes, "Ada", None);
        }
        let shown = end(&*engine, job);
        if ahead {
            let output = if name == "modify" && !at_start { "said, and signed" } else { "said" };
            assert_eq!(
                (&shown["status"], &shown["output"]),
                (&json!("completed"), &json!(output)),
                "{name}: {shown:#}"
            );
        } else {
            let error = &shown["error"];
            assert_eq!(
                (&shown["status"], &error["type"]),
                (&json!("failed"), &json!("HookDenied")),
                "{name}: {shown:#}"
            );
            assert!(error.to_string().contains(&format!("policy.{function}")), "{name}: {error}");
        }
        let _ = writeln!(text, "{name}\n{}", normal(&*engine, &[job]));
    }
    engine.audit();
    text
}
