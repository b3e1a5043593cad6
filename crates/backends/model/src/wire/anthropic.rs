//! Anthropic Messages.
//!
//! Invariant: all results of a turn stand in one user message, before any text; thinking blocks go back exactly as they came.

pub(super) mod decode;

use super::calls::{sendable, wire_id};
use super::content::{Piece, pieces};
use super::{
    Ask, NO_TEXT, instructions, present, schema, set_off, starts_with_user, state_of, text_block, user_text, with,
};
use hookwright_core::Stored;
use hookwright_core::message::{AssistantCall, Message};
use hookwright_runtime::ports::model::ModelError;
use serde_json::{Value, json};
use std::sync::LazyLock;

/// The name of this format in a turn's state.
const WIRE: &str = "anthropic";
const ID_LEN: usize = 64;
/// Stands where a tool must be declared and there is none.
static NO_TOOL: LazyLock<Value> = LazyLock::new(
    || json!({"name": "none", "description": "There is nothing to call.", "input_schema": {"type": "object", "properties": {}}}),
);

pub(super) fn body(ask: &Ask<'_>) -> Result<Value, ModelError> {
    let request = &ask.request;
    let output = request.output_schema.and_then(schema::anthropic_output).filter(|_| takes_schemas(ask.model));
    let cached = |block: Value| with(block, "cache_control", Some(json!({"type": "ephemeral"})));

    let mut body = json!({
        "model": ask.model,
        "max_tokens": request.max_tokens.unwrap_or_else(|| default_max_tokens(ask.model)),
        "stream": true,
    });
    // Two marks make a long job cheap: what never changes, and all that was said so far.
    let system = instructions(request, output.is_none()).map(|text| json!([cached(text_block(text))]));
    body = with(body, "system", system);
    body = with(body, "output_config", output.map(|s| json!({"format": {"type": "json_schema", "schema": s}})));
    if !request.functions.is_empty() {
        let tools = request.functions.iter().map(|f| {
            let tool = json!({"name": ask.names.wire(&f.name)});
            let tool = with(tool, "description", f.description.clone().map(Value::String));
            with(tool, "input_schema", Some(schema::function(&f.input_schema)))
        });
        body = with(body, "tools", Some(tools.collect()));
    } else if request.messages.iter().any(|m| matches!(m, Message::Tool { .. })) {
        // A conversation with calls must declare a tool, also where only lifecycle hooks spoke and the agent has no function.
        body = with(body, "tools", Some(json!([NO_TOOL.clone()])));
        body = with(body, "tool_choice", Some(json!({"type": "none"})));
    }
    let mut messages = messages(ask)?;
    if let Some(block) = messages
        .last_mut()
        .filter(|m| m["role"] == "user")
        .and_then(|m| m["content"].as_array_mut())
        .and_then(|blocks| blocks.last_mut())
    {
        *block = cached(block.take());
    }
    Ok(with(body, "messages", Some(Value::Array(messages))))
}

fn messages(ask: &Ask<'_>) -> Result<Vec<Value>, ModelError> {
    let mut out = Vec::new();
    let (mut results, mut texts) = (Vec::new(), Vec::new());
    if !starts_with_user(ask.request.messages) {
        texts.push(text_block(NO_TEXT));
    }
    for message in ask.request.messages {
        match message {
            Message::User { content } => {
                let text = user_text(content)?;
                texts.push(text_block(if text.trim().is_empty() { NO_TEXT } else { &text }));
            }
            Message::Tool { provider_id, content, is_error, .. } => {
                let block = json!({"type": "tool_result", "tool_use_id": wire_id(provider_id, ID_LEN)});
                let block = with(block, "content", result(present(content)?));
                results.push(with(block, "is_error", is_error.then_some(json!(true))));
            }
            Message::Assistant { text, calls, provider_state } => {
                let blocks = assistant(ask, text.as_ref(), calls, provider_state.as_ref())?;
                if !blocks.is_empty() {
                    flush(&mut out, &mut results, &mut texts);
                    push(&mut out, blocks);
                }
            }
        }
    }
    flush(&mut out, &mut results, &mut texts);
    Ok(out)
}

