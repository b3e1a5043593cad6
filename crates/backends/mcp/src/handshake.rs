//! How a connection is opened: `initialize` for the revisions up to 2025-11-25, `server/discover` for 2026-07-28.
//!
//! `initialize` is tried first, with the newest revision that has it, and any known revision is taken as answer. A server that refuses
//! it is asked for `server/discover` on the same connection; one that exits on it is started again and asked for that first.

use crate::config::HostConfig;
use crate::link::{Ask, Link, Reply};
use crate::said::{Secrets, shown};
use hookwright_runtime::ports::tools::Introduction;
use rmcp::model::ProtocolVersion;
use serde_json::{Map, Value, json};
use std::time::Duration;

/// How long a server that refused `initialize` has for `server/discover`.
const AFTER_REFUSAL: Duration = Duration::from_secs(5);

/// What was agreed upon.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    /// The revision.
    pub(crate) revision: String,
    /// What every request carries as `_meta`, where the revision wants it.
    pub(crate) meta: Option<Value>,
    /// The server's name and version, as it says.
    pub(crate) server: Option<String>,
    /// Whether the server says when its list of functions changes.
    pub(crate) tells_changes: bool,
    /// What the server said of itself.
    pub(crate) introduction: Introduction,
}

/// What a server is told of us.
#[derive(Clone, Copy)]
pub(crate) struct Us<'a> {
    pub(crate) config: &'a HostConfig,
    /// What it may ask of us, or of whom we pass it on to.
    pub(crate) capabilities: &'a Map<String, Value>,
}

/// Bytes of a server's instructions; longer ones are left out.
const INSTRUCTIONS_BYTES: usize = 256 * 1024;

/// Which request comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opening {
    Initialize,
    Discover,
}

/// Why a connection could not be opened.
#[derive(Debug)]
pub(crate) struct NotOpened {
    pub(crate) why: String,
    /// Another attempt may help: the network, or a server that is not up yet.
    pub(crate) passing: bool,
}

impl NotOpened {
    pub(crate) fn lasting(why: impl Into<String>) -> Self {
        Self { why: why.into(), passing: false }
    }
}

/// Opens a connection.
pub(crate) async fn open(
    link: &Link,
    first: Opening,
    us: Us<'_>,
    limit: Duration,
    secrets: &Secrets,
) -> Result<Session, NotOpened> {
    let refusal = match first {
        Opening::Discover => None,
        Opening::Initialize => match initialize(link, us, limit, secrets).await {
            Ok(session) => return Ok(session),
            Err(Trouble::Refused(why)) => Some(why),
            Err(Trouble::Failed(not_opened)) => return Err(not_opened),
        },
    };
    // A server that refused has started: whatever it answers to the next request, it answers soon.
    let limit = if refusal.is_some() { limit.min(AFTER_REFUSAL) } else { limit };
    match (discover(link, us, limit, secrets).await, refusal) {
        (Ok(session), _) => Ok(session),
        (Err(Trouble::Refused(why)), None) => Err(NotOpened::lasting(format!("it refused server/discover: {why}"))),
        (Err(Trouble::Failed(not_opened)), None) => Err(not_opened),
        (Err(Trouble::Refused(why) | Trouble::Failed(NotOpened { why, .. })), Some(refusal)) => {
            Err(NotOpened::lasting(format!("it refused initialize: {refusal}; and server/discover: {why}")))
        }
    }
}

enum Trouble {
    /// It answered that it does not speak so.
    Refused(String),
    Failed(NotOpened),
}

async fn initialize(link: &Link, us: Us<'_>, limit: Duration, secrets: &Secrets) -> Result<Session, Trouble> {
    let params = json!({
        "protocolVersion": ProtocolVersion::LATEST_WITH_INITIALIZE.as_str(),
        "capabilities": us.capabilities,
        "clientInfo": {"name": "hookwright", "version": us.config.client_version},
    });
    let result = answer(link.request(Ask::new("initialize", limit), &params).await, "initialize", secrets)?;
    let Some(revision) = result["protocolVersion"].as_str() else {
        return Err(lasting("its answer to initialize names no protocolVersion".to_owned()));
    };
    if !ProtocolVersion::KNOWN_VERSIONS.iter().any(|known| known.as_str() == revision) {
        return Err(lasting(format!(
            "it speaks protocol revision {}; known are {}",
            shown(revision, 40, secrets),
            known()
        )));
    }
    let modern = revision >= ProtocolVersion::NO_INITIALIZE.as_str();
    let session = Session {
        revision: revision.to_owned(),
        meta: modern.then(|| meta(us)),
        server: named(&result["serverInfo"], secrets),
        tells_changes: result["capabilities"]["tools"]["listChanged"] == true,
        introduction: introduction(&result),
    };
    agree(link, &session);
    link.notify("notifications/initialized", json!({})).await;
    Ok(session)
}

