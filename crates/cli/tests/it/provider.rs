//! A model provider on loopback, in each of the four wire formats, with a window: it counts, reports and refuses as the real ones do.
//!
//! It calls `git.log` for some turns and then says `done`, or follows a list of steps; a request without functions is one for a summary.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wire {
    Anthropic,
    Responses,
    Chat,
    Gemini,
}

impl Wire {
    pub(crate) const ALL: [Self; 4] = [Self::Anthropic, Self::Responses, Self::Chat, Self::Gemini];

    pub(crate) fn model(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic/fake",
            Self::Responses => "openai/fake",
            Self::Chat => "compatible/fake",
            Self::Gemini => "gemini/gemini-3-fake",
        }
    }
}

/// What the provider does.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Play {
    pub(crate) wire: Wire,
    /// Turns in which it calls.
    pub(crate) turns: usize,
    /// Tokens beyond which it refuses.
    pub(crate) window: u64,
    pub(crate) bytes_per_token: u64,
    /// Whether its metadata tell the window.
    pub(crate) tells: bool,
    pub(crate) summarises: bool,
}

/// A turn of a provider that follows a list.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Say(&'static str),
    /// A call, by the name that functions have on the wire.
    Call(&'static str, Value),
}

pub(crate) struct Provider {
    address: String,
    play: Play,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
pub(crate) struct Seen {
    /// Requests for a turn that were answered, for a summary, and refused.
    pub(crate) turns: Vec<Value>,
    /// The bytes of `turns`.
    pub(crate) raw: Vec<String>,
    pub(crate) summaries: Vec<Value>,
    pub(crate) refused: usize,
}

impl Provider {
    pub(crate) fn start(play: Play) -> Self {
        Self::following(play, vec![])
    }

    /// One whose turns are these; without any, `play` says what they are.
    pub(crate) fn following(play: Play, steps: Vec<Step>) -> Self {
        let steps: Arc<[Step]> = steps.into();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let state = Arc::clone(&seen);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (state, steps) = (Arc::clone(&state), Arc::clone(&steps));
                std::thread::spawn(move || serve(stream, play, &steps, &state));
            }
        });
        Self { address, play, seen }
    }

    /// Leads a process here.
    pub(crate) fn lead(&self, command: &mut Command) {
        command.envs(self.variables());
    }

    /// The variables that lead a process here.
    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        let at = |path: &str| format!("http://{}{path}", self.address);
        let mut all = vec![
            ("ANTHROPIC_BASE_URL", at("")),
            ("GOOGLE_GEMINI_BASE_URL", at("")),
            ("OPENAI_BASE_URL", at("/v1")),
            ("HOOKWRIGHT_COMPATIBLE_BASE_URL", at("/v1")),
        ];
        all.extend(
            ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"]
                .map(|key| (key, "sk-test-0123456789abcdef".into())),
        );
        all
    }

    pub(crate) fn seen<T>(&self, look: impl FnOnce(&Seen) -> T) -> T {
        look(&self.seen.lock().unwrap())
    }

    /// The ids of calls and of results in a request, in order; equal where each call has its result.
    pub(crate) fn pairs(&self, body: &Value) -> (Vec<String>, Vec<String>) {
        let (mut calls, mut results) = (vec![], vec![]);
        let mut walk = |item: &Value| {
            let id = |key: &str| item[key].as_str().unwrap_or_default().to_owned();
            match (self.play.wire, item["type"].as_str()) {
                (Wire::Anthropic, Some("tool_use")) => calls.push(id("id")),
                (Wire::Anthropic, Some("tool_result")) => results.push(id("tool_use_id")),
                (Wire::Responses, Some("function_call")) => calls.push(id("call_id")),
                (Wire::Responses, Some("function_call_output")) => results.push(id("call_id")),
                (Wire::Chat, Some("function")) if item.get("id").is_some() => calls.push(id("id")),
                (Wire::Chat, None) if item["role"] == "tool" => results.push(id("tool_call_id")),
                (Wire::Gemini, None) if item.get("functionCall").is_some() => {
                    calls.push(item["functionCall"]["name"].to_string());
                }
                (Wire::Gemini, None) if item.get("functionResponse").is_some() => {
                    results.push(item["functionResponse"]["name"].to_string());
                }
                _ => {}
            }
        };
        visit(&body["messages"], &mut walk);
        visit(&body["input"], &mut walk);
        visit(&body["contents"], &mut walk);
        (calls, results)
    }
}