/// Adds what the model said. What a lifecycle hook said follows right upon the turn that it is about: both are one message here.
fn push(out: &mut Vec<Value>, blocks: Vec<Value>) {
    match out.last_mut().filter(|m| m["role"] == "assistant").and_then(|m| m["content"].as_array_mut()) {
        Some(before) => before.extend(blocks),
        None => out.push(json!({"role": "assistant", "content": blocks})),
    }
}

fn flush(out: &mut Vec<Value>, results: &mut Vec<Value>, texts: &mut Vec<Value>) {
    results.append(texts);
    if !results.is_empty() {
        out.push(json!({"role": "user", "content": std::mem::take(results)}));
    }
}

/// A result's content; absent where it is empty, since empty blocks are refused.
fn result(content: &Value) -> Option<Value> {
    let blocks: Vec<Value> = pieces(content, true)
        .into_iter()
        .filter_map(|piece| match piece {
            Piece::Text(text) if text.trim().is_empty() => None,
            Piece::Text(text) => Some(text_block(text)),
            Piece::Image { mime, data } => {
                Some(json!({"type": "image", "source": {"type": "base64", "media_type": mime, "data": data}}))
            }
        })
        .collect();
    (!blocks.is_empty()).then_some(Value::Array(blocks))
}

fn assistant(
    ask: &Ask<'_>,
    text: Option<&Stored>,
    calls: &[AssistantCall],
    state: Option<&Stored>,
) -> Result<Vec<Value>, ModelError> {
    let text = text.map(user_text).transpose()?.unwrap_or_default();
    if let Some(blocks) = state_of(state, WIRE).and_then(|s| s["content"].as_array())
        && fits(blocks, &text, calls)
    {
        return Ok(blocks.clone());
    }
    let mut blocks = Vec::new();
    if !text.trim().is_empty() {
        blocks.push(text_block(text));
    }
    for call in calls {
        blocks.push(json!({
            "type": "tool_use",
            "id": wire_id(&call.provider_id, ID_LEN),
            "name": ask.names.wire(&call.tool),
            "input": sendable(present(&call.arguments)?),
        }));
    }
    Ok(blocks)
}

/// Whether kept blocks say the same as the message that they stand in.
fn fits(blocks: &[Value], text: &str, calls: &[AssistantCall]) -> bool {
    let mut said = String::new();
    let mut ids = Vec::new();
    for block in blocks {
        match block["type"].as_str() {
            Some("text") => {
                set_off(&mut said);
                said.push_str(block["text"].as_str().unwrap_or_default());
            }
            Some("tool_use") => ids.push(block["id"].as_str().unwrap_or_default()),
            _ => {}
        }
    }
    said == text && ids.into_iter().map(str::to_owned).eq(calls.iter().map(|c| wire_id(&c.provider_id, ID_LEN)))
}

/// The format demands a limit. 32,000 is more than turns need; a higher one would count against the window of older models.
fn default_max_tokens(model: &str) -> u32 {
    const LOWER: [(&str, u32); 3] = [("claude-3-haiku", 4_096), ("claude-3-opus", 4_096), ("claude-3-5", 8_192)];
    let known = LOWER.iter().find(|(lead, _)| model.starts_with(lead)).map(|(_, n)| *n);
    known.unwrap_or(if model.starts_with("claude-") { 32_000 } else { 8_192 })
}

/// Whether a model takes an output schema: Claude since Opus 4.1 and Sonnet 4.5.
fn takes_schemas(model: &str) -> bool {
    const OLD: [&str; 6] =
        ["claude-2", "claude-3", "claude-instant", "claude-opus-4-0", "claude-opus-4-2", "claude-sonnet-4-0"];
    model.starts_with("claude-")
        && !OLD.iter().any(|lead| model.starts_with(lead))
        && !model.starts_with("claude-sonnet-4-2")
}
