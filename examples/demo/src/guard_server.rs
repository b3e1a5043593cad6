//! The tool `guard`: an MCP server of hook functions.
//!
//! Invariant: functions only decide; they change nothing.

use crate::ServeError;
use crate::guard::{self, Answer};
use ed25519_dalek::SigningKey;
use hookwright_signer::server as signer;
use rmcp::handler::server::wrapper::{Json, Parameters};
use rmcp::{ServiceExt, tool, tool_router};
use signer::Ask;

/// The MCP server.
#[derive(Clone)]
pub struct GuardServer {
    key: SigningKey,
}

#[tool_router(server_handler)]
impl GuardServer {
    /// Hook: a person decides on a push to a protected branch.
    #[tool]
    fn push_policy(Parameters(ask): Parameters<Ask>) -> Json<Answer> {
        Json(guard::push_policy(&ask.event))
    }

    /// Hook: commit messages get the house's style and say who made the commit.
    #[tool]
    fn message_style(Parameters(ask): Parameters<Ask>) -> Json<Answer> {
        Json(guard::message_style(&ask.event))
    }

    /// Hook: protected branches are not deleted.
    #[tool]
    fn no_delete(Parameters(ask): Parameters<Ask>) -> Json<Answer> {
        Json(guard::no_delete(&ask.event))
    }

    /// Hook: sign the output of a job.
    #[tool]
    fn sign(&self, Parameters(ask): Parameters<Ask>) -> Json<signer::Answer> {
        Json(signer::answer(&self.key, &ask.event))
    }
}

/// Serves the tool `guard` on the standard streams, until the client closes them.
pub async fn serve_guard_stdio(key: SigningKey) -> Result<(), ServeError> {
    let service = GuardServer { key }.serve(rmcp::transport::stdio()).await.map_err(|e| ServeError(e.to_string()))?;
    service.waiting().await.map_err(|e| ServeError(e.to_string()))?;
    Ok(())
}
