//! How patient this process still is with each server.

use crate::ports::tools::{CallOutcome, ListedFunction, ToolDown, ToolStatus, Tools};
use hookwright_core::FunctionName;
use hookwright_core::lifecycle::{Patience, Strike};
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::broadcast;

/// The patience with each server, shared by all jobs that share the servers.
#[derive(Debug, Default)]
pub struct Standing(Mutex<HashMap<String, Patience>>);

impl Standing {
    pub(super) fn timed_out(&self, tool: &str, run: u32) -> Strike {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(tool.to_owned()).or_default().timed_out(run)
    }

    fn completed(&self, tool: &str) {
        if let Some(patience) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get_mut(tool) {
            patience.completed();
        }
    }
}

/// Tools whose completed calls, of whatever kind, are noted.
pub(crate) struct Watched {
    inner: Arc<dyn Tools>,
    standing: Arc<Standing>,
}

impl Watched {
    pub(crate) fn new(inner: Arc<dyn Tools>, standing: Arc<Standing>) -> Arc<Self> {
        Arc::new(Self { inner, standing })
    }
}

#[async_trait::async_trait]
impl Tools for Watched {
    async fn ready(&self, tool: &str) -> Result<(), ToolDown> {
        self.inner.ready(tool).await
    }
    async fn functions(&self, tool: &str) -> Result<Vec<ListedFunction>, ToolDown> {
        self.inner.functions(tool).await
    }
    async fn call(&self, name: &FunctionName, arguments: Map<String, Value>, timeout: Duration) -> CallOutcome {
        let outcome = self.inner.call(name, arguments, timeout).await;
        if matches!(outcome, CallOutcome::Answered { .. } | CallOutcome::RpcError { .. }) {
            self.standing.completed(name.tool());
        }
        outcome
    }
    async fn kill(&self, tool: &str, why: &str) -> bool {
        self.inner.kill(tool, why).await
    }
    fn status(&self) -> Vec<ToolStatus> {
        self.inner.status()
    }
    fn changes(&self) -> Option<broadcast::Receiver<ToolStatus>> {
        self.inner.changes()
    }
    async fn shutdown(&self) {
        self.inner.shutdown().await;
    }
}
