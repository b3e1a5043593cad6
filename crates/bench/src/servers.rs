//! What is called: a real server on rmcp through rmcp's client, through our host, and hooks as spawned commands.

use crate::work::{CALLED, POLICY};
use anyhow::{Context as _, Result, bail};
use hookwright_core::FunctionName;
use hookwright_mcp::{HostConfig, McpHost, ToolSpec, Transport};
use hookwright_runtime::ports::tools::{CallOutcome, ListedFunction, ToolDown, ToolStatus, Tools};
use rmcp::ServiceExt as _;
use rmcp::model::CallToolRequestParams;
use rmcp::service::{RoleClient, RunningService};
use rmcp::transport::TokioChildProcess;
use serde_json::{Map, Value, json};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt as _;

/// How long an answer is waited for.
const LIMIT: Duration = Duration::from_secs(30);

/// rmcp's own client, connected to the server.
pub(crate) type Bare = Arc<RunningService<RoleClient, ()>>;

/// Connects rmcp's client to a server of its own.
pub(crate) async fn bare(server: &Path) -> Result<Bare> {
    let child = TokioChildProcess::new(tokio::process::Command::new(server)).context("start the server")?;
    Ok(Arc::new(().serve(child).await.context("connect to the server")?))
}

fn as_map(arguments: &Value) -> Map<String, Value> {
    arguments.as_object().cloned().unwrap_or_default()
}

/// Times of calls through rmcp's client, one after the other.
pub(crate) async fn bare_calls(client: Bare, arguments: Value, count: u32) -> Result<Vec<Duration>> {
    bare_calls_to(client, "echo", arguments, count).await
}

/// The same, of a function that is called otherwise.
pub(crate) async fn bare_calls_to(
    client: Bare,
    function: &'static str,
    arguments: Value,
    count: u32,
) -> Result<Vec<Duration>> {
    let mut times = Vec::new();
    for _ in 0..count {
        let since = Instant::now();
        let params = CallToolRequestParams::new(function).with_arguments(as_map(&arguments));
        let result = client.peer().call_tool(params).await?;
        times.push(since.elapsed());
        if result.is_error == Some(true) || result.content.is_empty() {
            bail!("the server did not echo");
        }
    }
    Ok(times)
}

/// Our host with two servers: one is called, the other is the hook.
pub(crate) async fn host(server: &Path) -> Result<Arc<McpHost>> {
    let cwd = server.parent().context("the server's folder")?;
    let spec = |id: &str| {
        let command = vec![server.display().to_string()];
        ToolSpec::new(id, Transport::Stdio { command, cwd: cwd.to_owned(), env: vec![] })
    };
    let host = McpHost::start(vec![spec(CALLED), spec(POLICY)], HostConfig::default());
    host.ready(CALLED).await?;
    host.ready(POLICY).await?;
    Ok(host)
}

/// Times of calls through our host, one after the other; with `asked`, of an ask of the hook's function and the call together.
pub(crate) async fn host_calls(host: Arc<McpHost>, arguments: Value, asked: bool, count: u32) -> Result<Vec<Duration>> {
    let (called, policy) = (FunctionName::new(CALLED, "echo"), FunctionName::new(POLICY, "decide"));
    let event = json!({"event": {
        "event": "pre_tool_call", "job": "job_0000000000000000", "agent": "worker", "tenant": "default", "node": "bench",
        "call": "t1.c0", "tool": "work.echo", "arguments": arguments,
    }});
    let mut times = Vec::new();
    for _ in 0..count {
        let since = Instant::now();
        let first = if asked { Some(host.call(&policy, as_map(&event), LIMIT).await) } else { None };
        let outcome = host.call(&called, as_map(&arguments), LIMIT).await;
        times.push(since.elapsed());
        for outcome in first.into_iter().chain([outcome]) {
            if !matches!(outcome, CallOutcome::Answered { .. }) {
                bail!("the server did not answer: {outcome:?}");
            }
        }
    }
    Ok(times)
}

/// A tenant's tools, but for the hook: that is a command, which gets the event on stdin and answers on stdout.
pub(crate) struct Commands {
    pub(crate) host: Arc<McpHost>,
    pub(crate) command: Vec<String>,
}

impl Commands {
    async fn ask(&self, arguments: Map<String, Value>) -> Result<Value> {
        let (program, rest) = self.command.split_first().context("a command")?;
        let mut child = tokio::process::Command::new(program)
            .args(rest)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let mut stdin = child.stdin.take().context("a stdin")?;
        stdin.write_all(&serde_json::to_vec(&arguments)?).await?;
        drop(stdin);
        let output = child.wait_with_output().await?;
        Ok(json!({"structuredContent": serde_json::from_slice::<Value>(&output.stdout)?}))
    }
}

#[async_trait::async_trait]
impl Tools for Commands {
    async fn ready(&self, tool: &str) -> Result<(), ToolDown> {
        self.host.ready(tool).await
    }

    async fn functions(&self, tool: &str) -> Result<Vec<ListedFunction>, ToolDown> {
        self.host.functions(tool).await
    }

    async fn call(&self, name: &FunctionName, arguments: Map<String, Value>, timeout: Duration) -> CallOutcome {
        if name.tool() != POLICY {
            return self.host.call(name, arguments, timeout).await;
        }
        match self.ask(arguments).await {
            Ok(result) => CallOutcome::Answered { result, duplicate_key: false },
            Err(error) => CallOutcome::Lost { why: format!("{error:#}") },
        }
    }

    async fn kill(&self, tool: &str, why: &str) -> bool {
        self.host.kill(tool, why).await
    }

    fn status(&self) -> Vec<ToolStatus> {
        self.host.status()
    }

    async fn shutdown(&self) {}
}

/// Commands that allow everything: the shell's, and Python's where there is one.
pub(crate) fn commands() -> Vec<(&'static str, &'static str, Vec<String>)> {
    let command = |parts: [&str; 3]| parts.map(str::to_owned).to_vec();
    let allow = r#"{"decision":"allow"}"#;
    let shell = format!("cat >/dev/null; echo '{allow}'");
    let mut found = vec![("sh", "the hook is `sh -c …`, spawned for each ask", command(["sh", "-c", &shell]))];
    // The interpreter itself: what stands on the PATH may be a script that looks for it.
    let asked = std::process::Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output();
    if let Ok(asked) = asked
        && asked.status.success()
    {
        let python = String::from_utf8_lossy(&asked.stdout).trim().to_owned();
        let code = format!("import json, sys; json.load(sys.stdin); print('{allow}')");
        found.push(("python", "the hook is `python3 -c …`, spawned for each ask", command([&python, "-c", &code])));
    }
    found
}
