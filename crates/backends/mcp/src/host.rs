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
/// Dropping it kills all servers at once; [`Tools::shutdown`] lets them leave first. Neither concerns servers that a later host has taken over
/// ([`McpHost::start_after`]).
pub struct McpHost {
    tools: Vec<Arc<Held>>,
    config: Arc<HostConfig>,
    changes: broadcast::Sender<ToolStatus>,
    lists: broadcast::Sender<String>,
}

/// A tool that one host or several have. Its server is killed with the last of them.
struct Held(Arc<Tool>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.kill();
    }
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
        let (changes, lists) = senders(&config);
        Self::assemble(specs, Arc::new(config), (changes, lists), peer, &[]).0
    }

    /// As [`McpHost::start`], after another host: servers whose declaration is the same are not started again, both hosts have them. Their
    /// tools are named.
    pub fn start_after(specs: Vec<ToolSpec>, config: HostConfig, before: Option<&Self>) -> (Arc<Self>, Vec<String>) {
        // A server keeps the limits that it was started with.
        let Some(before) = before.filter(|before| before.config.message_bytes == config.message_bytes) else {
            let told = senders(&config);
            return Self::assemble(specs, Arc::new(config), told, None, &[]);
        };
        let told = (before.changes.clone(), before.lists.clone());
        Self::assemble(specs, before.config.clone(), told, None, &before.tools)
    }

    fn assemble(
        specs: Vec<ToolSpec>,
        config: Arc<HostConfig>,
        (changes, lists): (broadcast::Sender<ToolStatus>, broadcast::Sender<String>),
        peer: Option<Arc<dyn Peer>>,
        before: &[Arc<Held>],
    ) -> (Arc<Self>, Vec<String>) {
        let (mut tools, mut kept) = (Vec::with_capacity(specs.len()), vec![]);
        for spec in specs {
            if let Some(held) = before.iter().find(|held| held.0.spec().is_as(&spec)) {
                kept.push(spec.id);
                tools.push(Arc::clone(held));
                continue;
            }
            let heard = Heard::new(&spec.id, lists.clone(), peer.clone());
            let tool = Tool::new(spec, Arc::clone(&config), changes.clone(), heard);
            tokio::spawn(Arc::clone(&tool).supervise());
            tools.push(Arc::new(Held(tool)));
        }
        (Arc::new(Self { tools, config, changes, lists }), kept)
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
            .map(|held| &held.0)
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
        self.tools.iter().map(|held| held.0.status()).collect()
    }

    fn changes(&self) -> Option<broadcast::Receiver<ToolStatus>> {
        Some(self.changes.subscribe())
    }

    async fn shutdown(&self) {
        // One that another host has too goes on with that.
        let own = self.tools.iter().filter(|held| Arc::strong_count(held) == 1).map(|held| Arc::clone(&held.0));
        let mut leaving: JoinSet<()> = own.map(|tool| async move { tool.shutdown().await }).collect();
        while leaving.join_next().await.is_some() {}
    }
}

fn senders(config: &HostConfig) -> (broadcast::Sender<ToolStatus>, broadcast::Sender<String>) {
    (broadcast::Sender::new(config.changes_kept.max(1)), broadcast::Sender::new(config.changes_kept.max(1)))
}
