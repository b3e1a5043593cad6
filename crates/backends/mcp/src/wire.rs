//! JSON-RPC as bytes: what we write, and what is read of an untrusted line.
//!
//! Invariant: a result is handed on as it came; nothing is decoded into a type that could drop a part of it.

use crate::link::Reply;
use hookwright_runtime::ports::tools::PeerError;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// A request's bytes, on one line, without its end.
pub(crate) fn request<P: Serialize>(id: u64, method: &str, params: &P) -> Result<Vec<u8>, serde_json::Error> {
    #[derive(Serialize)]
    struct Request<'a, P> {
        jsonrpc: &'static str,
        id: u64,
        method: &'a str,
        params: &'a P,
    }
    // Room for the usual call and the end of its line.
    let mut line = Vec::with_capacity(1024);
    serde_json::to_writer(&mut line, &Request { jsonrpc: "2.0", id, method, params })?;
    Ok(line)
}

/// A notification's bytes.
pub(crate) fn notification(method: &str, params: &Value) -> Vec<u8> {
    serde_json::json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string().into_bytes()
}

/// The notification that a request is no longer waited for.
pub(crate) fn cancelled(id: u64, reason: &str) -> Vec<u8> {
    notification("notifications/cancelled", &serde_json::json!({"requestId": id, "reason": reason}))
}

/// Our answer to a server's request: a ping gets its result, all else is refused.
pub(crate) fn reply(id: &RawValue, method: &str) -> Vec<u8> {
    let id = id.get();
    if method == "ping" {
        return format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#).into_bytes();
    }
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"this client answers no requests but ping"}}}}"#).into_bytes()
}

/// The answer of the other side to a server's request.
pub(crate) fn answer(id: &RawValue, answer: Result<Value, PeerError>) -> Vec<u8> {
    match answer {
        Ok(result) => serde_json::json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err(PeerError { code, message, data: None }) => {
            serde_json::json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
        }
        Err(PeerError { code, message, data: Some(data) }) => {
            serde_json::json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message, "data": data}})
        }
    }
    .to_string()
    .into_bytes()
}

/// A message from a server.
#[derive(Debug)]
pub(crate) enum Incoming<'a> {
    /// An answer to a request of ours.
    Answer {
        /// The request's id; `None` where it is not one that we give.
        id: Option<u64>,
        /// What it says.
        said: Said<'a>,
    },
    /// A request to us.
    Request { id: &'a RawValue, method: Cow<'a, str>, params: Option<&'a RawValue> },
    /// A notification.
    Notification { method: Cow<'a, str>, params: Option<&'a RawValue> },
}

/// What an answer says.
#[derive(Debug)]
pub(crate) enum Said<'a> {
    /// The `result` member, as it came.
    Result(&'a RawValue),
    /// The `error` member.
    Error { code: i64, message: String, data: Option<Box<Value>> },
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "present")]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(default)]
    error: Option<Value>,
}

/// Tells a member that is `null` from one that is absent.
fn present<'de, D: Deserializer<'de>>(d: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(d).map(Some)
}

/// Reads one message. `Err` says why it is none; a line with a member twice (an id, a result) is none either.
pub(crate) fn read(line: &[u8]) -> Result<Incoming<'_>, String> {
    let envelope: Envelope<'_> = serde_json::from_slice(line).map_err(|e| e.to_string())?;
    match (envelope.method, envelope.id) {
        (Some(method), Some(id)) if id.get() != "null" => Ok(Incoming::Request { id, method, params: envelope.params }),
        (Some(method), _) => Ok(Incoming::Notification { method, params: envelope.params }),
        (None, Some(id)) => {
            let id = id.get().parse().ok();
            let said = match (envelope.error, envelope.result) {
                (Some(mut error), _) if !error.is_null() => Said::Error {
                    code: error["code"].as_i64().unwrap_or(-32_603),
                    message: error["message"].as_str().unwrap_or("an error without a message").to_owned(),
                    data: error.get_mut("data").map(|data| Box::new(data.take())),
                },
                (_, Some(result)) => Said::Result(result),
                _ => return Err("an answer with neither result nor error".to_owned()),
            };
            Ok(Incoming::Answer { id, said })
        }
        (None, None) => Err("neither a method nor an id".to_owned()),
    }
}

