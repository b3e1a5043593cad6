//! OpenAI Responses, without anything stored at OpenAI (`store: false`).
//!
//! Invariant: reasoning goes back encrypted, in its place, only together with the items that it led to.

pub(super) mod decode;

use super::calls::{sendable, wire_id};
use super::content::{Piece, pieces};
use super::{Ask, instructions, present, schema, set_off, state_of, user_text, with};
use hookwright_core::Stored;
use hookwright_core::json::sha256_hex;
use hookwright_core::message::{AssistantCall, Message};
use hookwright_runtime::ports::model::ModelError;
use serde_json::{Value, json};

/// The name of this format in a turn's state.
const WIRE: &str = "responses";
const ID_LEN: usize = 64;

pub(super) fn body(ask: &Ask<'_>) -> Result<Value, ModelError> {
    let request = &ask.request;
    let output = request.output_schema.filter(|s| schema::is_object(s));
    let mut body = json!({"model": ask.model, "stream": true, "store": false});
    body = with(body, "instructions", instructions(request, output.is_none()).map(Value::String));
    body = with(body, "max_output_tokens", request.max_tokens.map(|n| json!(n)));
    // Requests of one job find the same cache. A digest, since the id is nobody else's business.
    body = with(body, "prompt_cache_key", Some(json!(&sha256_hex(request.job.as_bytes())[..32])));
    if ask.reasoning {
        body = with(body, "include", Some(json!(["reasoning.encrypted_content"])));
    }
    body = with(
        body,
        "text",
        output.map(|s| json!({"format": {"type": "json_schema", "name": "output", "schema": s, "strict": schema::is_strict(s)}})),
    );
    if !request.functions.is_empty() {
        let tools = request.functions.iter().map(|f| {
            let tool = json!({"type": "function", "name": ask.names.wire(&f.name)});
            let tool = with(tool, "description", f.description.clone().map(Value::String));
            let tool = with(tool, "parameters", Some(schema::function(&f.input_schema)));
            // Strict is the default here, and would rewrite the servers' schemas.
            with(tool, "strict", Some(json!(false)))
        });
        body = with(body, "tools", Some(tools.collect()));
    }
    let mut input = Vec::new();
    for message in request.messages {
        match message {
            Message::User { content } => {
                input.push(json!({"type": "message", "role": "user", "content": user_text(content)?}));
            }
            Message::Tool { provider_id, content, .. } => input.push(json!({
                "type": "function_call_output",
                "call_id": wire_id(provider_id, ID_LEN),
                "output": result(present(content)?),
            })),
            Message::Assistant { text, calls, provider_state } => {
                assistant(ask, text.as_ref(), calls, provider_state.as_ref(), &mut input)?;
            }
        }
    }
    Ok(with(body, "input", Some(Value::Array(input))))
}

/// A result: text, or a list where there are images.
fn result(content: &Value) -> Value {
    let pieces = pieces(content, true);
    if let [Piece::Text(text)] = pieces.as_slice() {
        return json!(text);
    }
    let items = pieces.into_iter().map(|piece| match piece {
        Piece::Text(text) => json!({"type": "input_text", "text": text}),
        Piece::Image { mime, data } => {
            json!({"type": "input_image", "image_url": format!("data:{mime};base64,{data}"), "detail": "auto"})
        }
    });
    let items: Vec<Value> = items.collect();
    if items.is_empty() { json!("") } else { Value::Array(items) }
}

fn assistant(
    ask: &Ask<'_>,
    text: Option<&Stored>,
    calls: &[AssistantCall],
    state: Option<&Stored>,
    input: &mut Vec<Value>,
) -> Result<(), ModelError> {
    let text = text.map(user_text).transpose()?.unwrap_or_default();
    if let Some(items) = state_of(state, WIRE).and_then(|s| s["output"].as_array())
        && ask.reasoning
        && fits(items, &text, calls)
    {
        input.extend(items.iter().cloned());
        return Ok(());
    }
    if !text.is_empty() {
        input.push(json!({"type": "message", "role": "assistant", "content": text}));
    }
    for call in calls {
        input.push(json!({
            "type": "function_call",
            "call_id": wire_id(&call.provider_id, ID_LEN),
            "name": ask.names.wire(&call.tool),
            "arguments": sendable(present(&call.arguments)?).to_string(),
        }));
    }
    Ok(())
}

/// The text of one `message` item: what it says, or how it refuses.
fn item_text(item: &Value) -> String {
    let parts = item["content"].as_array().into_iter().flatten();
    parts.filter_map(|p| p["text"].as_str().or_else(|| p["refusal"].as_str())).collect()
}

/// Whether kept items say the same as the message that they stand in.
fn fits(items: &[Value], text: &str, calls: &[AssistantCall]) -> bool {
    let mut said = String::new();
    let mut ids = Vec::new();
    for item in items {
        match item["type"].as_str() {
            Some("message") => {
                let own = item_text(item);
                if !own.is_empty() {
                    set_off(&mut said);
                    said.push_str(&own);
                }
            }
            Some("function_call") => ids.push(item["call_id"].as_str().unwrap_or_default()),
            _ => {}
        }
    }
    said == text && ids.into_iter().map(str::to_owned).eq(calls.iter().map(|c| wire_id(&c.provider_id, ID_LEN)))
}
