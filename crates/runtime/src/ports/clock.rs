//! Time as an argument.

use std::time::Duration;

/// The wall clock, in milliseconds since the Unix epoch, and sleeping.
#[async_trait::async_trait]
pub trait Clock: Send + Sync {
    /// Now.
    fn now_ms(&self) -> u64;
    /// Sleeps.
    async fn sleep(&self, duration: Duration);
}

/// The machine's own clock.
#[derive(Debug, Default, Clone, Copy)]
pub struct SystemClock;

#[async_trait::async_trait]
impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "the one home of the wall clock")]
    fn now_ms(&self) -> u64 {
        std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
    }
    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}
