//! Errors as the client gets them: JSON-RPC codes, and words that say what to do.

use agent_client_protocol::v1::schema;
use agent_client_protocol::{Error, ErrorCode};
use hookwright_core::text::escape;
use hookwright_runtime::job::RunError;
use hookwright_runtime::ports::store::StoreError;

/// The request says something that can't be.
pub(crate) fn invalid_params(what: impl Into<String>) -> Error {
    Error::new(ErrorCode::INVALID_PARAMS, what)
}

/// The request can't be done now.
pub(crate) fn not_now(what: impl Into<String>) -> Error {
    Error::new(ErrorCode::INVALID_REQUEST, what)
}

/// Something of ours failed.
pub(crate) fn failed(what: impl Into<String>) -> Error {
    Error::new(ErrorCode::INTERNAL_ERROR, what)
}

/// There is no such session, or this connection has not opened it.
pub(crate) fn no_session(id: &str, hint: &str) -> Error {
    let mut error: Error = schema::Error::session_not_found(id.to_owned()).into();
    error.message = format!("there is no session {}{hint}", escape(id));
    error
}

/// An error of the store.
pub(crate) fn of_store(error: &StoreError) -> Error {
    match error {
        StoreError::NotFound { kind: "session", id } => no_session(id, ""),
        StoreError::SessionMoved { job, .. } => not_now(format!(
            "another process goes on with this session (job {job}), so this prompt was not taken: \
             load the session (session/load) to see what was said there, then prompt again"
        )),
        StoreError::Full { .. } => not_now(format!("{error}: prompt again when one of them is over")),
        StoreError::NotFound { .. }
        | StoreError::Ambiguous { .. }
        | StoreError::Leased { .. }
        | StoreError::LeaseLost { .. }
        | StoreError::Failed(_) => failed(error.to_string()),
    }
}

/// An error of a run.
pub(crate) fn of_run(error: &RunError) -> Error {
    match error {
        RunError::Store(error) => of_store(error),
        RunError::Replay { .. } | RunError::Machine { .. } => failed(error.to_string()),
    }
}
