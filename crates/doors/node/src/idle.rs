//! Whether the node has anything to do.

use crate::service::Service;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How seldom an idle node looks.
const LOOK: Duration = Duration::from_millis(500);

/// Who is there, and since when nobody has been.
#[derive(Debug)]
pub(crate) struct Activity {
    after: Option<Duration>,
    now: Mutex<Now>,
}

#[derive(Debug)]
struct Now {
    clients: usize,
    /// Clients that wanted something done, and are still there.
    engaged: usize,
    last: Instant,
}

impl Activity {
    pub(crate) fn new(after: Option<Duration>) -> Arc<Self> {
        Arc::new(Self { after, now: Mutex::new(Now { clients: 0, engaged: 0, last: Instant::now() }) })
    }

    fn now(&self) -> std::sync::MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn after(&self) -> Option<Duration> {
        self.after
    }

    pub(crate) fn clients(&self) -> usize {
        self.now().clients
    }

    /// How long it will stay if nothing comes; none where it has work, or never ends by itself.
    pub(crate) fn left(&self, service: &dyn Service) -> Option<Duration> {
        let after = self.after?;
        let busy = service.is_busy();
        let mut now = self.now();
        if busy {
            now.last = Instant::now();
        }
        (!busy && now.engaged == 0).then(|| after.saturating_sub(now.last.elapsed()))
    }

    /// Ends when there was nothing to do for long enough.
    pub(crate) async fn idle(&self, service: &dyn Service) {
        let Some(after) = self.after else { return std::future::pending().await };
        loop {
            match self.left(service) {
                Some(Duration::ZERO) => return,
                Some(left) => tokio::time::sleep(left.clamp(Duration::from_millis(1), LOOK)).await,
                None => tokio::time::sleep(after.clamp(Duration::from_millis(10), LOOK)).await,
            }
        }
    }

    /// A client is there, until this is dropped.
    pub(crate) fn enter(self: &Arc<Self>) -> Visit {
        self.now().clients += 1;
        Visit { activity: self.clone(), engaged: false }
    }
}

/// A client that is there.
pub(crate) struct Visit {
    activity: Arc<Activity>,
    engaged: bool,
}

impl Visit {
    /// It wants something done: from now on the node is not idle while it stays. To be looked at is no work.
    pub(crate) fn engage(&mut self) {
        if !self.engaged {
            self.engaged = true;
            self.activity.now().engaged += 1;
        }
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        let mut now = self.activity.now();
        now.clients -= 1;
        if self.engaged {
            now.engaged -= 1;
            now.last = Instant::now();
        }
    }
}
