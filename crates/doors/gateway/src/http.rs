//! Many clients over Streamable HTTP, on loopback.
//!
//! Invariant: what a web page could send is refused: a foreign `Host` or `Origin` gets nothing.
//! Invariant: with a token set, nothing is answered without it.

mod guard;
mod modern;
pub(crate) mod params;
mod reply;
mod sessions;
pub(crate) mod streams;

use crate::desk::Listener;
use crate::gateway::{Gateway, Options};
use crate::requests;
use crate::session::{Farewell, Session};
use crate::stdio::{Ended, Opening};
use crate::way::Way;
use crate::wire::{self, Fault, Incoming, Request};
use crate::wiring::Wiring;
use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use hookwright_core::text;
use serde_json::Value;
use sessions::Sessions;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// HTTP requests at a time, of all clients.
const AT_ONCE: usize = 1_024;
/// How long a request's body may take.
const BODY: Duration = Duration::from_secs(30);
/// How long requests that are answered may go on when the gateway ends.
const LAST_WORK: Duration = Duration::from_secs(2);
const SESSION: &str = "mcp-session-id";
const VERSION: &str = "mcp-protocol-version";

/// How it is reached.
#[derive(Clone, Default)]
pub struct HttpOptions {
    /// What clients have to send as `Authorization: Bearer …`; none: nothing.
    pub token: Option<String>,
}

impl std::fmt::Debug for HttpOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpOptions").field("token", &self.token.is_some()).finish()
    }
}

/// What all requests share.
struct Server {
    gateway: Arc<Gateway>,
    sessions: Sessions,
    token: Option<guard::Token>,
    slots: Arc<Semaphore>,
}

/// Answers clients at `/mcp` until `stop`. Then their jobs are over and their servers have left.
pub async fn listen(
    wiring: Arc<dyn Wiring>,
    options: Options,
    http: HttpOptions,
    listener: TcpListener,
    stop: CancellationToken,
) -> Ended {
    let gateway = Gateway::new(wiring, options);
    let server = Arc::new(Server {
        sessions: Sessions::new(gateway.clone()),
        gateway,
        token: http.token.map(|token| guard::Token::new(&token)),
        slots: Arc::new(Semaphore::new(AT_ONCE)),
    });
    let tidying = tokio::spawn(sessions::tidy(server.clone()));
    let app = Router::new().route("/mcp", axum::routing::any(handle)).with_state(server.clone());
    let stopped = stop.clone();
    let serving = axum::serve(listener, app).with_graceful_shutdown(async move { stopped.cancelled().await });
    let mut serving = tokio::spawn(async move { serving.await });
    let ended = tokio::select! {
        ended = &mut serving => match ended {
            Ok(Err(e)) => Ended::Broken(text::shown(&e.to_string(), 500)),
            _ => Ended::Closed,
        },
        () = stop.cancelled() => Ended::Closed,
    };
    tidying.abort();
    server.sessions.end_all().await;
    if timeout(LAST_WORK, &mut serving).await.is_err() {
        serving.abort();
    }
    ended
}

