//! Chat Completions' stream: deltas of the first choice, a finish reason, then a chunk with the tokens, then `[DONE]`.

use super::super::{
    Decoder, Draft, DraftCall, Event, Flow, MAX_CALLS, StreamError, parse_event, reported, str_at, u64_at, with,
};
use super::WIRE;
use hookwright_core::message::{StopReason, Usage};
use serde_json::{Map, Value, json};

/// Where servers put their models' reasoning; it goes back under the same key.
pub(super) const REASONING_KEYS: [&str; 3] = ["reasoning_content", "reasoning", "reasoning_details"];

#[derive(Default)]
pub(crate) struct Chat {
    text: String,
    calls: Vec<Call>,
    /// By the server's index, or by order where it gives none.
    finish: Option<String>,
    done: bool,
    refused: bool,
    usage: Option<Usage>,
    reasoning: Map<String, Value>,
}

struct Call {
    index: Option<u64>,
    draft: DraftCall,
    extra: Option<Value>,
}

impl Chat {
    fn delta(&mut self, delta: &Value, text: &mut dyn FnMut(&str)) -> Result<(), StreamError> {
        for (key, refuses) in [("content", false), ("refusal", true)] {
            if let Some(piece) = text_of(&delta[key]).filter(|t| !t.is_empty()) {
                self.refused |= refuses;
                self.text.push_str(&piece);
                text(&piece);
            }
        }
        for key in REASONING_KEYS {
            match (&delta[key], self.reasoning.get_mut(key)) {
                (Value::String(piece), Some(Value::String(before))) => before.push_str(piece),
                (Value::Array(pieces), Some(Value::Array(before))) => before.extend(pieces.iter().cloned()),
                (Value::String(piece), None) if !piece.is_empty() => {
                    self.reasoning.insert(key.into(), json!(piece));
                }
                (Value::Array(pieces), None) if !pieces.is_empty() => {
                    self.reasoning.insert(key.into(), json!(pieces));
                }
                _ => {}
            }
        }
        for piece in delta["tool_calls"].as_array().into_iter().flatten() {
            self.call(piece)?;
        }
        Ok(())
    }

    fn call(&mut self, piece: &Value) -> Result<(), StreamError> {
        let index = piece["index"].as_u64();
        let id = piece["id"].as_str().unwrap_or_default();
        // The index tells calls apart; without one, a new id does.
        let at = match index {
            Some(_) => self.calls.iter().position(|c| c.index == index),
            None if id.is_empty() => self.calls.len().checked_sub(1),
            None => self.calls.iter().position(|c| c.draft.id == id),
        };
        let at = match at {
            Some(at) => at,
            None if self.calls.len() >= MAX_CALLS => {
                return Err(StreamError::Malformed(format!("the answer has more than {MAX_CALLS} calls")));
            }
            None => {
                let draft = DraftCall { id: String::new(), name: String::new(), arguments: String::new() };
                self.calls.push(Call { index, draft, extra: None });
                self.calls.len() - 1
            }
        };
        let Some(call) = self.calls.get_mut(at) else { return Ok(()) };
        if call.draft.id.is_empty() {
            id.clone_into(&mut call.draft.id);
        }
        if call.draft.name.is_empty() {
            str_at(piece, "/function/name").unwrap_or_default().clone_into(&mut call.draft.name);
        }
        match piece.pointer("/function/arguments") {
            Some(Value::String(more)) => call.draft.arguments.push_str(more),
            // Some servers send an object instead of its text.
            Some(whole @ Value::Object(_)) => call.draft.arguments = whole.to_string(),
            _ => {}
        }
        if let Some(extra) = piece.get("extra_content").filter(|e| e.is_object()) {
            call.extra = Some(extra.clone());
        }
        Ok(())
    }
}

/// Text as a string or as a list of text parts.
fn text_of(content: &Value) -> Option<String> {
    match content {
        Value::String(text) => Some(text.clone()),
        Value::Array(parts) => {
            Some(parts.iter().filter(|p| p["type"] == "text").filter_map(|p| p["text"].as_str()).collect())
        }
        _ => None,
    }
}

impl Decoder for Chat {
    fn event(&mut self, event: Event<'_>, text: &mut dyn FnMut(&str)) -> Result<Flow, StreamError> {
        if event.data.trim() == "[DONE]" {
            self.done = true;
            return Ok(Flow::Done);
        }
        let value = parse_event(event)?;
        if event.name == Some("error") || value.get("error").is_some_and(|e| !e.is_null()) {
            return Err(reported(&value));
        }
        if let Some(input_tokens) = u64_at(&value, "/usage/prompt_tokens") {
            let output_tokens = u64_at(&value, "/usage/completion_tokens").unwrap_or(0);
            self.usage = Some(Usage { input_tokens, output_tokens });
        }
        if let Some(choice) = value.pointer("/choices/0") {
            // A server that answers all at once puts `message` where others put `delta`.
            let delta = choice.get("delta").or_else(|| choice.get("message"));
            if let Some(delta) = delta {
                self.delta(delta, text)?;
            }
            if let Some(reason) = choice["finish_reason"].as_str().filter(|r| !r.is_empty()) {
                self.finish = Some(reason.to_owned());
            }
        }
        Ok(Flow::More)
    }

    fn is_complete(&self) -> bool {
        self.done || self.finish.is_some()
    }

    fn finish(self: Box<Self>) -> Draft {
        let stop = match self.finish.as_deref() {
            Some("length") => StopReason::MaxTokens,
            Some("content_filter") => StopReason::Refusal,
            _ if self.refused => StopReason::Refusal,
            _ => StopReason::EndTurn,
        };
        let mut extra = Map::new();
        for call in &self.calls {
            if let Some(value) = &call.extra {
                extra.insert(call.draft.id.clone(), value.clone());
            }
        }
        let mut state = Value::Object(self.reasoning);
        if !extra.is_empty() {
            state = with(state, "extra_content", Some(Value::Object(extra)));
        }
        let state = state.as_object().is_some_and(|s| !s.is_empty()).then(|| with(state, "wire", Some(json!(WIRE))));
        let calls = self.calls.into_iter().map(|c| c.draft).collect();
        Draft { text: self.text, calls, stop, usage: self.usage, state }
    }
}
