//! Somebody else's agent runtime, as the runtime needs it: it runs a session for a job. Implemented by doors.

use super::model::{Model, ModelError, Turn, TurnRequest, TurnSink};
use crate::job::Helpers;
use crate::observe::Observer;
use crate::outside::Outside;
use serde_json::Value;
use std::sync::Arc;

/// What a session is for.
#[derive(Debug, Clone)]
pub struct Order {
    /// The job.
    pub job: String,
    /// The system prompt.
    pub instructions: Option<String>,
    /// JSON Schema of the output, where the agent declares one.
    pub output_schema: Option<Value>,
    /// Model turns, as far as the harness can bound them.
    pub max_turns: u32,
    /// Whether text that may be the output is not to be told before the verdict of a `job_end` hook.
    pub silent: bool,
}

/// Runs sessions of one agent.
#[async_trait::async_trait]
pub trait Harness: Send + Sync {
    /// Runs the session of a job, from its admitted input to its output; what the agent does is said through `outside`. Returns when
    /// the session is over; where the job is not over then, it fails. Dropping the future ends the session with all its processes.
    async fn run(&self, order: Order, outside: Outside, helpers: &Helpers, observer: &dyn Observer);

    /// How it is named in histories, e.g. `harness/claude-agent-sdk`.
    fn label(&self) -> String;
}

/// A harness in the place of a model.
pub struct RunBy(pub Arc<dyn Harness>);

#[async_trait::async_trait]
impl Model for RunBy {
    async fn turn(&self, _: TurnRequest<'_>, _: &dyn TurnSink) -> Result<Turn, ModelError> {
        Err(ModelError::Config(format!("{} is no model: it runs its agent itself", self.0.label())))
    }

    fn label(&self) -> String {
        self.0.label()
    }

    fn is_scripted(&self) -> bool {
        false
    }

    fn harness(&self) -> Option<Arc<dyn Harness>> {
        Some(self.0.clone())
    }
}
