//! How patient this process still is with each server.

use super::Seen;
use crate::ports::tools::{CallOutcome, Introduction, ListedFunction, Progress, ToolDown, ToolStatus, Tools};
use hookwright_core::FunctionName;
use hookwright_core::lifecycle::{Patience, Strike};
use serde_json::{Map, Value};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::broadcast;

/// What this process knows of servers that it asks for advice: how patient it still is with each, and which hooks each was seen to
/// list. Shared by all jobs that share the servers.
#[derive(Debug, Default)]
pub struct Standing {
    patience: Mutex<HashMap<String, Patience>>,
    seen: Mutex<HashMap<String, Seen>>,
    /// What is known of servers that others share, and the servers that are not among those.
    shared: Option<(Arc<Standing>, HashSet<String>)>,
}

impl Standing {
    /// That of jobs which have these servers for themselves, beside those whose standing is `shared` with others.
    pub fn beside(shared: Arc<Self>, own: HashSet<String>) -> Self {
        Self { shared: Some((shared, own)), ..Self::default() }
    }

    /// Where a server's standing is.
    fn of(&self, tool: &str) -> &Self {
        match &self.shared {
            Some((shared, own)) if !own.contains(tool) => shared.of(tool),
            Some(_) | None => self,
        }
    }

    pub(super) fn seen(&self, tool: &str) -> Option<Seen> {
        self.of(tool).seen.lock().unwrap_or_else(PoisonError::into_inner).get(tool).cloned()
    }

    pub(super) fn all_seen(&self) -> HashMap<String, Seen> {
        let mut all = self.shared.as_ref().map(|(shared, _)| shared.all_seen()).unwrap_or_default();
        all.extend(self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone());
        all
    }

    pub(super) fn saw(&self, tool: &str, seen: Seen) {
        self.of(tool).seen.lock().unwrap_or_else(PoisonError::into_inner).insert(tool.to_owned(), seen);
    }

    pub(super) fn timed_out(&self, tool: &str, run: u32) -> Strike {
        let mut all = self.of(tool).patience.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(tool.to_owned()).or_default().timed_out(run)
    }

    fn completed(&self, tool: &str) {
        if let Some(patience) = self.of(tool).patience.lock().unwrap_or_else(PoisonError::into_inner).get_mut(tool) {
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
    async fn call_telling(
        &self,
        name: &FunctionName,
        arguments: Map<String, Value>,
        timeout: Duration,
        progress: Option<Progress>,
    ) -> CallOutcome {
        let outcome = self.inner.call_telling(name, arguments, timeout, progress).await;
        if matches!(outcome, CallOutcome::Answered { .. } | CallOutcome::RpcError { .. }) {
            self.standing.completed(name.tool());
        }
        outcome
    }
    fn introduction(&self, tool: &str) -> Option<Introduction> {
        self.inner.introduction(tool)
    }
    fn list_changes(&self) -> Option<broadcast::Receiver<String>> {
        self.inner.list_changes()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_with_a_shared_server_is_everybodys_and_with_an_own_one_nobody_elses() {
        let shared = Arc::<Standing>::default();
        let own = || HashSet::from(["own".to_owned()]);
        let (one, two) = (Standing::beside(shared.clone(), own()), Standing::beside(shared, own()));
        assert_ne!(one.timed_out("node", 1), Strike::Kill);
        assert_eq!(two.timed_out("node", 1), Strike::Kill);
        assert_ne!(one.timed_out("own", 1), Strike::Kill);
        assert_ne!(two.timed_out("own", 1), Strike::Kill);
        one.saw("node", Seen::default());
        one.saw("own", Seen::default());
        let mut seen: Vec<_> = two.all_seen().into_keys().collect();
        seen.extend(one.all_seen().into_keys());
        seen.sort();
        assert_eq!(seen, ["node", "node", "own"]);
    }
}