/// The one revision that has batches.
pub(crate) const BATCHES: &str = "2025-03-26";

/// The messages of a line that is a batch.
pub(crate) fn batch(line: &[u8]) -> Result<Vec<&RawValue>, String> {
    serde_json::from_slice(line).map_err(|e| e.to_string())
}

/// What an answer means for its call.
pub(crate) fn meant(said: Said<'_>, max_values: usize) -> Reply {
    match said {
        Said::Error { code, message, data } => Reply::Error { code, message, data },
        Said::Result(raw) => match value(raw.get(), max_values) {
            Ok((value, duplicate_key)) => Reply::Result { value, duplicate_key },
            Err(why) => Reply::Lost { why: format!("its answer can't be read: {why}") },
        },
    }
}

/// A result's value, and whether a key stands in one of its objects twice (then the last one counts).
pub(crate) fn value(raw: &str, max_values: usize) -> Result<(Value, bool), String> {
    const SMALL_BYTES: usize = 1024 * 1024;
    if raw.len() > SMALL_BYTES && values(raw.as_bytes()) > max_values {
        return Err(format!("it holds more than {max_values} JSON values"));
    }
    match hookwright_core::json::parse_strict(raw) {
        Ok(value) => Ok((value, false)),
        Err(e) if e.is_duplicate_key() => {
            serde_json::from_str(raw).map(|value| (value, true)).map_err(|e| e.to_string())
        }
        Err(e) => Err(e.to_string()),
    }
}

/// About how many values a JSON text holds: its commas and opening brackets outside of strings.
fn values(text: &[u8]) -> usize {
    let (mut count, mut inside, mut at) = (1, false, 0);
    while let Some(byte) = text.get(at) {
        match byte {
            b'\\' if inside => at += 1,
            b'"' => inside = !inside,
            b',' | b'[' | b'{' if !inside => count += 1,
            _ => {}
        }
        at += 1;
    }
    count
}

/// The id that a broken or over-long line most likely answers, from its first and last bytes.
///
/// A server can thereby only fail calls of its own. Some SDKs write the id first, some last.
pub(crate) fn likely_id(head: &[u8], tail: &[u8]) -> Option<u64> {
    id_in_head(head).or_else(|| id_in_tail(tail))
}

fn id_in_head(head: &[u8]) -> Option<u64> {
    let (mut depth, mut at) = (0_u32, 0);
    while let Some(byte) = head.get(at) {
        at += 1;
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => {
                let start = at;
                while *head.get(at)? != b'"' {
                    at += if head[at] == b'\\' { 2 } else { 1 };
                }
                let text = &head[start..at];
                at += 1;
                let rest = head.get(at..)?.trim_ascii_start();
                if depth == 1 && rest.first() == Some(&b':') {
                    match text {
                        b"method" => return None,
                        b"id" => return number(&rest[1..]).map(|(id, _)| id),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    None
}

fn id_in_tail(tail: &[u8]) -> Option<u64> {
    let at = memchr::memmem::rfind(tail, b"\"id\"")?;
    let rest = tail[at + 4..].trim_ascii_start().strip_prefix(b":")?;
    let (id, rest) = number(rest)?;
    let compact: Vec<u8> = rest.iter().copied().filter(|b| !b.is_ascii_whitespace()).collect();
    matches!(compact.as_slice(), b"}" | b",\"jsonrpc\":\"2.0\"}").then_some(id)
}

fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    let text = text.trim_ascii_start();
    let digits = text.iter().take_while(|b| b.is_ascii_digit()).count();
    let id = std::str::from_utf8(&text[..digits]).ok()?.parse().ok()?;
    Some((id, &text[digits..]))
}

#[cfg(test)]
mod tests;
