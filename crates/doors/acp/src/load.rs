//! Opens sessions that are in the store: with what was said streamed back (`session/load`), or without (`session/resume`).

use crate::door::Door;
use crate::open::{self, Opened};
use crate::tell::Weight;
use crate::{errors, retell};
use agent_client_protocol::v1::schema::{
    LoadSessionRequest, LoadSessionResponse, McpServer, ResumeSessionRequest, ResumeSessionResponse,
};
use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{Client, Error};
use hookwright_runtime::ports::sessions::SessionChange;
use hookwright_runtime::session;
use serde_json::json;
use std::path::Path;
use std::sync::Arc;

/// `session/load`.
pub(crate) async fn load(
    door: Arc<Door>,
    client: ConnectionTo<Client>,
    request: LoadSessionRequest,
    responder: Responder<LoadSessionResponse>,
) {
    let id = request.session_id.0.to_string();
    let opened = reopen(&door, &client, &id, &request.cwd, request.mcp_servers, true).await;
    open::answer_opened(&door, &client, responder, opened, |_, modes, options, meta| {
        LoadSessionResponse::new().modes(modes).config_options(options).meta(meta)
    });
}

/// `session/resume`.
pub(crate) async fn resume(
    door: Arc<Door>,
    client: ConnectionTo<Client>,
    request: ResumeSessionRequest,
    responder: Responder<ResumeSessionResponse>,
) {
    let id = request.session_id.0.to_string();
    let opened = reopen(&door, &client, &id, &request.cwd, request.mcp_servers, false).await;
    open::answer_opened(&door, &client, responder, opened, |_, modes, options, meta| {
        ResumeSessionResponse::new().modes(modes).config_options(options).meta(meta)
    });
}

async fn reopen(
    door: &Door,
    client: &ConnectionTo<Client>,
    id: &str,
    cwd: &Path,
    servers: Vec<McpServer>,
    tell_all: bool,
) -> Result<Opened, Error> {
    let cwd = open::folder(cwd)?;
    let _alone = door.alone(id).await;
    let store = door.wiring.store();
    let row = store.session(id).await.map_err(|e| errors::of_store(&e))?;
    if row.session.tenant != door.wiring.tenant() {
        return Err(errors::no_session(id, ""));
    }
    // One that is open here is opened anew: the client may have lost sight of it, and its servers may be others now.
    let tell = door.tell(client, id);
    if let Some(open) = door.take(id) {
        door.end_of(&open, Some(&tell)).await;
    }
    let state = session::state(&*store, id).await.map_err(|e| errors::of_run(&e))?;
    if tell_all {
        retell::all(door, &tell, &state).await?;
    }
    let opened = open::equip(door, id.to_owned(), cwd.clone(), servers, open::Kept::of(&row)).await;
    let at_ms = door.wiring.clock().now_ms();
    let change = SessionChange { cwd: Some(cwd), closed_ms: Some(None), at_ms, ..SessionChange::default() };
    store.change_session(id, change).await.map_err(|e| errors::of_store(&e))?;
    if let Some(before) = door.put(opened.session.clone()) {
        door.end_of(&before, Some(&tell)).await;
    }
    if let Some(row) = state.unfinished {
        let job = &row.job.id;
        let (title, next, word) = if row.running {
            let title = format!("Another process works on the prompt before (job {job})");
            (
                title,
                format!("Wait for its end, then load the session again; or `hookwright jobs cancel {job}`."),
                "running",
            )
        } else {
            let title = format!("The prompt before was left unfinished (job {job})");
            let resume = format!("`hookwright jobs resume {job}` goes on with it. ");
            let resume = if door.wiring.can_be_resumed(&row) { resume } else { String::new() };
            (title, format!("{resume}The next prompt cancels it."), "unfinished")
        };
        tell.notice(Weight::Warning, &title, Some(&next), json!({"job": job, "state": word}));
    }
    Ok(opened)
}
