//! Long jobs.

use super::{completed, records};
use crate::engine::{Begin, Found, Mount};
use crate::plugin::Plugin;
use crate::process::eventually;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const TURNS: usize = 1_000;

/// A thousand turns with a call each, and a kill on the way: each call is made once, and one at most is unknown.
pub fn a_thousand_turns(mount: &dyn Mount) -> Found {
    let stage = mount.stage();
    let mut turns: Vec<Value> = (0..TURNS).map(|n| json!({"call": {"tool": "fx.push", "with": {"n": n}}})).collect();
    turns.push(json!({"say": "done"}));
    let push = stage.appends("push", "{arguments}", "pushed");
    let plugin =
        Plugin::new("p").server("fx", json!([push])).agent(json!({"max_turns": TURNS + 10})).turns(json!(turns));
    let mut engine = mount.open(stage.with(plugin));
    let job = engine.begin(Begin::agent("worker"));
    eventually("it is well under way", || (engine.stage().effects("effects.log").len() > TURNS / 3).then_some(()));
    engine.kill();
    engine.restart(None);
    completed(&*engine, &job, "done");
    let mut made = BTreeMap::<String, usize>::new();
    for line in engine.stage().effects("effects.log") {
        *made.entry(line).or_default() += 1;
    }
    let history = engine.history(&job);
    let returned = records(&history, "tool_returned");
    let unknown = returned.iter().filter(|r| r["outcome"]["end"] == "unknown").count();
    assert_eq!(returned.len(), TURNS);
    assert!(
        unknown <= 1 && made.len() + unknown >= TURNS && made.values().all(|times| *times == 1),
        "{unknown} unknown, {}",
        made.len()
    );
    assert_eq!(records(&history, "model_answered").len(), TURNS + 1);
    engine.audit();
    vec![]
}
