//! OpenAI Responses' stream: items by `output_index`, text as deltas, then one terminal event with the whole response.

use super::super::calls::sendable;
use super::super::{
    Decoder, Draft, DraftCall, Event, Flow, MAX_CALLS, StreamError, parse_arguments, parse_event, reported, set_off,
    str_at, u64_at, with,
};
use super::{WIRE, item_text};
use hookwright_core::message::{StopReason, Usage};
use serde_json::{Value, json};
use std::collections::BTreeMap;

#[derive(Default)]
pub(crate) struct Responses {
    text: String,
    /// Text that came as deltas, by item, to find what came only with the whole item.
    streamed: BTreeMap<u64, String>,
    items: BTreeMap<u64, Value>,
    /// Arguments that came as deltas, for a call that was cut off before its item was done.
    arguments: BTreeMap<u64, String>,
    response: Option<Value>,
}

impl Responses {
    fn delta(&mut self, value: &Value, text: &mut dyn FnMut(&str)) {
        let index = u64_at(value, "/output_index").unwrap_or(0);
        let piece = value["delta"].as_str().unwrap_or_default();
        if !piece.is_empty() {
            if !self.streamed.contains_key(&index) {
                text(set_off(&mut self.text));
            }
            self.streamed.entry(index).or_default().push_str(piece);
            self.text.push_str(piece);
            text(piece);
        }
    }

    /// Some servers send a message's text only with the item.
    fn late_text(&mut self, index: u64, item: &Value, text: &mut dyn FnMut(&str)) {
        if item["type"] == "message" && !self.streamed.contains_key(&index) {
            let whole = item_text(item);
            let value = json!({"output_index": index, "delta": whole});
            self.delta(&value, text);
        }
    }

    fn take_item(&mut self, value: &Value, text: &mut dyn FnMut(&str)) -> Result<(), StreamError> {
        let index = u64_at(value, "/output_index").unwrap_or(self.items.len() as u64);
        if self.items.len() >= MAX_CALLS * 2 {
            return Err(StreamError::Malformed("the answer has too many items".into()));
        }
        if let Some(item) = value.get("item") {
            self.late_text(index, item, text);
            self.items.insert(index, item.clone());
        }
        Ok(())
    }

    fn end(&mut self, value: &Value, text: &mut dyn FnMut(&str)) {
        let response = value.get("response").cloned().unwrap_or_default();
        for (index, item) in response["output"].as_array().into_iter().flatten().enumerate().take(MAX_CALLS * 2) {
            let index = index as u64;
            self.late_text(index, item, text);
            self.items.insert(index, item.clone());
        }
        self.response = Some(response);
    }
}

impl Decoder for Responses {
    fn event(&mut self, event: Event<'_>, text: &mut dyn FnMut(&str)) -> Result<Flow, StreamError> {
        if event.data == "[DONE]" {
            return Ok(Flow::More);
        }
        let value = parse_event(event)?;
        match value["type"].as_str().or(event.name).unwrap_or_default() {
            "response.output_text.delta" | "response.refusal.delta" => self.delta(&value, text),
            "response.function_call_arguments.delta" => {
                let index = u64_at(&value, "/output_index").unwrap_or(0);
                if self.arguments.len() < MAX_CALLS || self.arguments.contains_key(&index) {
                    self.arguments.entry(index).or_default().push_str(value["delta"].as_str().unwrap_or_default());
                }
            }
            "response.output_item.added" => {
                let index = u64_at(&value, "/output_index").unwrap_or(0);
                if value["item"]["type"] == "function_call" && self.items.len() < MAX_CALLS * 2 {
                    self.items.insert(index, value["item"].clone());
                }
            }
            "response.output_item.done" => self.take_item(&value, text)?,
            "response.completed" | "response.incomplete" => {
                self.end(&value, text);
                return Ok(Flow::Done);
            }
            "response.failed" => return Err(reported(value.get("response").unwrap_or(&value))),
            "error" => return Err(reported(&value)),
            _ => {}
        }
        Ok(Flow::More)
    }

    fn is_complete(&self) -> bool {
        self.response.is_some()
    }

    fn finish(self: Box<Self>) -> Draft {
        let response = self.response.unwrap_or_default();
        let (mut calls, mut kept) = (Vec::new(), Vec::new());
        let (mut has_reasoning, mut refused) = (false, false);
        for (index, item) in self.items {
            let field = |key: &str| item[key].as_str().unwrap_or_default().to_owned();
            match item["type"].as_str() {
                Some("function_call") => {
                    let mut arguments = field("arguments");
                    if arguments.is_empty() {
                        arguments = self.arguments.get(&index).cloned().unwrap_or_default();
                    }
                    let sent = sendable(&parse_arguments(&arguments)).to_string();
                    let slim = json!({"type": "function_call", "call_id": field("call_id"), "name": field("name"), "arguments": sent});
                    kept.push(with(slim, "id", item.get("id").filter(|v| v.is_string()).cloned()));
                    calls.push(DraftCall { id: field("call_id"), name: field("name"), arguments });
                }
                Some("message") => {
                    refused |= item["content"].as_array().into_iter().flatten().any(|p| p["type"] == "refusal");
                    kept.push(item);
                }
                // Without its encrypted content an item that OpenAI did not store means nothing to it.
                Some("reasoning") if item["encrypted_content"].is_string() => {
                    has_reasoning = true;
                    let slim = json!({"type": "reasoning", "id": item["id"], "summary": item["summary"]});
                    kept.push(with(slim, "encrypted_content", item.get("encrypted_content").cloned()));
                }
                _ => {}
            }
        }
        let stop = match (response["status"].as_str(), str_at(&response, "/incomplete_details/reason")) {
            (_, Some("max_output_tokens")) => StopReason::MaxTokens,
            (_, Some("content_filter")) => StopReason::Refusal,
            _ if refused => StopReason::Refusal,
            // Cut off, for whatever reason there may be one day.
            (Some("incomplete"), _) => StopReason::MaxTokens,
            _ => StopReason::EndTurn,
        };
        let usage = u64_at(&response, "/usage/input_tokens").map(|input_tokens| Usage {
            input_tokens,
            output_tokens: u64_at(&response, "/usage/output_tokens").unwrap_or(0),
        });
        let state = has_reasoning.then(|| json!({"wire": WIRE, "output": kept}));
        Draft { text: self.text, calls, stop, usage, state }
    }
}
