//! Times, and what is said of them.

use std::time::Duration;

/// Times of single operations.
#[derive(Debug, Default, Clone)]
pub(crate) struct Times(Vec<Duration>);

impl Times {
    pub(crate) fn extend(&mut self, more: Vec<Duration>) {
        self.0.extend(more);
    }

    /// The time that this share of them (0 to 1) does not exceed; zero where there are none.
    pub(crate) fn quantile(&self, share: f64) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        #[expect(clippy::cast_precision_loss, clippy::cast_sign_loss, reason = "an index into a list of thousands")]
        let at = (sorted.len().saturating_sub(1) as f64 * share).round() as usize;
        sorted.get(at).copied().unwrap_or_default()
    }

    /// The one in the middle.
    pub(crate) fn p50(&self) -> Duration {
        self.quantile(0.5)
    }

    /// All but the slowest hundredth are within it.
    pub(crate) fn p99(&self) -> Duration {
        self.quantile(0.99)
    }
}

/// The middle one of some numbers; zero where there are none.
pub(crate) fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_unstable_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or_default()
}

/// How often the second time goes into the first.
pub(crate) fn ratio(time: Duration, of: Duration) -> f64 {
    if of.is_zero() { 0.0 } else { time.as_secs_f64() / of.as_secs_f64() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_times_that_were_measured() {
        let mut times = Times::default();
        assert_eq!(times.p50(), Duration::ZERO);
        times.extend((1..=101).rev().map(Duration::from_millis).collect());
        assert_eq!((times.p50(), times.p99()), (Duration::from_millis(51), Duration::from_millis(100)));
        assert_eq!(median(vec![9.0, 1.0, 2.0]).to_bits(), 2.0_f64.to_bits());
    }
}
