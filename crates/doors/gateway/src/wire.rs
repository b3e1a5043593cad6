//! JSON-RPC and MCP as bytes: what is read of an untrusted client, and what is written.
//!
//! Invariant: what is passed on or put together from a server's result is not decoded into a type that could drop a part of it.

use hookwright_runtime::ports::tools::PeerError;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use std::borrow::Cow;

/// Revisions that begin with `initialize`, newest first.
pub(crate) const WITH_INITIALIZE: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
/// The revision in which every request stands for itself.
pub(crate) const MODERN: &str = "2026-07-28";

pub(crate) const PARSE_ERROR: i64 = -32_700;
pub(crate) const INVALID_REQUEST: i64 = -32_600;
pub(crate) const METHOD_NOT_FOUND: i64 = -32_601;
pub(crate) const INVALID_PARAMS: i64 = -32_602;
pub(crate) const INTERNAL: i64 = -32_603;
pub(crate) const NOT_FOUND: i64 = -32_002;
pub(crate) const BUSY: i64 = -32_000;
pub(crate) const HEADER_MISMATCH: i64 = -32_020;
pub(crate) const UNSUPPORTED_VERSION: i64 = -32_022;

const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const META_CLIENT: &str = "io.modelcontextprotocol/clientInfo";
const META_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const META_LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
const META_SERVER: &str = "io.modelcontextprotocol/serverInfo";
pub(crate) const META_SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// A JSON-RPC error.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fault {
    pub(crate) code: i64,
    pub(crate) message: String,
    pub(crate) data: Option<Value>,
}

impl Fault {
    pub(crate) fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    pub(crate) fn unsupported(requested: &str) -> Self {
        let supported: Vec<&str> = std::iter::once(MODERN).chain(WITH_INITIALIZE).collect();
        let requested = hookwright_core::text::shown(requested, 100);
        let message = format!("protocol revision {requested} is not spoken here");
        Self { code: UNSUPPORTED_VERSION, message, data: Some(json!({"supported": supported, "requested": requested})) }
    }
}

impl From<PeerError> for Fault {
    fn from(error: PeerError) -> Self {
        Self { code: error.code, message: error.message, data: error.data }
    }
}

/// A request's id, as it was written: a number or a string.
#[derive(Debug, Clone)]
pub(crate) struct Id(Box<RawValue>);

/// Bytes of an id.
const ID_BYTES: usize = 1_024;

impl Id {
    fn new(raw: &RawValue) -> Option<Self> {
        let text = raw.get();
        let number = text.starts_with(|c: char| c.is_ascii_digit() || c == '-');
        (text.len() <= ID_BYTES && (number || text.starts_with('"'))).then(|| Self(raw.to_owned()))
    }

    /// An id by its text.
    pub(crate) fn of_text(text: &str) -> Option<Self> {
        Self::new(serde_json::from_str(text).ok()?)
    }

    pub(crate) fn text(&self) -> &str {
        self.0.get()
    }

    pub(crate) fn value(&self) -> Value {
        serde_json::from_str(self.text()).unwrap_or_default()
    }
}

/// A message from a client.
#[derive(Debug)]
pub(crate) enum Incoming {
    Request(Request),
    Notification {
        method: String,
        params: Option<Box<RawValue>>,
    },
    /// An answer to a request of ours.
    Answer {
        id: Option<u64>,
        said: Result<Value, PeerError>,
    },
}

/// A request.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) id: Id,
    pub(crate) method: String,
    pub(crate) params: Option<Box<RawValue>>,
}

impl Request {
    /// Its params, as a value; an empty object where there are none.
    pub(crate) fn values(&self) -> Result<Map<String, Value>, Fault> {
        let Some(params) = &self.params else { return Ok(Map::new()) };
        serde_json::from_str(params.get()).map_err(|e| Fault::new(INVALID_PARAMS, format!("params can't be read: {e}")))
    }
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    jsonrpc: Cow<'a, str>,
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

/// Reads one message; the fault goes back with the id, where there is one.
pub(crate) fn read(text: &[u8]) -> Result<Incoming, (Option<Id>, Fault)> {
    let bad = |why: String| (None, Fault::new(PARSE_ERROR, why));
    if text.first() == Some(&b'[') {
        return Err((None, Fault::new(INVALID_REQUEST, "batches are not taken: send one message at a time")));
    }
    let envelope: Envelope<'_> = match serde_json::from_slice(text) {
        Ok(envelope) => envelope,
        Err(e) if e.is_data() => return Err((None, Fault::new(INVALID_REQUEST, format!("no JSON-RPC message: {e}")))),
        Err(e) => return Err(bad(format!("no JSON: {e}"))),
    };
    let id = envelope.id.map(Id::new);
    if envelope.jsonrpc != "2.0" {
        return Err((id.flatten(), Fault::new(INVALID_REQUEST, "jsonrpc is not \"2.0\"")));
    }
    let params = envelope.params.map(ToOwned::to_owned);
    match (envelope.method, id) {
        (Some(method), None) => Ok(Incoming::Notification { method: method.into_owned(), params }),
        (Some(method), Some(Some(id))) => Ok(Incoming::Request(Request { id, method: method.into_owned(), params })),
        (Some(_), Some(None)) => {
            Err((None, Fault::new(INVALID_REQUEST, "an id is a number or a string of up to 1 KiB")))
        }
        (None, Some(id)) => {
            let id = id.and_then(|id| id.text().parse().ok());
            let said = match (envelope.error, envelope.result) {
                (Some(error), _) if !error.is_null() => Err(PeerError {
                    code: error["code"].as_i64().unwrap_or(INTERNAL),
                    message: error["message"].as_str().unwrap_or("an error without a message").to_owned(),
                    data: error.get("data").cloned(),
                }),
                (_, Some(result)) => {
                    Ok(serde_json::from_str(result.get()).map_err(|e| bad(format!("a result can't be read: {e}")))?)
                }
                _ => return Err((None, Fault::new(INVALID_REQUEST, "neither a method nor a result or an error"))),
            };
            Ok(Incoming::Answer { id, said })
        }
        (None, None) => Err((None, Fault::new(INVALID_REQUEST, "neither a method nor an id"))),
    }
}

