//! A model, as the runtime uses it. Implemented by `hookwright-model`.

use super::harness::Harness;
use hookwright_core::message::{FunctionSpec, Message, StopReason, Usage};
use serde_json::Value;
use std::sync::Arc;

/// One model, ready to be asked.
#[async_trait::async_trait]
pub trait Model: Send + Sync {
    /// One turn. Text goes to `sink` as it streams; the returned turn is complete. Dropping the future ends the request.
    async fn turn(&self, request: TurnRequest<'_>, sink: &dyn TurnSink) -> Result<Turn, ModelError>;

    /// Tokens of the model's window, as its provider says; none where that is not known. Asked once before a job begins; quick, and never
    /// a reason not to begin.
    async fn window(&self) -> Option<u64> {
        None
    }

    /// How the model is named towards people, e.g. `anthropic/claude-sonnet-4-5`, `script/demo.yaml (scripted)`.
    fn label(&self) -> String;

    /// Whether turns come from a script and not from a model.
    fn is_scripted(&self) -> bool;

    /// What runs the agent in a model's place; then no turn is asked for.
    fn harness(&self) -> Option<Arc<dyn Harness>> {
        None
    }
}

/// What a turn is asked for.
#[derive(Debug, Clone, Copy)]
pub struct TurnRequest<'a> {
    /// The job's id, for headers and logs.
    pub job: &'a str,
    /// 1-based number of the turn within the job.
    pub turn: u32,
    /// The system prompt.
    pub instructions: Option<&'a str>,
    /// The conversation; every value is present (`Stored::value` is `Some`), results are already elided.
    pub messages: &'a [Message],
    /// The functions that the model may call, by full name; the backend maps names (`hookwright_core::name::model_name`) and back.
    pub functions: &'a [FunctionSpec],
    /// JSON Schema of the final output, where the agent declares one.
    pub output_schema: Option<&'a Value>,
    /// Output tokens at most.
    pub max_tokens: Option<u32>,
    /// Tokens of the model's window, where it is known.
    pub window: Option<u64>,
    /// What the turn is for.
    pub purpose: Purpose,
}

/// What a turn is for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Purpose {
    /// The job's next turn.
    #[default]
    Turn,
    /// A summary of work so far. No function may be called.
    Summary,
}

/// Takes a turn's text as it streams.
pub trait TurnSink: Send + Sync {
    /// A piece of the answer's text.
    fn text(&self, piece: &str);
    /// Something people should know: a retry, a wait.
    fn notice(&self, what: &str);
}

/// A model's complete turn.
#[derive(Debug, Clone, PartialEq)]
pub struct Turn {
    /// All its text.
    pub text: Option<String>,
    /// The calls it asks for, in order.
    pub calls: Vec<TurnCall>,
    /// Why it ended.
    pub stop: StopReason,
    /// Tokens, where the provider told.
    pub usage: Option<Usage>,
    /// What the provider wants back with this turn in later requests.
    pub provider_state: Option<Value>,
}

/// A call that a model asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnCall {
    /// The provider's id of the call; unique within the conversation (made up where the provider has none).
    pub provider_id: String,
    /// The full name; where the model made a name up, that name as it is.
    pub tool: String,
    /// The arguments; text where the model wrote no valid JSON (the call is then refused).
    pub arguments: Value,
}

/// Why a turn could not be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// No key, an unknown provider, a bad name: nothing was asked.
    #[error("{0}")]
    Config(String),
    /// The conversation is longer than the model's window.
    #[error("the conversation does not fit into the model's window: {0}")]
    ContextFull(String),
    /// The provider refused (401, 403, 404, 400, …); asking again would not help.
    #[error("{0}")]
    Refused(String),
    /// 429, 5xx, a broken connection, after all retries.
    #[error("{0}")]
    Unavailable(String),
    /// The provider answered something that can't be read.
    #[error("{0}")]
    Malformed(String),
}
