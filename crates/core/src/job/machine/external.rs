//! The work of an agent that somebody else runs: its calls, its outputs, its going (docs/decisions/0115).
//!
//! Invariant: such an agent asks for calls at any time and in any number; each has its own chain, and none waits for another.
//! Invariant: a call that was left while a person was asked is answered once, to the same call asked for again: never made unasked.

use super::{Machine, Mismatch, Phase};
use crate::call::{Call, CallEnd, EndKind};
use crate::job::{CallReply, Command, Fact, JobError, Outcome, RequestedCall};
use crate::question;
use crate::stored::Stored;
use crate::text;
use crate::verdict::Denial;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;

/// The version of the logic that knows such agents.
const SINCE: u32 = 3;
/// Calls whose answers nobody waits for: more questions than these are not left open.
const LEFT: usize = 256;
/// Calls that the agent may make itself and has not told the end of: of more than these, the oldest is given up.
const LET: usize = 1_024;

/// The calls that such an agent asked for and that have no answer yet.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Asked {
    /// In the order they were asked for.
    calls: Vec<Call>,
    /// Ids of those whose answers nobody waits for now.
    left: BTreeSet<String>,
    /// How many were asked for.
    count: u64,
    /// How often a denied output sent the agent back.
    held: u32,
    /// How often another output took the place of one that was asked about.
    #[serde(default)]
    replaced: u32,
}

impl Asked {
    pub(super) fn calls_mut(&mut self) -> &mut [Call] {
        &mut self.calls
    }

    /// How many outputs there were before the one that is asked about.
    pub(super) fn round(&self) -> u32 {
        self.held + self.replaced
    }

    fn get(&self, id: &str) -> Option<&Call> {
        self.calls.iter().find(|call| call.id() == id)
    }

    fn remove(&mut self, id: &str) {
        self.calls.retain(|call| call.id() != id);
        self.left.remove(id);
    }
}

impl Machine {
    /// The id that a call has which an agent asks for now: that of an equal call which it left, else a new one.
    pub fn id_of_call(&self, request: &RequestedCall) -> String {
        let calls = &self.external.calls;
        let left = calls.iter().find(|call| self.external.left.contains(call.id()) && call.is_same(request));
        left.map_or_else(|| format!("c{}", self.external.count), |call| call.id().to_owned())
    }

    /// The approval that a call waits for, by its id.
    pub fn call_waits_for(&self, call: &str) -> Option<&str> {
        self.external.get(call).filter(|call| call.awaits_person())?;
        let mut asked = self.waiting().filter(|approval| approval.call.as_deref() == Some(call));
        asked.next().map(|approval| approval.id.as_str())
    }

    /// Whether a call under way may be left: a person is asked, and there is room for one more open question.
    pub fn may_leave(&self, call: &str) -> bool {
        self.external.left.len() < LEFT && !self.external.left.contains(call) && self.call_waits_for(call).is_some()
    }

    /// Whether nobody waits for a call, which may be asked for again.
    pub fn is_left(&self, call: &str) -> bool {
        self.external.left.contains(call)
    }

    /// Whether a call of such an agent is under way, or waits.
    pub fn knows_call(&self, call: &str) -> bool {
        self.external.get(call).is_some()
    }

    /// The calls that an agent makes itself and that have no end yet.
    pub fn let_calls(&self) -> impl Iterator<Item = &str> {
        self.pending
            .iter()
            .filter_map(|p| if let Command::LetCall { call, .. } = &p.command { Some(&**call) } else { None })
    }

    /// The oldest of the calls that the agent makes itself, where it owes the ends of too many: some are never told, as those of calls
    /// that a harness's own rules refused, that failed there, or that a person broke off.
    pub fn overdue_call(&self) -> Option<&str> {
        self.let_calls().nth(LET).and_then(|_| self.let_calls().next())
    }

    /// Whether a call was made, and its result waits for hooks or a person.
    pub fn is_made(&self, call: &str) -> bool {
        self.external.get(call).is_some_and(Call::is_made)
    }

    /// Whether the agent may work: the hooks at the start have passed, and the job is not over.
    pub fn is_admitted(&self) -> bool {
        self.spec.agent.external.is_some()
            && matches!(self.phase, Phase::External | Phase::End(_) | Phase::EndPerson { .. })
    }

    /// Whether an output may be offered now.
    pub fn takes_output(&self) -> bool {
        matches!(self.phase, Phase::External)
    }

    /// Whether this is another output than the one that hooks or people are asked about now. What they say would not be said of it.
    pub fn is_other_output(&self, output: &Stored) -> bool {
        match &self.phase {
            Phase::End(chain) | Phase::EndPerson { chain, .. } => !chain.original().same(output),
            _ => false,
        }
    }

    /// The hooks at the job's start passed its input.
    pub(super) fn admit(&mut self, input: Stored, out: &mut Vec<Command>) {
        self.phase = Phase::External;
        out.push(Command::Admit { input });
    }

    /// Whether an effect belongs to the question whether an output may be given.
    pub fn is_of_output(effect: &str) -> bool {
        question::is_of_output(effect)
    }

