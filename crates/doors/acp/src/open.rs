//! Opens sessions: their servers are started side by side, and what can't be started is said.
//!
//! Invariant: a server that can't be started degrades its session, visibly; it never fails it.

use crate::door::Door;
use crate::errors;
use crate::handlers::answer;
use crate::mode::Mode;
use crate::session::Session;
use crate::tell::{Tell, Weight};
use crate::wire;
use crate::wiring::{Equipment, OwnServer, Wiring};
use agent_client_protocol::v1::schema::{
    McpServer, Meta, NewSessionRequest, NewSessionResponse, SessionConfigOption, SessionModeState,
};
use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{Client, Error, JsonRpcResponse};
use futures_util::future::join_all;
use hookwright_core::text::shown;
use hookwright_runtime::ports::sessions::{NewSession, SessionRow};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How long opening a session waits for its servers. Those that take longer are told of when they are known.
const PATIENCE: Duration = Duration::from_secs(2);

/// `session/new`.
pub(crate) async fn new(
    door: Arc<Door>,
    client: ConnectionTo<Client>,
    request: NewSessionRequest,
    responder: Responder<NewSessionResponse>,
) {
    let opened = async {
        let cwd = folder(&request.cwd)?;
        let id = format!("ses_{}", &uuid::Uuid::new_v4().simple().to_string()[..16]);
        let row = NewSession {
            id: id.clone(),
            tenant: door.wiring.tenant().to_owned(),
            agent: door.wiring.agent().to_owned(),
            cwd: cwd.clone(),
            created_ms: door.wiring.clock().now_ms(),
            origin: origin(&*door.wiring, door.wiring.mode(), ""),
        };
        door.wiring.store().create_session(row).await.map_err(|e| errors::of_store(&e))?;
        let opened = equip(&door, id, cwd, request.mcp_servers, Kept::default()).await;
        if let Some(before) = door.put(opened.session.clone()) {
            door.end_of(&before, None).await;
        }
        Ok(opened)
    };
    let opened = opened.await;
    answer_opened(&door, &client, responder, opened, |session, modes, options, meta| {
        NewSessionResponse::new(session.id.clone()).modes(modes).config_options(options).meta(meta)
    });
}

/// Answers with how an opened session stands, and then tells of its servers: a client knows of a session only by the answer.
pub(crate) fn answer_opened<R: JsonRpcResponse>(
    door: &Door,
    client: &ConnectionTo<Client>,
    responder: Responder<R>,
    opened: Result<Opened, Error>,
    response: impl FnOnce(&Session, SessionModeState, Vec<SessionConfigOption>, Meta) -> R,
) {
    let Opened { session, states } = match opened {
        Ok(opened) => opened,
        Err(error) => return answer(responder, Err(error)),
    };
    let options = wire::options(session.mode(), &session.model(), door.wiring.models());
    let response = response(&session, wire::modes(session.mode()), options, meta(&states));
    answer(responder, Ok(response));
    report(door.tell(client, &session.id), &session.equipment, states);
}

/// What is kept of a session that is opened again.
#[derive(Default)]
pub(crate) struct Kept {
    pub(crate) mode: Option<Mode>,
    pub(crate) model: Option<String>,
    pub(crate) titled: bool,
}

impl Kept {
    /// Of a session's row.
    pub(crate) fn of(row: &SessionRow) -> Self {
        let chosen = &row.session.origin["chosen"];
        Self {
            mode: chosen["mode"].as_str().and_then(Mode::of),
            model: chosen["model"].as_str().map(str::to_owned),
            titled: row.title.is_some(),
        }
    }
}

/// What a session's row keeps, with what its user chose.
pub(crate) fn origin(wiring: &dyn Wiring, mode: Mode, model: &str) -> Value {
    let mut origin = wiring.origin();
    origin["chosen"] = json!({"mode": mode.id(), "model": model});
    origin
}

/// The folder that a session works in.
pub(crate) fn folder(cwd: &Path) -> Result<String, Error> {
    match cwd.to_str() {
        Some(text) if cwd.is_absolute() && !text.chars().any(char::is_control) => Ok(text.to_owned()),
        _ => Err(errors::invalid_params("cwd must be an absolute path")),
    }
}

/// A session whose servers were started.
pub(crate) struct Opened {
    pub(crate) session: Arc<Session>,
    pub(crate) states: Vec<ServerState>,
}

/// How a session's server stands: ready, not (and why), or not known yet.
pub(crate) struct ServerState {
    server: OwnServer,
    ready: Option<Result<(), String>>,
}

/// Starts a session's servers, and waits for them, but not for long.
pub(crate) async fn equip(door: &Door, id: String, cwd: String, servers: Vec<McpServer>, kept: Kept) -> Opened {
    let equipment = door.wiring.equip(&id, &cwd, wire::servers(servers));
    let waits = equipment.own.iter().map(|server| {
        let tools = &equipment.tools;
        async move {
            let ready = tokio::time::timeout(PATIENCE, tools.ready(&server.tool)).await.ok();
            ServerState { server: server.clone(), ready: ready.map(|r| r.map_err(|down| down.why)) }
        }
    });
    let states = join_all(waits).await;
    let models = door.wiring.models();
    // A model that this process does not offer can't be gone on with.
    let model =
        kept.model.filter(|model| models.contains(model)).or_else(|| models.first().cloned()).unwrap_or_default();
    let mode = kept.mode.unwrap_or_else(|| door.wiring.mode());
    Opened { session: Session::new(id, cwd, equipment, mode, model, kept.titled), states }
}

/// How the servers stand, for programs.
fn meta(states: &[ServerState]) -> Meta {
    let servers = states.iter().map(|state| {
        let (word, why) = match &state.ready {
            Some(Ok(())) => ("ready", None),
            Some(Err(why)) => ("failed", Some(shown(why, 1_000))),
            None => ("starting", None),
        };
        json!({"name": shown(&state.server.name, 200), "tool": state.server.tool, "state": word, "why": why})
    });
    wire::meta(json!({ "servers": servers.collect::<Vec<_>>() }))
}

/// Says which servers can't be used, those too that are only known later.
fn report(tell: Tell, equipment: &Equipment, states: Vec<ServerState>) {
    for warning in &equipment.warnings {
        tell.notice(Weight::Warning, "The session's servers", Some(warning), json!({}));
    }
    let mut late = vec![];
    for state in states {
        match state.ready {
            Some(Ok(())) => {}
            Some(Err(why)) => failed(&tell, &state.server, &why),
            None => late.push(state.server),
        }
    }
    if late.is_empty() {
        return;
    }
    let tools = Arc::downgrade(&equipment.tools);
    tokio::spawn(async move {
        for server in late {
            // The session may be closed meanwhile.
            let Some(tools) = tools.upgrade() else { return };
            if let Err(down) = tools.ready(&server.tool).await {
                failed(&tell, &server, &down.why);
            }
        }
    });
}

fn failed(tell: &Tell, server: &OwnServer, why: &str) {
    let name = shown(&server.name, 200);
    let title = format!("The MCP server {name} can't be used");
    let details = json!({"server": name, "tool": server.tool, "state": "failed"});
    tell.notice(Weight::Warning, &title, Some(why), details);
}
