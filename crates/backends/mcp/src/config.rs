//! What may be set about the host.

use std::time::Duration;

/// Limits and pauses, the same for all tools of a host.
#[derive(Debug, Clone)]
pub struct HostConfig {
    /// Bytes of one message, in and out (SPEC §10). Default 16 MiB.
    pub message_bytes: usize,
    /// JSON values in one answer over 1 MiB; parsed values take up to 30 times their text. Default 1,000,000.
    pub message_values: usize,
    /// Calls that one server has at a time; further ones wait, within their own timeout. Default 128.
    pub max_in_flight: usize,
    /// Bytes that wait for one server to read them; further requests wait, within their own timeout. Default 4 MiB.
    pub queued_bytes: usize,
    /// How long a late answer is waited for. Default 5 min.
    pub late_window: Duration,
    /// A server that reads nothing for so long although something waits for it counts as dead. Default 2 min.
    pub stall_limit: Duration,
    /// The pause before the first restart; doubled for each further death. Default 0.5 s.
    pub backoff_first: Duration,
    /// The longest pause before a restart. Default 30 s.
    pub backoff_max: Duration,
    /// A server that lived so long starts with a clean record. Default 60 s.
    pub healthy_after: Duration,
    /// Deaths in a row after which a server is given up. Default 5.
    pub max_deaths: u32,
    /// What a server gets at shutdown, half of it after its stdin was closed, half after SIGTERM. Default 2 s.
    pub shutdown_grace: Duration,
    /// Changes of state that a slow listener may be behind; their places are set aside when the host starts. Default 1,024.
    pub changes_kept: usize,
    /// The version that is told to servers, beside the name `hookwright`.
    pub client_version: String,
}

impl Default for HostConfig {
    fn default() -> Self {
        Self {
            message_bytes: 16 * 1024 * 1024,
            message_values: 1_000_000,
            max_in_flight: 128,
            queued_bytes: 4 * 1024 * 1024,
            late_window: Duration::from_mins(5),
            stall_limit: Duration::from_mins(2),
            backoff_first: Duration::from_millis(500),
            backoff_max: Duration::from_secs(30),
            healthy_after: Duration::from_mins(1),
            max_deaths: 5,
            shutdown_grace: Duration::from_secs(2),
            changes_kept: 1_024,
            client_version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

impl HostConfig {
    /// The pause after so many deaths in a row (1 or more).
    pub(crate) fn backoff(&self, deaths: u32) -> Duration {
        let factor = 1_u32.checked_shl(deaths.saturating_sub(1)).unwrap_or(u32::MAX);
        self.backoff_first.saturating_mul(factor).min(self.backoff_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_doubles_up_to_its_limit() {
        let config = HostConfig::default();
        let pauses: Vec<u128> = [1, 2, 3, 6, 7, 8, 33, 500].iter().map(|n| config.backoff(*n).as_millis()).collect();
        assert_eq!(pauses, [500, 1_000, 2_000, 16_000, 30_000, 30_000, 30_000, 30_000]);
    }
}
