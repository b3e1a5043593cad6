//! Gemini `streamGenerateContent`.
//!
//! Invariant: a signature goes back on the very part that it came on; all results of a turn stand in one user content.

pub(super) mod decode;

use super::calls::{MADE_UP, sendable};
use super::content::{Piece, pieces};
use super::{Ask, NO_TEXT, instructions, present, schema, starts_with_user, state_of, user_text, with};
use hookwright_core::Stored;
use hookwright_core::message::{AssistantCall, Message};
use hookwright_runtime::ports::model::ModelError;
use serde_json::{Map, Value, json};

/// The name of this format in a turn's state.
const WIRE: &str = "gemini";
/// Gemini 3 refuses calls without a signature; this is its documented stand-in, for calls that another model (or a hook) made.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

pub(super) fn body(ask: &Ask<'_>) -> Result<Value, ModelError> {
    let request = &ask.request;
    // Before Gemini 3 a model takes functions or an output schema, not both.
    let schema_fits = is_gemini_3(ask.model) || request.functions.is_empty();
    let output = request.output_schema.filter(|_| schema_fits);
    let mut body = json!({});
    let system = instructions(request, output.is_none()).map(|text| json!({"parts": [{"text": text}]}));
    body = with(body, "systemInstruction", system);
    let mut config = Map::new();
    if let Some(n) = request.max_tokens {
        config.insert("maxOutputTokens".into(), json!(n));
    }
    if let Some(schema) = output {
        config.insert("responseMimeType".into(), json!("application/json"));
        config.insert("responseJsonSchema".into(), schema.clone());
    }
    if !config.is_empty() {
        body = with(body, "generationConfig", Some(Value::Object(config)));
    }
    if !request.functions.is_empty() {
        let functions = request.functions.iter().map(|f| {
            json!({
                "name": ask.names.wire(&f.name),
                // Not optional here.
                "description": f.description.as_deref().filter(|d| !d.is_empty()).unwrap_or(&f.name),
                "parametersJsonSchema": schema::function(&f.input_schema),
            })
        });
        let functions: Vec<Value> = functions.collect();
        body = with(body, "tools", Some(json!([{"functionDeclarations": functions}])));
    }
    Ok(with(body, "contents", Some(Value::Array(contents(ask)?))))
}

fn is_gemini_3(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    // `gemini-3-pro`, `gemini-3.5-flash`; later generations keep to it. Names without a number (`gemini-flash-latest`) are current.
    match name.strip_prefix("gemini-") {
        Some(rest) => {
            !(rest.starts_with("1.") || rest.starts_with("2.") || rest.starts_with("pro-vision") || rest == "pro")
        }
        None => false,
    }
}

fn contents(ask: &Ask<'_>) -> Result<Vec<Value>, ModelError> {
    let mut out = Vec::new();
    let (mut results, mut texts) = (Vec::new(), Vec::new());
    if !starts_with_user(ask.request.messages) {
        texts.push(json!({"text": NO_TEXT}));
    }
    for message in ask.request.messages {
        match message {
            Message::User { content } => {
                let text = user_text(content)?;
                texts.push(json!({"text": if text.trim().is_empty() { NO_TEXT } else { &text }}));
            }
            Message::Tool { provider_id, tool, content, is_error } => {
                results.push(result(ask, provider_id, tool, present(content)?, *is_error));
            }
            Message::Assistant { text, calls, provider_state } => {
                let parts = assistant(ask, text.as_ref(), calls, provider_state.as_ref())?;
                if !parts.is_empty() {
                    flush(&mut out, &mut results, &mut texts);
                    push(&mut out, parts);
                }
            }
        }
    }
    flush(&mut out, &mut results, &mut texts);
    Ok(out)
}

/// Adds what the model said. What a lifecycle hook said follows right upon the turn that it is about: calls must follow a user's
/// content, so both are one content here.
fn push(out: &mut Vec<Value>, parts: Vec<Value>) {
    match out.last_mut().filter(|c| c["role"] == "model").and_then(|c| c["parts"].as_array_mut()) {
        Some(before) => before.extend(parts),
        None => out.push(json!({"role": "model", "parts": parts})),
    }
}

/// Results and texts are contents of their own: as many results must follow the calls as there were calls.
fn flush(out: &mut Vec<Value>, results: &mut Vec<Value>, texts: &mut Vec<Value>) {
    for parts in [results, texts] {
        if !parts.is_empty() {
            out.push(json!({"role": "user", "parts": std::mem::take(parts)}));
        }
    }
}

fn result(ask: &Ask<'_>, id: &str, tool: &str, content: &Value, is_error: bool) -> Value {
    let (mut texts, mut images) = (Vec::new(), Vec::new());
    for piece in pieces(content, is_gemini_3(ask.model)) {
        match piece {
            Piece::Text(text) => texts.push(text),
            Piece::Image { mime, data } => images.push(json!({"inlineData": {"mimeType": mime, "data": data}})),
        }
    }
    let key = if is_error { "error" } else { "output" };
    let mut response = json!({"name": ask.names.wire(tool), "response": {key: texts.join("\n")}});
    response = with(response, "id", known_id(id));
    response = with(response, "parts", (!images.is_empty()).then_some(Value::Array(images)));
    json!({"functionResponse": response})
}

fn known_id(id: &str) -> Option<Value> {
    (!id.starts_with(MADE_UP)).then(|| json!(id))
}

fn assistant(
    ask: &Ask<'_>,
    text: Option<&Stored>,
    calls: &[AssistantCall],
    state: Option<&Stored>,
) -> Result<Vec<Value>, ModelError> {
    let text = text.map(user_text).transpose()?.unwrap_or_default();
    if let Some(kept) = state_of(state, WIRE).and_then(|s| s["parts"].as_array())
        && fits(kept, &text, calls)
    {
        return Ok(kept.clone());
    }
    let mut parts = Vec::new();
    if !text.trim().is_empty() {
        parts.push(json!({"text": text}));
    }
    for (i, call) in calls.iter().enumerate() {
        let function = json!({"name": ask.names.wire(&call.tool), "args": sendable(present(&call.arguments)?)});
        let part = json!({"functionCall": with(function, "id", known_id(&call.provider_id))});
        let stand_in = (i == 0 && is_gemini_3(ask.model)).then(|| json!(NO_SIGNATURE));
        parts.push(with(part, "thoughtSignature", stand_in));
    }
    Ok(parts)
}

/// Whether kept parts say the same as the message that they stand in. A call without an id fits one with a made-up id.
fn fits(parts: &[Value], text: &str, calls: &[AssistantCall]) -> bool {
    let said: String = parts.iter().filter(|p| p["thought"] != true).filter_map(|p| p["text"].as_str()).collect();
    let mut kept = parts.iter().filter_map(|p| p.get("functionCall"));
    said == text
        && calls.iter().all(|call| {
            kept.next().is_some_and(|f| match f["id"].as_str() {
                Some(id) => id == call.provider_id,
                None => call.provider_id.starts_with(MADE_UP),
            })
        })
        && kept.next().is_none()
}
