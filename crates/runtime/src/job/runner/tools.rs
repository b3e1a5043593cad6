//! Changes of the tools' servers, which the history tells of.

use super::Runner;
use crate::job::RunError;
use crate::ports::tools::{ToolState, ToolStatus};
use hookwright_core::job::Fact;
use hookwright_core::text;
use tokio::sync::broadcast;

impl Runner {
    pub(super) fn tool_state(&mut self, status: ToolStatus) -> Result<(), RunError> {
        let state = match status.state {
            ToolState::Restarting => "restarting",
            ToolState::Failed => "failed",
            ToolState::Ready if status.starts > 1 => "ready",
            ToolState::Ready | ToolState::Starting => return Ok(()),
        };
        // Some changes are not of the state.
        if self.tool_states.insert(status.tool.clone(), state) == Some(state) {
            return Ok(());
        }
        let why = status.last_error.map(|w| text::reason(Some(&w), 1_000));
        self.take(self.now(), Fact::ToolState { tool: status.tool, state: state.into(), why })
    }
}

/// The next change of a tool; `Some(None)` where some were missed.
pub(super) async fn next_change(changes: &mut Option<broadcast::Receiver<ToolStatus>>) -> Option<Option<ToolStatus>> {
    let receiver = changes.as_mut()?;
    match receiver.recv().await {
        Ok(status) => Some(Some(status)),
        Err(broadcast::error::RecvError::Lagged(_)) => Some(None),
        Err(broadcast::error::RecvError::Closed) => {
            *changes = None;
            std::future::pending().await
        }
    }
}
