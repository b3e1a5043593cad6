//! What a server sends that nobody waits for: notifications, requests, noise.
//!
//! Invariant: it costs others nothing. A server that sends too much is read more slowly, so that its own pipe holds it back.

use std::time::Duration;
use tokio::time::Instant;

/// Messages in one second, after which the server is read on in the next one. A long one counts once for each KiB.
const PER_SECOND: u32 = 2_000;
/// Messages that are logged each second.
const LOGGED_PER_SECOND: u32 = 5;
const SECOND: Duration = Duration::from_secs(1);

/// Counts what came unasked in the current second.
#[derive(Debug)]
pub(crate) struct Unasked {
    second: Instant,
    /// Messages and KiB.
    weight: u32,
    messages: u32,
}

impl Default for Unasked {
    fn default() -> Self {
        Self { second: Instant::now(), weight: 0, messages: 0 }
    }
}

impl Unasked {
    /// Counts one; true where it is to be logged.
    pub(crate) fn count(&mut self, bytes: usize) -> bool {
        if self.second.elapsed() >= SECOND {
            *self = Self::default();
        }
        self.weight = self.weight.saturating_add(1).saturating_add(u32::try_from(bytes / 1_024).unwrap_or(u32::MAX));
        self.messages = self.messages.saturating_add(1);
        self.messages <= LOGGED_PER_SECOND
    }

    /// Waits for the end of the second where too much came in it.
    pub(crate) async fn calm_down(&mut self, tool: &str) {
        if self.weight < PER_SECOND {
            return;
        }
        let rest = SECOND.saturating_sub(self.second.elapsed());
        if !rest.is_zero() {
            tracing::warn!(target: "hookwright::tool", tool, "sends more than {PER_SECOND} messages a second that nobody asked for; it is read more slowly");
            tokio::time::sleep(rest).await;
        }
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_a_flood_is_held_back() {
        let mut unasked = Unasked::default();
        let start = Instant::now();
        for _ in 0..PER_SECOND - 1 {
            unasked.count(100);
            unasked.calm_down("t").await;
        }
        let before = start.elapsed();
        unasked.count(100);
        unasked.calm_down("t").await;
        assert!(before < start.elapsed() && start.elapsed() >= SECOND);
    }

    #[tokio::test]
    async fn one_huge_message_is_a_flood() {
        let mut unasked = Unasked::default();
        let start = Instant::now();
        unasked.count(16 * 1024 * 1024);
        unasked.calm_down("t").await;
        assert!(start.elapsed() >= SECOND);
    }
}
