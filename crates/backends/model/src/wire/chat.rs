//! OpenAI Chat Completions, as OpenAI, Ollama, vLLM, llama.cpp, LM Studio, OpenRouter and others speak it.
//!
//! Invariant: towards others than OpenAI only the oldest and commonest keys are sent, but for reasoning that they sent themselves.

pub(super) mod decode;

use super::calls::{sendable, wire_id};
use super::content::as_text;
use super::{Ask, ChatFlavour, instructions, present, schema, state_of, user_text, with};
use hookwright_core::Stored;
use hookwright_core::lifecycle;
use hookwright_core::message::{AssistantCall, Message};
use hookwright_runtime::ports::model::ModelError;
use serde_json::{Value, json};

/// The name of this format in a turn's state.
const WIRE: &str = "chat";
/// OpenAI refuses longer ids of calls in this format.
const ID_LEN: usize = 40;
/// OpenAI refuses longer descriptions of functions in this format.
const DESCRIPTION_CHARS: usize = 1_024;

pub(super) fn body(ask: &Ask<'_>, flavour: ChatFlavour) -> Result<Value, ModelError> {
    let request = &ask.request;
    let openai = flavour == ChatFlavour::OpenAi;
    let output = request.output_schema.filter(|s| schema::is_object(s));
    let mut body = json!({"model": ask.model, "stream": true, "stream_options": {"include_usage": true}});
    let limit = if openai { "max_completion_tokens" } else { "max_tokens" };
    body = with(body, limit, request.max_tokens.map(|n| json!(n)));
    body = with(
        body,
        "response_format",
        output.map(|s| {
            let format = json!({"name": "output", "schema": s});
            let format = with(format, "strict", openai.then(|| json!(schema::is_strict(s))));
            json!({"type": "json_schema", "json_schema": format})
        }),
    );
    if !request.functions.is_empty() {
        let tools = request.functions.iter().map(|f| {
            let description = f.description.as_deref().map(|d| if openai { cut(d) } else { d.to_owned() });
            let function = json!({"name": ask.names.wire(&f.name)});
            let function = with(function, "description", description.map(Value::String));
            let function = with(function, "parameters", Some(schema::function(&f.input_schema)));
            json!({"type": "function", "function": function})
        });
        body = with(body, "tools", Some(tools.collect()));
    }
    let mut messages = Vec::new();
    if let Some(text) = instructions(request, output.is_none()) {
        messages.push(json!({"role": "system", "content": text}));
    }
    for message in request.messages {
        match message {
            Message::User { content } => messages.push(json!({"role": "user", "content": user_text(content)?})),
            Message::Tool { provider_id, content, .. } => messages.push(json!({
                "role": "tool",
                "tool_call_id": wire_id(provider_id, ID_LEN),
                "content": as_text(present(content)?),
            })),
            Message::Assistant { text, calls, provider_state } => {
                messages.extend(assistant(ask, text.as_ref(), calls, provider_state.as_ref())?);
            }
        }
    }
    Ok(with(body, "messages", Some(Value::Array(messages))))
}

fn cut(description: &str) -> String {
    if description.chars().count() <= DESCRIPTION_CHARS {
        return description.to_owned();
    }
    description.chars().take(DESCRIPTION_CHARS - 1).chain(['…']).collect()
}

fn assistant(
    ask: &Ask<'_>,
    text: Option<&Stored>,
    calls: &[AssistantCall],
    state: Option<&Stored>,
) -> Result<Option<Value>, ModelError> {
    let text = text.map(user_text).transpose()?.filter(|t| !t.is_empty());
    if text.is_none() && calls.is_empty() {
        return Ok(None);
    }
    let state = state_of(state, WIRE);
    // A call that a lifecycle hook's text came with: no model left the text out, and some servers refuse `null`.
    let delivered = calls.iter().any(|c| lifecycle::is_delivery(&c.provider_id, &c.tool));
    let text = text.or_else(|| delivered.then(String::new));
    let mut message = json!({"role": "assistant", "content": text});
    if !calls.is_empty() {
        // What thinking models of other makers want back, under the very key that it came under, while they work with
        // tools; some refuse it with a turn that called nothing.
        for key in decode::REASONING_KEYS {
            message = with(message, key, state.and_then(|s| s.get(key)).cloned());
        }
        let mut out = Vec::new();
        for call in calls {
            let item = json!({
                "id": wire_id(&call.provider_id, ID_LEN),
                "type": "function",
                "function": {
                    "name": ask.names.wire(&call.tool),
                    "arguments": sendable(present(&call.arguments)?).to_string(),
                },
            });
            let extra = state.and_then(|s| s["extra_content"].get(&call.provider_id)).cloned();
            out.push(with(item, "extra_content", extra));
        }
        message = with(message, "tool_calls", Some(Value::Array(out)));
    }
    Ok(Some(message))
}
