//! All tools of a tenant.

use crate::config::HostConfig;
use crate::heard::Heard;
use crate::link::Link;
use crate::spec::ToolSpec;
use crate::tool::Tool;
use hookwright_core::FunctionName;
use hookwright_core::text::escape;
use hookwright_runtime::ports::tools::{
    CallOutcome, Introduction, ListedFunction, Peer, Progress, ToolDown, ToolStatus, Tools,
};
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast;
use tokio::task::JoinSet;

/// The MCP servers of a tenant's tools.
///
/// Dropping it kills all servers at once; [`Tools::shutdown`] lets them leave first.
pub struct McpHost {
    tools: Vec<Arc<Tool>>,
    changes: broadcast::Sender<ToolStatus>,
    lists: broadcast::Sender<String>,
}

/// What a server has in work now, for metrics and tests. Zero for HTTP servers but `in_flight`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Requests whose answer is waited for.
    pub in_flight: usize,
    /// Bytes that the server has yet to read from us.
    pub queued_bytes: usize,
    /// Calls whose time is over and whose answer may still come.
    pub late: usize,
}

impl McpHost {
    /// Starts all servers, in parallel and in the background; returns at once. Within a Tokio runtime.
    ///
    /// One that can't be started is [`hookwright_runtime::ports::tools::ToolState::Failed`]; the others don't notice.
    pub fn start(specs: Vec<ToolSpec>, config: HostConfig) -> Arc<Self> {
        Self::start_between(specs, config, None)
    }

    /// As [`McpHost::start`], between the servers and another side, which gets what they ask for and tell beside the results of calls.
    pub fn start_between(specs: Vec<ToolSpec>, config: HostConfig, peer: Option<Arc<dyn Peer>>) -> Arc<Self> {
        let lists = broadcast::Sender::new(config.changes_kept.max(1));
        let config = Arc::new(config);
        let changes = broadcast::Sender::new(config.changes_kept.max(1));
        let tools: Vec<_> = specs
            .into_iter()
            .map(|spec| {
                let heard = Heard::new(&spec.id, lists.clone(), peer.clone());
                Tool::new(spec, Arc::clone(&config), changes.clone(), heard)
            })
            .collect();
        for tool in &tools {
            tokio::spawn(Arc::clone(tool).supervise());
        }
        Arc::new(Self { tools, changes, lists })
    }

    /// Each change of a tool's status from now on.
    pub fn changes(&self) -> broadcast::Receiver<ToolStatus> {
        self.changes.subscribe()
    }

    /// What a tool's server has in work; `None` where it is not connected.
    pub fn gauges(&self, tool: &str) -> Option<Gauges> {
        let connection = self.tool(tool).ok()?.connection()?;
        Some(match &connection.link {
            Link::Stdio(link) => {
                let (in_flight, queued_bytes, late) = link.pipe().gauges();
                Gauges { in_flight, queued_bytes, late }
            }
            Link::Http(link) => Gauges { in_flight: link.in_flight(), ..Gauges::default() },
        })
    }

    fn tool(&self, id: &str) -> Result<&Arc<Tool>, ToolDown> {
        self.tools
            .iter()
            .find(|tool| tool.id() == id)
            .ok_or_else(|| ToolDown { why: format!("there is no tool {}", escape(id)) })
    }
}

#[async_trait::async_trait]
impl Tools for McpHost {
    async fn ready(&self, tool: &str) -> Result<(), ToolDown> {
        self.tool(tool)?.ready().await.map(|_| ())
    }

    async fn functions(&self, tool: &str) -> Result<Vec<ListedFunction>, ToolDown> {
        self.tool(tool)?.functions().await
    }

    async fn call(&self, name: &FunctionName, arguments: Map<String, Value>, timeout: Duration) -> CallOutcome {
        match self.tool(name.tool()) {
            Ok(tool) => tool.call(name.function(), &arguments, timeout, None).await,
            Err(ToolDown { why }) => CallOutcome::NotSent { why },
        }
    }

    async fn call_telling(
        &self,
        name: &FunctionName,
        arguments: Map<String, Value>,
        timeout: Duration,
        progress: Option<Progress>,
    ) -> CallOutcome {
        match self.tool(name.tool()) {
            Ok(tool) => tool.call(name.function(), &arguments, timeout, progress).await,
            Err(ToolDown { why }) => CallOutcome::NotSent { why },
        }
    }

    async fn pass(&self, tool: &str, method: &'static str, params: Value, timeout: Duration) -> CallOutcome {
        match self.tool(tool) {
            Ok(tool) => tool.pass(method, params, timeout).await,
            Err(ToolDown { why }) => CallOutcome::NotSent { why },
        }
    }

    async fn notify(&self, tool: &str, method: &'static str, params: Value) {
        if let Some(connection) = self.tool(tool).ok().and_then(|tool| tool.connection()) {
            connection.link.notify(method, params).await;
        }
    }

    fn introduction(&self, tool: &str) -> Option<Introduction> {
        Some(self.tool(tool).ok()?.connection()?.session.introduction.clone())
    }

    fn list_changes(&self) -> Option<broadcast::Receiver<String>> {
        Some(self.lists.subscribe())
    }

    async fn kill(&self, tool: &str, why: &str) -> bool {
        match self.tool(tool) {
            Ok(tool) => tool.kill_server(why).await,
            Err(_) => false,
        }
    }

    fn status(&self) -> Vec<ToolStatus> {
        self.tools.iter().map(|tool| tool.status()).collect()
    }

    fn changes(&self) -> Option<broadcast::Receiver<ToolStatus>> {
        Some(self.changes.subscribe())
    }

    async fn shutdown(&self) {
        let mut leaving: JoinSet<()> =
            self.tools.iter().cloned().map(|tool| async move { tool.shutdown().await }).collect();
        while leaving.join_next().await.is_some() {}
    }
}

impl Drop for McpHost {
    fn drop(&mut self) {
        for tool in &self.tools {
            tool.kill();
        }
    }
}
