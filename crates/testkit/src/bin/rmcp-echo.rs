//! `rmcp-echo` – a real MCP server on rmcp, for tests and benches: over stdio, or with `--http ADDR` over Streamable HTTP at `/mcp`.
//!
//! Functions: `echo` (its `text`), `decide` (answers a hook's event from the key `answer` in the event's arguments, else allows),
//! `fail` (an `ErrorData`), `panic` (rmcp then never answers), `_Stop` (a lifecycle hook that has nothing to say). With `--http 127.0.0.1:0` the first line on stdout is the bound address.
//! `--stateless` and `--json` set the HTTP server's modes.

use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{CallToolResult, ContentBlock};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, ServerHandler, ServiceExt, tool, tool_handler, tool_router};
use serde_json::{Value, json};
use std::io::Write;
use std::sync::Arc;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Text {
    /// Given back.
    text: String,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Event {
    /// The moment.
    event: serde_json::Map<String, Value>,
}

#[derive(Clone)]
struct Echo;

#[tool_router]
#[allow(clippy::unused_self, reason = "the macro's methods take it")]
impl Echo {
    #[tool(description = "Gives the text back.", annotations(read_only_hint = true, idempotent_hint = true))]
    fn echo(&self, Parameters(Text { text }): Parameters<Text>) -> String {
        text
    }

    #[tool(description = "Decides as the event's arguments say, else allows.")]
    fn decide(&self, Parameters(Event { event }): Parameters<Event>) -> CallToolResult {
        let answer = event.get("arguments").and_then(|a| a.get("answer")).cloned();
        CallToolResult::structured(answer.unwrap_or_else(|| json!({"decision": "allow"})))
    }

    #[tool(description = "Fails.")]
    fn fail(&self) -> Result<CallToolResult, ErrorData> {
        Err(ErrorData::internal_error("it failed", None))
    }

    #[tool(description = "Fails politely.")]
    fn refuse(&self) -> CallToolResult {
        CallToolResult::error(vec![ContentBlock::text("it was refused")])
    }

    #[tool(description = "Panics.")]
    #[allow(clippy::panic, reason = "a function that panics is what the tests ask for")]
    fn panic(&self) -> String {
        panic!("as asked")
    }

    #[tool(name = "_Stop", description = "Has nothing to say.")]
    fn stop(&self) -> String {
        String::new()
    }
}

#[tool_handler]
impl ServerHandler for Echo {}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some(at) = args.iter().position(|a| a == "--http") else {
        Echo.serve(rmcp::transport::stdio()).await?.waiting().await?;
        return Ok(());
    };
    let listener = tokio::net::TcpListener::bind(args.get(at + 1).map_or("127.0.0.1:0", String::as_str)).await?;
    writeln!(std::io::stdout(), "{}", listener.local_addr()?)?;
    let mut config = StreamableHttpServerConfig::default();
    config.legacy_session_mode = !args.iter().any(|a| a == "--stateless");
    config.json_response = args.iter().any(|a| a == "--json");
    let service = StreamableHttpService::new(|| Ok(Echo), Arc::new(LocalSessionManager::default()), config);
    axum::serve(listener, axum::Router::new().nest_service("/mcp", service)).await?;
    Ok(())
}
