//! Asks one hook: event, size, call, and the answer read by the core's rules.
//!
//! Invariant: whatever goes wrong is an outcome of the hook, never an error of ours, and never an allow.

use crate::checked;
use crate::ports::tools::{CallOutcome, LateAnswer, Tools};
use hookwright_core::answer::{self, Answer, Decision};
use hookwright_core::chain::HookOutcome;
use hookwright_core::event::Moment;
use hookwright_core::hooks::Hook;
use hookwright_core::stored::{Blob, Stored};
use hookwright_core::{FunctionName, Limits, text};
use serde_json::{Map, Value};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
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

/// Hooks' functions that their servers were seen to list: looked up once for each job (SPEC §2).
#[derive(Debug, Default)]
pub struct Listed(Mutex<HashSet<FunctionName>>);

impl Listed {
    /// Waits for the server, and checks that it lists the function: a server that answers for names that it does not list is not asked.
    async fn check(&self, tools: &dyn Tools, call: &FunctionName) -> Result<(), String> {
        if self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(call) {
            return tools.ready(call.tool()).await.map_err(|down| down.why);
        }
        let functions = tools.functions(call.tool()).await.map_err(|down| down.why)?;
        if functions.iter().all(|f| f.name != call.function()) {
            return Err(format!("the tool {} lists no function {}", call.tool(), text::escape(call.function())));
        }
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(call.clone());
        Ok(())
    }
}

/// What a new value must fit (SPEC §4).
#[derive(Debug, Clone, Copy)]
pub enum Schema<'a> {
    /// Nothing but the moment's own type: nobody declares a schema.
    None,
    /// This schema.
    Is(&'a Value),
    /// There is one, and it is not known now: its tool is down. A new value can't be checked, so none is valid.
    Unknown,
}

/// Asks a hook about an event.
pub async fn ask(
    tools: &dyn Tools,
    listed: &Listed,
    hook: &Hook,
    event: Value,
    schema: Schema<'_>,
    limits: &Limits,
) -> Asked {
    if let Some(why) = &hook.unavailable {
        return Asked::failed(why.clone(), 0.0);
    }
    if !fits(&event, limits.event_bytes) {
        return Asked::failed("event too large", 0.0);
    }
    if let Err(why) = listed.check(tools, &hook.call).await {
        return Asked::failed(why, 0.0);
    }
    let mut arguments = Map::new();
    arguments.insert("event".into(), event);
    let start = Instant::now();
    let outcome = tools.call(&hook.call, arguments, Duration::from_millis(hook.timeout_ms)).await;
    let ms = ms_since(start);
    match outcome {
        CallOutcome::Answered { duplicate_key: true, .. } => Asked::failed("a duplicated key in the answer", ms),
        CallOutcome::Answered { result, .. } => match read(result, hook.on, schema).await {
            Ok(answer) => taken(answer, limits, ms),
            Err(why) => Asked::failed(format!("no valid decision: {why}"), ms),
        },
        CallOutcome::RpcError { code, message, .. } => Asked::failed(format!("error {code}: {message}"), ms),
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

/// Reads an answer. A new value is checked against the schema aside and within a limit: schemas are servers' own, and a hostile one
/// can make a check take for ever.
async fn read(result: Value, moment: Moment, schema: Schema<'_>) -> Result<Answer, String> {
    let answer = answer::parse(&result, moment)?;
    let schema = match schema {
        Schema::Is(schema) if matches!(answer.decision, Decision::Modify(_)) => schema.clone(),
        Schema::Unknown if matches!(answer.decision, Decision::Modify(_)) => {
            return Err("its value could not be checked: the tool does not say now what its function takes".into());
        }
        Schema::None | Schema::Is(_) | Schema::Unknown => {
            return answer::check(&answer, moment, None).map(|()| answer);
        }
    };
    let schema = Arc::new(schema);
    let against = schema.clone();
    checked::check(&schema, move || answer::check(&answer, moment, Some(&against)).map(|()| answer)).await
}

fn taken(answer: Answer, limits: &Limits, ms: f64) -> Asked {
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
        // Nothing acts on them: of what is too large or too deep for a record, the digest is enough.
        let (stored, _) = Stored::new(value);
        if stored.bytes > OTHER_BYTES { stored.digest_only() } else { stored }
    });
    Asked { other, value: new_value, blobs, ..Asked::just(outcome, ms) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read_now(result: Value, schema: &Value) -> Result<Answer, String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(read(result, Moment::PreToolCall, Schema::Is(schema)))
    }

    #[test]
    fn a_schema_that_takes_for_ever_is_no_valid_decision_and_holds_nobody_up() {
        let mut defs: Map<String, Value> = (0..60)
            .map(|i| {
                let next = json!({"$ref": format!("#/$defs/a{}", i + 1)});
                (format!("a{i}"), json!({"allOf": [next.clone(), next]}))
            })
            .collect();
        defs.insert("a60".into(), json!({"type": "object"}));
        let bomb = json!({"$defs": defs, "$ref": "#/$defs/a0"});
        let modify = json!({"content": [], "structuredContent": {"decision": "modify", "arguments": {}}});
        let spelt = json!({"content": [{"type": "text", "text": r#"{"decision":"mod\u0069fy","arguments":{}}"#}]});
        for slow in [modify.clone(), spelt] {
            assert!(read_now(slow, &bomb).unwrap_err().contains("could not be checked"));
        }
        assert!(matches!(read_now(modify, &json!({})).unwrap().decision, Decision::Modify(_)));
        let allow = json!({"content": [], "structuredContent": {"decision": "allow"}});
        assert_eq!(
            read_now(allow, &bomb).unwrap().decision,
            Decision::Allow,
            "nothing is checked where nothing is new"
        );
    }
}
