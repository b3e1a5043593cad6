//! Opens sessions that are in the store: with what was said streamed back (`session/load`), or without (`session/resume`).

use crate::door::Door;
use crate::handlers::answer;
use crate::open::{self, Opened};
use crate::tell::{Tell, Weight};
use crate::{errors, wire};
use agent_client_protocol::v1::schema::{
    LoadSessionRequest, LoadSessionResponse, McpServer, ResumeSessionRequest, ResumeSessionResponse, ToolCall,
    ToolCallStatus,
};
use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{Client, Error};
use hookwright_core::job::{Continues, Machine, Outcome};
use hookwright_core::lifecycle::is_delivery;
use hookwright_core::message::Message;
use hookwright_core::stored::Stored;
use hookwright_core::text::escape;
use hookwright_runtime::job::walk;
use hookwright_runtime::ports::sessions::SessionChange;
use hookwright_runtime::session;
use hookwright_runtime::values::Values;
use serde_json::{Value, json};
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
    match reopen(&door, &client, &id, &request.cwd, request.mcp_servers, true).await {
        Ok(opened) => {
            let session = opened.session.clone();
            let response = LoadSessionResponse::new()
                .modes(wire::modes(session.mode()))
                .config_options(wire::options(session.mode(), &session.model(), door.wiring.models()))
                .meta(open::meta(&opened.states));
            answer(responder, Ok(response));
            open::report(door.tell(&client, &id), &session.equipment, opened.states);
        }
        Err(error) => answer(responder, Err(error)),
    }
}

/// `session/resume`.
pub(crate) async fn resume(
    door: Arc<Door>,
    client: ConnectionTo<Client>,
    request: ResumeSessionRequest,
    responder: Responder<ResumeSessionResponse>,
) {
    let id = request.session_id.0.to_string();
    match reopen(&door, &client, &id, &request.cwd, request.mcp_servers, false).await {
        Ok(opened) => {
            let session = opened.session.clone();
            let response = ResumeSessionResponse::new()
                .modes(wire::modes(session.mode()))
                .config_options(wire::options(session.mode(), &session.model(), door.wiring.models()))
                .meta(open::meta(&opened.states));
            answer(responder, Ok(response));
            open::report(door.tell(&client, &id), &session.equipment, opened.states);
        }
        Err(error) => answer(responder, Err(error)),
    }
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
    let store = door.wiring.store();
    let row = store.session(id).await.map_err(|e| errors::of_store(&e))?;
    if row.session.tenant != door.wiring.tenant() {
        return Err(errors::no_session(id, ""));
    }
    // One that is open here is opened anew: the client may have lost sight of it, and its servers may be others now.
    if let Some(open) = door.take(id) {
        door.end_of(&open).await;
    }
    let state = session::state(&*store, id).await.map_err(|e| errors::of_run(&e))?;
    let tell = door.tell(client, id);
    if tell_all {
        let last = match (&state.continues, &state.unfinished) {
            (Some(continues), _) => Some(continues.clone()),
            // What the job that is not over goes on with is told; itself it is not over.
            (None, Some(row)) => before(door, &row.job.id).await?,
            (None, None) => None,
        };
        if let Some(last) = last {
            stream(door, &tell, &last).await?;
        }
    }
    let opened = open::equip(door, id.to_owned(), cwd.clone(), servers, open::Kept::of(&row)).await;
    let at_ms = door.wiring.clock().now_ms();
    let change = SessionChange { cwd: Some(cwd), closed_ms: Some(None), at_ms, ..SessionChange::default() };
    store.change_session(id, change).await.map_err(|e| errors::of_store(&e))?;
    door.put(opened.session.clone());
    if let Some(row) = state.unfinished {
        let title = format!("The prompt before was left unfinished (job {})", row.job.id);
        let next = format!("`hookwright jobs resume {}` goes on with it. The next prompt cancels it.", row.job.id);
        tell.notice(Weight::Warning, &title, Some(&next), json!({"job": row.job.id, "state": "unfinished"}));
    }
    Ok(opened)
}

/// What a job goes on with.
async fn before(door: &Door, job: &str) -> Result<Option<Continues>, Error> {
    let texts = door.wiring.store().records(job, 0).await.map_err(|e| errors::of_store(&e))?;
    match hookwright_core::history::replay(texts) {
        Ok((machine, _)) => Ok(machine.spec().continues.clone()),
        Err(error) => Err(errors::failed(format!("the history of job {job} can't be read: {error}"))),
    }
}

/// Streams back what was said in a session, as it was said then.
async fn stream(door: &Door, tell: &Tell, last: &Continues) -> Result<(), Error> {
    let store = door.wiring.store();
    let jobs = walk(&*store, last, true).await.map_err(|e| errors::of_run(&e))?;
    let values = Values::new(store);
    for earlier in jobs.into_iter().rev() {
        Told { tell, values: &values, job: &earlier.job }.job(&earlier.machine).await;
    }
    Ok(())
}

struct Told<'a> {
    tell: &'a Tell,
    values: &'a Values,
    job: &'a str,
}

impl Told<'_> {
    async fn job(&self, machine: &Machine) {
        let input = self.value(&machine.spec().input).await;
        self.tell.user(&format!("{}.input", self.job), &wire::output_text(&input));
        let messages = machine.conversation();
        let last_text =
            messages.iter().rposition(|m| matches!(m, Message::Assistant { calls, .. } if calls.is_empty()));
        let mut turn = 0;
        for (i, message) in messages.iter().enumerate() {
            let Message::Assistant { text, calls, .. } = message else { continue };
            // What lifecycle hooks said was told as notices, which are no part of the conversation.
            if !calls.is_empty() && calls.iter().all(|c| is_delivery(&c.provider_id, &c.tool)) {
                continue;
            }
            turn += 1;
            // The last text is the output: what was given stands in the outcome.
            if let Some(text) = text.as_ref().filter(|_| Some(i) != last_text || machine.outcome().is_none()) {
                self.tell.message(&format!("{}.t{turn}", self.job), &wire::output_text(&self.value(text).await));
            }
            for (n, call) in calls.iter().enumerate() {
                let (content, is_error) = match messages.get(i + 1 + n) {
                    Some(Message::Tool { content, is_error, .. }) => (self.value(content).await, *is_error),
                    _ => (Value::Null, true),
                };
                let arguments = self.value(&call.arguments).await;
                let status = if is_error { ToolCallStatus::Failed } else { ToolCallStatus::Completed };
                let name = escape(&call.tool);
                self.tell.call(
                    ToolCall::new(format!("{}/t{turn}.c{n}", self.job), name.clone())
                        .name(name)
                        .status(status)
                        .raw_input(wire::raw_input(&arguments))
                        .content(wire::result_content(&content)),
                );
            }
        }
        let end = match machine.outcome() {
            Some(Outcome::Completed { output }) => wire::output_text(&self.value(output).await),
            Some(Outcome::Failed { error }) => error.message.clone(),
            Some(Outcome::Cancelled { .. }) | None => String::new(),
        };
        self.tell.message(&format!("{}.t{}", self.job, turn.max(1)), &end);
    }

    /// A value, or what stands for one that was deleted.
    async fn value(&self, stored: &Stored) -> Value {
        match self.values.load(stored).await {
            Ok(value) => (*value).clone(),
            Err(_) => json!("[deleted]"),
        }
    }
}
