//! The durable store's sessions: conversations that span jobs. Implemented by `hookwright-sqlite`.

use crate::ports::store::{JobRow, Store, StoreError};
use serde::{Deserialize, Serialize};

/// A store that keeps sessions beside their jobs.
#[async_trait::async_trait]
pub trait Sessions: Store {
    /// Creates a session. Durable on return.
    async fn create_session(&self, session: NewSession) -> Result<(), StoreError>;

    /// One session, by its whole id.
    async fn session(&self, id: &str) -> Result<SessionRow, StoreError>;

    /// Sessions of a tenant, those that changed last first.
    async fn sessions(&self, page: SessionPage) -> Result<Vec<SessionRow>, StoreError>;

    /// Changes what is not `None`, and the time of the last change. Durable on return.
    async fn change_session(&self, id: &str, change: SessionChange) -> Result<(), StoreError>;

    /// The jobs of a session in the order of their creation, without those that its jobs started (subagents').
    async fn session_jobs(&self, id: &str) -> Result<Vec<JobRow>, StoreError>;

    /// Deletes a session and the values of all its jobs; their digests stay, so that their histories still verify (SPEC §8).
    /// Fails where one of its jobs has not ended. Durable on return.
    async fn delete_session(&self, id: &str) -> Result<(), StoreError>;
}

/// A session to create.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewSession {
    /// Its id.
    pub id: String,
    /// Its tenant.
    pub tenant: String,
    /// Its agent.
    pub agent: String,
    /// The folder that its user works in, as an absolute path.
    pub cwd: String,
    /// When it was created, Unix milliseconds.
    pub created_ms: u64,
    /// What a later process needs to go on with it, opaque to the store. Holds no secret.
    pub origin: serde_json::Value,
}

/// A session as it is listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRow {
    /// As it was created; `origin` as it was changed last.
    #[serde(flatten)]
    pub session: NewSession,
    /// For people; none before its first prompt.
    pub title: Option<String>,
    /// When it last changed, Unix milliseconds.
    pub updated_ms: u64,
    /// When it was closed, where it was.
    pub closed_ms: Option<u64>,
}

/// Which sessions are listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionPage {
    /// The tenant.
    pub tenant: String,
    /// Only those of this folder.
    pub cwd: Option<String>,
    /// Only those that come after this one in the list: its time of last change, and its id.
    pub after: Option<(u64, String)>,
    /// At most so many.
    pub limit: u32,
}

/// What changes about a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionChange {
    /// Its title.
    pub title: Option<String>,
    /// The folder.
    pub cwd: Option<String>,
    /// What a later process needs.
    pub origin: Option<serde_json::Value>,
    /// Whether it is closed (`Some(time)`) or opened again (`None`).
    pub closed_ms: Option<Option<u64>>,
    /// When, Unix milliseconds.
    pub at_ms: u64,
}
