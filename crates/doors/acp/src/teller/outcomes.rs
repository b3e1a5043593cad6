//! What hooks and servers said, where the user should know: policy hooks that did more than allow, lifecycle hooks, servers' states.

use super::Teller;
use crate::farewell::said;
use crate::tell::Weight;
use crate::wire;
use hookwright_core::chain::HookOutcome;
use hookwright_core::event::EventHead;
use hookwright_core::job::JobError;
use hookwright_core::lifecycle::{LifecycleAnswer, LifecycleOutcome, Point, Skip};
use hookwright_core::text::{duration, escape};
use serde_json::{Value, json};

/// A hook that was asked and has not answered.
pub(super) struct Asked {
    pub(super) hook: usize,
    pub(super) head: EventHead,
}

impl Teller {
    /// Hooks that can't be asked at all: every event that they match will fail by them.
    pub(super) fn unavailable(&self) {
        let Some(machine) = &self.machine else { return };
        for hook in &machine.spec().hooks.hooks {
            if let Some(why) = &hook.unavailable {
                let name = hook.call.to_string();
                let title = format!("The hook {} can't be asked", escape(&name));
                self.note(Weight::Error, &title, Some(why), json!({"job": self.job, "hook": name}));
            }
        }
    }

    pub(super) fn hook_answered(&mut self, effect: &str, outcome: &HookOutcome, ms: f64) {
        let Some(asked) = self.asked.remove(effect) else { return };
        if let HookOutcome::Modify { value, .. } = outcome {
            self.changed.insert(value.sha256.clone(), value.clone());
        }
        let hook = self.machine.as_ref().and_then(|m| m.spec().hooks.hooks.get(asked.hook)).cloned();
        let name = escape(&hook.as_ref().map_or_else(|| effect.to_owned(), |hook| hook.call.to_string()));
        let about = match &asked.head.tool {
            Some(tool) => format!("the call to {}", escape(tool)),
            None => format!("the job ({})", asked.head.event.name()),
        };
        let failure = hook.as_ref().and_then(|hook| outcome.failure(hook));
        let (weight, word, title, why) = match outcome {
            HookOutcome::Allow { .. } => return,
            HookOutcome::Modify { reason, .. } => {
                (Weight::Info, "modify", format!("Hook {name} changed {about}"), reason.clone())
            }
            HookOutcome::Deny { reason } => {
                (Weight::Warning, "deny", format!("Hook {name} denied {about}"), Some(reason.clone()))
            }
            HookOutcome::Escalate { reason } => {
                (Weight::Info, "escalate", format!("Hook {name} asks a person about {about}"), Some(reason.clone()))
            }
            HookOutcome::TimedOut => {
                (Weight::Error, "timeout", format!("Hook {name} gave no answer on {about}"), failure)
            }
            HookOutcome::Failed { .. } => {
                (Weight::Error, "failed", format!("Hook {name} gave no valid answer on {about}"), failure)
            }
        };
        let call = asked.head.call.as_deref().map(|call| self.id(call));
        let details = json!({
            "job": self.job, "hook": name, "event": asked.head.event.name(), "outcome": word, "ms": ms, "toolCallId": call,
        });
        self.note(weight, &title, why.as_deref(), details);
    }

    pub(super) fn tool_state(&self, tool: &str, state: &str, why: Option<&str>) {
        let weight = if state == "ready" { Weight::Info } else { Weight::Warning };
        let title = format!("The MCP server {} is {}", escape(tool), escape(state));
        self.note(weight, &title, why, json!({"job": self.job, "tool": tool, "state": state}));
    }

    pub(super) fn not_asked(&self, point: Point, skip: Skip, failure: Option<&JobError>) {
        let (word, why) = match skip {
            Skip::BudgetUsedUp => ("budget_used_up", "the objections that a session may raise are used up"),
            Skip::Declined => ("declined", "the agent heard the objection and ended its turn again"),
            Skip::NoTurnLeft => ("no_turn_left", "the agent has no turn left in which it could heed an objection"),
            Skip::Kept => ("kept", "the agent could not go on after an objection, and its answer from before stands"),
        };
        let title = format!("{} was not asked", point.function());
        let details = json!({"job": self.job, "hook": point.function(), "outcome": word});
        let why = failure.map_or_else(|| why.to_owned(), |failure| format!("{why}: {}", failure.message));
        self.note(Weight::Info, &title, Some(&why), details);
    }

    /// Another output stands: what was objected to before is none, and no hook at the job's end is asked about it.
    pub(super) async fn superseded(&mut self) {
        if let Some((id, text)) = self.objected.take() {
            let text = self.value(&text).await;
            self.tell.message(&id, &wire::output_text(&text));
        }
    }

    pub(super) async fn advised(&mut self, effect: &str, answers: &[LifecycleAnswer]) {
        let point = Point::of_effect(effect);
        let name = point.map_or("a lifecycle hook", Point::function);
        let is_text = |answer: &LifecycleAnswer| matches!(answer.outcome, LifecycleOutcome::Text { .. });
        if point == Some(Point::Stop)
            && answers.iter().any(is_text)
            && let Some(text) = self.held.take()
        {
            self.objected = Some((self.message_id(), text));
            // Where a hook at the job's end may have a say, it waits: what is objected to may still be the output.
            if !self.machine.as_ref().is_some_and(|m| m.holds_output() && m.kept_output().is_some()) {
                self.superseded().await;
            }
        }
        for answer in answers {
            let said = match &answer.outcome {
                LifecycleOutcome::Text { body } => Some(said(&self.value(body).await)),
                _ => None,
            };
            let Some((weight, title, text, mut details)) = answer_notice(name, answer, said) else { continue };
            details["job"] = json!(self.job);
            self.note(weight, &title, text.as_deref(), details);
        }
    }
}

/// What is told of a server's answer at a point: nothing where it had nothing to say. `said`: the text that it has for the model.
pub(crate) fn answer_notice(
    name: &str,
    answer: &LifecycleAnswer,
    said: Option<String>,
) -> Option<(Weight, String, Option<String>, Value)> {
    let server = escape(&answer.server);
    let (weight, word, title, text) = match &answer.outcome {
        LifecycleOutcome::Nothing => return None,
        LifecycleOutcome::Text { .. } => {
            let what = if name == "_Stop" { "objects" } else { "says" };
            (Weight::Info, "text", format!("{server}: {name} {what}"), said)
        }
        LifecycleOutcome::Failed { why } => {
            (Weight::Warning, "failed", format!("{server}: {name} failed"), Some(why.clone()))
        }
        LifecycleOutcome::TimedOut { after_ms, killed } => {
            let after = duration(*after_ms);
            let word = if *killed { "killed" } else { "timeout" };
            let end = if *killed { "; the server was killed and is started again, without its state" } else { "" };
            let text = format!("no answer within {after}{end}");
            (Weight::Warning, word, format!("{server}: {name} did not answer"), Some(text))
        }
    };
    let details = json!({"hook": name, "server": answer.server, "outcome": word, "ms": answer.ms});
    Some((weight, title, text, details))
}
