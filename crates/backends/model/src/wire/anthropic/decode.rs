//! Anthropic's stream: `content_block_*` events by index, `message_delta` with the reason and the tokens, `message_stop`.

use super::super::calls::sendable;
use super::super::{
    Decoder, Draft, DraftCall, Event, Flow, MAX_CALLS, StreamError, parse_arguments, parse_event, reported, set_off,
    str_at,
};
use super::WIRE;
use hookwright_core::message::{StopReason, Usage};
use serde_json::{Value, json};

#[derive(Default)]
pub(crate) struct Messages {
    text: String,
    blocks: Vec<Block>,
    stop: Option<String>,
    usage: [Option<u64>; 4],
}

enum Block {
    Text(String),
    Call {
        id: String,
        name: String,
        input: String,
    },
    /// `thinking` and `redacted_thinking`: goes back as it came.
    Kept(Value),
    /// Anything newer: not ours to keep.
    Other,
}

const USAGE: [&str; 4] = ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens"];

impl Messages {
    fn start(&mut self, value: &Value, text: &mut dyn FnMut(&str)) -> Result<(), StreamError> {
        if self.blocks.len() >= MAX_CALLS * 2 {
            return Err(StreamError::Malformed("the answer has too many blocks".into()));
        }
        let block = value.get("content_block").cloned().unwrap_or_default();
        let field = |key: &str| block[key].as_str().unwrap_or_default().to_owned();
        let block = match block["type"].as_str() {
            Some("text") => Block::Text(String::new()),
            Some("tool_use") => {
                // Some servers send the whole input at once.
                let whole = block["input"].as_object().filter(|o| !o.is_empty());
                let input = whole.map_or_else(String::new, |o| Value::Object(o.clone()).to_string());
                Block::Call { id: field("id"), name: field("name"), input }
            }
            Some("thinking" | "redacted_thinking") => Block::Kept(block),
            _ => Block::Other,
        };
        self.blocks.push(block);
        if let Some(first) = str_at(value, "/content_block/text").filter(|t| !t.is_empty()) {
            self.add_text(first, text);
        }
        Ok(())
    }

    fn add_text(&mut self, piece: &str, text: &mut dyn FnMut(&str)) {
        let Some(Block::Text(own)) = self.blocks.last_mut() else { return };
        // A block of blanks alone is refused when it goes back, so blanks wait for a first letter.
        let started = !own.trim().is_empty();
        own.push_str(piece);
        if started {
            self.text.push_str(piece);
            text(piece);
        } else if !piece.trim().is_empty() {
            text(set_off(&mut self.text));
            self.text.push_str(own);
            text(own);
        }
    }

    fn delta(&mut self, value: &Value, text: &mut dyn FnMut(&str)) {
        let piece = |key: &str| str_at(value, &format!("/delta/{key}")).unwrap_or_default();
        match (str_at(value, "/delta/type"), self.blocks.last_mut()) {
            (Some("text_delta"), _) => self.add_text(piece("text"), text),
            (Some("input_json_delta"), Some(Block::Call { input, .. })) => input.push_str(piece("partial_json")),
            (Some("thinking_delta"), Some(Block::Kept(block))) => append(block, "thinking", piece("thinking")),
            (Some("signature_delta"), Some(Block::Kept(block))) => append(block, "signature", piece("signature")),
            _ => {}
        }
    }

    fn take_usage(&mut self, usage: Option<&Value>) {
        // Both events give totals so far: the later one counts.
        for (slot, key) in self.usage.iter_mut().zip(USAGE) {
            if let Some(n) = usage.and_then(|u| u.get(key)).and_then(Value::as_u64) {
                *slot = Some(n);
            }
        }
    }
}

fn append(block: &mut Value, key: &str, piece: &str) {
    if let Some(map) = block.as_object_mut() {
        match map.get_mut(key) {
            Some(Value::String(text)) => text.push_str(piece),
            _ => {
                map.insert(key.to_owned(), json!(piece));
            }
        }
    }
}

impl Decoder for Messages {
    fn event(&mut self, event: Event<'_>, text: &mut dyn FnMut(&str)) -> Result<Flow, StreamError> {
        let value = parse_event(event)?;
        match value["type"].as_str().or(event.name).unwrap_or_default() {
            "message_start" => self.take_usage(value.pointer("/message/usage")),
            "content_block_start" => self.start(&value, text)?,
            "content_block_delta" => self.delta(&value, text),
            "message_delta" => {
                self.take_usage(value.get("usage"));
                if let Some(stop) = str_at(&value, "/delta/stop_reason") {
                    if stop == "model_context_window_exceeded" {
                        let used = self.usage[0].map_or_else(String::new, |n| format!(" (the request had {n} tokens)"));
                        return Err(StreamError::ContextFull(format!(
                            "the window ran full while the model answered{used}"
                        )));
                    }
                    self.stop = Some(stop.to_owned());
                }
            }
            "message_stop" => return Ok(Flow::Done),
            "error" => return Err(reported(&value)),
            // `ping`, `content_block_stop`, and what may come.
            _ => {}
        }
        Ok(Flow::More)
    }

    fn is_complete(&self) -> bool {
        self.stop.is_some()
    }

    fn finish(self: Box<Self>) -> Draft {
        let mut calls = Vec::new();
        let mut kept = Vec::new();
        let mut has_thoughts = false;
        for block in self.blocks {
            match block {
                Block::Text(text) if text.trim().is_empty() => {}
                Block::Text(text) => kept.push(json!({"type": "text", "text": text})),
                Block::Call { id, name, input } => {
                    let arguments = sendable(&parse_arguments(&input));
                    kept.push(json!({"type": "tool_use", "id": id, "name": name, "input": arguments}));
                    calls.push(DraftCall { id, name, arguments: input });
                }
                Block::Kept(block) => {
                    has_thoughts = true;
                    kept.push(block);
                }
                Block::Other => {}
            }
        }
        let stop = match self.stop.as_deref() {
            Some("max_tokens") => StopReason::MaxTokens,
            Some("refusal") => StopReason::Refusal,
            Some("tool_use") => StopReason::ToolCalls,
            _ => StopReason::EndTurn,
        };
        let [input, made, read, output] = self.usage;
        let usage = (input.is_some() || output.is_some()).then(|| Usage {
            input_tokens: [input, made, read].into_iter().flatten().fold(0, u64::saturating_add),
            output_tokens: output.unwrap_or(0),
        });
        let state = has_thoughts.then(|| json!({"wire": WIRE, "content": kept}));
        Draft { text: self.text, calls, stop, usage, state }
    }
}
