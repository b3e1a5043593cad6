//! Lists, closes and deletes sessions.

use crate::door::Door;
use crate::tell::Tell;
use crate::{errors, wire};
use agent_client_protocol::Error;
use agent_client_protocol::v1::schema::{
    CloseSessionResponse, DeleteSessionResponse, ListSessionsRequest, ListSessionsResponse,
};
use hookwright_runtime::ports::sessions::{SessionChange, SessionPage};
use hookwright_runtime::ports::store::StoreError;
use std::time::Duration;
use tokio::time::Instant;

/// How long other processes may take to end what they run of a session that is deleted, and how often they are looked after.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(50);

/// Sessions of a page.
const PAGE: u32 = 50;

/// `session/list`.
pub(crate) async fn list(door: &Door, request: ListSessionsRequest) -> Result<ListSessionsResponse, Error> {
    let after = match &request.cursor {
        Some(cursor) => {
            Some(wire::read_cursor(cursor).ok_or_else(|| errors::invalid_params("the cursor is not one of ours"))?)
        }
        None => None,
    };
    let cwd = request.cwd.map(|cwd| cwd.to_string_lossy().into_owned());
    let page = SessionPage { tenant: door.wiring.tenant().to_owned(), cwd, after, limit: PAGE };
    let rows = door.wiring.store().sessions(page).await.map_err(|e| errors::of_store(&e))?;
    let next = rows.last().filter(|_| rows.len() == PAGE as usize).map(wire::cursor);
    Ok(ListSessionsResponse::new(rows.iter().map(wire::info).collect()).next_cursor(next))
}

/// `session/close`: the prompt that is under way is cancelled, the session's servers leave. It can be loaded again.
pub(crate) async fn close(door: &Door, tell: &Tell, id: &str) -> Result<CloseSessionResponse, Error> {
    let _alone = door.alone(id).await;
    let session = door.session(id)?;
    door.take(id);
    door.end_of(&session, Some(tell)).await;
    let now = door.wiring.clock().now_ms();
    let change = SessionChange { closed_ms: Some(Some(now)), at_ms: now, ..SessionChange::default() };
    match door.wiring.store().change_session(id, change).await {
        Ok(()) | Err(StoreError::NotFound { .. }) => Ok(CloseSessionResponse::new()),
        Err(error) => Err(errors::of_store(&error)),
    }
}

/// `session/delete`: what was said is deleted for good, its digests stay. One that is not there is no error: it is what was wanted.
pub(crate) async fn delete(door: &Door, tell: &Tell, id: &str) -> Result<DeleteSessionResponse, Error> {
    let _alone = door.alone(id).await;
    let store = door.wiring.store();
    match store.session(id).await {
        Ok(row) if row.session.tenant == door.wiring.tenant() => {}
        Ok(_) | Err(StoreError::NotFound { .. }) => return Ok(DeleteSessionResponse::new()),
        Err(error) => return Err(errors::of_store(&error)),
    }
    if let Some(session) = door.take(id) {
        door.end_of(&session, Some(tell)).await;
    }
    // What an earlier process left unfinished must end first, also what a job that is over had started.
    let jobs = store.session_jobs(id).await.map_err(|e| errors::of_store(&e))?;
    for row in &jobs {
        door.wiring.end_left(&row.job.id).await.map_err(errors::not_now)?;
    }
    // A process that runs one of them was asked to cancel it: it does so soon, unless it is stuck.
    let end = Instant::now() + PATIENCE;
    for row in &jobs {
        while !store.job(&row.job.id).await.map_err(|e| errors::of_store(&e))?.status.is_final() {
            if Instant::now() >= end {
                return Err(errors::not_now(format!(
                    "another process runs job {} of this session, and was asked to cancel it: delete the session when it is over",
                    row.job.id
                )));
            }
            tokio::time::sleep(LOOK).await;
        }
    }
    match store.delete_session(id).await {
        Ok(()) | Err(StoreError::NotFound { .. }) => Ok(DeleteSessionResponse::new()),
        Err(error) => Err(errors::of_store(&error)),
    }
}
