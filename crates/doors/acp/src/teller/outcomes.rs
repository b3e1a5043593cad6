//! What hooks and servers said, where the user should know: policy hooks that did more than allow, lifecycle hooks, servers' states.

use super::Teller;
use crate::tell::Weight;
use hookwright_core::chain::HookOutcome;
use hookwright_core::event::EventHead;
use hookwright_core::lifecycle::{LifecycleAnswer, LifecycleOutcome, Point, Skip};
use hookwright_core::text::{duration, escape, shown};
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

    pub(super) fn not_asked(&self, point: Point, skip: Skip) {
        let (word, why) = match skip {
            Skip::BudgetUsedUp => ("budget_used_up", "the objections that a session may raise are used up"),
            Skip::Declined => ("declined", "the agent heard the objection and ended its turn again"),
            Skip::NoTurnLeft => ("no_turn_left", "the agent has no turn left in which it could heed an objection"),
        };
        let title = format!("{} was not asked", point.function());
        let details = json!({"job": self.job, "hook": point.function(), "outcome": word});
        self.note(Weight::Info, &title, Some(why), details);
    }

    pub(super) async fn advised(&self, effect: &str, answers: &[LifecycleAnswer]) {
        let name = Point::of_effect(effect).map_or("a lifecycle hook", Point::function);
        for answer in answers {
            let server = escape(&answer.server);
            let (weight, word, title, text) = match &answer.outcome {
                LifecycleOutcome::Nothing => continue,
                LifecycleOutcome::Text { body } => {
                    let what = if name == "_Stop" { "objects" } else { "says" };
                    (Weight::Info, "text", format!("{server}: {name} {what}"), Some(self.said(body).await))
                }
                LifecycleOutcome::Failed { why } => {
                    (Weight::Warning, "failed", format!("{server}: {name} failed"), Some(why.clone()))
                }
                LifecycleOutcome::TimedOut { after_ms, killed } => {
                    let after = duration(*after_ms);
                    let word = if *killed { "killed" } else { "timeout" };
                    let end =
                        if *killed { "; the server was killed and is started again, without its state" } else { "" };
                    (
                        Weight::Warning,
                        word,
                        format!("{server}: {name} did not answer"),
                        Some(format!("no answer within {after}{end}")),
                    )
                }
            };
            let details =
                json!({"job": self.job, "hook": name, "server": answer.server, "outcome": word, "ms": answer.ms});
            self.note(weight, &title, text.as_deref(), details);
        }
    }

    /// The text within what is delivered to the model.
    async fn said(&self, body: &hookwright_core::Stored) -> String {
        let body = self.value(body).await;
        let text = body.as_str().and_then(|body| serde_json::from_str::<Value>(body).ok());
        match text.as_ref().and_then(|body| body["text"].as_str()) {
            Some(text) => text.to_owned(),
            None => shown(body.as_str().unwrap_or_default(), 2_000),
        }
    }
}
