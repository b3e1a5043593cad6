//! Requests of the revision in which every one stands for itself (2026-07-28).

use super::{Server, header, reply};
use crate::requests;
use crate::way::Way;
use crate::wire::{self, Fault, Request};
use crate::wiring::Client;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use base64::Engine as _;
use std::borrow::Cow;
use tokio::sync::OwnedSemaphorePermit;

/// Whether a request is of that revision, or means to be.
pub(super) fn is_modern(headers: &HeaderMap, request: &Request) -> bool {
    let version = header(headers, super::VERSION);
    let sessionless = !headers.contains_key(super::SESSION);
    if request.method == "initialize" {
        // A hello names its revision in its params; the header is of those who have one already.
        return sessionless && version == Some(wire::MODERN);
    }
    let named = version.is_some_and(|version| !wire::WITH_INITIALIZE.contains(&version));
    let of_it = || request.method == "server/discover" || wire::meta(request.params.as_deref()).version.is_some();
    sessionless && (named || of_it())
}

/// A header's text, out of base64 where it is written so.
pub(super) fn decoded(value: &str) -> Option<Cow<'_, str>> {
    match value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) {
        Some(coded) => {
            let bytes = base64::prelude::BASE64_STANDARD.decode(coded).ok()?;
            String::from_utf8(bytes).ok().map(Cow::Owned)
        }
        None => Some(Cow::Borrowed(value)),
    }
}

/// Whether the headers say what the body says: whoever routes by them must not be misled.
fn check(headers: &HeaderMap, request: &Request, meta: &wire::Meta) -> Result<(), Fault> {
    let mismatch = |what: String| Err(Fault::new(wire::HEADER_MISMATCH, what));
    let Some(version) = meta.version.as_deref() else {
        return Err(Fault::new(wire::INVALID_PARAMS, "_meta lacks io.modelcontextprotocol/protocolVersion"));
    };
    match header(headers, super::VERSION) {
        None => return mismatch("the header MCP-Protocol-Version is missing".to_owned()),
        Some(said) if said != version => {
            return mismatch("the header MCP-Protocol-Version and _meta name different revisions".to_owned());
        }
        Some(_) => {}
    }
    if version != wire::MODERN {
        return Err(Fault::unsupported(version));
    }
    if meta.capabilities.is_none() {
        return Err(Fault::new(wire::INVALID_PARAMS, "_meta lacks io.modelcontextprotocol/clientCapabilities"));
    }
    let one = |name: &str| {
        let mut all = headers.get_all(name).iter();
        let first = all.next().and_then(|value| value.to_str().ok()).and_then(decoded);
        first.filter(|_| all.next().is_none())
    };
    if one("mcp-method").as_deref() != Some(request.method.as_str()) {
        return mismatch("the header Mcp-Method is missing, or is not the body's method".to_owned());
    }
    let key = match request.method.as_str() {
        "tools/call" | "prompts/get" => "name",
        "resources/read" => "uri",
        _ => return Ok(()),
    };
    let params = request.values()?;
    let named = params.get(key).and_then(serde_json::Value::as_str);
    if named.is_none() || one("mcp-name").as_deref() != named {
        return mismatch(format!("the header Mcp-Name is missing, or is not the body's {key}"));
    }
    Ok(())
}

/// The status that goes with an error.
fn status(code: i64, malformed: bool) -> StatusCode {
    match code {
        wire::METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
        wire::HEADER_MISMATCH | wire::UNSUPPORTED_VERSION => StatusCode::BAD_REQUEST,
        wire::INVALID_PARAMS if malformed => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}

impl Server {
    pub(super) async fn modern(
        &self,
        headers: &HeaderMap,
        request: Request,
        counted: OwnedSemaphorePermit,
    ) -> Response {
        let meta = wire::meta(request.params.as_deref());
        if let Err(fault) = check(headers, &request, &meta) {
            return reply::refuse(status(fault.code, true), Some(&request.id), &fault);
        }
        let client = Client { name: meta.name, version: meta.client_version };
        let session = match self.sessions.of(client, meta.capabilities.unwrap_or_default()).await {
            Ok(session) => session,
            Err(fault) => return reply::refuse(StatusCode::SERVICE_UNAVAILABLE, Some(&request.id), &fault),
        };
        let Ok(slot) = session.slots.clone().try_acquire_owned() else {
            return reply::refuse(StatusCode::OK, Some(&request.id), &requests::busy());
        };
        let (way, out) = Way::new();
        let (closed, headers) = (way.clone(), headers.clone());
        tokio::spawn(async move {
            let _slot = slot;
            let key = uuid::Uuid::new_v4().to_string();
            let answered = async {
                // The function's schema is looked up for it, which waits for a server that is starting.
                match session.check_params(&headers, &request).await {
                    Ok(()) => requests::answer_as(&session, request, &key, &way).await,
                    Err(fault) => Some(wire::error(Some(&request.id), &fault)),
                }
            };
            let answer = tokio::select! {
                biased;
                answer = answered => answer,
                // The end of the stream is how a client cancels.
                () = closed.closed() => None,
            };
            if let Some(answer) = answer {
                way.send(answer).await;
            }
        });
        let response = reply::stream(out, counted).await;
        with_status(response).await
    }
}

/// An error's status, where the answer is one.
async fn with_status(response: Response) -> Response {
    #[derive(serde::Deserialize)]
    struct Answer {
        #[serde(default)]
        error: Option<Code>,
    }
    #[derive(serde::Deserialize)]
    struct Code {
        code: i64,
    }
    let is_json = response.headers().get("content-type").is_some_and(|kind| kind == "application/json");
    if !is_json {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    // It is in memory already.
    let Ok(bytes) = axum::body::to_bytes(body, usize::MAX).await else {
        return reply::empty(StatusCode::INTERNAL_SERVER_ERROR);
    };
    // Errors are short; results need not be read for this.
    let is_error = bytes.len() < 64 * 1024 && !bytes.windows(9).take(1_200).any(|part| part == b"\"result\":");
    if is_error && let Ok(Answer { error: Some(Code { code }) }) = serde_json::from_slice(&bytes) {
        parts.status = status(code, false);
    }
    Response::from_parts(parts, bytes.into())
}
