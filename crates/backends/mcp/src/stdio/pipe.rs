//! Requests on their way to a child, and who waits for their answers.
//!
//! A request is written by its caller, at once, where the pipe has room; what does not fit is left to a task that waits for room. So the
//! usual call costs no switch of tasks, a caller may go away at any time, and whether a request was begun to be written is always known.
//!
//! Invariant: a request that was begun is written to its end before anything else, or the child is given up.
//! Invariant: a request of which nothing was written is taken back when its caller stops waiting.

mod state;

use crate::config::HostConfig;
use crate::link::{Ask, Reply, later};
use crate::wire;
use serde::Serialize;
pub(crate) use state::Expected;
use state::{State, Submitted};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::net::unix::pipe;
use tokio::sync::{Notify, Semaphore};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

/// The way to a child.
pub(crate) struct Pipe {
    state: Mutex<State>,
    /// Wakes the writing task.
    wake: Notify,
    /// Wakes callers that found the queue full.
    room: Notify,
    /// One for each call at a time.
    slots: Semaphore,
    /// The child can't be written to: it is to be ended.
    broken: CancellationToken,
    /// The child is gone.
    closed: CancellationToken,
    next_id: AtomicU64,
    /// The revision agreed upon has batches.
    batches: AtomicBool,
    config: Arc<HostConfig>,
}

impl Pipe {
    pub(crate) fn new(stdin: pipe::Sender, config: Arc<HostConfig>) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State::new(stdin, &config)),
            wake: Notify::new(),
            room: Notify::new(),
            slots: Semaphore::new(config.max_in_flight.min(Semaphore::MAX_PERMITS)),
            broken: CancellationToken::new(),
            closed: CancellationToken::new(),
            next_id: AtomicU64::new(0),
            batches: AtomicBool::new(false),
            config,
        })
    }

    /// What was agreed upon.
    pub(crate) fn agree(&self, revision: &str) {
        self.batches.store(revision == wire::BATCHES, Ordering::Relaxed);
    }

    pub(crate) fn has_batches(&self) -> bool {
        self.batches.load(Ordering::Relaxed)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn closed(&self) -> &CancellationToken {
        &self.closed
    }

    pub(crate) fn broken(&self) -> &CancellationToken {
        &self.broken
    }

    /// Why the child is of no more use.
    pub(crate) fn why(&self) -> String {
        self.state().why()
    }

    /// Whether the child had read everything that was written to it, when it ended.
    pub(crate) fn was_all_read(&self) -> bool {
        self.state().was_all_read()
    }

    /// Requests that are waited for, bytes that wait to be written, and late answers that are waited for.
    pub(crate) fn gauges(&self) -> (usize, usize, usize) {
        self.state().gauges()
    }

    /// Sends a request and waits for what becomes of it.
    pub(crate) async fn request<P: Serialize>(&self, ask: Ask<'_>, params: &P) -> Reply {
        let since = Instant::now();
        let deadline = later(since, ask.timeout);
        let not_sent = |why: String| Reply::NotSent { why };
        let _slot = match timeout_at(deadline, self.slots.acquire()).await {
            Ok(Ok(slot)) => slot,
            Ok(Err(_)) => return not_sent(self.why()),
            Err(_) => {
                return not_sent(format!("it has {} calls in work, and none ended in time", self.config.max_in_flight));
            }
        };
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let mut line = match wire::request(id, ask.method, params) {
            Ok(line) if line.len() < self.config.message_bytes => line,
            Ok(line) => {
                return not_sent(format!(
                    "a request of {} bytes is over the limit of {}",
                    line.len(),
                    self.config.message_bytes
                ));
            }
            Err(e) => return not_sent(e.to_string()),
        };
        line.push(b'\n');
        let answer = loop {
            let mut room = std::pin::pin!(self.room.notified());
            room.as_mut().enable();
            let (submitted, alarm) = {
                let mut state = self.state();
                (state.submit(id, line, ask, (since, deadline)), state.needs_alarm())
            };
            if alarm {
                self.wake.notify_one();
            }
            match submitted {
                Submitted::Written(answer) => break answer,
                Submitted::Queued(answer) => {
                    self.wake.notify_one();
                    break answer;
                }
                Submitted::Broken(answer) => {
                    self.broken.cancel();
                    break answer;
                }
                Submitted::Dead(why) => return not_sent(why),
                Submitted::Full(back) => line = back,
            }
            if timeout_at(deadline, room).await.is_err() {
                return not_sent(TAKES_NO_MORE.to_owned());
            }
        };
        let mut guard = Guard { pipe: self, id, armed: true, ask };
        // The writing task watches the time.
        let answered = answer.await;
        guard.armed = false;
        answered.unwrap_or_else(|_| Reply::Lost { why: self.why() })
    }

    /// Writes a notification or an answer of ours, without waiting; it is dropped where too many wait already.
    pub(crate) fn control(&self, mut line: Vec<u8>) {
        line.push(b'\n');
        let submitted = self.state().control(line);
        match submitted {
            state::Control::Written => {}
            state::Control::Queued => self.wake.notify_one(),
            state::Control::Broken => self.broken.cancel(),
            state::Control::Dropped => tracing::debug!("a message to a server that reads nothing was dropped"),
        }
    }

    /// Whether an answer of this id is waited for.
    pub(crate) fn expects(&self, id: u64) -> Expected {
        self.state().expects(id)
    }

    /// Hands an answer to who waits for it.
    pub(crate) fn deliver(&self, id: u64, reply: Reply) -> Expected {
        self.state().deliver(id, reply)
    }

    /// All begun calls fail: an answer can't be read, and it is not known whose it is.
    pub(crate) fn lose_all(&self, why: &str) {
        self.state().lose_all(why);
    }

    /// Closes the child's stdin once the queue's begun message is through, or at once where nothing is begun.
    pub(crate) fn close_stdin(&self) {
        self.state().close_stdin();
        self.wake.notify_one();
    }

    /// The child is gone: everybody learns it.
    pub(crate) fn die(&self, why: String) {
        self.state().die(why);
        self.slots.close();
        self.closed.cancel();
        self.room.notify_waiters();
    }

    /// The writing task: writes what waits as the child reads it, and watches the times.
    pub(crate) async fn write(self: Arc<Self>) {
        loop {
            let (stdin, due) = self.state().next_wait();
            let writable = async {
                match &stdin {
                    Some(stdin) => stdin.writable().await,
                    None => std::future::pending().await,
                }
            };
            let due_or_never = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            let works = tokio::select! {
                () = self.closed.cancelled() => return,
                () = self.wake.notified() => true,
                _ = writable => self.state().flush(),
                () = due_or_never => self.state().watch_times(Instant::now()),
            };
            self.room.notify_waiters();
            if !works {
                self.broken.cancel();
                self.closed.cancelled().await;
                return;
            }
        }
    }
}

const TAKES_NO_MORE: &str = "its stdin takes no more: it does not read what it is sent";

/// Tells the server where a caller goes away.
struct Guard<'a> {
    pipe: &'a Pipe,
    id: u64,
    armed: bool,
    ask: Ask<'a>,
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if !self.armed {
            return;
        }
        let begun = self.pipe.state().abandon(self.id);
        if begun && self.ask.is_cancellable() {
            self.pipe.control(wire::cancelled(self.id, "the caller does not wait any more"));
        }
        self.pipe.room.notify_waiters();
    }
}

#[cfg(test)]
mod tests;
