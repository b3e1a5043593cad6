//! `limits:` of a tenant.

use crate::Limits;
use crate::diagnostic::{Code, Place};
use crate::yaml::{Node, Reader};

/// Inclusive bounds of the keys of `limits`, for reading and for the schema.
pub(super) mod bounds {
    use std::ops::RangeInclusive;

    pub(crate) const CALLS_PER_TURN: RangeInclusive<u64> = 1..=4_096;
    pub(crate) const PARALLEL_CALLS: RangeInclusive<u64> = 1..=1_024;
    pub(crate) const REASON_CHARS: RangeInclusive<u64> = 1..=100_000;
    pub(crate) const SUBAGENT_DEPTH: RangeInclusive<u64> = 0..=32;
    pub(crate) const MAX_TURNS: RangeInclusive<u64> = 1..=10_000;
    pub(crate) const CALLS_PER_JOB: RangeInclusive<u64> = 1..=1_000_000;
    pub(crate) const TOKENS_PER_JOB: RangeInclusive<u64> = 1..=1_000_000_000_000;
    pub(crate) const JOBS_AT_ONCE: RangeInclusive<u64> = 1..=100_000;
    pub(crate) const MAX_REJECTIONS: RangeInclusive<u64> = 0..=1_000;
    pub(crate) const RESULT_BYTES: RangeInclusive<u64> = 256..=64 * 1024 * 1024;
    pub(crate) const EVENT_BYTES: RangeInclusive<u64> = 1_024..=1024 * 1024 * 1024;
    pub(crate) const LIFECYCLE_BYTES: RangeInclusive<u64> = 256..=16 * 1024 * 1024;
    pub(crate) const MESSAGE_BYTES: RangeInclusive<u64> = 64 * 1024..=1024 * 1024 * 1024;
    pub(crate) const TOOL_TIMEOUT_MS: RangeInclusive<u64> = 1..=24 * 3_600_000;
    pub(crate) const LIFECYCLE_TIMEOUT_MS: RangeInclusive<u64> = 1..=60_000;
}

/// The bounds of a tenant's jobs, and how many of them run at once. `None`: an error was said.
pub(super) fn limits(read: &mut Reader<'_, '_>, node: &Node) -> Option<(Limits, Option<u32>)> {
    let default = Limits::default();
    let fields = read.fields(node, "`limits`", &LIMIT_KEYS)?;
    let mut whole = |key: &str, range, default| count(read, fields.get(key), &format!("`{key}`"), range, default);
    let calls_per_turn = whole("calls_per_turn", bounds::CALLS_PER_TURN, default.calls_per_turn);
    let parallel_calls = whole("parallel_calls", bounds::PARALLEL_CALLS, default.parallel_calls);
    let reason_chars = whole("reason_chars", bounds::REASON_CHARS, default.reason_chars);
    let subagent_depth = whole("subagent_depth", bounds::SUBAGENT_DEPTH, default.subagent_depth);
    let max_turns = whole("max_turns", bounds::MAX_TURNS, default.max_turns);
    let mut bound = |key: &str, range| match fields.get(key) {
        Some(node) => read.whole(node, &format!("`{key}`"), range).map(Some),
        None => Some(None),
    };
    let calls_per_job = bound("calls_per_job", bounds::CALLS_PER_JOB);
    let tokens_per_job = bound("tokens_per_job", bounds::TOKENS_PER_JOB);
    let jobs_at_once = bound("jobs_at_once", bounds::JOBS_AT_ONCE);
    let mut size = |key: &str, range, default| match fields.get(key) {
        Some(node) => read.size(node, &format!("`{key}`"), range),
        None => Some(default),
    };
    let result_bytes = size("result_bytes", bounds::RESULT_BYTES, default.result_bytes);
    let event_bytes = size("event_bytes", bounds::EVENT_BYTES, default.event_bytes);
    let lifecycle_bytes = size("lifecycle_bytes", bounds::LIFECYCLE_BYTES, default.lifecycle_bytes);
    let message_bytes = size("message_bytes", bounds::MESSAGE_BYTES, default.message_bytes);
    let tool_timeout_ms = match fields.get("tool_timeout") {
        Some(node) => read.duration(node, "`tool_timeout`", bounds::TOOL_TIMEOUT_MS),
        None => Some(default.tool_timeout_ms),
    };
    if let (Some(event), Some(message)) = (event_bytes, message_bytes)
        && event > message
    {
        // Said at the one that was written, else at the other.
        let place: Place = fields.get("event_bytes").or(fields.get("message_bytes")).map_or(node.place, |n| n.place);
        read.error(place, Code::SizeRange, format!("`event_bytes` ({event}) is more than `message_bytes` ({message})"))
            .hint("an event is sent in one message: raise `message_bytes`, or lower `event_bytes`");
        return None;
    }
    let small = |n: Option<u64>| n.and_then(|n| u32::try_from(n).ok());
    let limits = Limits {
        calls_per_turn: calls_per_turn?,
        parallel_calls: parallel_calls?,
        result_bytes: result_bytes?,
        tool_timeout_ms: tool_timeout_ms?,
        reason_chars: reason_chars?,
        event_bytes: event_bytes?,
        lifecycle_bytes: lifecycle_bytes?,
        message_bytes: message_bytes?,
        subagent_depth: subagent_depth?,
        max_turns: max_turns?,
        calls_per_job: small(calls_per_job?),
        tokens_per_job: tokens_per_job?,
    };
    Some((limits, small(jobs_at_once?)))
}

/// The keys of `limits`: those of [`Limits`], but `tool_timeout` carries its unit, and `jobs_at_once` is of the tenant.
pub(super) const LIMIT_KEYS: [&str; 13] = [
    "calls_per_turn",
    "parallel_calls",
    "result_bytes",
    "tool_timeout",
    "reason_chars",
    "event_bytes",
    "lifecycle_bytes",
    "message_bytes",
    "subagent_depth",
    "max_turns",
    "calls_per_job",
    "tokens_per_job",
    "jobs_at_once",
];

/// A whole number, or its default.
pub(super) fn count(
    read: &mut Reader<'_, '_>,
    node: Option<&Node>,
    what: &str,
    range: std::ops::RangeInclusive<u64>,
    default: u32,
) -> Option<u32> {
    match node {
        Some(node) => read.whole(node, what, range).and_then(|n| u32::try_from(n).ok()),
        None => Some(default),
    }
}
