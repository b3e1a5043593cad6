//! A call under way, apart from who waits for it now.

use crate::desk::{Ask, Desk};
use crate::job::Job;
use hookwright_runtime::outside::{Asked, CallNews, Left};
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

/// A call under way. Dropped, it is left where a person is asked about it, and else cancelled.
pub(crate) struct Flight {
    /// The full name of its function.
    pub(crate) tool: String,
    /// The digest of its arguments, as they were asked for.
    pub(crate) arguments: String,
    /// Its id within the job.
    pub(crate) call: String,
    pub(crate) news: oneshot::Receiver<CallNews>,
    pub(crate) asks: mpsc::Receiver<Ask>,
    /// What the client was asked and has not answered, by key.
    pub(crate) open: Vec<(String, Ask)>,
    pub(crate) since: Instant,
    desk: Arc<Desk>,
    at_desk: u64,
    job: Arc<Job>,
    armed: bool,
}

impl Flight {
    pub(crate) fn new(
        (tool, arguments): (String, String),
        asked: Asked,
        (at_desk, asks): (u64, mpsc::Receiver<Ask>),
        desk: Arc<Desk>,
        job: Arc<Job>,
    ) -> Self {
        let Asked { call, news } = asked;
        let since = Instant::now();
        Self { tool, arguments, call, news, asks, open: vec![], since, desk, at_desk, job, armed: true }
    }

    pub(crate) fn at_desk(&self) -> u64 {
        self.at_desk
    }

    /// It is over, or was left: nothing is to be done for it.
    pub(crate) fn disarm(&mut self) {
        self.armed = false;
    }

    /// The client no longer wants it.
    pub(crate) async fn cancel(mut self) {
        self.disarm();
        let _ = self.job.outside.cancel_call(&self.call).await;
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.desk.close(self.at_desk);
        if self.armed
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let (job, call) = (self.job.clone(), self.call.clone());
            runtime.spawn(async move {
                if matches!(job.outside.leave_call(&call).await, Ok(Left::Not)) {
                    let _ = job.outside.cancel_call(&call).await;
                }
            });
        }
    }
}
