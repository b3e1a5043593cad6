//! How many tokens a conversation has: what the provider reported last, and what has come since, by the rate that its reports showed.

use crate::message::Usage;
use serde::{Deserialize, Serialize};

/// Millionths of a token.
const MICRO: u64 = 1_000_000;
/// Bytes with the rate of ordinary text that every calibration is mixed with: a short request says little about a long one.
const PRIOR_BYTES: u64 = 2_000;

/// Tokens for each byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate(u64);

impl Default for Rate {
    fn default() -> Self {
        Self(MICRO / 4)
    }
}

impl Rate {
    /// Ordinary text has four bytes a token; nothing has more than eight, whatever a provider reports (some count only what they had
    /// not seen before), and nothing less than one.
    const LOWEST: Self = Self(MICRO / 8);
    const HIGHEST: Self = Self(MICRO);

    /// The rate that a report shows.
    pub fn seen(tokens: u64, bytes: u64) -> Self {
        let micro = |tokens: u64| u128::from(tokens) * u128::from(MICRO);
        let prior = u128::from(PRIOR_BYTES) * u128::from(Self::default().0);
        let rate = (micro(tokens) + prior) / (u128::from(bytes) + u128::from(PRIOR_BYTES));
        Self(u64::try_from(rate).unwrap_or(u64::MAX).clamp(Self::LOWEST.0, Self::HIGHEST.0))
    }

    /// Tokens of so many bytes, rounded up.
    pub fn tokens(self, bytes: u64) -> u64 {
        u64::try_from((u128::from(bytes) * u128::from(self.0)).div_ceil(u128::from(MICRO))).unwrap_or(u64::MAX)
    }

    /// Bytes of so many tokens, rounded down.
    pub fn bytes(self, tokens: u64) -> u64 {
        u64::try_from(u128::from(tokens) * u128::from(MICRO) / u128::from(self.0.max(1))).unwrap_or(u64::MAX)
    }
}

/// Counts a conversation's tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meter {
    rate: Rate,
    /// Tokens up to the end of the last answer, as the provider counted.
    reported: Option<u64>,
    /// Bytes since.
    grown: u64,
    /// Bytes of the functions' schemas and the instructions, as they were sent last.
    overhead: u64,
}

impl Meter {
    /// A meter for a conversation that goes on; its tokens, where they were reported.
    pub fn of(tokens: Option<u64>) -> Self {
        Self { reported: tokens, ..Self::default() }
    }

    /// The rate as it is known.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// Bytes of the functions' schemas and the instructions, as they were sent last; 0 before the first turn.
    pub fn overhead_bytes(&self) -> u64 {
        self.overhead
    }

    /// The model answered a request of `sent` bytes, `overhead` of which are schemas and instructions.
    pub fn answered(&mut self, usage: Option<Usage>, sent: Option<u64>, overhead: Option<u64>) {
        self.sent(overhead);
        self.grown = 0;
        let usage = usage.filter(|u| u.input_tokens > 0);
        self.reported = usage.map(|u| u.input_tokens.saturating_add(u.output_tokens));
        if let (Some(usage), Some(sent)) = (usage, sent.filter(|s| *s > 0)) {
            self.rate = Rate::seen(usage.input_tokens, sent);
        }
    }

    /// A request went out, whatever came of it.
    pub fn sent(&mut self, overhead: Option<u64>) {
        self.overhead = overhead.unwrap_or(self.overhead);
    }

    /// Something was said since the last answer.
    pub fn grew(&mut self, bytes: u64) {
        self.grown = self.grown.saturating_add(bytes);
    }

    /// The conversation is another: what was reported no longer counts, the rate does.
    pub fn restarted(&mut self) {
        self.reported = None;
        self.grown = 0;
    }

    /// Tokens of the next request, in which the conversation has `bytes`.
    ///
    /// A report that can't be true is not believed: the bytes at the lowest rate count at least.
    pub fn tokens(&self, bytes: u64) -> u64 {
        let all = bytes.saturating_add(self.overhead);
        match self.reported {
            Some(reported) => reported.saturating_add(self.rate.tokens(self.grown)).max(Rate::LOWEST.tokens(all)),
            None => self.rate.tokens(all),
        }
    }
}
