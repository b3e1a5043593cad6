use super::{kinds, lines, normal};
use hookwright_core::json::digest;
use serde_json::{Value, json};

fn stored(value: Value) -> Value {
    let bytes = value.to_string().len();
    json!({"sha256": digest(&value), "bytes": bytes, "value": value})
}

/// A job with two calls of one turn, as records; `order` says which call's records come when.
fn history(job: &str, start: u64, order: &[usize]) -> Vec<Value> {
    let mut records = vec![json!({"kind": "started", "spec": {
        "logic": 3, "job": job, "node": format!("node of {job}"), "session": format!("session of {job}"),
        "agent": {"id": "worker"}, "input": stored(json!("go")),
        "hooks": {"manifests": [{"plugin": "p", "sha256": digest(&json!(job))}], "hooks": []},
    }})];
    let result = stored(json!({"by": job}));
    let mut lanes: Vec<Vec<Value>> = (0..2)
        .map(|call| {
            let effect = format!("t1.c{call}.call");
            let mut by_digest = stored(json!({"n": call}));
            by_digest.as_object_mut().unwrap().shift_remove("value");
            vec![
                json!({"kind": "begun", "command": {"do": "call_tool", "effect": effect, "tool": "git.push", "arguments": by_digest,
                    "grant": {"approval": "ap_1", "digest": digest(&json!(job)), "expires_ms": start}}}),
                json!({"kind": "tool_returned", "effect": effect, "outcome": {"end": "returned", "result": result}, "ms": start}),
            ]
        })
        .collect();
    for call in order {
        records.push(lanes[*call].remove(0));
    }
    records.push(json!({"kind": "begun", "command": {"do": "call_model", "effect": "t2.model", "turn": 2, "conversation": digest(&json!([job, 2]))}}));
    records.push(json!({"kind": "finished", "outcome": {"status": "completed", "output": stored(json!("done"))}}));
    for (seq, record) in records.iter_mut().enumerate() {
        record["seq"] = json!(seq);
        record["at_ms"] = json!(start + seq as u64);
        record["hash"] = json!(digest(&json!([job, seq])));
    }
    records
}

#[test]
fn two_runs_of_one_job_are_equal_whatever_their_ids_times_and_order_of_calls() {
    let (a, b) = (history("job_a", 1, &[0, 1, 0, 1]), history("job_b", 99, &[1, 1, 0, 0]));
    assert_ne!(a, b);
    let (a, b) = (normal(&[a]), normal(&[b]));
    assert_eq!(a, b);
    assert_eq!(lines(&a[0]), lines(&b[0]));
    assert!(!json!(a).to_string().contains("job_"), "{a:#?}");
}

#[test]
fn what_is_normal_stays_as_it_is() {
    let once = normal(&[history("job_a", 1, &[1, 0, 0, 1])]);
    assert_eq!(normal(&once), once);
}

/// What makes a difference still does.
#[test]
fn another_decision_value_order_within_a_call_or_record_is_seen() {
    let same = normal(&[history("job_a", 1, &[0, 0, 1, 1])]);
    let differs = |change: &dyn Fn(&mut Vec<Value>)| {
        let mut other = history("job_b", 7, &[0, 0, 1, 1]);
        change(&mut other);
        let other = normal(&[other]);
        assert_ne!(other, same);
        assert_ne!(lines(&other[0]), lines(&same[0]));
    };
    differs(&|records| records[2]["outcome"]["end"] = json!("unknown"));
    differs(&|records| records[2]["outcome"]["result"] = stored(json!({"by": "somebody"})));
    differs(&|records| records[1]["command"]["arguments"]["sha256"] = json!(digest(&json!({"n": 7}))));
    differs(&|records| records.swap(1, 2));
    differs(&|records| drop(records.remove(2)));
    differs(&|records| records.insert(3, records[2].clone()));
    differs(&|records| records[0]["spec"]["agent"]["id"] = json!("another"));
}

