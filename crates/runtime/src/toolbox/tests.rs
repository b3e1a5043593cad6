//! Which host serves what.

use super::*;
use crate::ports::tools::ToolState;
use serde_json::json;

/// Serves tools of these ids, and says its own name as the result of every call.
struct Named(&'static str, &'static [&'static str], broadcast::Sender<ToolStatus>);

impl Named {
    fn new(name: &'static str, tools: &'static [&'static str]) -> Arc<Self> {
        Arc::new(Self(name, tools, broadcast::Sender::new(8)))
    }
}

fn state(tool: &str, state: ToolState) -> ToolStatus {
    ToolStatus { tool: tool.into(), state, starts: 1, last_error: None, server: None, protocol: None }
}

#[async_trait::async_trait]
impl Tools for Named {
    async fn ready(&self, _: &str) -> Result<(), ToolDown> {
        Err(ToolDown { why: self.0.into() })
    }
    async fn functions(&self, _: &str) -> Result<Vec<ListedFunction>, ToolDown> {
        Err(ToolDown { why: self.0.into() })
    }
    async fn call(&self, _: &FunctionName, _: Map<String, Value>, _: Duration) -> CallOutcome {
        CallOutcome::Answered { result: json!(self.0), duplicate_key: false }
    }
    async fn kill(&self, _: &str, why: &str) -> bool {
        why == self.0
    }
    fn status(&self) -> Vec<ToolStatus> {
        self.1.iter().map(|tool| state(tool, ToolState::Ready)).collect()
    }
    fn changes(&self) -> Option<broadcast::Receiver<ToolStatus>> {
        Some(self.2.subscribe())
    }
    async fn shutdown(&self) {
        drop(self.2.send(state(self.0, ToolState::Failed)));
    }
}

#[tokio::test]
async fn a_tool_is_served_by_the_session_where_it_has_it_and_else_by_the_node() {
    let (node, own) = (Named::new("node", &["git", "web"]), Named::new("own", &["todo", "web"]));
    let tools = Toolbox::new(node.clone(), Some(own.clone()));
    let ids: Vec<_> = tools.status().into_iter().map(|s| s.tool).collect();
    assert_eq!(ids, ["git", "todo", "web"]);
    for (tool, home) in [("git", "node"), ("todo", "own"), ("web", "own"), ("nobody", "node")] {
        assert_eq!(tools.ready(tool).await.unwrap_err().why, home);
        assert_eq!(tools.functions(tool).await.unwrap_err().why, home);
        assert!(tools.kill(tool, home).await, "{tool}");
        let called = tools.call(&FunctionName::new(tool, "f"), Map::new(), Duration::from_secs(1)).await;
        assert!(matches!(called, CallOutcome::Answered { result, .. } if result == json!(home)), "{tool}");
    }
}

#[tokio::test]
async fn changes_of_both_are_heard_and_the_nodes_servers_outlive_the_session() {
    let (node, own) = (Named::new("node", &["git"]), Named::new("own", &["todo"]));
    let mut of_node = node.2.subscribe();
    let tools = Toolbox::new(node.clone(), Some(own.clone()));
    let mut changes = tools.changes().unwrap();
    node.2.send(state("git", ToolState::Restarting)).unwrap();
    assert_eq!(changes.recv().await.unwrap().tool, "git");
    tools.shutdown().await;
    assert_eq!(changes.recv().await.unwrap().tool, "own");
    assert_eq!(of_node.recv().await.unwrap().tool, "git");
    assert!(of_node.try_recv().is_err(), "the node's host was not shut down");
}
