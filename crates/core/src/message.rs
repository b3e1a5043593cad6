//! The conversation as the model sees it, provider-neutral. A driver asks the machine for it; no command carries it.

use crate::Stored;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One message of a conversation, with values by reference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    /// What the user (or the caller of the job) said: text, or any JSON where the agent declares a schema.
    User {
        /// The text or JSON.
        content: Stored,
    },
    /// What the model said in one turn.
    Assistant {
        /// Its text; a JSON string. Absent where it only called functions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<Stored>,
        /// The calls that it asked for, in order.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<AssistantCall>,
        /// What the provider wants back with this turn (signatures of thoughts and the like), opaque to us.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        provider_state: Option<Stored>,
    },
    /// The result of one call.
    Tool {
        /// The id under which the provider knows the call.
        provider_id: String,
        /// The function's full name.
        tool: String,
        /// A string, or a list of MCP content blocks.
        content: Stored,
        /// Whether the call failed, was refused or withheld.
        is_error: bool,
    },
}

/// A call as it stands in an assistant message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct AssistantCall {
    /// The provider's id of the call (made up by us where the provider has none).
    pub provider_id: String,
    /// The function's full name, `tool.function`; a name the model made up stands as it said it.
    pub tool: String,
    /// The arguments as the model wrote them.
    pub arguments: Stored,
}

/// Why a model's turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// It had no more to say, or for a reason that we do not know: a genuine end of turn.
    EndTurn,
    /// It asks for calls.
    ToolCalls,
    /// It ran into its output limit.
    MaxTokens,
    /// The provider or the model refused to go on.
    Refusal,
}

/// Tokens of a turn, as the provider reported them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Usage {
    /// Tokens of the request, cached ones included.
    pub input_tokens: u64,
    /// Tokens of the answer, thoughts included.
    pub output_tokens: u64,
}

/// A function as a model is told of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FunctionSpec {
    /// Full name, `tool.function`.
    pub name: String,
    /// What it does, for the model.
    pub description: Option<String>,
    /// JSON Schema of its arguments, as the server gave it.
    pub input_schema: Value,
}
