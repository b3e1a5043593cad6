//! The protocol's methods. Each handler starts its work and returns: the SDK dispatches one message after the other.

use crate::door::Door;
use crate::mode::Mode;
use crate::session::Session;
use crate::{close, errors, load, open, prompt, wire};
use agent_client_protocol::v1::schema::{
    AgentCapabilities, CancelNotification, CloseSessionRequest, ConfigOptionUpdate, CurrentModeUpdate,
    DeleteSessionRequest, Implementation, InitializeRequest, InitializeResponse, ListSessionsRequest,
    LoadSessionRequest, McpCapabilities, NewSessionRequest, PromptCapabilities, PromptRequest, ResumeSessionRequest,
    SessionCapabilities, SessionCloseCapabilities, SessionConfigOptionValue, SessionDeleteCapabilities,
    SessionListCapabilities, SessionResumeCapabilities, SessionUpdate, SetSessionConfigOptionRequest,
    SetSessionConfigOptionResponse, SetSessionModeRequest, SetSessionModeResponse,
};
use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{
    Agent, Client, ConnectTo, Error, JsonRpcResponse, on_receive_notification, on_receive_request,
    schema::ProtocolVersion,
};
use hookwright_core::text::escape;
use hookwright_runtime::ports::sessions::SessionChange;
use std::sync::Arc;

