//! How a model is opened: the environment, as an argument, and the limits on what a provider may do.

use std::path::PathBuf;
use std::time::Duration;

/// Looks up a variable of the environment. The CLI reads the process's environment once and passes this; tests pass a closure.
pub type Env = dyn Fn(&str) -> Option<String> + Send + Sync;

/// Limits and places. [`Options::default`] is meant for daily use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The folder that `script/<file>.yaml` is relative to: the plugin's. `None`: the current folder.
    pub folder: Option<PathBuf>,
    /// How long a provider may send nothing, before its headers or between two pieces. Default 5 minutes.
    pub idle: Duration,
    /// How long one attempt may take in all, even if it keeps sending. Default 1 hour.
    pub attempt: Duration,
    /// How long connecting may take. Default 30 seconds.
    pub connect: Duration,
    /// How many bytes of one answer are read. Default 64 MiB.
    pub max_response_bytes: u64,
    /// When a turn is asked again.
    pub retry: RetryPolicy,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            folder: None,
            idle: Duration::from_mins(5),
            attempt: Duration::from_hours(1),
            connect: Duration::from_secs(30),
            max_response_bytes: 64 * 1024 * 1024,
            retry: RetryPolicy::default(),
        }
    }
}

/// When a turn is asked again after 408, 409, 429, 5xx, 529 or a broken connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Attempts in all, the first one included; at least 1. Default 6.
    pub attempts: u32,
    /// The first wait; it doubles with each attempt. Default 500 ms.
    pub first: Duration,
    /// No wait of our own is longer than this. Default 30 seconds.
    pub longest: Duration,
    /// A provider's `Retry-After` is kept up to this; one that asks for more ends the turn at once. Default 2 minutes.
    pub longest_asked: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            attempts: 6,
            first: Duration::from_millis(500),
            longest: Duration::from_secs(30),
            longest_asked: Duration::from_mins(2),
        }
    }
}
