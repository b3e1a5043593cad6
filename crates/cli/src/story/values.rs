//! JSON values for people: compact in a line, or as text in a block.

use super::line::{columns, escaped_head, fit};
use super::look::Look;
use super::units;
use hookwright_core::stored::Stored;
use serde_json::Value;
use std::borrow::Cow;

/// A value in one line of at most `room` columns: long strings are shortened first, then the whole. Escaped.
pub(crate) fn compact(value: &Value, room: usize, look: Look) -> String {
    let mut out = String::new();
    // Room for all of it, or for the half of it in one string.
    let whole = write(value, room, &mut out, room * 4, look);
    if whole && columns(&out) <= room {
        return out;
    }
    out.clear();
    write(value, (room / 2).max(12), &mut out, room * 4, look);
    fit(&out, room, look)
}

/// Writes a value with strings of at most `string` columns. False where `budget` bytes were not enough.
fn write(value: &Value, string: usize, out: &mut String, budget: usize, look: Look) -> bool {
    if out.len() > budget {
        return false;
    }
    match value {
        Value::String(text) => quoted(text, string, out, look),
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                out.push_str(if i > 0 { "," } else { "" });
                if !write(item, string, out, budget, look) {
                    return false;
                }
            }
            out.push(']');
        }
        Value::Object(map) => {
            out.push('{');
            for (i, (key, item)) in map.iter().enumerate() {
                out.push_str(if i > 0 { "," } else { "" });
                quoted(key, string, out, look);
                out.push(':');
                if !write(item, string, out, budget, look) {
                    return false;
                }
            }
            out.push('}');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => out.push_str(&value.to_string()),
    }
    true
}

fn quoted(text: &str, room: usize, out: &mut String, look: Look) {
    let mut end = text.len().min(room * 8);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let json = Value::String(text[..end].to_owned()).to_string();
    let escaped = escaped_head(&json, json.len());
    if end == text.len() && columns(&escaped) <= room {
        out.push_str(&escaped);
        return;
    }
    // The closing quote does not count as cut off.
    let shown = fit(escaped.trim_end_matches('"'), room.saturating_sub(1), look);
    out.push_str(shown.trim_end_matches(look.ellipsis()));
    out.push_str(look.ellipsis());
    out.push('"');
}

/// A value that may stand beside the history, in one line.
pub(crate) fn stored(stored: &Stored, room: usize, look: Look) -> String {
    match stored.value.as_deref() {
        Some(value) => compact(value, room, look),
        None => fit(&elsewhere(stored), room, look),
    }
}

/// What stands for a value that is not at hand.
pub(crate) fn elsewhere(stored: &Stored) -> String {
    let digest: String = stored.sha256.chars().filter(char::is_ascii_hexdigit).take(12).collect();
    format!("({}, stored as {digest})", units::bytes(stored.bytes))
}

/// What stands for a value that was deleted.
pub(crate) fn deleted(stored: &Stored) -> String {
    let digest: String = stored.sha256.chars().filter(char::is_ascii_hexdigit).take(12).collect();
    format!("({}, deleted; its digest {digest} is kept)", units::bytes(stored.bytes))
}

/// A value as text: a string as it is, content blocks as what they hold, anything else as indented JSON. Not escaped.
pub(crate) fn text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => Cow::Borrowed(text),
        Value::Array(blocks)
            if !blocks.is_empty() && blocks.iter().all(|b| b.get("type").is_some_and(Value::is_string)) =>
        {
            Cow::Owned(blocks.iter().map(block).collect::<Vec<_>>().join("\n"))
        }
        other => Cow::Owned(serde_json::to_string_pretty(other).unwrap_or_default()),
    }
}

/// An MCP content block.
fn block(block: &Value) -> String {
    let of = |key: &str| block.get(key).and_then(Value::as_str);
    match (of("type"), of("text"), of("data")) {
        (Some("text"), Some(text), _) => text.to_owned(),
        (Some(kind), _, Some(data)) => {
            let mime = of("mimeType").unwrap_or("unknown type");
            format!("[{kind}, {mime}, {} in base64]", units::bytes(data.len() as u64))
        }
        _ => serde_json::to_string_pretty(block).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn line(value: &Value, room: usize) -> String {
        let out = compact(value, room, Look::PLAIN);
        assert!(columns(&out) <= room, "{out}");
        out
    }

    #[test]
    fn a_short_value_is_whole_and_a_long_one_keeps_its_shape() {
        assert_eq!(line(&json!({"branch": "main", "force": true}), 60), r#"{"branch":"main","force":true}"#);
        let long = json!({"content": "x".repeat(1_000_000), "path": "a.txt"});
        assert_eq!(line(&long, 40), r#"{"content":"xxxxxxxxxxxxxxxxx…","path":…"#);
        assert_eq!(line(&json!("y".repeat(100)), 20), format!("\"{}…\"", "y".repeat(17)));
        assert_eq!(line(&json!(vec![1; 1_000_000]), 10), "[1,1,1,1,…");
    }

    #[test]
    fn hostile_keys_and_strings_are_escaped() {
        let out = line(&json!({"\u{1b}[2J\u{202e}": "a\nb\u{9b}1m\u{7f}"}), 78);
        assert_eq!(out, r#"{"\u001b[2J\u{202e}":"a\nb\u{9b}1m\u{7f}"}"#);
    }

    #[test]
    fn content_blocks_read_as_text() {
        let blocks =
            json!([{"type": "text", "text": "hi"}, {"type": "image", "mimeType": "image/png", "data": "AAAA"}]);
        assert_eq!(text(&blocks), "hi\n[image, image/png, 4 bytes in base64]");
        assert_eq!(text(&json!("plain")), "plain");
        assert_eq!(text(&json!([1])), "[\n  1\n]");
    }
}
