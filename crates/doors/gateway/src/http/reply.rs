//! Answers over HTTP: one JSON body where there is one message, else a stream of events.

use crate::wire::{self, Fault, Id};
use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use futures_util::stream;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::timeout;

/// A stream that carries nothing is kept open by a comment this often; an answer that takes longer becomes a stream.
pub(super) const KEEP_ALIVE: Duration = Duration::from_secs(5);

pub(super) fn empty(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

pub(super) fn json(status: StatusCode, body: impl Into<Bytes>) -> Response {
    let mut response = Response::new(Body::from(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

pub(super) fn refuse(status: StatusCode, id: Option<&Id>, fault: &Fault) -> Response {
    json(status, wire::error(id, fault))
}

/// The messages of one request of the newest revision, the last of which is its answer: as JSON, if nothing comes before it.
pub(super) async fn stream(mut out: mpsc::Receiver<Bytes>, slot: OwnedSemaphorePermit) -> Response {
    let first = match timeout(KEEP_ALIVE, out.recv()).await {
        // It was cancelled: there is no answer.
        Ok(None) => return empty(StatusCode::ACCEPTED),
        Ok(Some(first)) => first,
        Err(_) => return events(None, out, slot),
    };
    if is_answer(&first) { json(StatusCode::OK, first) } else { events(Some(first), out, slot) }
}

/// A message as an event.
pub(super) fn event(message: &[u8]) -> Bytes {
    let mut event = Vec::with_capacity(message.len() + 32);
    event.extend_from_slice(b"event: message\ndata: ");
    // Messages are JSON on one line.
    event.extend_from_slice(message);
    event.extend_from_slice(b"\n\n");
    Bytes::from(event)
}

pub(super) fn as_events(body: Body) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    response
}

/// Answers are written with their id before anything else; what else goes to a client has a method.
pub(super) fn is_answer(message: &[u8]) -> bool {
    let told = b"{\"jsonrpc\":\"2.0\",\"method\":";
    let asked = |message: &[u8]| {
        let rest = message.strip_prefix(b"{\"jsonrpc\":\"2.0\",\"id\":").unwrap_or_default();
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        rest[digits..].starts_with(b",\"method\":")
    };
    !message.starts_with(told) && !asked(message)
}

enum Next {
    Message(Bytes),
    Nothing,
}

/// A stream of events, one for each message. It counts as a request for as long as it lasts.
pub(super) fn events(first: Option<Bytes>, out: mpsc::Receiver<Bytes>, slot: OwnedSemaphorePermit) -> Response {
    let messages = stream::unfold((first, out, slot), |(first, mut out, slot)| async move {
        let next = match first {
            Some(first) => Next::Message(first),
            None => match timeout(KEEP_ALIVE, out.recv()).await {
                Ok(Some(message)) => Next::Message(message),
                Ok(None) => return None,
                Err(_) => Next::Nothing,
            },
        };
        let chunk = match next {
            Next::Message(message) => event(&message),
            Next::Nothing => Bytes::from_static(b": still here\n\n"),
        };
        Some((Ok::<_, std::convert::Infallible>(chunk), (None, out, slot)))
    });
    as_events(Body::from_stream(messages))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Incoming, notification, read, request, result};
    use serde_json::json;

    #[test]
    fn an_answer_is_told_from_whatever_else_goes_to_a_client() {
        let Ok(Incoming::Request(ping)) = read(br#"{"jsonrpc":"2.0","id":"a,\"method\":","method":"ping"}"#) else {
            panic!()
        };
        assert!(is_answer(&result(&ping.id, &json!({"method": "x"}))));
        assert!(is_answer(&wire::error(Some(&ping.id), &Fault::new(1, "x"))));
        assert!(is_answer(&wire::error(None, &Fault::new(1, "x"))));
        assert!(!is_answer(&notification("a/b", &json!({}))));
        assert!(!is_answer(&request(7, "a/b", &json!({}))));
    }
}
