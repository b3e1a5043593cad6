//! The agents that a job's agent may start, as the runtime needs them. Implemented by doors' wiring, which knows the tenant's plugins.

use crate::ports::model::Model;
use hookwright_core::hooks::HookSet;
use hookwright_core::job::AgentSpec;
use hookwright_core::stored::Blob;
use serde_json::Value;
use std::sync::Arc;

/// Makes agents of one tenant ready to be run as child jobs.
#[async_trait::async_trait]
pub trait Subagents: Send + Sync {
    /// An agent, as the first record of a new job of it holds it. `Err` says for the parent's model why it can't be started.
    async fn prepare(&self, agent: &str) -> Result<Child, String>;

    /// The model of an agent whose job was begun by an earlier process. `Err` says for people why it can't be had: the job waits then.
    async fn model(&self, agent: &AgentSpec) -> Result<Arc<dyn Model>, String>;
}

/// What a child job is made of, beside what it has of its parent.
pub struct Child {
    /// The agent.
    pub agent: AgentSpec,
    /// JSON Schema of its input, whole; absent: text.
    pub input_schema: Option<Value>,
    /// The hooks that may concern it.
    pub hooks: HookSet,
    /// Functions that any hook of the tenant names under `call`.
    pub hook_functions: Vec<String>,
    /// Its model.
    pub model: Arc<dyn Model>,
    /// Values that the agent names and that are too large for a record.
    pub blobs: Vec<Blob>,
}