fn visit(value: &Value, look: &mut dyn FnMut(&Value)) {
    look(value);
    match value {
        Value::Array(items) => items.iter().for_each(|item| visit(item, look)),
        Value::Object(map) => map.values().for_each(|item| visit(item, look)),
        _ => {}
    }
}

fn serve(stream: TcpStream, play: Play, steps: &[Step], state: &Mutex<Seen>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    while let Some((path, bytes)) = request(&mut reader) {
        let (status, kind, answer) = match serde_json::from_slice::<Value>(&bytes) {
            Ok(body) => turn(play, steps, &body, &bytes, &mut state.lock().unwrap()),
            Err(_) => about(play, &path),
        };
        let head = format!("HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n", answer.len());
        if stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(answer.as_bytes())).is_err() {
            return;
        }
    }
}

fn request(reader: &mut BufReader<TcpStream>) -> Option<(String, Vec<u8>)> {
    let (mut path, mut headers) = (String::new(), BTreeMap::new());
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end();
        match line.split_once(": ") {
            _ if line.is_empty() => break,
            Some((name, value)) => {
                headers.insert(name.to_lowercase(), value.to_owned());
            }
            None => line.split(' ').nth(1)?.clone_into(&mut path),
        }
    }
    let mut body = vec![0; headers.get("content-length").and_then(|n| n.parse().ok()).unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    Some((path, body))
}

type Answer = (u16, &'static str, String);

/// The provider's metadata.
fn about(play: Play, path: &str) -> Answer {
    let value = match play.wire {
        _ if !play.tells || !path.contains("/models") => return (404, "application/json", "{}".into()),
        Wire::Anthropic => json!({"id": "fake", "max_input_tokens": play.window}),
        Wire::Responses | Wire::Chat => json!({"data": [{"id": "fake", "max_model_len": play.window}]}),
        Wire::Gemini => json!({"name": "models/gemini-3-fake", "inputTokenLimit": play.window}),
    };
    (200, "application/json", value.to_string())
}

fn turn(play: Play, steps: &[Step], body: &Value, bytes: &[u8], seen: &mut Seen) -> Answer {
    let tokens = bytes.len() as u64 / play.bytes_per_token;
    if tokens > play.window {
        seen.refused += 1;
        return (400, "application/json", refusal(play, tokens).to_string());
    }
    if body.get("tools").is_none() {
        if !play.summarises {
            seen.summaries.push(body.clone());
            return (400, "application/json", json!({"error": {"message": "no summaries today"}}).to_string());
        }
        seen.summaries.push(body.clone());
        return (200, "text/event-stream", says(play.wire, &format!("SUMMARY {}", seen.summaries.len()), None, tokens));
    }
    let n = seen.turns.len();
    seen.turns.push(body.clone());
    seen.raw.push(String::from_utf8(bytes.to_vec()).unwrap());
    let (text, call) = match steps.get(n) {
        Some(Step::Say(text)) => (*text, None),
        Some(Step::Call(name, arguments)) => ("I look.", Some((*name, arguments.clone()))),
        None if n < play.turns => ("I look.", Some(("git__log", json!({"n": n})))),
        None => ("done", None),
    };
    let call = call.map(|(name, arguments)| Call { id: format!("call_{n}"), name, arguments });
    (200, "text/event-stream", says(play.wire, text, call.as_ref(), tokens))
}

fn refusal(play: Play, tokens: u64) -> Value {
    let window = play.window;
    match play.wire {
        Wire::Anthropic => json!({"type": "error", "error": {
            "type": "invalid_request_error", "message": format!("prompt is too long: {tokens} tokens > {window} maximum")}}),
        Wire::Responses => json!({"error": {
            "message": "Your input exceeds the context window of this model. Please adjust your input and try again.",
            "type": "invalid_request_error", "code": "context_length_exceeded"}}),
        Wire::Chat => json!({"object": "error", "code": 400, "type": "BadRequestError", "message": format!(
            "This model's maximum context length is {window} tokens. However, you requested {tokens} tokens.")}),
        Wire::Gemini => json!({"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": format!(
            "The input token count ({tokens}) exceeds the maximum number of tokens allowed ({window}).")}}),
    }
}