/// Talks until the client closes its side.
pub(crate) async fn talk(door: Arc<Door>, transport: impl ConnectTo<Agent> + 'static) -> Result<(), Error> {
    // One clone for each handler.
    let [d1, d2, d3, d4, d5, d6, d7, d8, d9, d10, d11, d12] = std::array::from_fn(|_| door.clone());
    Agent
        .v1()
        .name("hookwright")
        .on_receive_request(
            async move |request: InitializeRequest, responder: Responder<_>, _| {
                responder.respond(initialize(&d1, &request))
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: NewSessionRequest, responder, client: ConnectionTo<Client>| {
                let door = d2.clone();
                door.clone().work_on(async move { open::new(door, client, request, responder).await });
                Ok(())
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: LoadSessionRequest, responder, client: ConnectionTo<Client>| {
                let door = d3.clone();
                door.clone().work_on(async move { load::load(door, client, request, responder).await });
                Ok(())
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: ResumeSessionRequest, responder, client: ConnectionTo<Client>| {
                let door = d4.clone();
                door.clone().work_on(async move { load::resume(door, client, request, responder).await });
                Ok(())
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: ListSessionsRequest, responder: Responder<_>, _| {
                let door = d5.clone();
                door.clone().work_on(async move { answer(responder, close::list(&door, request).await) });
                Ok(())
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: CloseSessionRequest, responder: Responder<_>, client: ConnectionTo<Client>| {
                let door = d6.clone();
                door.clone().work_on(async move {
                    let id = &request.session_id.0;
                    answer(responder, close::close(&door, &door.tell(&client, id), id).await);
                });
                Ok(())
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: DeleteSessionRequest, responder: Responder<_>, client: ConnectionTo<Client>| {
                let door = d7.clone();
                door.clone().work_on(async move {
                    let id = &request.session_id.0;
                    answer(responder, close::delete(&door, &door.tell(&client, id), id).await);
                });
                Ok(())
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: PromptRequest, responder: Responder<_>, client: ConnectionTo<Client>| {
                // It is under way before the next message is read: a cancel right behind it finds it.
                prompt::take(&d8, client, request, responder);
                Ok(())
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: SetSessionModeRequest, responder: Responder<_>, client: ConnectionTo<Client>| {
                let door = d9.clone();
                door.clone().work_on(async move { answer(responder, set_mode(&door, &client, &request).await) });
                Ok(())
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: SetSessionConfigOptionRequest,
                        responder: Responder<_>,
                        client: ConnectionTo<Client>| {
                let door = d10.clone();
                door.clone().work_on(async move { answer(responder, set_option(&door, &client, &request).await) });
                Ok(())
            },
            on_receive_request!(),
        )
        .on_receive_notification(
            async move |request: CancelNotification, _| {
                if let Ok(session) = d11.session(&request.session_id.0) {
                    session.cancel();
                }
                Ok(())
            },
            on_receive_notification!(),
        )
        .on_close(async move |_| {
            // What is cancelled by this is still told: the client may read on after it closed its own side.
            d12.end_all().await;
            d12.closed.cancel();
            Ok(())
        })
        .connect_to(transport)
        .await
}

/// Answers a request. A client that is gone needs none.
pub(crate) fn answer<T: JsonRpcResponse>(responder: Responder<T>, result: Result<T, Error>) {
    let _ = responder.respond_with_result(result);
}

fn initialize(door: &Door, request: &InitializeRequest) -> InitializeResponse {
    let session = request.client_capabilities.session.as_ref();
    let name = request.client_info.as_ref().map_or("an ACP client", |info| &info.name);
    door.meet(name, session.is_some_and(|s| s.notices.is_some()), session.is_some_and(|s| s.compaction.is_some()));
    let sessions = SessionCapabilities::new()
        .list(SessionListCapabilities::new())
        .delete(SessionDeleteCapabilities::new())
        .resume(SessionResumeCapabilities::new())
        .close(SessionCloseCapabilities::new());
    InitializeResponse::new(ProtocolVersion::V1)
        .agent_capabilities(
            AgentCapabilities::new()
                .load_session(true)
                .prompt_capabilities(PromptCapabilities::new().embedded_context(true))
                .mcp_capabilities(McpCapabilities::new().http(true))
                .session_capabilities(sessions),
        )
        .agent_info(Implementation::new("hookwright", env!("CARGO_PKG_VERSION")).title("Hookwright".to_owned()))
}

async fn set_mode(
    door: &Door,
    client: &ConnectionTo<Client>,
    request: &SetSessionModeRequest,
) -> Result<SetSessionModeResponse, Error> {
    let session = door.session(&request.session_id.0)?;
    let mode = mode_of(&request.mode_id.0)?;
    session.set_mode(mode);
    remember(door, &session).await;
    let options = wire::options(mode, &session.model(), door.wiring.models());
    let tell = door.tell(client, &session.id);
    tell.update(SessionUpdate::ConfigOptionUpdate(ConfigOptionUpdate::new(options)));
    Ok(SetSessionModeResponse::new())
}

async fn set_option(
    door: &Door,
    client: &ConnectionTo<Client>,
    request: &SetSessionConfigOptionRequest,
) -> Result<SetSessionConfigOptionResponse, Error> {
    let session = door.session(&request.session_id.0)?;
    let SessionConfigOptionValue::ValueId { value } = &request.value else {
        return Err(errors::invalid_params("the option takes the id of a value"));
    };
    match &*request.config_id.0 {
        wire::MODE_OPTION => {
            let mode = mode_of(&value.0)?;
            session.set_mode(mode);
            remember(door, &session).await;
            let update = CurrentModeUpdate::new(mode.id());
            door.tell(client, &session.id).update(SessionUpdate::CurrentModeUpdate(update));
        }
        wire::MODEL_OPTION => {
            let models = door.wiring.models();
            if !models.iter().any(|model| **model == *value.0) {
                let what = format!("there is no model {}; there are: {}", escape(&value.0), models.join(", "));
                return Err(errors::invalid_params(what));
            }
            session.set_model(&value.0);
            remember(door, &session).await;
        }
        other => return Err(errors::invalid_params(format!("there is no option {}", escape(other)))),
    }
    Ok(SetSessionConfigOptionResponse::new(wire::options(session.mode(), &session.model(), door.wiring.models())))
}

/// Keeps what was chosen, for whoever loads the session.
async fn remember(door: &Door, session: &Session) {
    let wiring = &door.wiring;
    let origin = Some(open::origin(&**wiring, session.mode(), &session.model()));
    let change = SessionChange { origin, at_ms: wiring.clock().now_ms(), ..SessionChange::default() };
    if let Err(error) = wiring.store().change_session(&session.id, change).await {
        tracing::warn!(%error, "what was chosen for the session is not kept");
    }
}

fn mode_of(id: &str) -> Result<Mode, Error> {
    Mode::of(id)
        .ok_or_else(|| errors::invalid_params(format!("there is no mode {}; there are: ask, wait, deny", escape(id))))
}
