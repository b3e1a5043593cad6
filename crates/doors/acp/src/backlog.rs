//! What a client has not read yet, and what it asked and has no answer to.
//!
//! Invariant: what waits for a client that does not read is bounded; whoever tells it something waits, and the jobs go on.
//! Invariant: a client that asks faster than it is answered, or than it reads the answers, is not read until there is room; no count that is
//! wrong holds it up for good.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

/// Updates that wait to be written before whoever makes them waits.
const FRAMES: usize = 256;
/// Requests that are worked on, and answers that wait to be written, before no further frame is read.
const REQUESTS: usize = 256;
/// How long nothing waits to be written before answers that are still missing count as none: a prompt's comes at its end.
const QUIET: Duration = Duration::from_millis(200);
/// How long a client may leave its answers unread, and ask on, before it counts as gone.
const PATIENCE: Duration = Duration::from_mins(5);

/// What is under way with one client.
#[derive(Clone, Default)]
pub(crate) struct Backlog(Arc<Inner>);

#[derive(Default)]
struct Inner {
    /// Updates that wait to be written.
    frames: AtomicUsize,
    /// Frames that were read and whose answer was not written yet.
    unanswered: AtomicUsize,
    /// Requests but prompts that are worked on.
    working: AtomicUsize,
    /// A line is being written.
    writing: AtomicBool,
    changed: Notify,
}

/// One request that is worked on.
pub(crate) struct Working(Arc<Inner>);

impl Drop for Working {
    fn drop(&mut self) {
        self.0.working.fetch_sub(1, Ordering::Relaxed);
        self.0.changed.notify_waiters();
    }
}

impl Backlog {
    /// An update was handed over.
    pub(crate) fn grew(&self) {
        self.0.frames.fetch_add(1, Ordering::Relaxed);
    }

    /// A frame was read that will be answered.
    pub(crate) fn asked(&self) {
        self.0.unanswered.fetch_add(1, Ordering::Relaxed);
    }

    /// A request is worked on while the result lives.
    pub(crate) fn working(&self) -> Working {
        self.0.working.fetch_add(1, Ordering::Relaxed);
        Working(self.0.clone())
    }

    /// A line is about to be written.
    pub(crate) fn writes(&self) {
        self.0.writing.store(true, Ordering::Relaxed);
    }

    /// A line was written, or is lost.
    pub(crate) fn wrote(&self, line: &str) {
        let is_update = line.contains(r#""method":"session/update""#);
        let counted = if is_update { &self.0.frames } else { &self.0.unanswered };
        let less = |count: usize| Some(count.saturating_sub(1));
        let _ = counted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        self.0.writing.store(false, Ordering::Relaxed);
        self.0.changed.notify_waiters();
    }

    /// Waits until there is room for an update.
    pub(crate) async fn room(&self) {
        loop {
            let changed = self.0.changed.notified();
            if self.0.frames.load(Ordering::Relaxed) < FRAMES {
                return;
            }
            changed.await;
        }
    }

    /// Waits until all is answered and written.
    pub(crate) async fn drained(&self) {
        loop {
            let changed = self.0.changed.notified();
            let unwritten = self.0.unanswered.load(Ordering::Relaxed) + self.0.frames.load(Ordering::Relaxed);
            if unwritten == 0 && !self.0.writing.load(Ordering::Relaxed) {
                return;
            }
            changed.await;
        }
    }

    /// Waits until another frame may be read. An error: the client does not read any more.
    pub(crate) async fn room_to_read(&self) -> io::Result<()> {
        self.room_within(PATIENCE).await
    }

    async fn room_within(&self, patience: Duration) -> io::Result<()> {
        let since = Instant::now();
        loop {
            let changed = self.0.changed.notified();
            let works = self.0.working.load(Ordering::Relaxed) >= REQUESTS;
            if !works && self.0.unanswered.load(Ordering::Relaxed) < REQUESTS {
                return Ok(());
            }
            if timeout(QUIET, changed).await.is_ok() {
                continue;
            }
            let writing = self.0.writing.load(Ordering::Relaxed);
            if !works && !writing {
                self.0.unanswered.store(0, Ordering::Relaxed);
            } else if writing && since.elapsed() > patience {
                return Err(io::Error::other("it asks, and has not read an answer for five minutes"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn whoever_tells_waits_while_too_much_is_unread_and_goes_on_when_it_is_read() {
        let backlog = Backlog::default();
        for _ in 0..FRAMES {
            backlog.room().await;
            backlog.grew();
        }
        let waiting = tokio::spawn({
            let backlog = backlog.clone();
            async move { backlog.room().await }
        });
        tokio::task::yield_now().await;
        backlog.wrote(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
        assert!(!waiting.is_finished());
        backlog.wrote(r#"{"jsonrpc":"2.0","method":"session/update","params":{}}"#);
        waiting.await.unwrap();
    }

    #[tokio::test]
    async fn no_further_frame_is_read_while_too_many_have_no_answer() {
        let backlog = Backlog::default();
        for _ in 0..REQUESTS {
            backlog.room_to_read().await.unwrap();
            backlog.asked();
        }
        backlog.writes();
        let reading = tokio::spawn({
            let backlog = backlog.clone();
            async move { backlog.room_to_read().await }
        });
        tokio::time::sleep(QUIET * 3).await;
        assert!(!reading.is_finished(), "an answer is being written");
        backlog.wrote(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
        reading.await.unwrap().unwrap();

        // Prompts that run for long hold nobody up.
        backlog.asked();
        let start = Instant::now();
        backlog.room_to_read().await.unwrap();
        assert!(start.elapsed() < QUIET * 10);

        // Requests that are worked on do.
        let working: Vec<Working> = (0..REQUESTS).map(|_| backlog.working()).collect();
        assert!(timeout(QUIET * 3, backlog.room_to_read()).await.is_err());
        drop(working);
        backlog.room_to_read().await.unwrap();

        // A client that never reads again is given up.
        (0..REQUESTS).for_each(|_| backlog.asked());
        backlog.writes();
        assert!(backlog.room_within(QUIET).await.is_err());
    }
}
