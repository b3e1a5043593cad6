//! What all tests need.

use hookwright_core::FunctionName;
use hookwright_mcp::{HostConfig, McpHost, ToolSpec, Transport};
use hookwright_runtime::ports::tools::{CallOutcome, ToolState, ToolStatus, Tools};
use hookwright_testkit::bins::bin;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longer than anything takes on a busy machine.
pub const LONG: Duration = Duration::from_mins(1);

pub fn stdio(id: &str, command: Vec<String>) -> ToolSpec {
    // The PATH of the build: tests read no environment.
    let env = vec![("PATH".to_owned(), env!("PATH").to_owned())];
    ToolSpec::new(id, Transport::Stdio { command, cwd: std::env::temp_dir(), env })
}

/// A tool on a scripted server.
pub fn scripted(id: &str, script: &Value) -> ToolSpec {
    stdio(id, vec![bin("scripted-mcp").display().to_string(), "--json".into(), script.to_string()])
}

/// A tool whose functions do as given, beside `echo`.
pub fn tool(id: &str, functions: &[(&str, Value)]) -> ToolSpec {
    scripted(id, &script(functions))
}

pub fn script(functions: &[(&str, Value)]) -> Value {
    let mut tools = vec![json!({"name": "echo", "inputSchema": {"type": "object"}})];
    for (name, behaviour) in functions {
        tools.push(json!({"name": name, "inputSchema": {"type": "object"}, "behaviour": behaviour}));
    }
    json!({"tools": tools})
}

/// A tool on a real rmcp server.
pub fn rmcp(id: &str) -> ToolSpec {
    stdio(id, vec![bin("rmcp-echo").display().to_string()])
}

/// Short pauses, for tests.
pub fn quick() -> HostConfig {
    HostConfig {
        backoff_first: Duration::from_millis(50),
        backoff_max: Duration::from_millis(200),
        ..HostConfig::default()
    }
}

pub fn host(specs: Vec<ToolSpec>) -> Arc<McpHost> {
    McpHost::start(specs, quick())
}

/// A host with a healthy tool `good` beside, all ready.
pub async fn with_good(spec: ToolSpec) -> Arc<McpHost> {
    with_good_and(spec, quick()).await
}

pub async fn with_good_and(spec: ToolSpec, config: HostConfig) -> Arc<McpHost> {
    let id = spec.id.clone();
    let host = McpHost::start(vec![spec, tool("good", &[])], config);
    host.ready("good").await.unwrap();
    host.ready(&id).await.unwrap();
    host
}

pub async fn call(host: &McpHost, name: &str, arguments: Value, timeout: Duration) -> CallOutcome {
    let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
    host.call(&FunctionName::parse(name).unwrap(), arguments, timeout).await
}

/// Calls without arguments and a long timeout; the result.
pub async fn result(host: &McpHost, name: &str) -> Value {
    match call(host, name, json!({}), LONG).await {
        CallOutcome::Answered { result, .. } => result,
        other => panic!("{name}: {other:?}"),
    }
}

pub async fn lost(host: &McpHost, name: &str) -> String {
    match call(host, name, json!({}), LONG).await {
        CallOutcome::Lost { why } => why,
        other => panic!("{name}: {other:?}"),
    }
}

/// The healthy tool answers as if nothing were.
pub async fn good_is_unharmed(host: &McpHost) {
    for n in 0..20 {
        let started = Instant::now();
        match call(host, "good.echo", json!({"n": n}), LONG).await {
            CallOutcome::Answered { result, .. } => assert_eq!(result["structuredContent"], json!({"n": n})),
            other => panic!("{other:?}"),
        }
        assert!(started.elapsed() < Duration::from_secs(5), "the healthy tool was held up for {:?}", started.elapsed());
    }
    let good = status(host, "good");
    assert_eq!((good.state, good.starts), (ToolState::Ready, 1));
}

pub fn status(host: &McpHost, tool: &str) -> ToolStatus {
    host.status().into_iter().find(|s| s.tool == tool).unwrap()
}

/// Waits until something holds.
pub async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < LONG, "never: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

pub async fn until_state(host: &McpHost, tool: &str, state: ToolState) {
    until(&format!("{tool} is {state:?}"), || status(host, tool).state == state).await;
}

/// Waits until a tool's server is connected after so many starts.
pub async fn until_again(host: &McpHost, tool: &str, starts: u32) {
    let again = || {
        let now = status(host, tool);
        now.starts == starts && now.state == ToolState::Ready
    };
    until(&format!("{tool} is ready after {starts} starts"), again).await;
}

/// A folder for a test's files.
pub struct Files(tempfile::TempDir);

impl Files {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn name(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// The messages that a server logged so far.
    pub fn log(&self, name: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.path(name)).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Waits for a message in a server's log.
    pub async fn logged(&self, name: &str, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let mut found = None;
        until(what, || {
            found = self.log(name).into_iter().find(|m| fits(m));
            found.is_some()
        })
        .await;
        found.unwrap()
    }

    /// Waits for a process's id in a file.
    pub async fn pid(&self, name: &str) -> u32 {
        let mut pid = None;
        until("a process's id is written", || {
            pid = std::fs::read_to_string(self.path(name)).ok().and_then(|text| text.trim().parse().ok());
            pid.is_some()
        })
        .await;
        pid.unwrap()
    }
}

/// Whether a process lives (a zombie does not).
pub fn lives(pid: u32) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

pub fn is_cancelled(message: &Value) -> bool {
    message["method"] == "notifications/cancelled"
}

pub fn arguments(bytes: usize) -> Map<String, Value> {
    [("text".to_owned(), Value::String("x".repeat(bytes)))].into_iter().collect()
}
