//! What hooks and people said.

use super::super::line::{Line, columns};
use super::super::look::Role;
use super::super::{diff, prompt, units};
use super::{Approvals, Asked, Teller, chain, place};
use hookwright_core::approval::Approval;
use hookwright_core::chain::{Chain, HookOutcome, Step};
use hookwright_core::event::Moment;
use hookwright_core::hooks::Hook;
use hookwright_core::manifest::OnTimeout;
use hookwright_core::stored::Stored;
use hookwright_core::text;
use hookwright_core::verdict::{Denial, Verdict};

/// Lines of a change in the live story.
const CHANGE_ROWS: usize = 8;

/// Rows of a reason that does not fit beside its answer.
const REASON_ROWS: usize = 4;

/// Columns at which a hook's decision and its time stand.
const DECISION: usize = 32;
const TIME: usize = 43;
const REASON: usize = 54;

impl Teller {
    /// A hook's function, or the effect's id where that is not known.
    pub(super) fn hook_name(&self, effect: &str) -> String {
        let known = || {
            let position = effect.rsplit_once(".h")?.1.parse::<usize>().ok()?;
            Some(self.spec.as_ref()?.hooks.hooks.get(position)?.call.to_string())
        };
        self.asked.get(effect).map(|a| a.call.to_string()).or_else(known).unwrap_or_else(|| effect.to_owned())
    }

    pub(super) fn hook_answered(&mut self, effect: &str, outcome: &HookOutcome, ms: f64) {
        let name = self.hook_name(effect);
        let asked = self.asked.remove(effect);
        let hook = asked.as_ref().and_then(|a| self.spec.as_ref()?.hooks.hooks.get(a.hook)).cloned();
        let (mark, role, word, reason) = match outcome {
            HookOutcome::Allow { reason } => (' ', Role::Good, "allow", reason.clone()),
            HookOutcome::Modify { reason, .. } => ('~', Role::Change, "modify", reason.clone()),
            HookOutcome::Deny { reason } => ('!', Role::Bad, "deny", Some(reason.clone())),
            HookOutcome::Escalate { reason } => ('?', Role::Warn, "escalate", Some(reason.clone())),
            HookOutcome::TimedOut => ('!', Role::Bad, "TIMEOUT", None),
            HookOutcome::Failed { .. } => ('!', Role::Bad, "FAILED", None),
        };
        let line = Line::at(place(effect), mark).plain(&name).pad(DECISION).add(role, word);
        let line = line.pad(TIME).add(Role::Dim, &units::took(ms));
        match reason {
            // What the model reads of a deny holds its reason.
            Some(reason) if word == "deny" || columns(&reason) + REASON <= self.look.width => {
                self.put(line.pad(REASON).plain(&reason));
            }
            Some(reason) => {
                self.put(line);
                self.block(&reason, REASON_ROWS, Role::Dim);
            }
            None => self.put(line),
        }
        if let HookOutcome::TimedOut | HookOutcome::Failed { .. } = outcome {
            self.failure(outcome, hook.as_ref());
        }
        if let HookOutcome::Modify { value, .. } = outcome {
            self.changed(effect, value, asked.as_ref());
        }
        if let (Some(asked), Some(hook)) = (&asked, &hook)
            && let Some(denial) = denies(asked, hook, outcome)
        {
            self.model_reads(&denial, asked.head.event, asked.head.tool.as_deref());
        }
    }

    /// Why a hook gave no valid decision, and what that counts as.
    fn failure(&mut self, outcome: &HookOutcome, hook: Option<&Hook>) {
        let (why, counts) = match hook {
            Some(hook) => (
                outcome.failure(hook).unwrap_or_default(),
                match hook.on_timeout {
                    OnTimeout::Deny => "a deny",
                    OnTimeout::Allow => "an allow",
                    OnTimeout::Escalate => "an escalate",
                },
            ),
            None => ("no valid decision".to_owned(), "its on_timeout says"),
        };
        self.block(&format!("{why}; by its on_timeout this counts as {counts}"), 6, Role::Bad);
    }

    fn changed(&mut self, effect: &str, value: &Stored, asked: Option<&Asked>) {
        let before = self.values.insert(chain(effect).to_owned(), value.clone());
        let name = asked.map_or("value", |a| a.head.event.key());
        match before {
            Some(before) if before.same(value) => self.put(Line::more().add(Role::Dim, "(the value stays as it was)")),
            Some(before) => {
                if asked.is_some_and(|a| a.head.event == Moment::PreToolCall) {
                    self.changed_calls.insert(place(effect).to_owned());
                }
                for line in diff::lines(name, &before, value, CHANGE_ROWS, self.look) {
                    self.out.push_str(&line);
                }
            }
            None => {
                let size = units::bytes(value.bytes);
                self.put(Line::more().add(Role::Change, &format!("{name} is now {size}")));
            }
        }
    }

    /// What the model reads instead; at the job's own moments the job's error says it.
    fn model_reads(&mut self, denial: &Denial, event: Moment, tool: Option<&str>) {
        let Some(tool) = tool else { return };
        let text = match event {
            Moment::PreToolCall => denial.before_call(tool),
            Moment::PostToolCall => denial.after_call(tool),
            Moment::JobStart | Moment::JobEnd => return,
        };
        self.put(Line::more().add(Role::Dim, "the model reads:"));
        self.block(&text, usize::MAX, Role::Bad);
    }

    pub(super) fn waits(&mut self, approval: &Approval, expires_ms: u64) {
        if self.approvals != Approvals::Prompted {
            let now_ms = expires_ms.saturating_sub(approval.expires_after_ms);
            let next = Some(&self.next).filter(|_| self.approvals == Approvals::Told);
            let question = prompt::question(approval, expires_ms, now_ms, self.look, next);
            self.out.push_str(&question.text);
        }
    }

    pub(super) fn decided(&mut self, effect: &str, approve: bool, by: &str, verified: bool, note: Option<&str>) {
        let (mark, role, word) = if approve { (' ', Role::Good, "approved") } else { ('!', Role::Bad, "declined") };
        let claim = if verified { " (name verified)" } else { " (name only claimed)" };
        let line = Line::at(place(effect), mark).add(role, word).plain(" by ").add(Role::Strong, by);
        self.put(line.add(Role::Dim, claim));
        if let Some(note) = note.filter(|n| !n.is_empty()) {
            self.block(note, 6, Role::Dim);
        }
        let approval = self.waiting.remove(effect);
        if let Some(approval) = approval.filter(|_| !approve) {
            self.model_reads(&approval.denial(Some(by)), approval.event, approval.tool.as_deref());
        }
    }

    pub(super) fn expired(&mut self, effect: &str) {
        self.put(Line::at(place(effect), '!').add(Role::Bad, "nobody decided in time").plain(": it counts as a no"));
        if let Some(approval) = self.waiting.remove(effect) {
            self.model_reads(&approval.denial(None), approval.event, approval.tool.as_deref());
        }
    }
}

/// The denial that an answer stands for, if it does; read by the core's own rules.
fn denies(asked: &Asked, hook: &Hook, outcome: &HookOutcome) -> Option<Denial> {
    let mut chain = Chain::new(vec![asked.hook], Stored::inline(serde_json::Value::Null));
    chain.answered(hook, outcome);
    match chain.step() {
        Step::Done(Verdict::Deny(denial)) => Some(Denial { reason: text::escape(&denial.reason), ..denial }),
        _ => None,
    }
}
