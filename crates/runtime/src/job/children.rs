//! The child jobs that this process runs for a job: how each stands, and what their parent wants of them.
//!
//! Invariant: dropping a parent's run ends its children's; their histories say what was, as the parent's does.
//! Invariant: a cancelled parent cancels its children, and its run is over only when theirs are (or a bounded time has passed).

use super::{End, RunError};
use crate::ports::store::Store;
use futures_util::future::BoxFuture;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, oneshot, watch};
use tokio::task::JoinSet;

/// How long a parent that ends waits for its children to write down that they end too.
const CLOSE: Duration = Duration::from_secs(30);

/// What a parent wants of a child.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wish {
    /// To go on.
    GoOn,
    /// To return as soon as it only waits for people.
    LetGo,
    /// To return at once; a later process takes it up again.
    Halt,
    /// To be cancelled, by this person.
    Cancel(String),
}

/// How a child stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stands {
    /// Something goes on in it.
    Busy,
    /// It only waits for people.
    Idle,
    /// It only waits for people, and nobody runs it.
    Parked,
    /// Another process runs it.
    Elsewhere,
}

struct Living {
    job: String,
    wish: watch::Sender<Wish>,
    stands: Stands,
}

/// Who lives, by the effect that started it.
#[derive(Default)]
struct Roll {
    living: Mutex<HashMap<String, Living>>,
    changed: Notify,
}

impl Roll {
    fn living(&self) -> MutexGuard<'_, HashMap<String, Living>> {
        self.living.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stands(&self, effect: &str, stands: Stands) {
        if let Some(child) = self.living().get_mut(effect)
            && std::mem::replace(&mut child.stands, stands) != stands
        {
            self.changed.notify_one();
        }
    }
}

/// The children of one job.
#[derive(Default)]
pub(super) struct Children {
    roll: Arc<Roll>,
    tasks: Mutex<JoinSet<()>>,
}

impl Children {
    /// Runs a child as a task of its own. Yields its end; nothing where it panicked.
    pub(super) fn start(
        &self,
        effect: &str,
        job: &str,
        run: impl FnOnce(Ties) -> BoxFuture<'static, Result<End, RunError>>,
    ) -> oneshot::Receiver<Result<End, RunError>> {
        let (wish, wishes) = watch::channel(Wish::GoOn);
        let child = Living { job: job.to_owned(), wish, stands: Stands::Busy };
        self.roll.living().insert(effect.to_owned(), child);
        self.roll.changed.notify_one();
        let ties = Ties { effect: effect.to_owned(), roll: self.roll.clone(), wishes };
        let (sender, receiver) = oneshot::channel();
        let run = run(ties);
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(async move {
            let _ = sender.send(run.await);
        });
        receiver
    }

    /// Says how a child stands whose run has returned.
    pub(super) fn stands(&self, effect: &str, stands: Stands) {
        self.roll.stands(effect, stands);
    }

    /// A child is over.
    pub(super) fn over(&self, effect: &str) {
        self.roll.living().remove(effect);
    }

    /// Whether the child that an effect started only waits for people.
    pub(super) fn only_waits(&self, effect: &str) -> bool {
        self.roll.living().get(effect).is_some_and(|child| matches!(child.stands, Stands::Idle | Stands::Parked))
    }

    /// Ends when a child stands otherwise than before.
    pub(super) async fn changed(&self) {
        self.roll.changed.notified().await;
    }

    /// Lets children go that only wait for people. Says whether nobody runs any of them any more.
    pub(super) fn let_go(&self) -> bool {
        let living = self.roll.living();
        for child in living.values().filter(|child| child.stands == Stands::Idle) {
            child.wish.send_if_modified(|wish| {
                let modified = *wish == Wish::GoOn;
                if modified {
                    *wish = Wish::LetGo;
                }
                modified
            });
        }
        living.values().all(|child| child.stands == Stands::Parked)
    }

    /// Cancels all.
    pub(super) fn cancel(&self, by: &str) {
        for child in self.roll.living().values() {
            child.wish.send_replace(Wish::Cancel(by.to_owned()));
        }
    }

    /// Waits until all have ended as their parent wants it; those that it wants nothing special of, return at once.
    pub(super) async fn close(&self, store: &dyn Store, now_ms: u64) {
        let mut elsewhere = vec![];
        for (_, child) in self.roll.living().drain() {
            let wish = child.wish.borrow().clone();
            match wish {
                Wish::Cancel(by) if child.stands == Stands::Elsewhere => elsewhere.push((child.job, by)),
                Wish::Cancel(_) | Wish::Halt => {}
                Wish::GoOn | Wish::LetGo => drop(child.wish.send_replace(Wish::Halt)),
            }
        }
        for (job, by) in elsewhere {
            // Where this fails, the child finds its parent over when it is taken up again.
            let _ = store.request_cancel(&job, &by, now_ms).await;
        }
        let mut tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        let all = async { while tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(CLOSE, all).await.is_err() {
            tracing::warn!("child jobs did not end in time; they can be resumed");
        }
    }
}

/// What ties a child to its parent.
pub(super) struct Ties {
    effect: String,
    roll: Arc<Roll>,
    wishes: watch::Receiver<Wish>,
}

impl Ties {
    /// Tells the parent whether the child only waits for people.
    pub(super) fn only_waits(&self, idle: bool) {
        self.roll.stands(&self.effect, if idle { Stands::Idle } else { Stands::Busy });
    }

    /// Whether the parent wants the child to return as soon as it only waits.
    pub(super) fn lets_go(&self) -> bool {
        *self.wishes.borrow() == Wish::LetGo
    }

    /// The parent's next wish.
    pub(super) async fn wish(ties: &mut Option<Self>) -> Wish {
        if let Some(ties) = ties
            && ties.wishes.changed().await.is_ok()
        {
            return ties.wishes.borrow_and_update().clone();
        }
        // Nobody wants anything (any more).
        std::future::pending().await
    }
}
