use super::*;
use hookwright_core::job::ToolOutcome;
use hookwright_core::name::FunctionName;
use serde_json::{Value, json};

fn stored(value: Value) -> Stored {
    Stored::inline(value)
}

fn requested(id: &str, provider_id: &str, arguments: Value) -> Fact {
    let call = json!({"provider_id": provider_id, "tool": "copilot-cli.bash", "arguments": stored(arguments)});
    Fact::CallRequested { id: id.into(), call: serde_json::from_value(call).unwrap() }
}

fn let_call(id: &str, arguments: Value) -> Fact {
    let command = Command::LetCall {
        effect: format!("{id}.call"),
        call: id.into(),
        tool: FunctionName::parse("copilot-cli.bash").unwrap(),
        arguments: stored(arguments),
        changed: false,
        grant: None,
        asked: vec![],
    };
    Fact::Begun { command }
}

fn returned(id: &str) -> Fact {
    let outcome = ToolOutcome::Unknown { why: "x".into() };
    Fact::ToolReturned { effect: format!("{id}.call"), outcome, ms: 0.0 }
}

fn open(facts: Vec<Fact>) -> Open {
    let record = |(seq, fact)| Record { seq, at_ms: 0, fact, prev: String::new(), hash: String::new() };
    let records: Vec<Record> = (0..).zip(facts).map(record).collect();
    open_calls(Harness::CopilotCli, &records)
}

#[test]
fn what_is_open_of_a_history() {
    let (a, b) = (json!({"a": 1}), json!({"b": 2}));
    let named = |key: &str, id: &str| (key.to_owned(), id.to_owned());
    let key = nameless("bash", &stored(b.clone()).sha256);
    for (what, facts, let_calls, unanswered) in [
        ("nothing", vec![], vec![], vec![]),
        ("asked for, no answer", vec![requested("c0", "t1", a.clone())], vec![], vec!["c0"]),
        ("let", vec![requested("c0", "t1", a.clone()), let_call("c0", b.clone())], vec![named("t1", "c0")], vec![]),
        (
            "let, of a harness without ids: known by what it is made with",
            vec![requested("c0", "", a.clone()), let_call("c0", b.clone())],
            vec![named(&key, "c0")],
            vec![],
        ),
        ("made", vec![requested("c0", "t1", a.clone()), let_call("c0", a.clone()), returned("c0")], vec![], vec![]),
        (
            "withdrawn",
            vec![requested("c0", "t1", a.clone()), Fact::CallCancelled { call: "c0".into() }],
            vec![],
            vec![],
        ),
        (
            "left: it waits for the same call asked for again",
            vec![requested("c0", "t1", a.clone()), Fact::CallLeft { call: "c0".into() }],
            vec![],
            vec![],
        ),
        (
            "left, and asked for again: under its old id, and the new one of the harness",
            vec![
                requested("c0", "t1", a.clone()),
                Fact::CallLeft { call: "c0".into() },
                requested("c0", "t2", a.clone()),
                let_call("c0", a.clone()),
            ],
            vec![named("t2", "c0")],
            vec![],
        ),
        (
            "several",
            vec![
                requested("c0", "t1", a.clone()),
                requested("c1", "t2", b.clone()),
                let_call("c1", b),
                requested("c10", "t3", a),
            ],
            vec![named("t2", "c1")],
            vec!["c0", "c10"],
        ),
    ] {
        let unanswered = unanswered.into_iter().map(str::to_owned).collect();
        assert_eq!(open(facts), Open { let_calls, unanswered }, "{what}");
    }
}
