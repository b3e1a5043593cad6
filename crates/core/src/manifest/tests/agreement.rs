//! The published schema and the parser say the same about shapes.

use super::*;
use crate::yaml;
use proptest::prelude::*;
use serde_json::{Value, json};

/// Compiled once: it is compared with thousands of documents.
fn validator() -> &'static jsonschema::Validator {
    static VALIDATOR: std::sync::OnceLock<jsonschema::Validator> = std::sync::OnceLock::new();
    VALIDATOR.get_or_init(|| jsonschema::options().build(&schema::schema()).unwrap())
}

/// Compares both on a document. JSON is YAML, so the text of the JSON is what the parser reads.
fn compare(validator: &jsonschema::Validator, document: &Value) -> Result<(), String> {
    let text = document.to_string();
    let valid = validator.is_valid(document);
    let parsed = read(&text);
    let structural =
        parsed.as_ref().err().is_some_and(|found| found.iter().any(|d| d.is_error() && d.code.is_structural()));
    if parsed.is_ok() && !valid {
        let why: Vec<String> = validator.iter_errors(document).map(|e| e.to_string()).collect();
        return Err(format!("the parser accepts what the schema refuses: {text}: {why:?}"));
    }
    if structural && valid {
        return Err(format!("the schema accepts a wrong shape: {text}\n{}", rendered(&text)));
    }
    Ok(())
}

fn json_of(text: &str) -> Value {
    let source = yaml::SourceText::new("x", text);
    let mut sink = yaml::Sink::new(&source);
    yaml::read(&source, &mut sink).unwrap().to_json().unwrap()
}

/// A manifest with every key but the agents' schemas, which take long to compile.
fn full() -> Value {
    json!({
        "id": "x",
        "tools": [
            {"id": "a", "mcp": ["b", "c"], "env": {"A": "b", "B": {"from": "C"}}, "scope": "node", "idempotent": ["d"], "trust_annotations": true, "start_timeout": "5s", "passes": ["prompts"]},
            {"id": "h", "mcp": "https://example.com", "headers": {"X-A": "b", "X-B": {"from": "C"}}},
        ],
        "hooks": [
            {"on": "pre_tool_call", "call": "a.b", "match": {"tools": ["a.*"], "agents": ["*"]}, "timeout": "2s", "on_timeout": "deny", "expires": "1h", "approvers": ["x"]},
            {"on": "job_end", "call": "a.b", "match": {"agents": ["*"]}},
        ],
        "agents": [
            {"id": "m", "description": "d", "model": "p/m", "instructions": "i", "tools": ["a"], "max_turns": 3, "max_tokens": 5, "context_window": 8000, "subagents": ["n"]},
            {"id": "n", "harness": "codex"},
        ],
    })
}

#[test]
fn both_accept_whole_manifests() {
    let validator = validator();
    for document in [json_of(SPEC), full(), json!({}), json!({"tools": []})] {
        assert!(validator.is_valid(&document) && read(&document.to_string()).is_ok(), "{document}");
    }
}

#[test]
fn both_agree_on_what_an_agents_schema_may_be() {
    for value in strange() {
        for key in ["input_schema", "output_schema"] {
            let mut agent = json!({"id": "a", "model": "p/m"});
            agent[key] = value.clone();
            compare(validator(), &json!({"agents": [agent]})).unwrap();
        }
    }
}

/// Every place in a document, as a JSON pointer.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Array(items) => items.iter().enumerate().for_each(|(i, item)| places(item, &format!("{at}/{i}"), found)),
        Value::Object(map) => map.iter().for_each(|(key, item)| places(item, &format!("{at}/{key}"), found)),
        _ => {}
    }
}

/// Values that may stand where another one should.
fn strange() -> Vec<Value> {
    let mut values = vec![
        json!(null),
        json!(true),
        json!(0),
        json!(1),
        json!(-1),
        json!(1.5),
        json!(2.0),
        json!(100_000_000),
        json!([]),
        json!({}),
        json!([[]]),
        json!({"a": 1}),
        json!({"from": "A"}),
        json!({"from": "A-"}),
        json!({"from": "A", "x": 1}),
        json!(["a"]),
        json!([""]),
        json!([1]),
        json!({"tools": ["a"]}),
        json!({"agents": []}),
        json!({"1": "a"}),
        json!({"X Y": "a"}),
    ];
    for text in [
        "",
        " ",
        "a",
        "a.b",
        "a._b",
        "a.*",
        "*",
        ".",
        "a.",
        "codex",
        "codex.x",
        "agent",
        "2s",
        "2",
        "2 s",
        "31s",
        "0s",
        "1.5s",
        "1.2345s",
        "10d",
        "p/m",
        "p/",
        " p/m",
        "/m",
        "job_start",
        "job_end",
        "pre_tool_call",
        "node",
        "allow",
        "Deny",
        "https://example.com",
        "python x",
        "a b",
        "_a",
        "-a",
        "ü",
    ] {
        values.push(json!(text));
    }
    values
}

/// Small documents, one for each entry of the full one: the same shapes, quicker to read.
fn entries() -> Vec<Value> {
    let mut found = vec![json!({"id": "x", "tools": [], "hooks": [], "agents": []})];
    for section in ["tools", "hooks", "agents"] {
        for entry in full()[section].as_array().unwrap() {
            found.push(json!({section: [entry]}));
        }
    }
    found
}

#[test]
fn both_agree_wherever_one_value_is_another() {
    let mut tried = 0;
    for entry in entries() {
        let mut at = Vec::new();
        places(&entry, "", &mut at);
        for pointer in &at {
            for value in strange() {
                let mut document = entry.clone();
                *document.pointer_mut(pointer).unwrap() = value;
                compare(validator(), &document).unwrap();
                tried += 1;
            }
        }
    }
    assert!(tried > 3_000);
}

#[test]
fn both_agree_wherever_a_key_is_missing_or_more() {
    let validator = validator();
    let mut at = Vec::new();
    places(&full(), "", &mut at);
    for pointer in at {
        let document = full();
        let Some(map) = document.pointer(&pointer).and_then(Value::as_object) else { continue };
        for key in map.keys() {
            let mut less = full();
            less.pointer_mut(&pointer).and_then(Value::as_object_mut).unwrap().shift_remove(key);
            compare(validator, &less).unwrap();
        }
        for (key, value) in [
            ("timout", json!("2s")),
            ("env", json!({})),
            ("headers", json!({})),
            ("harness", json!("codex")),
            ("model", json!("p/m")),
            ("tools", json!(["a.b"])),
        ] {
            let mut more = full();
            more.pointer_mut(&pointer).and_then(Value::as_object_mut).unwrap().insert(key.into(), value);
            compare(validator, &more).unwrap();
        }
    }
}

proptest! {
    #[test]
    fn both_agree_on_manifests_with_several_changes(changes in proptest::collection::vec((0usize..1_000, 0usize..1_000), 1..5)) {
        let validator = validator();
        let mut document = full();
        let strange = strange();
        for (place, value) in changes {
            let mut at = Vec::new();
            places(&document, "", &mut at);
            let pointer = &at[place % at.len()];
            *document.pointer_mut(pointer).unwrap() = strange[value % strange.len()].clone();
        }
        if let Err(why) = compare(validator, &document) {
            prop_assert!(false, "{why}");
        }
    }
}
