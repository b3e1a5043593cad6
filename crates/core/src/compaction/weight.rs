//! How many bytes a message adds to a request. Digests' lengths suffice, so the machine can count without seeing a value.

use super::plan::Part;
use super::replaced_turns;
use crate::lifecycle::is_delivery;
use crate::message::{AssistantCall, FunctionSpec, Message};
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

/// How many turns of the model a message stands for: a summary for those that it says. What a lifecycle hook says is delivered as a call of its own (SPEC §9);
/// no model made it. The values must be present.
pub fn turns_of(message: &Message) -> u32 {
    let Message::Assistant { text, calls, .. } = message else { return 0 };
    let hook = |call: &AssistantCall| is_delivery(&call.provider_id, &call.tool);
    if text.is_none() && !calls.is_empty() {
        return u32::from(!calls.iter().all(hook));
    }
    let said = text.as_ref().and_then(|text| text.value.as_deref()).and_then(Value::as_str).unwrap_or_default();
    if calls.is_empty() { replaced_turns(said).unwrap_or(1) } else { 1 }
}

/// The sizes of a conversation's messages, for a plan; `limit` says how much of a result is sent. What hooks say is never cut.
pub fn parts(messages: &[Message], limit: impl Fn(usize) -> u64) -> Vec<Part> {
    let cut = |message: &Message| matches!(message, Message::Tool { provider_id, tool, .. } if !is_delivery(provider_id, tool));
    let part = |(i, message)| Part {
        bytes: weight(message, limit(i)),
        result: cut(message),
        turn: matches!(message, Message::Assistant { .. }),
    };
    messages.iter().enumerate().map(part).collect()
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
