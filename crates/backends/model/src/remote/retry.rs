//! How long to wait before a turn is asked again.
//!
//! Invariant: no clock and no randomness: waits are spread by a digest of the job, and a date in `Retry-After` is read against
//! the same answer's `Date`.

use crate::options::RetryPolicy;
use hookwright_core::json::sha256_hex;
use jiff::fmt::rfc2822;
use reqwest::header::HeaderMap;
use std::time::Duration;

impl RetryPolicy {
    /// The wait after attempt `attempt` (1-based), doubled each time, ± 25 % by `seed`.
    pub(super) fn wait(&self, attempt: u32, seed: &str) -> Duration {
        let doubled = self.first.saturating_mul(2_u32.saturating_pow(attempt.saturating_sub(1)));
        let digest = sha256_hex(format!("{seed}/{attempt}").as_bytes());
        let spread = digest.get(..4).and_then(|h| u32::from_str_radix(h, 16).ok()).unwrap_or(0);
        doubled.min(self.longest).mul_f64(0.75 + f64::from(spread) / f64::from(0x1_0000) / 2.0)
    }
}

/// What a provider asks to wait: `retry-after-ms`, or `retry-after` in seconds or as a date.
pub(super) fn asked(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|v| v.to_str().ok()).map(str::trim);
    if let Some(ms) = text("retry-after-ms").and_then(|t| t.parse::<f64>().ok()) {
        return Duration::try_from_secs_f64(ms / 1_000.0).ok();
    }
    let after = text("retry-after")?;
    if let Ok(seconds) = after.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = |t: &str| rfc2822::parse(t).ok().map(|z| z.timestamp().as_second());
    let seconds = date(after)?.saturating_sub(date(text("date")?)?);
    u64::try_from(seconds).ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_are_spread_by_the_seed() {
        let policy = RetryPolicy::default();
        for (attempt, base_ms) in [(1, 500.0), (2, 1_000.0), (3, 2_000.0), (7, 30_000.0), (4_000_000_000, 30_000.0)] {
            let wait = policy.wait(attempt, "job-1").as_secs_f64() * 1_000.0;
            assert!((0.74..1.26).contains(&(wait / base_ms)), "{attempt}: {wait}");
        }
        assert_eq!(policy.wait(2, "a"), policy.wait(2, "a"));
        assert_ne!(policy.wait(2, "a"), policy.wait(2, "b"));
    }

    #[test]
    fn retry_after_is_read_in_all_its_forms() {
        let read = |pairs: &[(&'static str, &str)]| {
            asked(&pairs.iter().map(|(k, v)| (k.parse().unwrap(), v.parse().unwrap())).collect())
        };
        assert_eq!(read(&[("retry-after", "7")]), Some(Duration::from_secs(7)));
        assert_eq!(read(&[("retry-after", "0.25")]), Some(Duration::from_millis(250)));
        assert_eq!(read(&[("retry-after-ms", "1500"), ("retry-after", "9")]), Some(Duration::from_millis(1_500)));
        let dates = [("date", "Wed, 21 Oct 2015 07:28:00 GMT"), ("retry-after", "Wed, 21 Oct 2015 07:28:30 GMT")];
        assert_eq!(read(&dates), Some(Duration::from_secs(30)));
        for bad in ["-1", "soon", "NaN", "1e400", ""] {
            assert_eq!(read(&[("retry-after", bad)]), None, "{bad}");
        }
    }
}