#[test]
fn calls_of_different_turns_and_a_record_of_no_call_are_not_moved() {
    let record = |kind: &str, effect: &str| json!({"kind": kind, "effect": effect});
    let records = vec![
        record("tool_returned", "t1.c1.call"),
        record("model_answered", "t2.model"),
        record("tool_returned", "t1.c0.call"),
        record("tool_returned", "t10.c0.call"),
        record("tool_returned", "t9.c10.call"),
        record("tool_returned", "t9.c9.call"),
    ];
    let effects: Vec<Value> = normal(&[records])[0].iter().map(|record| record["effect"].clone()).collect();
    assert_eq!(effects, ["t1.c1.call", "t2.model", "t1.c0.call", "t9.c9.call", "t9.c10.call", "t10.c0.call"]);
}

#[test]
fn what_came_late_stands_behind_what_it_was_late_for_and_processes_are_left_out() {
    let records = vec![
        json!({"kind": "begun", "command": {"do": "open_approval", "effect": "t1.c0.pre.approval", "approval": {"id": "ap_1", "digest": "x"}}}),
        json!({"kind": "resumed", "process": "process 7"}),
        json!({"kind": "hook_answered", "effect": "start.h0", "outcome": {"decision": "timed_out"}}),
        json!({"kind": "tool_state", "tool": "git", "state": "ready"}),
        json!({"kind": "finished", "outcome": {"status": "completed"}}),
        json!({"kind": "hook_late", "effect": "start.h0", "after_ms": 5}),
        json!({"kind": "decision_ignored", "approval": "ap_1", "approve": true}),
    ];
    let normal = normal(&[records]);
    let seen: Vec<&str> = normal[0].iter().map(|record| record["kind"].as_str().unwrap()).collect();
    assert_eq!(seen, ["begun", "decision_ignored", "hook_answered", "hook_late", "finished"]);
    assert_eq!(normal[0][1]["approval"], "#approval1:t1.c0.pre.approval");
    assert_eq!(kinds(&normal[0])["begun"], 1);
}

#[test]
fn a_trees_jobs_are_named_by_their_places_in_each_others_histories() {
    let tree = |parent: &str, child: &str| {
        let mut first = history(parent, 1, &[0, 0, 1, 1]);
        first[2]["outcome"]["result"] = stored(json!({"status": "completed", "job": child}));
        let mut second = history(child, 5, &[0, 0, 1, 1]);
        second[0]["spec"]["parent_jobs"] = json!([parent]);
        normal(&[first, second])
    };
    let (a, b) = (tree("job_a", "job_b"), tree("job_c", "job_d"));
    assert_eq!(a, b);
    assert_eq!(a[0][2]["outcome"]["result"]["value"]["job"], "#job2");
    assert_eq!(a[1][0]["spec"]["parent_jobs"], json!(["#job1"]));
}

#[test]
fn which_of_two_approvals_is_asked_first_makes_no_difference() {
    let asked = |call: u32| {
        let effect = format!("t1.c{call}.pre.approval");
        json!({"kind": "begun", "command": {"do": "open_approval", "effect": effect, "approval": {"id": format!("ap_{call}")}}})
    };
    assert_eq!(normal(&[vec![asked(0), asked(1)]]), normal(&[vec![asked(1), asked(0)]]));
}

#[test]
fn a_conversation_with_what_lifecycle_hooks_said_holds_ids_of_the_job() {
    let of = |job: &str, answers: Value| {
        let mut records = history(job, 1, &[0, 0, 1, 1]);
        for record in &mut records {
            if let Some(outcome) = record["outcome"].as_object_mut() {
                outcome.shift_remove("result");
            }
        }
        records.insert(1, json!({"kind": "lifecycle_answered", "effect": "session_start", "answers": answers}));
        normal(&[records])
    };
    let says = json!([{"server": "todo", "outcome": {"outcome": "text"}, "ms": 1.0}]);
    assert_eq!(of("job_a", says.clone()), of("job_b", says));
}
