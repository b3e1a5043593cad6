//! How many bytes a message adds to a request. Digests' lengths suffice, so the machine can count without seeing a value.

use super::SUMMARY_LEAD;
use super::plan::Part;
use crate::FunctionName;
use crate::message::{FunctionSpec, Message};
use serde_json::Value;

/// Bytes around each message and each call: roles, ids, quotes.
const FRAME: u64 = 40;
/// What an image counts: providers charge some 1,500 tokens for a large one, however many bytes it has.
const IMAGE_BYTES: u64 = 6_000;

/// Bytes of a message; of a result no more than `result_bytes`, for that is all that is sent of it.
pub fn weight(message: &Message, result_bytes: u64) -> u64 {
    let content = match message {
        Message::User { content } => content.bytes,
        Message::Tool { content, tool, .. } => content.bytes.min(result_bytes).saturating_add(tool.len() as u64),
        Message::Assistant { text, calls, provider_state } => {
            let said = calls.iter().fold(text.as_ref().map_or(0, |t| t.bytes), |sum, call| {
                sum.saturating_add(call.arguments.bytes).saturating_add(call.tool.len() as u64 + FRAME)
            });
            // A provider's own form of the turn says the same once more, and goes instead of it.
            said.max(provider_state.as_ref().map_or(0, |s| s.bytes))
        }
    };
    content.saturating_add(FRAME)
}

/// Whether a message is a turn of the model, and no summary of turns. What a lifecycle hook says is delivered as a call of its own (SPEC §9);
/// no model made it. The values must be present.
pub fn is_model_turn(message: &Message) -> bool {
    match message {
        Message::Assistant { text: None, calls, .. } if !calls.is_empty() => !calls.iter().all(|call| {
            call.tool.starts_with('_') || FunctionName::parse(&call.tool).is_ok_and(|name| name.is_lifecycle())
        }),
        Message::Assistant { text: Some(text), calls, .. } if calls.is_empty() => {
            !text.value.as_deref().and_then(Value::as_str).is_some_and(|text| text.starts_with(SUMMARY_LEAD))
        }
        Message::Assistant { .. } => true,
        Message::User { .. } | Message::Tool { .. } => false,
    }
}

/// The sizes of a conversation's messages, for a plan.
pub fn parts(messages: &[Message], result_bytes: u64) -> Vec<Part> {
    messages
        .iter()
        .map(|message| Part {
            bytes: weight(message, result_bytes),
            result: matches!(message, Message::Tool { .. }),
            turn: matches!(message, Message::Assistant { .. }),
        })
        .collect()
}

/// Bytes of a request's overhead (instructions, schemas of functions and of the output), and of its messages, whose values are present.
/// Images count as providers charge them, not by their data.
pub fn request_bytes(
    instructions: Option<&str>,
    functions: &[FunctionSpec],
    output_schema: Option<&Value>,
    messages: &[Message],
) -> (u64, u64) {
    let json = |value: &Value| value.to_string().len() as u64;
    let mut overhead = instructions.map_or(0, str::len) as u64 + output_schema.map_or(0, json);
    for f in functions {
        let text = f.name.len() + f.description.as_deref().map_or(0, str::len);
        overhead += text as u64 + json(&f.input_schema) + FRAME;
    }
    let said = messages.iter().map(|message| {
        let bytes = weight(message, u64::MAX);
        let Message::Tool { content, .. } = message else { return bytes };
        let Some(Value::Array(blocks)) = content.value.as_deref() else { return bytes };
        blocks.iter().filter_map(image_data).fold(bytes, |sum, data| (sum + IMAGE_BYTES).saturating_sub(data))
    });
    (overhead, said.sum())
}

fn image_data(block: &Value) -> Option<u64> {
    matches!(block.get("type")?.as_str()?, "image" | "audio")
        .then(|| block.get("data").and_then(Value::as_str).map_or(0, str::len) as u64)
}
