//! A call under way, apart from who waits for it now.

use crate::desk::{Ask, Desk};
use crate::job::Job;
use hookwright_runtime::outside::{Asked, CallNews, Left};
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

/// A call's place at the desk, for what its tool's server asks meanwhile. Dropped, it is closed.
pub(crate) struct AtDesk {
    pub(crate) asks: mpsc::Receiver<Ask>,
    desk: Arc<Desk>,
    id: u64,
}

impl AtDesk {
    pub(crate) fn new(desk: Arc<Desk>, (id, asks): (u64, mpsc::Receiver<Ask>)) -> Self {
        Self { asks, desk, id }
    }
}

impl Drop for AtDesk {
    fn drop(&mut self) {
        self.desk.close(self.id);
    }
}

/// A call under way. Dropped, it is left where a person is asked about it, and else cancelled.
pub(crate) struct Flight {
    /// The full name of its function.
    pub(crate) tool: String,
    /// The digest of its arguments, as they were asked for.
    pub(crate) arguments: String,
    /// Its id within the job.
    pub(crate) call: String,
    pub(crate) news: oneshot::Receiver<CallNews>,
    pub(crate) at_desk: AtDesk,
    /// What the client was asked and has not answered, by key.
    pub(crate) open: Vec<(String, Ask)>,
    pub(crate) since: Instant,
    job: Arc<Job>,
    armed: bool,
}

impl Flight {
    pub(crate) fn new((tool, arguments): (String, String), asked: Asked, at_desk: AtDesk, job: Arc<Job>) -> Self {
        let Asked { call, news } = asked;
        let since = Instant::now();
        Self { tool, arguments, call, news, at_desk, open: vec![], since, job, armed: true }
    }

    pub(crate) fn desk_id(&self) -> u64 {
        self.at_desk.id
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