/// What a request of the newest revision says of its client.
#[derive(Debug, Default)]
pub(crate) struct Meta {
    pub(crate) version: Option<String>,
    pub(crate) name: String,
    pub(crate) client_version: String,
    pub(crate) capabilities: Option<Map<String, Value>>,
    pub(crate) log_level: Option<String>,
}

/// Reads `_meta` of a request's params without reading the rest.
pub(crate) fn meta(params: Option<&RawValue>) -> Meta {
    #[derive(Deserialize)]
    struct Params {
        #[serde(rename = "_meta", default)]
        meta: Option<Map<String, Value>>,
    }
    let params = params.and_then(|raw| serde_json::from_str::<Params>(raw.get()).ok());
    let Some(mut meta) = params.and_then(|params| params.meta) else { return Meta::default() };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let client = meta.get(META_CLIENT).cloned().unwrap_or_default();
    Meta {
        version: meta.get(META_VERSION).and_then(Value::as_str).map(str::to_owned),
        name: text(&client["name"]),
        client_version: text(&client["version"]),
        log_level: meta.get(META_LOG_LEVEL).and_then(Value::as_str).map(str::to_owned),
        capabilities: match meta.remove(META_CAPABILITIES) {
            Some(Value::Object(capabilities)) => Some(capabilities),
            _ => None,
        },
    }
}

fn message<T: Serialize>(message: &T) -> Vec<u8> {
    // A value of ours always has a text.
    serde_json::to_vec(message).unwrap_or_default()
}

/// The answer to a request.
pub(crate) fn result(id: &Id, result: &Value) -> Vec<u8> {
    #[derive(Serialize)]
    struct Answer<'a> {
        jsonrpc: &'static str,
        id: &'a RawValue,
        result: &'a Value,
    }
    message(&Answer { jsonrpc: "2.0", id: &id.0, result })
}

/// An error instead of an answer.
pub(crate) fn error(id: Option<&Id>, fault: &Fault) -> Vec<u8> {
    #[derive(Serialize)]
    struct Error<'a> {
        code: i64,
        message: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        data: Option<&'a Value>,
    }
    #[derive(Serialize)]
    struct Answer<'a> {
        jsonrpc: &'static str,
        id: Option<&'a RawValue>,
        error: Error<'a>,
    }
    let Fault { code, message: text, data } = fault;
    let error = Error { code: *code, message: text, data: data.as_ref() };
    message(&Answer { jsonrpc: "2.0", id: id.map(|id| &*id.0), error })
}

/// A notification.
pub(crate) fn notification(method: &str, params: &Value) -> Vec<u8> {
    message(&json!({"jsonrpc": "2.0", "method": method, "params": params}))
}

/// A request of ours.
pub(crate) fn request(id: u64, method: &str, params: &Value) -> Vec<u8> {
    message(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
}

/// What we say of ourselves.
pub(crate) fn server_info(version: &str) -> Value {
    json!({"name": "hookwright", "title": "Hookwright gateway", "version": version})
}

/// A result as the newest revision has it.
pub(crate) fn complete(mut result: Map<String, Value>) -> Map<String, Value> {
    result.entry("resultType").or_insert_with(|| "complete".into());
    result
}

/// What the newest revision says of results that may be kept.
pub(crate) fn uncached(mut result: Map<String, Value>) -> Map<String, Value> {
    result.entry("ttlMs").or_insert_with(|| 0.into());
    result.entry("cacheScope").or_insert_with(|| "private".into());
    result
}

/// Names this server in a result of its own.
pub(crate) fn signed(mut result: Map<String, Value>, version: &str) -> Map<String, Value> {
    if let Value::Object(meta) = result.entry("_meta").or_insert_with(|| json!({})) {
        meta.insert(META_SERVER.to_owned(), server_info(version));
    }
    result
}

/// A result as revisions with `initialize` have it.
pub(crate) fn plain(mut result: Map<String, Value>) -> Map<String, Value> {
    if result.get("resultType").is_some_and(|kind| kind == "complete") {
        result.shift_remove("resultType");
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_message_is_told_with_its_id_where_it_has_one() {
        for (text, id, code) in [
            ("", None, PARSE_ERROR),
            ("{\"jsonrpc\":\"2.0\",\"id\":1,", None, PARSE_ERROR),
            ("7", None, INVALID_REQUEST),
            ("[]", None, INVALID_REQUEST),
            ("{}", None, INVALID_REQUEST),
            (r#"{"jsonrpc":"1.0","id":7,"method":"ping"}"#, Some("7"), INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, None, INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, None, INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#, None, INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":1}"#, None, INVALID_REQUEST),
        ] {
            let (got, fault) = read(text.as_bytes()).unwrap_err();
            assert_eq!((got.as_ref().map(Id::text), fault.code), (id, code), "{text}: {fault:?}");
        }
    }

    #[test]
    fn ids_go_back_as_they_came() {
        for id in ["1", "-5", "\"a\"", "1.50", "\"\\u0041\"", "123456789012345678901234567890"] {
            let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
            let Ok(Incoming::Request(request)) = read(text.as_bytes()) else { panic!("{id}") };
            assert_eq!(
                result(&request.id, &json!({})),
                format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#).as_bytes()
            );
        }
    }
}
