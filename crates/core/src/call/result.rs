//! A function's raw result, read into what hooks and the model see (SPEC §3).

use serde_json::Value;

/// A result as events carry it.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadResult {
    /// A string where it is one text block, else the list of content blocks.
    pub result: Value,
    /// Its `structuredContent`, if any.
    pub structured: Option<Value>,
    /// Whether the server says that the call failed.
    pub is_error: bool,
}

/// Reads the raw `result` of a `tools/call`. What is no list of blocks is an error result that quotes it.
pub fn read_result(raw: Value) -> ReadResult {
    let Value::Object(mut map) = raw else {
        return ReadResult { result: Value::String(raw.to_string()), structured: None, is_error: true };
    };
    // Anything but a plain `false` counts as an error: a server that says it in its own way is not read as a success.
    let is_error = !matches!(map.get("isError"), None | Some(Value::Bool(false) | Value::Null));
    let structured = map.shift_remove("structuredContent").filter(|v| !v.is_null());
    let result = match map.shift_remove("content") {
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
    ReadResult { result, structured, is_error }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn one_text_block_is_a_string_and_anything_else_the_list() {
        let read = |v| read_result(v);
        assert_eq!(read(json!({"content": [{"type": "text", "text": "x"}]})).result, json!("x"));
        let two = json!([{"type": "text", "text": "x"}, {"type": "image", "data": "", "mimeType": "image/png"}]);
        assert_eq!(read(json!({"content": two})).result, two);
        assert_eq!(read(json!({"content": []})).result, json!([]));
        assert_eq!(read(json!({"content": [], "structuredContent": {"a": 1}})).structured, Some(json!({"a": 1})));
        assert!(read(json!({"content": [], "isError": true})).is_error);
        assert!(read(json!([1])).is_error);
    }
}
