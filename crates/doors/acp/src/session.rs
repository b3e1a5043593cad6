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

    /// The prompt is over.
    pub(crate) fn end(&self) {
        self.state().running = None;
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
