//! What a client has not read yet.
//!
//! Invariant: what waits for a client that does not read is bounded; whoever tells it something waits, and the jobs go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Notify;

/// Updates that wait to be written before whoever makes them waits.
const FRAMES: usize = 256;

/// Updates that wait to be written.
#[derive(Clone, Default)]
pub(crate) struct Backlog(Arc<Inner>);

#[derive(Default)]
struct Inner {
    frames: AtomicUsize,
    written: Notify,
}

impl Backlog {
    /// An update was handed over.
    pub(crate) fn grew(&self) {
        self.0.frames.fetch_add(1, Ordering::Relaxed);
    }

    /// A line was written, or is lost.
    pub(crate) fn wrote(&self, line: &str) {
        // Answers and questions are few, and nobody counts them.
        if line.contains(r#""method":"session/update""#) {
            let less = |frames: usize| Some(frames.saturating_sub(1));
            let _ = self.0.frames.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
            self.0.written.notify_waiters();
        }
    }

    /// Waits until there is room.
    pub(crate) async fn room(&self) {
        loop {
            let written = self.0.written.notified();
            if self.0.frames.load(Ordering::Relaxed) < FRAMES {
                return;
            }
            written.await;
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
}
