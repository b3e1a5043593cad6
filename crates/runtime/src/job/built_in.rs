//! The built-in functions among the tools of a job: what their lists and states are. They are called elsewhere.

use crate::ports::tools::{
    CallOutcome, Introduction, ListedFunction, Progress, ToolDown, ToolState, ToolStatus, Tools,
};
use crate::values::Values;
use hookwright_core::job::JobSpec;
use hookwright_core::{FunctionName, subagent};
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OnceCell, broadcast};

/// A job's tools with the built-in one, [`subagent::TOOL`], behind them.
pub(super) struct WithBuiltIn {
    inner: Arc<dyn Tools>,
    spec: JobSpec,
    values: Values,
    start: OnceCell<ListedFunction>,
}

impl WithBuiltIn {
    /// The tools as they are where the job may start no subagent.
    pub(super) fn of(inner: Arc<dyn Tools>, spec: &JobSpec, values: Values) -> Arc<dyn Tools> {
        if subagent::may_start(spec) {
            Arc::new(Self { inner, spec: spec.clone(), values, start: OnceCell::new() })
        } else {
            inner
        }
    }

    async fn start(&self) -> Option<ListedFunction> {
        let list = || async {
            let mut schemas = vec![];
            for agent in &self.spec.agent.subagents {
                schemas.push(match &agent.input_schema {
                    // One that is gone is not told: the input is checked all the same.
                    Some(schema) => self.values.load(schema).await.ok().map(|value| (*value).clone()),
                    None => None,
                });
            }
            let spec = subagent::function(&self.spec, &schemas).ok_or(())?;
            Ok::<_, ()>(ListedFunction {
                name: "start".into(),
                description: spec.description,
                input_schema: spec.input_schema,
                read_only_hint: false,
                idempotent_hint: true,
                definition: std::sync::Arc::default(),
            })
        };
        self.start.get_or_try_init(list).await.ok().cloned()
    }
}

#[async_trait::async_trait]
impl Tools for WithBuiltIn {
    async fn ready(&self, tool: &str) -> Result<(), ToolDown> {
        if tool == subagent::TOOL { Ok(()) } else { self.inner.ready(tool).await }
    }
    async fn functions(&self, tool: &str) -> Result<Vec<ListedFunction>, ToolDown> {
        if tool == subagent::TOOL {
            Ok(self.start().await.into_iter().collect())
        } else {
            self.inner.functions(tool).await
        }
    }
    async fn call(&self, name: &FunctionName, arguments: Map<String, Value>, timeout: Duration) -> CallOutcome {
        self.inner.call(name, arguments, timeout).await
    }
    async fn call_telling(
        &self,
        name: &FunctionName,
        arguments: Map<String, Value>,
        timeout: Duration,
        progress: Option<Progress>,
    ) -> CallOutcome {
        self.inner.call_telling(name, arguments, timeout, progress).await
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
        let mut all = self.inner.status();
        all.push(ToolStatus {
            tool: subagent::TOOL.into(),
            state: ToolState::Ready,
            starts: 1,
            last_error: None,
            server: None,
            protocol: None,
        });
        all
    }
    fn changes(&self) -> Option<broadcast::Receiver<ToolStatus>> {
        self.inner.changes()
    }
    async fn shutdown(&self) {
        self.inner.shutdown().await;
    }
}
