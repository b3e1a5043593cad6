//! What a server said, as text, and as the model is given it.

use super::Point;
use crate::text;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The text of a result: its text blocks joined by newline, at most `max_bytes` of it (the middle is elided and marked).
///
/// None where there is nothing to say: no text, or blanks only. `Err` says why a result is no text at all: the server reports an
/// error, or gives nothing but other content.
pub fn text_of(result: &Value, max_bytes: u64) -> Result<Option<String>, String> {
    if result["isError"] == true {
        let said = joined(result).unwrap_or_default();
        return Err(format!("it reported an error: {}", text::reason(Some(&said), 500)));
    }
    let Some(blocks) = result["content"].as_array() else {
        return Err("its result has no list of content".to_owned());
    };
    let Some(said) = joined(result) else {
        return if blocks.is_empty() { Ok(None) } else { Err("its result holds no text".to_owned()) };
    };
    if said.trim().is_empty() {
        return Ok(None);
    }
    Ok(Some(text::elide_middle(&said, max_bytes)))
}

/// All text blocks; none where there is no such block.
fn joined(result: &Value) -> Option<String> {
    let blocks = result["content"].as_array()?;
    let texts: Vec<&str> = blocks.iter().filter(|b| b["type"] == "text").filter_map(|b| b["text"].as_str()).collect();
    if texts.is_empty() { None } else { Some(texts.join("\n")) }
}

/// What is delivered to the model, as it stands in a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivered {
    /// The function, e.g. `_Stop`.
    pub hook: String,
    /// The tool's id.
    pub server: String,
    /// What it said. Untrusted.
    pub text: String,
}

impl Delivered {
    /// Reads what [`body`] wrote.
    pub fn read(body: &str) -> Option<Self> {
        serde_json::from_str(body).ok()
    }
}

/// What the model is given: `{"hook":"_Stop","server":"todo","text":"…"}`, with its keys in this order.
///
/// Text that JSON makes much longer (control characters) is elided further, so that the body has at most twice `max_bytes`.
pub fn body(point: Point, server: &str, said: &str, max_bytes: u64) -> String {
    let encode = |text: String| {
        let delivered = Delivered { hook: point.function().to_owned(), server: server.to_owned(), text };
        serde_json::to_string(&delivered).unwrap_or_default()
    };
    let mut room = max_bytes;
    loop {
        let body = encode(text::elide_middle(said, room));
        if body.len() as u64 <= max_bytes.saturating_mul(2).max(512) || room < 64 {
            return body;
        }
        room /= 2;
    }
}
