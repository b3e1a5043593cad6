//! The MCP server.
//!
//! Invariant: `_Stop` and `_PostCompact` only read the list. An agent may ask them at any time, and twice.

use crate::list::{List, ListError};
use rmcp::handler::server::wrapper::Parameters;
use rmcp::{ServiceExt, tool, tool_router};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Arguments of `add`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Add {
    /// One line each, in the order they are to be done.
    pub items: Vec<String>,
}

/// Arguments of `tick` and `drop`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Numbers {
    /// The items' numbers.
    pub numbers: Vec<usize>,
}

/// What `_Stop` would like to know. An agent sends only what this schema names (SPEC §9).
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Stop {
    /// How many objections will be heard after this one.
    pub rejections_left: Option<u32>,
}

/// A to-do list of one session.
#[derive(Clone, Default)]
pub struct TodoServer {
    list: Arc<Mutex<List>>,
}

impl TodoServer {
    fn list(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut List) -> Result<(), ListError>) -> Result<String, String> {
        let mut list = self.list();
        change(&mut list).map_err(|e| e.to_string())?;
        Ok(list.shown().unwrap_or_else(|| "The to-do list is empty.".to_owned()))
    }
}

#[tool_router(server_handler)]
impl TodoServer {
    /// Add items to the to-do list. Plan the task with it before you begin.
    #[tool(annotations(destructive_hint = false))]
    fn add(&self, Parameters(add): Parameters<Add>) -> Result<String, String> {
        self.change(|list| list.add(&add.items).map(drop))
    }

    /// Mark items as done, as soon as they are.
    #[tool(annotations(destructive_hint = false))]
    fn tick(&self, Parameters(items): Parameters<Numbers>) -> Result<String, String> {
        self.change(|list| list.tick(&items.numbers))
    }

    /// Take items off the list that turned out not to be needed.
    #[tool(name = "drop", annotations(destructive_hint = true))]
    fn drop_items(&self, Parameters(items): Parameters<Numbers>) -> Result<String, String> {
        self.change(|list| list.drop_items(&items.numbers))
    }

    /// Show the to-do list.
    #[tool(name = "list", annotations(read_only_hint = true))]
    fn show(&self) -> String {
        self.list().shown().unwrap_or_else(|| "The to-do list is empty.".to_owned())
    }

    /// Asked by the agent when the model ends its turn: objects while items are open.
    #[tool(name = "_Stop", annotations(read_only_hint = true))]
    fn stop(&self, Parameters(stop): Parameters<Stop>) -> String {
        self.list().objection(stop.rejections_left).unwrap_or_default()
    }

    /// Asked by the agent after a compaction: the list, which the summary may have lost.
    #[tool(name = "_PostCompact", annotations(read_only_hint = true))]
    fn post_compact(&self) -> String {
        self.list().shown().unwrap_or_default()
    }
}

/// Serves a new list on the standard streams, until the client closes them.
pub async fn serve() -> Result<(), ServeError> {
    let service = TodoServer::default().serve(rmcp::transport::stdio()).await.map_err(|e| ServeError(e.to_string()))?;
    service.waiting().await.map_err(|e| ServeError(e.to_string()))?;
    Ok(())
}

/// The server could not start, or broke.
#[derive(Debug, thiserror::Error)]
#[error("failed to serve: {0}")]
pub struct ServeError(String);
