//! What a summary is made from: the conversation as lines of JSON, within bounds.
//!
//! Invariant: each line is one JSON object, so that no text can pose as another message.
//! Invariant: no longer than asked for, whatever the messages hold.

use crate::message::Message;
use crate::text::{elide_middle, fair_share};
use serde_json::{Value, json};

/// Bytes of a line beside its text, and the least text that says something.
const LINE_BYTES: u64 = 90;

struct Line {
    head: Value,
    key: &'static str,
    text: String,
}

impl Line {
    fn new(head: Value, key: &'static str, text: String) -> Self {
        Self { head, key, text }
    }

    fn write(&self, bytes: u64) -> String {
        let mut line = self.head.clone();
        line[self.key] = Value::String(elide_middle(&self.text, bytes));
        line.to_string()
    }
}

/// Writes messages, whose values are present, as one JSON object a line, in at most `bytes`. Long texts lose their middle, each having
/// the same share; where there are too many messages, those after the first two and before the last ones are left out.
pub fn transcript(messages: &[Message], bytes: u64) -> String {
    let mut lines: Vec<Line> = messages.iter().flat_map(lines_of).collect();
    let most = usize::try_from(bytes / LINE_BYTES).unwrap_or(usize::MAX).max(3);
    if lines.len() > most {
        let gone = lines.len() - (most - 1);
        let head = (most - 1).min(2);
        let mark = Line::new(json!({}), "left_out", format!("{gone} messages"));
        lines.splice(head..head + gone, [mark]);
    }
    let shown: u64 = lines.iter().map(|l| l.head.to_string().len() as u64 + 12).sum();
    let mut limit = fair_share(lines.iter().map(|l| l.text.len() as u64).collect(), bytes.saturating_sub(shown));
    loop {
        let text = lines.iter().map(|line| line.write(limit)).collect::<Vec<_>>().join("\n");
        let length = text.len() as u64;
        if length <= bytes {
            return text;
        }
        if limit < 8 {
            return cut(text, bytes);
        }
        // Escapes made it longer.
        limit = (limit * bytes / length).min(limit - limit / 8 - 1);
    }
}

fn cut(mut text: String, bytes: u64) -> String {
    let mut end = usize::try_from(bytes).unwrap_or(usize::MAX).min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text
}

fn lines_of(message: &Message) -> Vec<Line> {
    let value = |stored: &crate::Stored| stored.value.as_deref().map(plain).unwrap_or_default();
    match message {
        Message::User { content } => vec![Line::new(json!({"from": "user"}), "text", value(content))],
        Message::Tool { tool, content, is_error, .. } => {
            let mut head = json!({"from": elide_middle(tool, 80)});
            if *is_error {
                head["error"] = json!(true);
            }
            vec![Line::new(head, "result", value(content))]
        }
        Message::Assistant { text, calls, .. } => {
            let said = text.as_ref().map(|text| Line::new(json!({"from": "agent"}), "text", value(text)));
            let calls = calls.iter().map(|call| {
                Line::new(
                    json!({"from": "agent", "calls": elide_middle(&call.tool, 80)}),
                    "with",
                    value(&call.arguments),
                )
            });
            said.into_iter().chain(calls).collect()
        }
    }
}

/// A value as text: a text as it is, the text of content blocks, any other JSON in its compact form.
pub fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(blocks) if blocks.iter().all(|b| b.get("type").is_some_and(Value::is_string)) => {
            blocks.iter().map(block).collect::<Vec<_>>().join("\n")
        }
        other => other.to_string(),
    }
}

fn block(block: &Value) -> String {
    let kind = block["type"].as_str().unwrap_or_default();
    let text = match kind {
        "text" => block["text"].as_str(),
        "resource" => block.pointer("/resource/text").and_then(Value::as_str),
        "image" | "audio" => return format!("[{kind}]"),
        _ => None,
    };
    text.map_or_else(|| block.to_string(), str::to_owned)
}
