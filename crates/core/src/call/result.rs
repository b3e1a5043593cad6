//! A function's raw result, read into what hooks and the model see (SPEC §3).

use serde_json::{Map, Value, json};

/// A result as events carry it.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadResult {
    /// A string where it is one text block, else the list of content blocks.
    pub result: Value,
    /// Its `structuredContent`, if any.
    pub structured: Option<Value>,
    /// Whether the server says that the call failed.
    pub is_error: bool,
    /// What else the raw result held, where that was asked for and there is something: its other members, and `content` where `result`
    /// does not tell all of it.
    pub rest: Option<Value>,
}

/// Reads the raw `result` of a `tools/call`. What is no list of blocks is an error result that quotes it. `whole` keeps what else it
/// held.
pub fn read_result(raw: Value, whole: bool) -> ReadResult {
    let Value::Object(mut map) = raw else {
        return ReadResult { result: Value::String(raw.to_string()), structured: None, is_error: true, rest: None };
    };
    // Anything but a plain `false` counts as an error: a server that says it in its own way is not read as a success.
    let is_error = !matches!(map.get("isError"), None | Some(Value::Bool(false) | Value::Null));
    let structured = map.shift_remove("structuredContent").filter(|v| !v.is_null());
    let content = map.shift_remove("content");
    let as_it_was = content.clone().filter(|_| whole);
    let result = match content {
        Some(Value::Array(mut blocks)) => match blocks.as_mut_slice() {
            [Value::Object(block)] if block.get("type").and_then(Value::as_str) == Some("text") => {
                match block.get_mut("text").map(Value::take) {
                    Some(Value::String(text)) => Value::String(text),
                    _ => Value::String(String::new()),
                }
            }
            _ => Value::Array(blocks.into_iter().filter(|b| b.get("type").is_some_and(Value::is_string)).collect()),
        },
        _ => Value::Array(vec![]),
    };
    let rest = whole.then(|| rest(map, as_it_was, &result)).flatten();
    ReadResult { result, structured, is_error, rest }
}

/// What a result's parts leave out of it.
fn rest(mut others: Map<String, Value>, content: Option<Value>, result: &Value) -> Option<Value> {
    others.shift_remove("isError");
    if let Some(content) = content.filter(|content| *content != blocks(result)) {
        others.insert("content".into(), content);
    }
    (!others.is_empty()).then_some(Value::Object(others))
}

/// A result as a list of content blocks.
pub fn blocks(result: &Value) -> Value {
    match result {
        Value::String(text) => json!([{"type": "text", "text": text}]),
        Value::Array(_) => result.clone(),
        other => json!([{"type": "text", "text": other.to_string()}]),
    }
}

/// The raw result of a `tools/call` out of its parts: as the server gave it, where nothing was changed.
pub fn raw_result(content: &Value, structured: Option<&Value>, rest: Option<&Value>, is_error: bool) -> Value {
    let mut map = Map::new();
    map.insert("content".into(), blocks(content));
    if let Some(structured) = structured {
        map.insert("structuredContent".into(), structured.clone());
    }
    if let Some(Value::Object(rest)) = rest {
        map.extend(rest.clone());
    }
    if is_error {
        map.insert("isError".into(), Value::Bool(true));
    }
    Value::Object(map)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn one_text_block_is_a_string_and_anything_else_the_list() {
        let read = |v| read_result(v, false);
        assert_eq!(read(json!({"content": [{"type": "text", "text": "x"}]})).result, json!("x"));
        let two = json!([{"type": "text", "text": "x"}, {"type": "image", "data": "", "mimeType": "image/png"}]);
        assert_eq!(read(json!({"content": two})).result, two);
        assert_eq!(read(json!({"content": []})).result, json!([]));
        assert_eq!(read(json!({"content": [], "structuredContent": {"a": 1}})).structured, Some(json!({"a": 1})));
        assert!(read(json!({"content": [], "isError": true})).is_error);
        assert!(read(json!([1])).is_error);
    }

    #[test]
    fn a_whole_result_is_put_together_again_as_it_was() {
        let annotated = json!([{"type": "text", "text": "x", "annotations": {"audience": ["user"]}}]);
        for raw in [
            json!({"content": [{"type": "text", "text": "x"}]}),
            json!({"content": annotated, "_meta": {"a": 1}}),
            json!({"content": [], "structuredContent": {"a": [1]}, "resultType": "complete"}),
            json!({"content": [], "decision": "allow"}),
            json!({"content": [{"type": "text", "text": "x"}, {"type": "image", "data": "", "mimeType": "image/png"}], "isError": true}),
        ] {
            let read = read_result(raw.clone(), true);
            assert_eq!(raw_result(&read.result, read.structured.as_ref(), read.rest.as_ref(), read.is_error), raw);
        }
    }
}