    /// Takes what such an agent does.
    pub(super) fn outside(&mut self, fact: &Fact, out: &mut Vec<Command>) -> Result<(), Mismatch> {
        let unexpected = || Mismatch::unexpected(fact);
        if self.spec.agent.external.is_none() || self.spec.logic < SINCE {
            return Err(unexpected());
        }
        match fact {
            Fact::CallRequested { id, call } if self.is_admitted() && *id == self.id_of_call(call) => {
                self.requested_outside(id, call, out);
            }
            Fact::CallLeft { call } if self.may_leave(call) => {
                self.external.left.insert(call.clone());
            }
            Fact::CallCancelled { call } if self.external.get(call).is_some() => self.withdraw(call, out),
            Fact::OutputOffered { output } if self.takes_output() => self.end(output.clone(), out),
            Fact::OutputOffered { output } if self.is_other_output(output) => {
                self.withdraw_pending(Self::is_of_output, out);
                self.external.replaced += 1;
                self.end(output.clone(), out);
            }
            Fact::AgentLeft { by, done, failed } if !matches!(self.phase, Phase::Finishing(_) | Phase::Finished(_)) => {
                let outcome = if let Some(why) = failed {
                    Outcome::Failed { error: JobError::plain("HarnessFailed", format!("{by}: {why}")) }
                } else if *done && self.is_admitted() {
                    Outcome::Completed { output: Stored::inline(Value::String(String::new())) }
                } else {
                    Outcome::Cancelled { by: by.clone() }
                };
                self.finish(outcome, out);
            }
            _ => return Err(unexpected()),
        }
        Ok(())
    }

    fn requested_outside(&mut self, id: &str, request: &RequestedCall, out: &mut Vec<Command>) {
        if !self.external.left.remove(id) {
            self.external.count += 1;
            let mut request = request.clone();
            if let Some(error) = self.calls_used_up(1) {
                request.refused = Some(format!(
                    "The call to {} was not made: {}. The job ends here.",
                    text::escape(&request.tool),
                    error.message
                ));
                self.external.calls.push(Call::new(id.to_owned(), request));
                self.answer_outside(out);
                return self.fail(error, out);
            }
            self.spent.calls(1);
            let limit = self.spec.limits.calls_per_turn as usize;
            // What the agent was allowed is its own affair: the ends of some calls are never told.
            let by_agent = self.spec.agent.external.is_some_and(|external| external.makes_calls);
            let Asked { calls, left, .. } = &self.external;
            let holds = |call: &&Call| !(left.contains(call.id()) || by_agent && call.is_calling());
            let open = calls.iter().filter(holds).count();
            if open >= limit && request.refused.is_none() {
                request.refused = Some(format!(
                    "The call to {} was not made: {limit} calls of this job are under way. Call it again when one has ended.",
                    text::escape(&request.tool)
                ));
            }
            self.external.calls.push(Call::new(id.to_owned(), request));
        }
        self.answer_outside(out);
    }

    /// Begins calls that may begin, and answers those that are over.
    pub(super) fn answer_outside(&mut self, out: &mut Vec<Command>) {
        let (spec, left) = (&self.spec, &self.external.left);
        for call in &mut self.external.calls {
            if !left.contains(call.id()) && call.is_queued() {
                call.begin(spec, &mut self.matching, out);
            }
        }
        let over = |call: &Call| {
            let end = call.end().filter(|_| !self.external.left.contains(call.id()))?;
            Some((call.id().to_owned(), reply(end)))
        };
        let answers: Vec<_> = self.external.calls.iter().filter_map(over).collect();
        for (call, reply) in answers {
            self.external.remove(&call);
            out.push(Command::Answer { call, reply });
        }
    }

    /// Drops a call with everything that is under way for it.
    fn withdraw(&mut self, id: &str, out: &mut Vec<Command>) {
        self.withdraw_pending(|effect| effect.strip_prefix(id).is_some_and(|rest| rest.starts_with('.')), out);
        self.external.remove(id);
    }

    /// Drops effects that are under way, and closes the questions among them.
    fn withdraw_pending(&mut self, effects: impl Fn(&str) -> bool, out: &mut Vec<Command>) {
        let whose = |command: &Command| command.effect().is_some_and(&effects);
        out.extend(self.pending.iter().filter(|p| p.begun && whose(&p.command)).filter_map(|p| match &p.command {
            Command::OpenApproval { approval, .. } => Some(Command::CloseApproval { approval: approval.id.clone() }),
            _ => None,
        }));
        self.pending.retain(|p| !whose(&p.command));
    }

    /// Whether a denied output sends the agent back to work.
    pub(super) fn sent_back(&mut self, denial: &Denial, out: &mut Vec<Command>) -> bool {
        let holds = self.spec.agent.external.map_or(0, |external| external.holds);
        if self.external.held >= holds {
            return false;
        }
        self.external.held += 1;
        self.phase = Phase::External;
        out.push(Command::SendBack { hook: denial.hook.clone(), reason: denial.reason.clone() });
        true
    }

    /// Answers the calls that the job's end cuts off.
    pub(super) fn cut_off_outside(&mut self, outcome: &Outcome, out: &mut Vec<Command>) {
        let because = match outcome {
            Outcome::Cancelled { .. } => "the job was cancelled",
            Outcome::Completed { .. } | Outcome::Failed { .. } => "the job ended",
        };
        let Asked { calls, left, .. } = std::mem::take(&mut self.external);
        out.extend(
            calls
                .iter()
                .filter(|call| !left.contains(call.id()))
                .map(|call| Command::Answer { call: call.id().to_owned(), reply: reply(&call.cut_off(because)) }),
        );
    }
}

fn reply(end: &CallEnd) -> CallReply {
    let text = || end.content.value.as_deref().and_then(Value::as_str).unwrap_or_default().to_owned();
    match &end.kind {
        EndKind::NotMade => CallReply::NotMade { text: text() },
        EndKind::Withheld => CallReply::Withheld { text: text() },
        EndKind::Result { given, structured, rest, changed } => CallReply::Result {
            content: given.clone(),
            structured: structured.clone(),
            rest: rest.clone(),
            is_error: end.is_error,
            changed: *changed,
        },
    }
}