async fn handle(State(server): State<Arc<Server>>, method: Method, headers: HeaderMap, body: Body) -> Response {
    if let Some(refusal) = guard::check(&headers, server.token.as_ref()) {
        return refusal;
    }
    let Ok(slot) = server.slots.clone().try_acquire_owned() else {
        return reply::refuse(StatusCode::SERVICE_UNAVAILABLE, None, &requests::busy());
    };
    match method {
        Method::POST => server.post(&headers, body, slot).await,
        Method::GET => server.get(&headers, slot).await,
        Method::DELETE => server.delete(&headers).await,
        _ => reply::empty(StatusCode::METHOD_NOT_ALLOWED),
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

fn invalid(why: impl Into<String>) -> Response {
    reply::refuse(StatusCode::BAD_REQUEST, None, &Fault::new(wire::INVALID_REQUEST, why))
}

impl Server {
    async fn post(&self, headers: &HeaderMap, body: Body, counted: OwnedSemaphorePermit) -> Response {
        if let Some(refusal) = guard::content(headers) {
            return refusal;
        }
        let limit = self.gateway.options.message_bytes;
        let body: Bytes = match timeout(BODY, to_bytes(body, limit)).await {
            Ok(Ok(body)) => body,
            Ok(Err(_)) => {
                let fault = Fault::new(wire::INVALID_REQUEST, format!("a message is over the limit of {limit} bytes"));
                return reply::refuse(StatusCode::PAYLOAD_TOO_LARGE, None, &fault);
            }
            Err(_) => return reply::empty(StatusCode::REQUEST_TIMEOUT),
        };
        let incoming = match wire::read(body.trim_ascii()) {
            Ok(incoming) => incoming,
            Err((id, fault)) => return reply::refuse(StatusCode::BAD_REQUEST, id.as_ref(), &fault),
        };
        let request = match incoming {
            Incoming::Request(request) if modern::is_modern(headers, &request) => {
                return self.modern(headers, request, counted).await;
            }
            Incoming::Request(request) if request.method == "initialize" => {
                return self.initialize(&request).await;
            }
            other => other,
        };
        let session = match self.session(headers) {
            Ok(session) => session,
            // Without a session nothing that a client tells concerns anybody.
            Err(_) if header(headers, VERSION) == Some(wire::MODERN) => return reply::empty(StatusCode::ACCEPTED),
            Err(refusal) => return *refusal,
        };
        let request = match request {
            Incoming::Request(request) => request,
            other => {
                let (way, _) = Way::new();
                requests::take(&session, other, &way).await;
                return reply::empty(StatusCode::ACCEPTED);
            }
        };
        let Ok(slot) = session.slots.clone().try_acquire_owned() else {
            return reply::refuse(StatusCode::OK, Some(&request.id), &requests::busy());
        };
        let (way, out) = Way::new();
        let asked = session.clone();
        // On a task of its own: a connection that breaks off does not cancel.
        tokio::spawn(async move {
            let _slot = slot;
            if let Some(answer) = requests::answer(&asked, request, &way).await {
                way.send(answer).await;
            }
        });
        // Older clients may take an event without words for a message.
        let primes = header(headers, VERSION) == Some(wire::WITH_INITIALIZE[0]);
        streams::answer(&session, out, primes, counted).await
    }

    async fn initialize(&self, request: &Request) -> Response {
        let opening = match Opening::read(request) {
            Ok(opening) => opening,
            Err(fault) => return reply::refuse(StatusCode::BAD_REQUEST, Some(&request.id), &fault),
        };
        let session = match Session::open(&self.gateway, opening.client, opening.capabilities, false) {
            Ok(session) => session,
            Err(why) => return reply::refuse(StatusCode::OK, Some(&request.id), &Fault::new(wire::INTERNAL, why)),
        };
        let id = match self.sessions.put(session.clone()).await {
            Ok(id) => id,
            Err(fault) => {
                session.end(Farewell::Done).await;
                return reply::refuse(StatusCode::SERVICE_UNAVAILABLE, Some(&request.id), &fault);
            }
        };
        session.job();
        let result = session.initialized(opening.revision).await;
        let mut response = reply::json(StatusCode::OK, wire::result(&request.id, &Value::Object(result)));
        if let Ok(id) = id.parse() {
            response.headers_mut().insert(SESSION, id);
        }
        response
    }

    /// The session that a request names.
    fn session(&self, headers: &HeaderMap) -> Result<Arc<Session>, Box<Response>> {
        if let Some(version) = headers.get(VERSION) {
            let known = version.to_str().is_ok_and(|version| wire::WITH_INITIALIZE.contains(&version));
            if !known {
                let version = String::from_utf8_lossy(version.as_bytes()).into_owned();
                return Err(Box::new(reply::refuse(StatusCode::BAD_REQUEST, None, &Fault::unsupported(&version))));
            }
        }
        let Some(id) = header(headers, SESSION) else {
            return Err(Box::new(invalid("no session: send initialize first, and name its session in Mcp-Session-Id")));
        };
        let gone = || {
            let fault = Fault::new(wire::INVALID_REQUEST, "there is no such session (any more): send initialize again");
            Box::new(reply::refuse(StatusCode::NOT_FOUND, None, &fault))
        };
        self.sessions.get(id).ok_or_else(gone)
    }

    /// The stream on which a client listens, or one that it takes up again.
    async fn get(&self, headers: &HeaderMap, counted: OwnedSemaphorePermit) -> Response {
        if !guard::accepts(headers, "text/event-stream") {
            return reply::empty(StatusCode::NOT_ACCEPTABLE);
        }
        if header(headers, SESSION).is_none() {
            return reply::empty(StatusCode::METHOD_NOT_ALLOWED);
        }
        let session = match self.session(headers) {
            Ok(session) => session,
            Err(refusal) => return *refusal,
        };
        let counted = match header(headers, "last-event-id") {
            Some(last) => match streams::again(&session, last, counted).await {
                Ok(response) => return response,
                // An event of a stream that is not known any more: from now on, then.
                Err(counted) => counted,
            },
            None => counted,
        };
        let (way, out) = Way::new();
        session.desk.listen(Listener { way, subscription: None });
        reply::events(None, out, counted)
    }

    async fn delete(&self, headers: &HeaderMap) -> Response {
        if header(headers, SESSION).is_none() {
            return reply::empty(StatusCode::METHOD_NOT_ALLOWED);
        }
        match self.session(headers) {
            Ok(_) => {
                if let Some(session) = header(headers, SESSION).and_then(|id| self.sessions.take(id)) {
                    session.end(Farewell::Done).await;
                }
                reply::empty(StatusCode::NO_CONTENT)
            }
            Err(refusal) => *refusal,
        }
    }
}
