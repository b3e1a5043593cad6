//! The MCP servers of a tenant's plugins, as the runtime uses them. Implemented by `hookwright-mcp`.

use hookwright_core::FunctionName;
use serde::Serialize;
use serde_json::{Map, Value};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{broadcast, oneshot};

/// The tenant's tools.
#[async_trait::async_trait]
pub trait Tools: Send + Sync {
    /// Waits until the tool's server is connected, or is known not to be. Bounded by the tool's start limit; never part of a hook's timeout.
    async fn ready(&self, tool: &str) -> Result<(), ToolDown>;

    /// What the tool's server lists now (all pages). Waits as [`Tools::ready`] does.
    async fn functions(&self, tool: &str) -> Result<Vec<ListedFunction>, ToolDown>;

    /// Calls a function. `timeout` runs from the writing of the request to its complete answer.
    ///
    /// On timeout, and where the returned future is dropped, the server gets `notifications/cancelled`.
    /// Never waits for a server to start: a server that is not connected is [`CallOutcome::NotSent`].
    async fn call(&self, name: &FunctionName, arguments: Map<String, Value>, timeout: Duration) -> CallOutcome;

    /// As [`Tools::call`], and tells of the call's progress meanwhile. An implementation that can't tell calls all the same.
    async fn call_telling(
        &self,
        name: &FunctionName,
        arguments: Map<String, Value>,
        timeout: Duration,
        progress: Option<Progress>,
    ) -> CallOutcome {
        let _ = progress;
        self.call(name, arguments, timeout).await
    }

    /// Sends a tool's server a request that is no call of a function, e.g. `resources/read`. Hooks don't see it: only for what a
    /// manifest passes.
    async fn pass(&self, tool: &str, method: &'static str, params: Value, timeout: Duration) -> CallOutcome {
        let _ = (method, params, timeout);
        CallOutcome::NotSent { why: format!("requests can't be passed to the tool {tool} here") }
    }

    /// Sends a tool's server a notification, if it is connected.
    async fn notify(&self, tool: &str, method: &'static str, params: Value) {
        let _ = (tool, method, params);
    }

    /// What a tool's server said of itself when it was connected; none while it is not.
    fn introduction(&self, tool: &str) -> Option<Introduction> {
        let _ = tool;
        None
    }

    /// The ids of tools whose lists of functions may have changed, from now on, where the implementation can tell.
    fn list_changes(&self) -> Option<broadcast::Receiver<String>> {
        None
    }

    /// Kills the server that runs now, with everything that it spawned: it does not answer. It counts as a death, and the server is
    /// started again as after any other; calls under way are lost. Says whether a server was killed: of one that runs elsewhere only the connection is given up.
    async fn kill(&self, tool: &str, why: &str) -> bool;

    /// All tools, in the tenant's order.
    fn status(&self) -> Vec<ToolStatus>;

    /// Each change of a tool's state from now on, where the implementation can tell.
    fn changes(&self) -> Option<broadcast::Receiver<ToolStatus>> {
        None
    }

    /// Ends all servers and everything they spawned; returns when they are gone.
    async fn shutdown(&self);
}

/// Is told the params of each `notifications/progress` of a call, without their token. Called from where a server is read: must not block.
#[derive(Clone)]
pub struct Progress(pub Arc<dyn Fn(Map<String, Value>) + Send + Sync>);

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Progress")
    }
}

/// What a server said of itself.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Introduction {
    /// Its `capabilities`, as they came.
    pub capabilities: Value,
    /// How it is to be used, untrusted.
    pub instructions: Option<String>,
}

/// Who is at the other side of a tool's server, beside us: what a manifest passes goes to and fro between them (docs/gateway.md).
#[async_trait::async_trait]
pub trait Peer: Send + Sync {
    /// A server asks for something, e.g. `elicitation/create`. The answer's `result`, or its error.
    async fn ask(&self, tool: &str, method: &str, params: Value) -> Result<Value, PeerError>;

    /// A server tells something, e.g. `notifications/resources/updated`. Must not block.
    fn told(&self, tool: &str, method: &str, params: Value);
}

/// A JSON-RPC error, as the other side gave it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("error {code}: {message}")]
pub struct PeerError {
    /// Its code.
    pub code: i64,
    /// Its message.
    pub message: String,
    /// Its `data`.
    pub data: Option<Value>,
}

/// What became of a call.
#[derive(Debug)]
pub enum CallOutcome {
    /// The server answered.
    Answered {
        /// The `result` member of the response, raw and complete.
        result: Value,
        /// Whether a key stands in one of its objects twice (the last one is in `result`): then it is no valid decision (SPEC §4).
        duplicate_key: bool,
    },
    /// The server answered with a JSON-RPC error.
    RpcError {
        /// Its code.
        code: i64,
        /// Its message, untrusted.
        message: String,
        /// Its `data`, untrusted.
        data: Option<Box<Value>>,
    },
    /// No complete answer in time. The server was told (`notifications/cancelled`).
    TimedOut {
        /// Yields where an answer comes after all (within a bounded time); it is discarded.
        late: oneshot::Receiver<LateAnswer>,
    },
    /// The request was certainly not delivered: the server is down, or its stdin takes no more.
    NotSent {
        /// Why, for people; untrusted parts are escaped.
        why: String,
    },
    /// The request may have been delivered and no answer will come: the server died, or its answer could not be read (too large, malformed).
    Lost {
        /// Why, for people; untrusted parts are escaped.
        why: String,
    },
}

/// An answer that came after its timeout.
#[derive(Debug, Clone, Copy)]
pub struct LateAnswer {
    /// Milliseconds from the ask.
    pub after_ms: u64,
}

/// A tool that can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct ToolDown {
    /// Why, for people; untrusted parts are escaped.
    pub why: String,
}

/// A function as its server lists it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ListedFunction {
    /// The bare name.
    pub name: String,
    /// For the model.
    pub description: Option<String>,
    /// JSON Schema of the arguments; `{"type":"object"}` where the server gave none.
    pub input_schema: Value,
    /// The server's `readOnlyHint`.
    pub read_only_hint: bool,
    /// The server's `idempotentHint`.
    pub idempotent_hint: bool,
    /// Its whole definition, as the server listed it.
    #[serde(skip)]
    pub definition: Arc<Value>,
}

/// How a tool stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ToolStatus {
    /// The tool's id.
    pub tool: String,
    /// Its state.
    pub state: ToolState,
    /// How often its server was started.
    pub starts: u32,
    /// What went wrong last, if anything.
    pub last_error: Option<String>,
    /// The server's own name and version, untrusted.
    pub server: Option<String>,
    /// The protocol revision in use.
    pub protocol: Option<String>,
}

/// The states of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolState {
    /// Its server is being started.
    Starting,
    /// Connected.
    Ready,
    /// Its server died and is being started again, after a pause.
    Restarting,
    /// Given up after repeated deaths or a failed start; only a new process of ours tries again.
    Failed,
}
