//! The MCP server.
//!
//! Invariant: one run at a time; a second caller waits for its turn.

use crate::state::{Run, objection};
use crate::suite::Suite;
use rmcp::{ServiceExt, tool, tool_router};
use std::sync::{Arc, PoisonError, RwLock};
use tokio::sync::Mutex;

/// A project's tests.
#[derive(Clone)]
pub struct TestServer {
    suite: Arc<Suite>,
    run_required: bool,
    last: Arc<RwLock<Option<Run>>>,
    running: Arc<Mutex<()>>,
}

impl TestServer {
    /// A server for one suite. `run_required`: object also where the tests were never run.
    pub fn new(suite: Suite, run_required: bool) -> Self {
        Self { suite: Arc::new(suite), run_required, last: Arc::default(), running: Arc::default() }
    }
}

#[tool_router(server_handler)]
impl TestServer {
    /// Run the project's tests. Says whether they passed, and the end of what they printed.
    #[tool(annotations(destructive_hint = false))]
    async fn run_tests(&self) -> Result<String, String> {
        let _alone = self.running.lock().await;
        let run = self.suite.run().await;
        let (passed, shown) = (run.passed(), run.shown());
        *self.last.write().unwrap_or_else(PoisonError::into_inner) = Some(run);
        if passed { Ok(shown) } else { Err(shown) }
    }

    /// Asked by the agent when the model ends its turn: objects while the tests fail.
    #[tool(name = "_Stop", annotations(read_only_hint = true))]
    fn stop(&self) -> String {
        let last = self.last.read().unwrap_or_else(PoisonError::into_inner);
        objection(last.as_ref(), self.run_required).unwrap_or_default()
    }
}

/// Serves the tests on the standard streams, until the client closes them.
pub async fn serve(server: TestServer) -> Result<(), ServeError> {
    let service = server.serve(rmcp::transport::stdio()).await.map_err(|e| ServeError(e.to_string()))?;
    service.waiting().await.map_err(|e| ServeError(e.to_string()))?;
    Ok(())
}

/// The server could not start, or broke.
#[derive(Debug, thiserror::Error)]
#[error("failed to serve: {0}")]
pub struct ServeError(String);
