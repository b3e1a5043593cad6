//! One event through its chain, without a job: no call is made and no approval opened. How hook authors test.

use crate::hook;
use crate::ports::tools::Tools;
use hookwright_core::Limits;
use hookwright_core::chain::{Chain, HookOutcome, Step};
use hookwright_core::event::{EventBody, EventHead, Moment, build};
use hookwright_core::hooks::HookSet;
use hookwright_core::stored::Stored;
use hookwright_core::verdict::Verdict;
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;

/// An event to put through.
#[derive(Debug, Clone)]
pub struct ProbeEvent {
    /// All but the values.
    pub head: EventHead,
    /// The values.
    pub body: EventBody,
    /// What a new value must fit.
    pub schema: Option<Value>,
}

/// What the chain said.
#[derive(Debug, Clone, Serialize)]
pub struct ProbeReport {
    /// `allow`, `modify`, `deny` or `escalate`.
    pub verdict: String,
    /// The function, for events of a call.
    pub tool: Option<String>,
    /// The final value of the event's key.
    pub value: Value,
    /// What the model (for events of a call) or the user would read; none where the value goes on.
    pub says: Option<String>,
    /// The answers, in order; hooks after a deny are not asked and not listed.
    pub answers: Vec<ProbeAnswer>,
}

/// One hook's answer.
#[derive(Debug, Clone, Serialize)]
pub struct ProbeAnswer {
    /// The hook's function.
    pub hook: String,
    /// What counts: the decision that it gave, or what its `on_timeout` stands for.
    pub decision: String,
    /// Its reason, fit to show.
    pub reason: Option<String>,
    /// Why it gave no valid decision.
    pub failed: Option<String>,
    /// Milliseconds from the ask to the answer.
    pub ms: f64,
    /// Whether it changed the value.
    pub changed: bool,
}

/// Puts an event through the chain of the hooks that match it.
pub async fn probe(tools: &dyn Tools, hooks: &HookSet, event: ProbeEvent, limits: &Limits) -> ProbeReport {
    let moment = event.head.event;
    let names: Vec<&str> = event.head.tool.iter().chain(&event.head.alias).map(String::as_str).collect();
    let original = key_value(&event.body).clone();
    let mut current = Arc::new(original.clone());
    let mut body = event.body;
    let mut chain = Chain::new(hooks.matching(moment, &event.head.agent, &names), Stored::inline(original));
    let mut answers = vec![];
    let listed = hook::Listed::default();
    let schema = event.schema.as_ref().map_or(hook::Schema::None, hook::Schema::Is);
    let verdict = loop {
        let position = match chain.step() {
            Step::Done(verdict) => break verdict,
            Step::Ask(position) => position,
        };
        let hook = &hooks.hooks[position];
        let asked = hook::ask(tools, &listed, hook, build(&event.head, body.clone()), schema, limits).await;
        let before = chain.value().clone();
        chain.answered(hook, &asked.outcome);
        let changed = !chain.value().same(&before);
        if changed && let Some(value) = asked.value {
            set_key_value(&mut body, (*value).clone());
            current = value;
        }
        answers.push(answer(hook, &asked.outcome, asked.ms, changed));
    };
    let tool = event.head.tool.clone();
    let says = match (&verdict, &tool) {
        (Verdict::Deny(denial), Some(tool)) if moment == Moment::PreToolCall => Some(denial.before_call(tool)),
        (Verdict::Deny(denial), Some(tool)) => Some(denial.after_call(tool)),
        (Verdict::Deny(denial), None) => {
            let what = if moment == Moment::JobStart { "the job" } else { "the output" };
            Some(format!("hook {} denied {what}: {}", denial.hook, denial.reason))
        }
        _ => None,
    };
    ProbeReport { verdict: verdict.word().into(), tool, value: (*current).clone(), says, answers }
}

fn answer(hook: &hookwright_core::hooks::Hook, outcome: &HookOutcome, ms: f64, changed: bool) -> ProbeAnswer {
    use hookwright_core::manifest::OnTimeout;
    let (decision, reason) = match outcome {
        HookOutcome::Allow { reason } => ("allow", reason.clone()),
        HookOutcome::Modify { reason, .. } => ("modify", reason.clone()),
        HookOutcome::Deny { reason } => ("deny", Some(reason.clone())),
        HookOutcome::Escalate { reason } => ("escalate", Some(reason.clone())),
        HookOutcome::TimedOut | HookOutcome::Failed { .. } => {
            let word = match hook.on_timeout {
                OnTimeout::Deny => "deny",
                OnTimeout::Allow => "allow",
                OnTimeout::Escalate => "escalate",
            };
            (word, None)
        }
    };
    ProbeAnswer {
        hook: hook.call.to_string(),
        decision: decision.into(),
        reason,
        failed: outcome.failure(hook),
        ms,
        changed,
    }
}

fn key_value(body: &EventBody) -> &Value {
    match body {
        EventBody::JobStart(value) | EventBody::PreToolCall(value) | EventBody::JobEnd(value) => value,
        EventBody::PostToolCall { result, .. } => result,
    }
}

fn set_key_value(body: &mut EventBody, new: Value) {
    match body {
        EventBody::JobStart(value) | EventBody::PreToolCall(value) | EventBody::JobEnd(value) => *value = new,
        EventBody::PostToolCall { result, structured, .. } => {
            *result = new;
            // A modified result drops its structured part (SPEC §3).
            *structured = None;
        }
    }
}