struct Call {
    id: String,
    name: &'static str,
    arguments: Value,
}

fn says(wire: Wire, text: &str, call: Option<&Call>, tokens: u64) -> String {
    let mut out = String::new();
    let mut event = |value: Value| {
        if let (Wire::Anthropic | Wire::Responses, Some(kind)) = (wire, value["type"].as_str()) {
            let _ = writeln!(out, "event: {kind}");
        }
        let _ = write!(out, "data: {value}\n\n");
    };
    match wire {
        Wire::Anthropic => {
            let usage = json!({"input_tokens": tokens, "output_tokens": 9});
            event(
                json!({"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant", "model": "fake",
                "content": [], "stop_reason": null, "usage": usage}}),
            );
            event(json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}));
            event(json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}));
            event(json!({"type": "content_block_stop", "index": 0}));
            if let Some(Call { id, name, arguments }) = call {
                event(json!({"type": "content_block_start", "index": 1,
                    "content_block": {"type": "tool_use", "id": id, "name": name, "input": {}}}));
                event(json!({"type": "content_block_delta", "index": 1,
                    "delta": {"type": "input_json_delta", "partial_json": arguments.to_string()}}));
                event(json!({"type": "content_block_stop", "index": 1}));
            }
            let stop = if call.is_some() { "tool_use" } else { "end_turn" };
            event(json!({"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 9}}));
            event(json!({"type": "message_stop"}));
        }
        Wire::Responses => {
            let mut items = vec![json!({"type": "message", "id": "m", "role": "assistant", "status": "completed",
                "content": [{"type": "output_text", "text": text, "annotations": []}]})];
            items.extend(call.map(|Call { id, name, arguments }| {
                json!({"type": "function_call", "id": format!("fc_{id}"), "call_id": id,
                "name": name, "arguments": arguments.to_string(), "status": "completed"})
            }));
            for (i, item) in items.iter().enumerate() {
                event(json!({"type": "response.output_item.done", "output_index": i, "item": item}));
            }
            event(json!({"type": "response.completed", "response": {"id": "r", "status": "completed", "output": items,
                "usage": {"input_tokens": tokens, "output_tokens": 9}}}));
        }
        Wire::Chat => {
            let mut delta = json!({"role": "assistant", "content": text});
            if let Some(Call { id, name, arguments }) = call {
                delta["tool_calls"] = json!([{"index": 0, "id": id, "type": "function",
                    "function": {"name": name, "arguments": arguments.to_string()}}]);
            }
            let stop = if call.is_some() { "tool_calls" } else { "stop" };
            event(json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]}));
            event(json!({"choices": [{"index": 0, "delta": {}, "finish_reason": stop}]}));
            event(json!({"choices": [], "usage": {"prompt_tokens": tokens, "completion_tokens": 9}}));
            out.push_str("data: [DONE]\n\n");
        }
        Wire::Gemini => {
            let mut parts = vec![json!({"text": text})];
            parts.extend(call.map(
                |Call { name, arguments, .. }| json!({"functionCall": {"name": name, "args": arguments}, "thoughtSignature": "c2ln"}),
            ));
            event(
                json!({"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}],
                "usageMetadata": {"promptTokenCount": tokens, "candidatesTokenCount": 9}}),
            );
        }
    }
    out
}
