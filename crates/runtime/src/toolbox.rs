//! The tools of one session: those of the node, and servers of its own (SPEC §2 `scope`).
//!
//! Invariant: an id names one tool; where both have it, the session's own counts.
//! Invariant: a session that nothing runs in costs no task.

use crate::ports::tools::{CallOutcome, Introduction, ListedFunction, Progress, ToolDown, ToolStatus, Tools};
use hookwright_core::FunctionName;
use serde_json::{Map, Value};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast;

/// Changes that a listener may be behind.
const CHANGES: usize = 64;

/// The node's tools and a session's own, as one.
pub struct Toolbox {
    node: Arc<dyn Tools>,
    own: Option<Arc<dyn Tools>>,
    ids: HashSet<String>,
}

impl Toolbox {
    /// Of the node's tools and, where the session has servers of its own, those.
    pub fn new(node: Arc<dyn Tools>, own: Option<Arc<dyn Tools>>) -> Arc<Self> {
        let ids = own.iter().flat_map(|own| own.status()).map(|status| status.tool).collect();
        Arc::new(Self { node, own, ids })
    }

    fn home(&self, tool: &str) -> &dyn Tools {
        match &self.own {
            Some(own) if self.ids.contains(tool) => &**own,
            _ => &*self.node,
        }
    }
}

/// What comes on either, on one.
fn merged<T: Clone + Send + 'static>(
    node: Option<broadcast::Receiver<T>>,
    own: Option<broadcast::Receiver<T>>,
) -> Option<broadcast::Receiver<T>> {
    let Some(own) = own else { return node };
    let Some(node) = node else { return Some(own) };
    let sender = broadcast::Sender::new(CHANGES);
    let receiver = sender.subscribe();
    for mut changes in [node, own] {
        let sender = sender.clone();
        tokio::spawn(async move {
            loop {
                let change = tokio::select! {
                    change = changes.recv() => change,
                    () = sender.closed() => return,
                };
                match change {
                    Ok(change) => drop(sender.send(change)),
                    Err(broadcast::error::RecvError::Lagged(_)) => {}
                    Err(broadcast::error::RecvError::Closed) => return,
                }
            }
        });
    }
    Some(receiver)
}

#[async_trait::async_trait]
impl Tools for Toolbox {
    async fn ready(&self, tool: &str) -> Result<(), ToolDown> {
        self.home(tool).ready(tool).await
    }

    async fn functions(&self, tool: &str) -> Result<Vec<ListedFunction>, ToolDown> {
        self.home(tool).functions(tool).await
    }

    async fn call(&self, name: &FunctionName, arguments: Map<String, Value>, timeout: Duration) -> CallOutcome {
        self.home(name.tool()).call(name, arguments, timeout).await
    }

    async fn call_telling(
        &self,
        name: &FunctionName,
        arguments: Map<String, Value>,
        timeout: Duration,
        progress: Option<Progress>,
    ) -> CallOutcome {
        self.home(name.tool()).call_telling(name, arguments, timeout, progress).await
    }

    async fn pass(&self, tool: &str, method: &'static str, params: Value, timeout: Duration) -> CallOutcome {
        self.home(tool).pass(tool, method, params, timeout).await
    }

    async fn notify(&self, tool: &str, method: &'static str, params: Value) {
        self.home(tool).notify(tool, method, params).await;
    }

    fn introduction(&self, tool: &str) -> Option<Introduction> {
        self.home(tool).introduction(tool)
    }

    async fn kill(&self, tool: &str, why: &str) -> bool {
        self.home(tool).kill(tool, why).await
    }

    fn status(&self) -> Vec<ToolStatus> {
        let node = self.node.status().into_iter().filter(|status| !self.ids.contains(&status.tool));
        node.chain(self.own.iter().flat_map(|own| own.status())).collect()
    }

    fn changes(&self) -> Option<broadcast::Receiver<ToolStatus>> {
        merged(self.node.changes(), self.own.as_ref().and_then(|own| own.changes()))
    }

    fn list_changes(&self) -> Option<broadcast::Receiver<String>> {
        merged(self.node.list_changes(), self.own.as_ref().and_then(|own| own.list_changes()))
    }

    /// Ends the session's own servers; the node's serve others too.
    async fn shutdown(&self) {
        if let Some(own) = &self.own {
            own.shutdown().await;
        }
    }
}

#[cfg(test)]
mod tests;
