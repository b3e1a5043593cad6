//! Asks one hook: event, size, call, and the answer read by the core's rules.
//!
//! Invariant: whatever goes wrong is an outcome of the hook, never an error of ours, and never an allow.

use crate::ports::tools::{CallOutcome, LateAnswer, Tools};
use hookwright_core::answer::{self, Decision};
use hookwright_core::chain::HookOutcome;
use hookwright_core::event::Moment;
use hookwright_core::hooks::Hook;
use hookwright_core::stored::{Blob, Stored};
use hookwright_core::{Limits, text};
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// What came of an ask.
#[derive(Debug)]
pub struct Asked {
    /// The outcome.
    pub outcome: HookOutcome,
    /// Milliseconds from the ask to the answer; the start of a server does not count.
    pub ms: f64,
    /// Further keys of the answer.
    pub other: Option<Stored>,
    /// The new value, where the hook modified it.
    pub value: Option<Arc<Value>>,
    /// Values that are too large for a record.
    pub blobs: Vec<Blob>,
    /// Yields where an answer comes after the timeout.
    pub late: Option<oneshot::Receiver<LateAnswer>>,
}

impl Asked {
    fn failed(why: impl Into<String>, ms: f64) -> Self {
        Self::just(HookOutcome::Failed { why: text::reason(Some(&why.into()), WHY_CHARS) }, ms)
    }

    fn just(outcome: HookOutcome, ms: f64) -> Self {
        Self { outcome, ms, other: None, value: None, blobs: vec![], late: None }
    }
}

/// Characters of the text that says why a hook failed.
const WHY_CHARS: u32 = 500;

/// Bytes of the further keys of an answer that are kept.
const OTHER_BYTES: u64 = 16 * 1024;

/// Milliseconds since `start`, to a hundredth.
pub(crate) fn ms_since(start: Instant) -> f64 {
    (start.elapsed().as_secs_f64() * 100_000.0).round() / 100.0
}

/// Asks a hook about an event. `schema` is what a new value must fit (SPEC §4).
pub async fn ask(tools: &dyn Tools, hook: &Hook, event: Value, schema: Option<&Value>, limits: &Limits) -> Asked {
    if let Some(why) = &hook.unavailable {
        return Asked::failed(why.clone(), 0.0);
    }
    if !fits(&event, limits.event_bytes) {
        return Asked::failed("event too large", 0.0);
    }
    if let Err(down) = tools.ready(hook.call.tool()).await {
        return Asked::failed(down.why, 0.0);
    }
    let mut arguments = Map::new();
    arguments.insert("event".into(), event);
    let start = Instant::now();
    let outcome = tools.call(&hook.call, arguments, Duration::from_millis(hook.timeout_ms)).await;
    let ms = ms_since(start);
    match outcome {
        CallOutcome::Answered { duplicate_key: true, .. } => Asked::failed("a duplicated key in the answer", ms),
        CallOutcome::Answered { result, .. } => read(&result, hook.on, schema, limits, ms),
        CallOutcome::RpcError { code, message } => Asked::failed(format!("error {code}: {message}"), ms),
        CallOutcome::TimedOut { late } => Asked { late: Some(late), ..Asked::just(HookOutcome::TimedOut, ms) },
        CallOutcome::NotSent { why } | CallOutcome::Lost { why } => Asked::failed(why, ms),
    }
}

/// Whether a value's text has at most so many bytes. The text itself is not made: it may be large, and is made once more to be sent.
fn fits(value: &Value, bytes: u64) -> bool {
    struct Left(u64);
    impl std::io::Write for Left {
        fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
            self.0 = self.0.checked_sub(text.len() as u64).ok_or(std::io::ErrorKind::FileTooLarge)?;
            Ok(text.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    serde_json::to_writer(Left(bytes), value).is_ok()
}

fn read(result: &Value, moment: Moment, schema: Option<&Value>, limits: &Limits, ms: f64) -> Asked {
    let answer = match answer::read(result, moment, schema) {
        Ok(answer) => answer,
        Err(why) => return Asked::failed(format!("no valid decision: {why}"), ms),
    };
    let shown = |reason: &Option<String>| text::reason(reason.as_deref(), limits.reason_chars);
    let given = || answer.reason.as_ref().map(|_| shown(&answer.reason));
    let (mut blobs, mut new_value) = (vec![], None);
    let outcome = match answer.decision {
        Decision::Allow => HookOutcome::Allow { reason: given() },
        Decision::Deny => HookOutcome::Deny { reason: shown(&answer.reason) },
        Decision::Escalate => HookOutcome::Escalate { reason: shown(&answer.reason) },
        Decision::Modify(ref value) => {
            let (stored, blob) = Stored::new(value.clone());
            blobs.extend(blob);
            new_value = Some(Arc::new(value.clone()));
            HookOutcome::Modify { value: stored, reason: given() }
        }
    };
    let other = answer.other.map(|value| {
        let stored = Stored::inline(value);
        if stored.bytes > OTHER_BYTES { stored.digest_only() } else { stored }
    });
    Asked { other, value: new_value, blobs, ..Asked::just(outcome, ms) }
}
