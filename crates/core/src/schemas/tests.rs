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

#[test]
fn events_are_what_their_schemas_say() {
    use crate::event::{EventBody, EventHead, build};
    use serde_json::json;
    let bodies = [
        EventBody::JobStart(json!("go")),
        EventBody::PreToolCall(json!({"a": 1})),
        EventBody::PostToolCall { arguments: json!({}), result: json!("x"), structured: None, error: false },
        EventBody::PostToolCall {
            arguments: json!({}),
            result: json!([{"type": "text", "text": "x"}]),
            structured: Some(json!({"a": 1})),
            error: true,
        },
        EventBody::JobEnd(json!({"any": "JSON"})),
    ];
    for body in bodies {
        let moment = match &body {
            EventBody::JobStart(_) => Moment::JobStart,
            EventBody::PreToolCall(_) => Moment::PreToolCall,
            EventBody::PostToolCall { .. } => Moment::PostToolCall,
            EventBody::JobEnd(_) => Moment::JobEnd,
        };
        let about = |text: &str| moment.is_call().then(|| text.to_owned());
        let head = EventHead {
            event: moment,
            job: "j".into(),
            agent: "a".into(),
            tenant: "t".into(),
            node: "n".into(),
            parent_job: Some("p".into()),
            call: about("t1.c0"),
            tool: about("github.merge"),
            alias: about("gh.merge"),
        };
        let event = build(&head, body);
        let schema = super::event(moment);
        assert_eq!(crate::event::against(&schema, &event), Ok(()), "{event}");
        let known = &schema["properties"];
        for (key, _) in event.as_object().unwrap() {
            assert!(known.get(key).is_some(), "{key} stands in no schema");
            let mut less = event.clone();
            less.as_object_mut().unwrap().shift_remove(key);
            let required = schema["required"].as_array().unwrap().contains(&json!(key));
            assert_eq!(crate::event::against(&schema, &less).is_err(), required, "{key}");
        }
    }
}
