//! The hook: an MCP server with one function, `sign`.
//!
//! Invariant: what can't be signed is denied, never given out unsigned.

#[cfg(test)]
mod tests;

use crate::block;
use ed25519_dalek::SigningKey;
use rmcp::handler::server::wrapper::{Json, Parameters};
use rmcp::{ServiceExt, tool, tool_router};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The arguments of a hook function (SPEC §3).
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Ask {
    /// The event.
    pub event: Map<String, Value>,
}

/// The answer of this hook (SPEC §4).
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "decision", rename_all = "snake_case")]
pub enum Answer {
    /// The output with its signature block.
    Modify {
        /// The new output.
        output: String,
    },
    /// The output can't be signed.
    Deny {
        /// Why.
        reason: String,
    },
}

/// The answer to a `job_end` event.
pub fn answer(key: &SigningKey, event: &Map<String, Value>) -> Answer {
    let text = |name: &str| event.get(name).and_then(Value::as_str);
    if text("event") != Some("job_end") {
        return Answer::Deny {
            reason: "only the output of a job can be signed: declare this hook `on: job_end`".to_owned(),
        };
    }
    let (Some(job), Some(agent)) = (text("job"), text("agent")) else {
        return Answer::Deny { reason: "the event names no job and agent".to_owned() };
    };
    match text("output") {
        Some(output) => Answer::Modify { output: block::sign(key, job, agent, output) },
        None => Answer::Deny {
            reason: "only text can be signed, and this agent declares a schema for its output".to_owned(),
        },
    }
}

/// The MCP server.
#[derive(Clone)]
pub struct SignServer {
    key: SigningKey,
}

#[tool_router(server_handler)]
impl SignServer {
    /// Sign the output of a job.
    #[tool]
    fn sign(&self, Parameters(ask): Parameters<Ask>) -> Json<Answer> {
        Json(answer(&self.key, &ask.event))
    }
}

/// Serves the hook on the standard streams, until the client closes them.
pub async fn serve(key: SigningKey) -> Result<(), ServeError> {
    let service = SignServer { key }.serve(rmcp::transport::stdio()).await.map_err(|e| ServeError(e.to_string()))?;
    service.waiting().await.map_err(|e| ServeError(e.to_string()))?;
    Ok(())
}

/// The server could not start, or broke.
#[derive(Debug, thiserror::Error)]
#[error("failed to serve: {0}")]
pub struct ServeError(String);
