//! Processes that die.

use super::{completed, effects, records};
use crate::engine::{Begin, Found, Mount, Stage, approve_all, normal};
use crate::plugin::{Plugin, function, says};
use crate::process::eventually;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// More commits than the job has.
const MANY: u32 = 100;

/// Hooks at all four moments, modify, an escalation, parallel calls, one denied, one idempotent, one large.
fn rich(stage: Stage) -> Stage {
    let on = |when: Value, then: Value| json!({"when": when, "then": [then]});
    let cases = json!({"cases": [
        on(json!({"/event/event": "job_start"}), says("modify", json!({"input": "Do it well."}))),
        on(json!({"/event/event": "job_end"}), says("modify", json!({"output": "done, signed"}))),
        on(json!({"/event/event": "post_tool_call", "/event/tool": "fx.read"}), says("modify", json!({"result": "read, seen"}))),
        on(json!({"/event/event": "pre_tool_call", "/event/arguments/n": 2}), says("deny", json!({"reason": "two"}))),
        on(json!({"/event/event": "pre_tool_call", "/event/arguments/n": 5}), says("escalate", json!({"reason": "five"}))),
        {"then": [says("allow", json!({}))]},
    ]});
    let big = json!([{"append": {"file": stage.path("effects.log"), "line": "{arguments}"}}, {"big_text": 100_000}]);
    let fx = json!({"tools": [stage.appends("push", "{arguments}", "pushed"), stage.appends("read", "{arguments}", "read"), function("big", big)]});
    let mut plugin = Plugin::new("p")
        .server("policy", json!([function("check", cases)]))
        .scripted("fx", fx, json!({"idempotent": ["read"]}))
        .turns(json!([
            {"expect": "Do it well.", "call": [
                {"tool": "fx.push", "with": {"n": 1}}, {"tool": "fx.push", "with": {"n": 2}},
                {"tool": "fx.read", "with": {"n": 3}}, {"tool": "fx.big", "with": {"n": 4}},
            ]},
            {"expect": ["denied it: two", "read, seen"], "call": {"tool": "fx.push", "with": {"n": 5}}},
            {"say": "done"}
        ]));
    for on in ["job_start", "pre_tool_call", "post_tool_call", "job_end"] {
        plugin = plugin.hook(json!({"on": on, "call": "policy.check", "timeout": "30s"}));
    }
    stage.with(plugin)
}

/// The process dies after each commit of a rich job, and once more while it goes on: the history is that of a job which nothing
/// happened to, but for calls of which it is honestly unknown whether they were made.
pub fn after_each_record(mount: &dyn Mount) -> Found {
    let mut engine = mount.open(rich(mount.stage()));
    let job = engine.begin(Begin::agent("worker"));
    assert!(approve_all(&mut *engine, &job));
    let undisturbed = normal(&*engine, &[&job]);
    effects(&*engine, &[1, 3, 4, 5].map(|n| format!("{{\"n\":{n}}}")).each_ref().map(String::as_str));
    drop(engine);

    let (next, beyond, same) = (AtomicU32::new(0), AtomicBool::new(false), AtomicU32::new(0));
    let points: u32 = std::thread::scope(|scope| {
        let worker = || {
            let mut points = 0;
            loop {
                let n = next.fetch_add(1, Ordering::SeqCst);
                if n >= MANY || beyond.load(Ordering::SeqCst) {
                    return points;
                }
                match dies(mount, n, &undisturbed) {
                    Some(is_same) => {
                        points += 1;
                        same.fetch_add(u32::from(is_same), Ordering::SeqCst);
                    }
                    None => beyond.store(true, Ordering::SeqCst),
                }
            }
        };
        let threads: Vec<_> = (0..3).map(|_| scope.spawn(worker)).collect();
        let joined = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
        joined.map(|points| points.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).sum()
    });
    let same = same.into_inner();
    assert!(points >= 10, "{points} commits, which is not the job that was meant");
    // Each of the three calls that are not idempotent is unknown where the process dies as it begins.
    assert!(same >= points / 2 && same < points, "{same} of {points} histories are as if nothing had happened");
    vec![("undisturbed".into(), undisturbed)]
}

/// Whether the history is as if nothing had happened; `None` where the job was over before that commit.
fn dies(mount: &dyn Mount, n: u32, undisturbed: &str) -> Option<bool> {
    let point = format!("after_commit:{n}");
    let mut engine = mount.open(rich(mount.stage()));
    let job = engine.begin(Begin::agent("worker").dies_at(&point));
    if approve_all(&mut *engine, &job) {
        return None;
    }
    // What goes on dies as well, at another point each time, and is gone on with again.
    engine.restart(Some(&format!("after_commit:{}", n % 3)));
    if !approve_all(&mut *engine, &job) {
        engine.restart(None);
        assert!(approve_all(&mut *engine, &job));
    }
    completed(&*engine, &job, "done, signed");
    let history = engine.history(&job);
    let mut unknown = 0;
    for returned in records(&history, "tool_returned") {
        let call = returned["effect"].as_str().unwrap_or_default();
        let number = |effect: &str| match effect {
            "t1.c0.call" => 1,
            "t1.c2.call" => 3,
            "t1.c3.call" => 4,
            "t2.c0.call" => 5,
            other => panic!("{point}: {other}"),
        };
        let made = engine
            .stage()
            .effects("effects.log")
            .iter()
            .filter(|line| **line == format!("{{\"n\":{}}}", number(call)))
            .count();
        match returned["outcome"]["end"].as_str() {
            Some("returned") if call == "t1.c2.call" => assert!((1..=3).contains(&made), "{point}: {made}"),
            Some("returned") => assert_eq!(made, 1, "{point}: {call}"),
            Some("unknown") => {
                unknown += 1;
                assert!(made <= 1, "{point}: {call} was made {made} times");
            }
            other => panic!("{point}: {call} ended as {other:?}"),
        }
    }
    let same = normal(&*engine, &[&job]) == undisturbed;
    assert!(same || unknown > 0, "{point}: another history though nothing is unknown:\n{}", normal(&*engine, &[&job]));
    engine.audit();
    Some(same)
}

/// What was under way when the process died: an idempotent call is made again, of another the model is told that it is not known.
pub fn calls_under_way(mount: &dyn Mount) -> Found {
    let plugin = |stage: &Stage, then: Value| {
        let call = |name: &str| {
            let append = json!({"append": {"file": stage.path("effects.log"), "line": name}});
            function(name, json!([append, then]))
        };
        Plugin::new("p")
            .scripted("fx", json!({"tools": [call("push"), call("read")]}), json!({"idempotent": ["read"]}))
            .turns(json!([
                {"call": [{"tool": "fx.push"}, {"tool": "fx.read"}]},
                {"expect": ["It is not known whether the call to fx.push was made", "made at last"], "say": "done"},
            ]))
    };
    let stage = mount.stage();
    let first = plugin(&stage, json!({"hang": true}));
    let mut engine = mount.open(stage.with(first));
    let job = engine.begin(Begin::agent("worker"));
    eventually("both calls are under way", || (engine.stage().effects("effects.log").len() == 2).then_some(()));
    engine.kill();
    plugin(engine.stage(), json!({"text": "made at last"})).save(engine.stage());
    engine.restart(None);
    completed(&*engine, &job, "done");
    effects(&*engine, &["push", "read", "read"]);
    engine.audit();
    vec![("history".into(), normal(&*engine, &[&job]))]
}
