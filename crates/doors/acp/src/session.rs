//! What this process holds of an open session.

use crate::mode::Mode;
use crate::wiring::Equipment;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// An open session.
pub(crate) struct Session {
    pub(crate) id: String,
    pub(crate) cwd: String,
    pub(crate) equipment: Equipment,
    state: Mutex<State>,
    idle: Notify,
}

struct State {
    mode: Mode,
    model: String,
    running: Option<CancellationToken>,
    /// No prompt is taken any more.
    closing: bool,
    titled: bool,
}

/// Why a prompt is not taken.
pub(crate) enum Busy {
    /// Another one is under way.
    Prompt,
    /// The session is being closed.
    Closing,
}

impl Session {
    pub(crate) fn new(
        id: String,
        cwd: String,
        equipment: Equipment,
        mode: Mode,
        model: String,
        titled: bool,
    ) -> Arc<Self> {
        let state = State { mode, model, running: None, closing: false, titled };
        Arc::new(Self { id, cwd, equipment, state: Mutex::new(state), idle: Notify::new() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn mode(&self) -> Mode {
        self.state().mode
    }

    pub(crate) fn set_mode(&self, mode: Mode) {
        self.state().mode = mode;
    }

    pub(crate) fn model(&self) -> String {
        self.state().model.clone()
    }

    pub(crate) fn set_model(&self, model: &str) {
        model.clone_into(&mut self.state().model);
    }

    /// Whether it had no title yet; from now on it has.
    pub(crate) fn take_untitled(&self) -> bool {
        !std::mem::replace(&mut self.state().titled, true)
    }

    /// Begins a prompt, if none is under way. The token cancels it.
    pub(crate) fn begin(&self) -> Result<CancellationToken, Busy> {
        let mut state = self.state();
        if state.closing {
            return Err(Busy::Closing);
        }
        if state.running.is_some() {
            return Err(Busy::Prompt);
        }
        let cancel = CancellationToken::new();
        state.running = Some(cancel.clone());
        Ok(cancel)
    }

    /// The prompt that has this token is over. One that was begun since goes on, and can be cancelled.
    pub(crate) fn end(&self, prompt: &CancellationToken) {
        let mut state = self.state();
        if state.running.as_ref() == Some(prompt) {
            state.running = None;
        }
        drop(state);
        self.idle.notify_waiters();
    }

    /// Cancels the prompt that is under way, if there is one.
    pub(crate) fn cancel(&self) {
        if let Some(cancel) = &self.state().running {
            cancel.cancel();
        }
    }

    /// Takes no prompt any more, cancels the one that is under way, and waits for its end.
    pub(crate) async fn settle(&self) {
        self.state().closing = true;
        self.cancel();
        self.ended().await;
    }

    async fn ended(&self) {
        loop {
            let idle = self.idle.notified();
            if self.state().running.is_none() {
                return;
            }
            idle.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wiring::Equipment;
    use hookwright_core::FunctionName;
    use hookwright_runtime::ports::tools::{CallOutcome, ListedFunction, ToolDown, ToolStatus, Tools};
    use serde_json::{Map, Value};
    use std::time::Duration;

    struct NoTools;

    #[async_trait::async_trait]
    impl Tools for NoTools {
        async fn ready(&self, _: &str) -> Result<(), ToolDown> {
            Ok(())
        }
        async fn functions(&self, _: &str) -> Result<Vec<ListedFunction>, ToolDown> {
            Ok(vec![])
        }
        async fn call(&self, _: &FunctionName, _: Map<String, Value>, _: Duration) -> CallOutcome {
            CallOutcome::NotSent { why: "there is none".into() }
        }
        fn status(&self) -> Vec<ToolStatus> {
            vec![]
        }
        async fn kill(&self, _: &str, _: &str) -> bool {
            false
        }
        async fn shutdown(&self) {}
    }

    #[test]
    fn the_late_end_of_a_prompt_takes_no_cancel_from_the_next_one() {
        let equipment = Equipment { tools: Arc::new(NoTools), own: vec![], warnings: vec![] };
        let session = Session::new("s".into(), "/tmp".into(), equipment, Mode::default(), "m".into(), false);
        let first = session.begin().ok().unwrap();
        session.end(&first);
        let next = session.begin().ok().unwrap();
        session.end(&first);
        assert!(matches!(session.begin(), Err(Busy::Prompt)));
        session.cancel();
        assert!(next.is_cancelled() && !first.is_cancelled());
    }
}
