use super::*;
use serde_json::json;

fn check(raw: Value, expect: &str) {
    check_at(Moment::PreToolCall, raw, expect);
}

fn check_at(moment: Moment, raw: Value, expect: &str) {
    let schema = json!({"type": "object", "properties": {"branch": {"type": "string"}}, "required": ["branch"]});
    let schema = (moment == Moment::PreToolCall).then_some(&schema);
    let got = match read(&raw, moment, schema) {
        Ok(a) => match a.decision {
            Decision::Allow => "allow".to_owned(),
            Decision::Deny => "deny".into(),
            Decision::Escalate => "escalate".into(),
            Decision::Modify(v) => format!("modify {v}"),
        },
        Err(e) => format!("invalid: {e}"),
    };
    assert!(got.starts_with(expect), "{raw}\n got {got}\nwant {expect}");
}

fn text(t: &str) -> Value {
    json!({"content": [{"type": "text", "text": t}]})
}

#[test]
fn the_shapes_of_real_sdks_are_read() {
    check(text("{\n  \"decision\": \"allow\"\n}"), "allow");
    check(json!({"content": [{"type": "text", "text": "x"}], "structuredContent": {"decision": "deny"}}), "deny");
    check(json!({"structuredContent": {"result": {"decision": "deny"}}}), "deny");
    check(json!({"structuredContent": {"result": "{\"decision\":\"escalate\"}"}, "content": []}), "escalate");
    check(json!({"content": [], "decision": "allow"}), "allow");
    check(json!({"content": [], "decision": "modify", "arguments": {"branch": "dev"}}), "modify {\"branch\":\"dev\"}");
}

#[test]
fn the_first_that_is_present_counts() {
    check(
        json!({"content": [{"type": "text", "text": "{\"decision\":\"allow\"}"}], "structuredContent": {"decision": "deny"}, "decision": "allow"}),
        "deny",
    );
    check(json!({"content": [{"type": "text", "text": "{\"decision\":\"deny\"}"}], "decision": "allow"}), "deny");
    check(
        json!({"content": [{"type": "text", "text": "{\"decision\":\"allow\"}"}], "structuredContent": {"x": 1}}),
        "invalid: no `decision`",
    );
    check(json!({"content": [{"type": "text", "text": "note"}], "decision": "deny"}), "deny");
}

#[test]
fn an_error_result_is_a_failure_whatever_it_holds() {
    check(
        json!({"isError": true, "structuredContent": {"decision": "allow"}}),
        "invalid: the hook answered with an error",
    );
    check(json!({"isError": "yes", "decision": "allow"}), "invalid: the hook answered with an error");
    check(
        json!({"isError": true, "content": [{"type": "text", "text": "boom\u{1b}[0m"}]}),
        "invalid: the hook answered with an error: boom\\u{1b}",
    );
}

#[test]
fn anything_else_is_not_a_valid_decision() {
    for (raw, why) in [
        (text("allow"), "the text is not"),
        (text("\"ALLOW\""), "the text is a string"),
        (text("[{\"decision\":\"allow\"}]"), "the text is a list"),
        (text("null"), "the text is null"),
        (text(""), "the text is not"),
        (text("{\"decision\":\"Allow\"}"), "unknown decision \"Allow\" (lower case: allow)"),
        (text("{\"decision\":\"permit\"}"), "unknown decision"),
        (text("{\"decision\":true}"), "`decision` is a boolean"),
        (text("{\"decision\":\"deny\",\"decision\":\"allow\"}"), "duplicated key"),
        (text("{\"decision\":\"allow\"} trailing"), "the text is not"),
        (json!({"structuredContent": {"result": "{\"decision\":\"deny\",\"decision\":\"allow\"}"}}), "duplicated key"),
        (
            json!({"content": [{"type":"text","text":"{\"decision\":\"allow\"}"},{"type":"text","text":"{}"}], "decision": "allow"}),
            "2 text blocks",
        ),
        (json!({"content": []}), "the answer is empty"),
        (json!({"content": [{"type": "image", "data": ""}]}), "the answer is empty"),
        (json!({"structuredContent": {"result": null}}), "`result` is null"),
        (json!({"structuredContent": [1]}), "structuredContent is a list"),
        (json!("allow"), "the result is not an object"),
        (Value::Null, "the result is not an object"),
    ] {
        check(raw, &format!("invalid: {why}"));
    }
}

#[test]
fn modify_needs_its_key_with_the_right_type_and_schema() {
    check(text("{\"decision\":\"modify\"}"), "invalid: `modify` without `arguments`");
    check(text("{\"decision\":\"modify\",\"output\":\"x\"}"), "invalid: `modify` without `arguments`");
    check(text("{\"decision\":\"modify\",\"arguments\":[1]}"), "invalid: `modify`: `arguments` is not an object");
    check(
        text("{\"decision\":\"modify\",\"arguments\":{\"branch\":7}}"),
        "invalid: `modify`: `arguments` break the input schema",
    );
    check(text("{\"decision\":\"modify\",\"arguments\":{}}"), "invalid: `modify`: `arguments` break the input schema");
    let m = |key: &str, v: Value| text(&json!({"decision": "modify", key: v}).to_string());
    check_at(Moment::JobEnd, m("output", json!("x")), "modify \"x\"");
    check_at(Moment::JobEnd, m("output", json!({})), "invalid: `modify`: `output` is not a string");
    check_at(Moment::JobStart, m("input", json!(1)), "invalid: `modify`: `input` is not a string");
    check_at(Moment::PostToolCall, m("result", json!("x")), "modify \"x\"");
    check_at(Moment::PostToolCall, m("result", json!([{"type": "text", "text": "x"}])), "modify [");
    check_at(Moment::PostToolCall, m("result", json!({"a": 1})), "invalid: `modify`: `result` is neither");
    check_at(Moment::PostToolCall, m("result", json!([1])), "invalid: `modify`: `result` is neither");
}

#[test]
fn a_reason_that_is_no_text_does_not_undo_the_decision() {
    let a = read(&text("{\"decision\":\"deny\",\"reason\":7}"), Moment::JobEnd, None).unwrap();
    assert_eq!((a.decision, a.reason, a.other), (Decision::Deny, None, Some(json!({"reason": 7}))));
}

#[test]
fn other_keys_are_kept_aside() {
    let a = read(&text("{\"decision\":\"allow\",\"reason\":null,\"score\":0.2}"), Moment::JobEnd, None).unwrap();
    assert_eq!((a.reason, a.other), (None, Some(json!({"score": 0.2}))));
}
