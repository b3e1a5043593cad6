//! What the door needs of the world. The command line implements it.

use crate::mode::Mode;
use hookwright_runtime::approvals::Say;
use hookwright_runtime::job::{Deps, NewRun};
use hookwright_runtime::ports::clock::Clock;
use hookwright_runtime::ports::sessions::Sessions;
use hookwright_runtime::ports::store::JobRow;
use hookwright_runtime::ports::tools::Tools;
use hookwright_runtime::session::SessionState;
use serde_json::Value;
use std::sync::Arc;

/// What the door needs of the world.
#[async_trait::async_trait]
pub trait Wiring: Send + Sync + 'static {
    /// Where sessions and their jobs stand.
    fn store(&self) -> Arc<dyn Sessions>;

    /// Time.
    fn clock(&self) -> Arc<dyn Clock>;

    /// The tenant whose sessions these are.
    fn tenant(&self) -> &str;

    /// The agent's id.
    fn agent(&self) -> &str;

    /// The models that a session may choose from; the first is the default. Never empty.
    fn models(&self) -> &[String];

    /// How escalations are decided in a new session.
    fn mode(&self) -> Mode {
        Mode::Ask
    }

    /// What a session's row keeps for a later process; no secret.
    fn origin(&self) -> Value;

    /// A decision in the name of the person at the client.
    fn say(&self, approve: bool, note: Option<String>) -> Say;

    /// Starts the servers of a session, in parallel and in the background; returns at once.
    fn equip(&self, session: &str, cwd: &str, servers: Vec<ServerDecl>) -> Equipment;

    /// Makes the next job of a session. An error is for people: the prompt can't be taken.
    fn job(&self, order: Order<'_>) -> Result<Ready, String>;

    /// Whether a job that was left unfinished can be gone on with without its client.
    fn can_be_resumed(&self, row: &JobRow) -> bool {
        let _ = row;
        true
    }

    /// Ends a job that an earlier process left unfinished, as cancelled.
    async fn end_left(&self, job: &str) -> Result<(), String>;

    /// A session ends in this process: its servers are asked what they have to say (`_SessionEnd`), before they go.
    async fn session_ends(&self, session: &str, equipment: &Equipment) {
        let _ = (session, equipment);
    }
}

/// A server that the client brings along.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerDecl {
    /// Its name, as the client says it.
    pub name: String,
    /// How it is reached.
    pub reach: Reach,
}

/// How a client's server is reached.
#[derive(Clone, PartialEq, Eq)]
pub enum Reach {
    /// A child process, started in the session's folder.
    Stdio {
        /// Program and arguments.
        command: Vec<String>,
        /// Variables beside those that every server gets (SPEC §2).
        env: Vec<(String, String)>,
    },
    /// Streamable HTTP.
    Http {
        /// The endpoint.
        url: String,
        /// Sent with every request.
        headers: Vec<(String, String)>,
    },
    /// Not at all, and why.
    Not(String),
}

impl std::fmt::Debug for Reach {
    /// Without values: they are often secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Stdio { command, .. } => f.debug_tuple("Stdio").field(&command.first()).finish(),
            Self::Http { url, .. } => f.debug_tuple("Http").field(url).finish(),
            Self::Not(why) => f.debug_tuple("Not").field(why).finish(),
        }
    }
}

/// The servers of a session.
#[derive(Clone)]
pub struct Equipment {
    /// All tools that the session's jobs may use; [`Tools::shutdown`] ends the session's own.
    pub tools: Arc<dyn Tools>,
    /// Those that belong to this session alone.
    pub own: Vec<OwnServer>,
    /// What is odd about them, for people.
    pub warnings: Vec<String>,
}

/// A server that belongs to one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnServer {
    /// Its name, as the client or the manifest says it.
    pub name: String,
    /// The id under which it is a tool.
    pub tool: String,
    /// Whether the client brought it.
    pub from_client: bool,
}

/// A prompt that becomes a job.
pub struct Order<'a> {
    /// The session.
    pub session: &'a str,
    /// Its folder.
    pub cwd: &'a str,
    /// Its servers.
    pub equipment: &'a Equipment,
    /// The model that was chosen.
    pub model: &'a str,
    /// What the user says.
    pub text: &'a str,
    /// Where the session stands.
    pub state: &'a SessionState,
}

/// A job that is ready to run.
pub struct Ready {
    /// What it needs of the world.
    pub deps: Deps,
    /// The job.
    pub run: NewRun,
}
