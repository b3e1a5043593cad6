use super::*;

fn file(name: &str) -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas").join(name)
}

#[test]
fn the_committed_schemas_are_the_generated_ones() {
    for (name, schema) in all() {
        let committed = std::fs::read_to_string(file(name)).unwrap_or_default();
        assert!(
            committed.replace("\r\n", "\n") == text(&schema),
            "schemas/{name} is not what the code generates: run `cargo run -p xtask -- schemas`"
        );
    }
}

#[test]
fn every_schema_is_itself_valid() {
    for (name, schema) in all() {
        assert!(jsonschema::meta::validate(&schema).is_ok(), "{name}");
        assert!(schema["$id"].as_str().is_some_and(|id| id.ends_with(name)), "{name}");
    }
}

fn schema_of(name: &str) -> Value {
    all().into_iter().find(|(file, _)| *file == name).unwrap().1
}

fn fits(name: &str, value: &Value) -> bool {
    jsonschema::is_valid(&schema_of(name), value)
}

fn head(moment: Moment) -> crate::event::EventHead {
    let call = |text: &str| moment.is_call().then(|| text.to_owned());
    crate::event::EventHead {
        event: moment,
        job: "job-1".into(),
        agent: "dev".into(),
        tenant: "default".into(),
        node: "n1".into(),
        parent_job: Some("job-0".into()),
        call: call("t1.c0"),
        tool: call("git.push"),
        alias: call("git.push"),
    }
}

#[test]
fn every_event_that_is_built_fits_its_schema_and_no_other() {
    use crate::event::{EventBody, build};
    let bodies = [
        (Moment::JobStart, EventBody::JobStart(json!("go"))),
        (Moment::JobStart, EventBody::JobStart(json!({"any": ["json", null]}))),
        (Moment::PreToolCall, EventBody::PreToolCall(json!({"branch": "main"}))),
        (
            Moment::PostToolCall,
            EventBody::PostToolCall {
                arguments: json!({}),
                result: json!([{"type": "image", "data": "", "mimeType": "image/png"}]),
                structured: Some(json!({"a": 1})),
                error: true,
            },
        ),
        (
            Moment::PostToolCall,
            EventBody::PostToolCall { arguments: json!({}), result: json!("done"), structured: None, error: false },
        ),
        (Moment::JobEnd, EventBody::JobEnd(json!("done"))),
    ];
    for (moment, body) in bodies {
        let event = build(&head(moment), body);
        for other in Moment::ALL {
            assert_eq!(fits(file_of(other), &event), other == moment, "{} {event}", other.name());
        }
        let mut more = event.clone();
        more["added_later"] = json!(1);
        assert!(fits(file_of(moment), &more), "keys may be added");
        for key in ["event", "job", "agent", moment.key()] {
            let mut less = event.clone();
            less.as_object_mut().unwrap().shift_remove(key);
            assert!(!fits(file_of(moment), &less), "{key}");
        }
    }
}

#[test]
fn the_answers_schema_and_the_reading_of_answers_agree() {
    let cases = [
        (Moment::JobEnd, json!({"decision": "allow"}), true),
        (Moment::JobEnd, json!({"decision": "allow", "reason": null, "score": 0.2, "output": 7}), true),
        (Moment::JobEnd, json!({"decision": "deny", "reason": "no"}), true),
        (Moment::JobEnd, json!({"decision": "escalate"}), true),
        (Moment::JobEnd, json!({"decision": "modify", "output": "x"}), true),
        (Moment::JobStart, json!({"decision": "modify", "input": "x"}), true),
        (Moment::PreToolCall, json!({"decision": "modify", "arguments": {}}), true),
        (Moment::PreToolCall, json!({"decision": "modify", "arguments": []}), false),
        (Moment::PostToolCall, json!({"decision": "modify", "result": "x"}), true),
        (Moment::PostToolCall, json!({"decision": "modify", "result": [{"type": "text", "text": ""}]}), true),
        (Moment::PostToolCall, json!({"decision": "modify", "result": [1]}), false),
        (Moment::PostToolCall, json!({"decision": "modify", "result": {}}), false),
        (Moment::JobEnd, json!({"decision": "modify"}), false),
        (Moment::JobEnd, json!({"decision": "ALLOW"}), false),
        (Moment::JobEnd, json!({"decision": true}), false),
        (Moment::JobEnd, json!({"decision": "deny", "reason": 1}), true),
        (Moment::JobEnd, json!({"reason": "no"}), false),
        (Moment::JobEnd, json!({}), false),
    ];
    for (moment, answer, valid) in cases {
        let raw = json!({"content": [], "structuredContent": answer});
        assert_eq!(crate::answer::read(&raw, moment, None).is_ok(), valid, "read {answer}");
        assert_eq!(fits("answer.schema.json", &answer), valid, "schema {answer}");
    }
    for answer in [json!(null), json!("allow"), json!(["allow"])] {
        assert!(!fits("answer.schema.json", &answer));
    }
}