async fn discover(link: &Link, us: Us<'_>, limit: Duration, secrets: &Secrets) -> Result<Session, Trouble> {
    let revision = ProtocolVersion::LATEST.as_str();
    let session = Session {
        revision: revision.to_owned(),
        meta: Some(meta(us)),
        server: None,
        tells_changes: false,
        introduction: Introduction::default(),
    };
    // Over HTTP the very first request names the revision in a header.
    agree(link, &session);
    let params = json!({"_meta": session.meta});
    let result = answer(link.request(Ask::new("server/discover", limit), &params).await, "server/discover", secrets)?;
    let supported = result["supportedVersions"].as_array().cloned().unwrap_or_default();
    if !supported.iter().any(|version| version == revision) {
        let said: Vec<&str> = supported.iter().filter_map(Value::as_str).collect();
        return Err(lasting(format!(
            "it speaks protocol revisions {}; known are {}",
            shown(&said.join(", "), 200, secrets),
            known()
        )));
    }
    let server = named(&result["_meta"]["io.modelcontextprotocol/serverInfo"], secrets)
        .or_else(|| named(&result["serverInfo"], secrets));
    Ok(Session { server, introduction: introduction(&result), ..session })
}

fn agree(link: &Link, session: &Session) {
    match link {
        Link::Http(http) => http.agree(&session.revision),
        Link::Stdio(stdio) => stdio.pipe().agree(&session.revision),
    }
}

fn introduction(result: &Value) -> Introduction {
    let instructions = result["instructions"].as_str().filter(|text| text.len() <= INSTRUCTIONS_BYTES);
    Introduction { capabilities: result["capabilities"].clone(), instructions: instructions.map(str::to_owned) }
}

fn meta(us: Us<'_>) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": ProtocolVersion::LATEST.as_str(),
        "io.modelcontextprotocol/clientInfo": {"name": "hookwright", "version": us.config.client_version},
        "io.modelcontextprotocol/clientCapabilities": us.capabilities,
    })
}

fn known() -> String {
    ProtocolVersion::KNOWN_VERSIONS.iter().map(ProtocolVersion::as_str).collect::<Vec<_>>().join(", ")
}

fn named(info: &Value, secrets: &Secrets) -> Option<String> {
    let name = info["name"].as_str()?;
    let version = info["version"].as_str().unwrap_or_default();
    Some(shown(&format!("{name} {version}"), 200, secrets))
}

fn lasting(why: String) -> Trouble {
    Trouble::Failed(NotOpened::lasting(why))
}

fn answer(reply: Reply, method: &str, secrets: &Secrets) -> Result<Value, Trouble> {
    match reply {
        Reply::Result { value, .. } => Ok(value),
        Reply::Error { code, message, .. } => {
            Err(Trouble::Refused(format!("{} ({code})", shown(&message, 500, secrets))))
        }
        // The endpoint is there and does not like the request: it may like the other one.
        Reply::Refused { status: 400 | 404 | 405 | 406 | 415 | 422, why } => Err(Trouble::Refused(why)),
        Reply::Refused { status, why } => {
            Err(Trouble::Failed(NotOpened { why, passing: status >= 500 || status == 408 || status == 429 }))
        }
        Reply::TimedOut { .. } => Err(lasting(format!("it did not answer {method} in time"))),
        Reply::NotSent { why } | Reply::Lost { why } => Err(Trouble::Failed(NotOpened { why, passing: true })),
        Reply::SessionGone => {
            Err(Trouble::Failed(NotOpened { why: "its session ended at once".to_owned(), passing: true }))
        }
    }
}
