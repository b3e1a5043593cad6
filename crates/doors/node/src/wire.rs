//! What stands on the socket: one JSON object a line, requests with ids from the client, one reply each from the node.
//!
//! ```text
//! → {"v":1,"id":1,"store":"/p/.hookwright/hookwright.db","do":"ask","door":"bridge","with":{…}}
//! ← {"v":1,"id":1,"ok":{…}}            or   {"v":1,"id":1,"error":{"type":"stopping","message":"…"}}
//! ```
//!
//! After the reply to `attach` the connection carries bytes that are no lines of ours.

use crate::service::Refused;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The version of the protocol. Keys may be added without a new one.
pub const VERSION: u32 = 1;

/// Bytes of a line at most, without its newline: 32 MiB.
pub const LINE_BYTES: usize = 32 * 1024 * 1024;

/// What a client asks for.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RequestWire {
    pub(crate) v: u32,
    pub(crate) id: u64,
    /// The store whose node is meant: another one's must not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) store: Option<String>,
    #[serde(rename = "do")]
    pub(crate) what: String,
    /// The door that is meant: `bridge`, `gateway`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) door: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) with: Option<Value>,
}

/// What comes back.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ReplyWire {
    pub(crate) v: u32,
    pub(crate) id: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ok: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<Refused>,
}

impl ReplyWire {
    pub(crate) fn new(id: u64, answer: Result<Value, Refused>) -> Self {
        let (ok, error) = match answer {
            Ok(value) => (Some(value), None),
            Err(refused) => (None, Some(refused)),
        };
        Self { v: VERSION, id, ok, error }
    }

    /// As a line. An answer that is larger than a line may be is an error of that request.
    pub(crate) fn line(self) -> Vec<u8> {
        let id = self.id;
        let mut line = serde_json::to_vec(&self).unwrap_or_default();
        if line.is_empty() || line.len() > LINE_BYTES {
            let refused = Refused::new("too_large", format!("the answer is larger than {LINE_BYTES} bytes"));
            line = serde_json::to_vec(&Self::new(id, Err(refused))).unwrap_or_default();
        }
        line.push(b'\n');
        line
    }
}

/// What can be asked for.
#[derive(Debug)]
pub(crate) enum Request {
    Hello,
    Status,
    Stop,
    Ask { door: String, ask: Value },
    Attach { door: String, what: Value },
}

/// A line that was read: its id, and what it asks for or why it is refused.
pub(crate) fn read(line: &[u8], store: &str) -> (u64, Result<Request, Refused>) {
    let wire: RequestWire = match serde_json::from_slice(line) {
        Ok(wire) => wire,
        // What stood there is not repeated: it may hold secrets.
        Err(error) => {
            return (0, Err(Refused::new("malformed", format!("the request can't be read: {}", place(&error)))));
        }
    };
    (wire.id, request(wire, store))
}

fn request(wire: RequestWire, store: &str) -> Result<Request, Refused> {
    // Whatever version asks, it may learn which one is spoken here.
    if wire.what == "hello" {
        return Ok(Request::Hello);
    }
    if wire.v != VERSION {
        let message =
            format!("the node speaks version {VERSION} of the protocol, the request is of version {}", wire.v);
        return Err(Refused::new("version", message)
            .hint("end the node with `hookwright stop`; the next command starts the new one"));
    }
    if wire.store.as_ref().is_some_and(|meant| meant != store) {
        return Err(Refused::new("store", "this node has another store than the one that is meant"));
    }
    let door = |door: Option<String>| door.ok_or_else(|| Refused::new("malformed", "the request names no door"));
    match wire.what.as_str() {
        "status" => Ok(Request::Status),
        "stop" => Ok(Request::Stop),
        "ask" => Ok(Request::Ask { door: door(wire.door)?, ask: wire.with.unwrap_or_default() }),
        "attach" => Ok(Request::Attach { door: door(wire.door)?, what: wire.with.unwrap_or_default() }),
        other => {
            Err(Refused::new("unknown", format!("there is no request {}", hookwright_core::text::shown(other, 100))))
        }
    }
}

/// Where a line can't be read, without what stands there.
fn place(error: &serde_json::Error) -> String {
    let what = match error.classify() {
        serde_json::error::Category::Data => "it is no request",
        serde_json::error::Category::Syntax | serde_json::error::Category::Eof | serde_json::error::Category::Io => {
            "it is no JSON"
        }
    };
    format!("{what} (column {})", error.column())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(line: &str) -> Result<String, String> {
        read(line.as_bytes(), "/s").1.map(|request| format!("{request:?}")).map_err(|refused| refused.kind)
    }

    #[test]
    fn requests_are_read_and_what_is_none_is_refused_by_kind() {
        assert_eq!(kind(r#"{"v":1,"id":1,"do":"status"}"#), Ok("Status".into()));
        assert_eq!(kind(r#"{"v":1,"id":1,"do":"status","store":"/s"}"#), Ok("Status".into()));
        assert_eq!(kind(r#"{"v":9,"id":1,"do":"hello"}"#), Ok("Hello".into()));
        for (line, expected) in [
            (r#"{"v":2,"id":1,"do":"status"}"#, "version"),
            (r#"{"v":1,"id":1,"do":"stop","store":"/other"}"#, "store"),
            (r#"{"v":1,"id":1,"do":"ask"}"#, "malformed"),
            (r#"{"v":1,"id":1,"do":"erase"}"#, "unknown"),
            (r#"{"v":1,"id":-1,"do":"status"}"#, "malformed"),
            ("[1]", "malformed"),
            ("GET / HTTP/1.1", "malformed"),
            ("", "malformed"),
        ] {
            assert_eq!(kind(line), Err(expected.into()), "{line}");
        }
        let deep = format!(
            "{{\"v\":1,\"id\":1,\"do\":\"ask\",\"door\":\"x\",\"with\":{}{}}}",
            "[".repeat(9_999),
            "]".repeat(9_999)
        );
        assert_eq!(kind(&deep), Err("malformed".into()));
    }

    #[test]
    fn what_a_broken_line_holds_is_not_repeated() {
        let (_, refused) = read(br#"{"v":1,"id":1,"do":7,"secret":"sk-123"}"#, "/s");
        assert!(!refused.unwrap_err().message.contains("sk-123"));
    }

    #[test]
    fn an_answer_that_is_too_large_is_an_error_of_its_request() {
        let line = ReplyWire::new(7, Ok(Value::String("x".repeat(LINE_BYTES)))).line();
        let reply: ReplyWire = serde_json::from_slice(&line).unwrap();
        assert_eq!((reply.id, reply.error.unwrap().kind.as_str()), (7, "too_large"));
    }
}
