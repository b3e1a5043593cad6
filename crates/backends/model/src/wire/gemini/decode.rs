//! Gemini's stream: each event is a response of its own, with further parts of the first candidate.

use super::super::calls::sendable;
use super::super::{
    Decoder, Draft, DraftCall, Event, Flow, MAX_CALLS, StreamError, parse_arguments, parse_event, reported, str_at,
    u64_at, with,
};
use super::WIRE;
use hookwright_core::message::{StopReason, Usage};
use serde_json::{Value, json};

#[derive(Default)]
pub(crate) struct Gemini {
    text: String,
    calls: Vec<DraftCall>,
    parts: Vec<Value>,
    signed: bool,
    finish: Option<String>,
    blocked: bool,
    usage: Option<Usage>,
}

impl Gemini {
    fn part(&mut self, part: &Value, text: &mut dyn FnMut(&str)) -> Result<(), StreamError> {
        let signature = part.get("thoughtSignature").filter(|s| s.is_string()).cloned();
        self.signed |= signature.is_some();
        if let Some(call) = part.get("functionCall") {
            if self.calls.len() >= MAX_CALLS {
                return Err(StreamError::Malformed(format!("the answer has more than {MAX_CALLS} calls")));
            }
            let field = |key: &str| call[key].as_str().unwrap_or_default().to_owned();
            let arguments = call.get("args").filter(|a| !a.is_null()).map_or_else(String::new, Value::to_string);
            let kept = json!({"name": field("name"), "args": sendable(&parse_arguments(&arguments))});
            let kept = with(kept, "id", call.get("id").filter(|i| i.as_str().is_some_and(|i| !i.is_empty())).cloned());
            self.parts.push(with(json!({"functionCall": kept}), "thoughtSignature", signature));
            self.calls.push(DraftCall { id: field("id"), name: field("name"), arguments });
        } else if let Some(piece) = part["text"].as_str() {
            let is_thought = part["thought"] == true;
            if !is_thought && !piece.is_empty() {
                self.text.push_str(piece);
                text(piece);
            }
            self.keep_text(piece, is_thought, signature);
        }
        Ok(())
    }

    /// Joins pieces of text, but never across a signature: it belongs to the part that it came on.
    fn keep_text(&mut self, piece: &str, is_thought: bool, signature: Option<Value>) {
        if signature.is_none() && (is_thought || piece.is_empty()) {
            return;
        }
        if let Some(last) = self.parts.last_mut().filter(|p| signature.is_none() && p.get("thoughtSignature").is_none())
            && let Some(Value::String(before)) = last.get_mut("text")
        {
            before.push_str(piece);
            return;
        }
        let part = with(json!({"text": piece}), "thought", is_thought.then(|| json!(true)));
        self.parts.push(with(part, "thoughtSignature", signature));
    }
}

impl Decoder for Gemini {
    fn event(&mut self, event: Event<'_>, text: &mut dyn FnMut(&str)) -> Result<Flow, StreamError> {
        let value = parse_event(event)?;
        if value.get("error").is_some_and(|e| !e.is_null()) {
            return Err(reported(&value));
        }
        if let Some(prompt) = u64_at(&value, "/usageMetadata/promptTokenCount") {
            let more = |key: &str| u64_at(&value, &format!("/usageMetadata/{key}")).unwrap_or(0);
            self.usage = Some(Usage {
                input_tokens: prompt.saturating_add(more("toolUsePromptTokenCount")),
                output_tokens: more("candidatesTokenCount").saturating_add(more("thoughtsTokenCount")),
            });
        }
        self.blocked |= str_at(&value, "/promptFeedback/blockReason").is_some();
        for part in value.pointer("/candidates/0/content/parts").and_then(Value::as_array).into_iter().flatten() {
            self.part(part, text)?;
        }
        if let Some(reason) = str_at(&value, "/candidates/0/finishReason") {
            // The model wrote a call that Gemini itself can't read. It is by chance: asking again helps.
            if matches!(reason, "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" | "MISSING_THOUGHT_SIGNATURE") {
                let why = str_at(&value, "/candidates/0/finishMessage").unwrap_or_default();
                return Err(StreamError::Again(format!("the model's call could not be read ({reason}) {why}")));
            }
            self.finish = Some(reason.to_owned());
        }
        Ok(Flow::More)
    }

    fn is_complete(&self) -> bool {
        self.finish.is_some() || self.blocked
    }

    fn finish(self: Box<Self>) -> Draft {
        let stop = match self.finish.as_deref() {
            _ if self.blocked => StopReason::Refusal,
            Some("MAX_TOKENS") => StopReason::MaxTokens,
            Some(
                "SAFETY"
                | "RECITATION"
                | "LANGUAGE"
                | "BLOCKLIST"
                | "PROHIBITED_CONTENT"
                | "SPII"
                | "IMAGE_SAFETY"
                | "IMAGE_PROHIBITED_CONTENT"
                | "IMAGE_RECITATION",
            ) => StopReason::Refusal,
            _ => StopReason::EndTurn,
        };
        let state = self.signed.then(|| json!({"wire": WIRE, "parts": self.parts}));
        Draft { text: self.text, calls: self.calls, stop, usage: self.usage, state }
    }
}
