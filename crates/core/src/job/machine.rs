//! The machine itself.

mod advice;
mod compacting;
mod external;
mod limited;
mod mismatch;
mod session;
mod turns;

pub use mismatch::Mismatch;

use super::command::Command;
use super::fact::{Fact, ModelFault};
use super::spec::{JobError, JobSpec, LOGIC_VERSION, Outcome};
use crate::approval::Approval;
use crate::call::Call;
use crate::chain::{Chain, Step};
use crate::compaction::Plan;
use crate::event::Moment;
use crate::matching::Matching;
use crate::message::Message;
use crate::question;
use crate::stored::Stored;
use crate::verdict::{Denial, Verdict};
use advice::{Advice, Ask};
use mismatch::brief;
use serde::{Deserialize, Serialize};

/// How often a model is told that its output breaks the agent's schema before the job fails.
const OUTPUT_CORRECTIONS: u32 = 2;

/// A job as a value: fed facts, it says what to do next.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    spec: JobSpec,
    phase: Phase,
    turn: u32,
    messages: Vec<Message>,
    conversation: String,
    pending: Vec<Pending>,
    corrections: u32,
    #[serde(default)]
    compacting: compacting::Compacting,
    #[serde(default)]
    carried: session::Carried,
    /// The job's input, as the hooks at its start left it.
    #[serde(default)]
    prompt: Option<Stored>,
    #[serde(default)]
    advice: Advice,
    #[serde(default)]
    external: external::Asked,
    #[serde(default)]
    spent: limited::Spent,
    #[serde(skip)]
    matching: Matching,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Phase {
    Start(Chain),
    StartPerson {
        chain: Chain,
        approval: Box<Approval>,
    },
    Model,
    /// An agent that somebody else runs is at work.
    External,
    Calls(Vec<Call>),
    /// The conversation is being compacted.
    Compacting(Plan),
    /// Servers are asked for advice.
    Lifecycle(Ask),
    End(Chain),
    EndPerson {
        chain: Chain,
        approval: Box<Approval>,
    },
    /// The outcome stands; its record does not.
    Finishing(Outcome),
    Finished(Outcome),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Pending {
    command: Command,
    begun: bool,
    /// When it was begun, Unix milliseconds.
    #[serde(default)]
    begun_ms: u64,
}

impl Machine {
    /// A machine at its start, and its first commands.
    pub fn new(spec: JobSpec) -> Result<(Self, Vec<Command>), Mismatch> {
        if spec.logic == 0 || spec.logic > LOGIC_VERSION {
            return Err(Mismatch::Logic(spec.logic));
        }
        let hooks = spec.hooks.matching(Moment::JobStart, &spec.agent.id, &[]);
        let chain = Chain::new(hooks, spec.input.clone());
        let carried = session::Carried::of(&spec);
        let mut machine = Self {
            conversation: session::Carried::digest(&spec),
            compacting: compacting::Compacting::of(&spec),
            spec,
            phase: Phase::Start(chain),
            turn: 0,
            messages: vec![],
            pending: vec![],
            corrections: 0,
            carried,
            prompt: None,
            advice: Advice::default(),
            external: external::Asked::default(),
            spent: limited::Spent::default(),
            matching: Matching::default(),
        };
        let mut out = vec![];
        machine.go_on(&mut out);
        machine.note_pending(&out);
        Ok((machine, out))
    }

    /// What the job is made of.
    pub fn spec(&self) -> &JobSpec {
        &self.spec
    }

    /// The job's input, as the hooks at its start left it; none before that.
    pub fn prompt(&self) -> Option<&Stored> {
        self.prompt.as_ref()
    }

    /// The number of the model turn that is under way, or was last; 0 before the first.
    pub fn turn(&self) -> u32 {
        self.turn
    }

    /// Takes a fact of a time (Unix milliseconds) and says what to do next.
    ///
    /// An `Err` means that the fact can't follow what came before; the machine is then as it was.
    pub fn handle(&mut self, at_ms: u64, fact: &Fact) -> Result<Vec<Command>, Mismatch> {
        let mut out = vec![];
        match fact {
            Fact::Started { .. } => return Err(Mismatch::unexpected(fact)),
            Fact::Resumed { .. }
            | Fact::ToolState { .. }
            | Fact::HookLate { .. }
            | Fact::ToolLate { .. }
            | Fact::DecisionIgnored { .. } => return Ok(out),
            Fact::Begun { command } if self.session_end_begun(command) => return Ok(out),
            Fact::Begun { command } => return self.begun(at_ms, command, fact).map(|()| out),
            Fact::Finished { outcome } => {
                let Phase::Finishing(due) = &self.phase else {
                    return Err(Mismatch::Outcome { history: brief(outcome), logic: "to go on".into() });
                };
                if due != outcome {
                    return Err(Mismatch::Outcome { history: brief(outcome), logic: brief(due) });
                }
                self.phase = Phase::Finished(due.clone());
                return Ok(out);
            }
            Fact::SessionEnded { answers } => return self.end_session(fact, answers).map(|()| out),
            Fact::Cancelled { by } => {
                if matches!(self.phase, Phase::Finishing(_) | Phase::Finished(_)) {
                    return Ok(out);
                }
                let outcome = Outcome::Cancelled { by: by.clone() };
                self.finish(outcome, &mut out);
                return Ok(out);
            }
            Fact::CallRequested { .. }
            | Fact::CallLeft { .. }
            | Fact::CallCancelled { .. }
            | Fact::OutputOffered { .. }
            | Fact::AgentLeft { .. } => self.outside(fact, &mut out)?,
            Fact::HookAnswered { effect, .. }
            | Fact::ModelAnswered { effect, .. }
            | Fact::ModelFailed { effect, .. }
            | Fact::ToolReturned { effect, .. }
            | Fact::Compacted { effect, .. }
            | Fact::LifecycleAnswered { effect, .. }
            | Fact::ApprovalDecided { effect, .. }
            | Fact::ApprovalExpired { effect, .. } => {
                let Some(position) = self.pending.iter().position(|p| p.command.effect() == Some(effect)) else {
                    return Err(Mismatch::unexpected(fact));
                };
                let pending = &self.pending[position];
                if !pending.begun || !fits(&pending.command, fact) {
                    return Err(Mismatch::unexpected(fact));
                }
                // An approval that has expired is a no, whatever was said later (SPEC §7). Holds for logic 1 too: its stores let no
                // such decision in.
                if let (Command::OpenApproval { approval, .. }, Fact::ApprovalDecided { decided_ms, .. }) =
                    (&pending.command, fact)
                    && *decided_ms >= approval.expires_ms(pending.begun_ms)
                {
                    return Err(Mismatch::Decision { approval: approval.id.clone() });
                }
                let taken = self.pending.remove(position);
                if let Err(mismatch) = self.take(at_ms, effect, fact, &mut out) {
                    // A fact is refused before anything takes it in: only this was changed.
                    self.pending.insert(position, taken);
                    return Err(mismatch);
                }
            }
        }
        self.note_pending(&out);
        Ok(out)
    }

    /// What is still to be done or under way, in the order it was commanded; the flag says whether it was begun.
    pub fn pending(&self) -> impl Iterator<Item = (&Command, bool)> {
        self.pending.iter().map(|p| (&p.command, p.begun))
    }

    /// An approval that was opened and waits, by its id: the effect, what was asked, and when (Unix milliseconds). What a store
    /// keeps beside the history is only an index of it.
    pub fn opened(&self, id: &str) -> Option<(&str, &Approval, u64)> {
        self.pending.iter().filter(|p| p.begun).find_map(|p| match &p.command {
            Command::OpenApproval { effect, approval } if approval.id == id => {
                Some((effect.as_str(), &**approval, p.begun_ms))
            }
            _ => None,
        })
    }

    /// The outcome that stands but is not recorded yet.
    pub fn due_outcome(&self) -> Option<&Outcome> {
        if let Phase::Finishing(outcome) = &self.phase { Some(outcome) } else { None }
    }

    /// How the job ended, once that is recorded.
    pub fn outcome(&self) -> Option<&Outcome> {
        if let Phase::Finished(outcome) = &self.phase { Some(outcome) } else { None }
    }

    /// The approvals that wait, in the order they were asked.
    pub fn waiting(&self) -> impl Iterator<Item = &Approval> {
        self.pending.iter().filter_map(|p| match &p.command {
            Command::OpenApproval { approval, .. } => Some(&**approval),
            Command::Ask { .. }
            | Command::CallTool { .. }
            | Command::LetCall { .. }
            | Command::CallModel { .. }
            | Command::Compact { .. }
            | Command::AskLifecycle { .. }
            | Command::CloseApproval { .. }
            | Command::Admit { .. }
            | Command::Answer { .. }
            | Command::SendBack { .. }
            | Command::Finish { .. } => None,
        })
    }

    /// Whether nothing goes on until a person decides.
    pub fn only_waits(&self) -> bool {
        !self.pending.is_empty() && self.pending.iter().all(|p| matches!(p.command, Command::OpenApproval { .. }))
    }

    /// The conversation of this job, as the next model turn sees it after what [`Machine::carries_earlier`] tells of. Values are as the facts gave them: a driver loads those that are by digest.
    pub fn conversation(&self) -> &[Message] {
        &self.messages
    }

    /// Whether text that may be the output must be held back until the verdict of a `job_end` hook (SPEC §3).
    pub fn holds_output(&self) -> bool {
        !self.spec.hooks.matching(Moment::JobEnd, &self.spec.agent.id, &[]).is_empty()
    }

    fn note_pending(&mut self, out: &[Command]) {
        self.pending.extend(out.iter().filter(|c| c.effect().is_some()).map(|c| Pending {
            command: c.clone(),
            begun: false,
            begun_ms: 0,
        }));
    }

    fn begun(&mut self, at_ms: u64, command: &Command, fact: &Fact) -> Result<(), Mismatch> {
        let effect = command.effect().unwrap_or_default();
        let Some(pending) = self.pending.iter_mut().find(|p| p.command.effect() == Some(effect)) else {
            return Err(Mismatch::Command { effect: effect.into(), history: brief(command), logic: "nothing".into() });
        };
        if pending.command != *command {
            return Err(Mismatch::Command {
                effect: effect.into(),
                history: brief(command),
                logic: brief(&pending.command.digest_only()),
            });
        }
        pending.begun = true;
        pending.begun_ms = at_ms;
        let calls = match &mut self.phase {
            Phase::Calls(calls) => calls,
            _ => self.external.calls_mut(),
        };
        if let Some(call) = call_of(calls, effect) {
            call.handle(&self.spec, &mut self.matching, at_ms, fact, &mut vec![])?;
        }
        Ok(())
    }

    fn take(&mut self, at_ms: u64, effect: &str, fact: &Fact, out: &mut Vec<Command>) -> Result<(), Mismatch> {
        if let Some(call) = call_of(self.external.calls_mut(), effect) {
            call.handle(&self.spec, &mut self.matching, at_ms, fact, out)?;
            self.answer_outside(out);
            return Ok(());
        }
        match (&mut self.phase, fact) {
            (Phase::Start(chain) | Phase::End(chain), Fact::HookAnswered { outcome, .. }) => {
                let Step::Ask(position) = chain.step() else { return Err(Mismatch::unexpected(fact)) };
                chain.answered(&self.spec.hooks.hooks[position], outcome);
                self.go_on(out);
            }
            (
                Phase::StartPerson { chain, approval } | Phase::EndPerson { chain, approval },
                Fact::ApprovalDecided { .. },
            ) => {
                let (denial, value) = (question::decided(approval, fact)?, chain.value().clone());
                match denial {
                    Some(denial) => self.hook_denied(&denial, out),
                    None => self.job_chain_passed(value, out),
                }
            }
            (Phase::StartPerson { approval, .. } | Phase::EndPerson { approval, .. }, Fact::ApprovalExpired { .. }) => {
                let denial = approval.denial(None);
                self.hook_denied(&denial, out);
            }
            (Phase::Model, Fact::ModelAnswered { .. }) => self.answered(fact, out),
            (Phase::Model, Fact::ModelFailed { fault, message, sent, .. }) => match fault {
                ModelFault::ContextFull => self.context_full(message, *sent, out),
                ModelFault::WindowTooSmall => self.fail_turn(JobError::plain("ContextFull", message.clone()), out),
                ModelFault::Failed => self.fail_turn(JobError::plain("ModelFailed", message.clone()), out),
            },
            (Phase::Compacting(_), Fact::Compacted { .. }) => self.compaction_done(fact, out),
            (Phase::Lifecycle(_), Fact::LifecycleAnswered { answers, .. }) => self.advised(answers, out),
            (Phase::Calls(calls), _) => {
                let Some(call) = call_of(calls, effect) else { return Err(Mismatch::unexpected(fact)) };
                call.handle(&self.spec, &mut self.matching, at_ms, fact, out)?;
                self.schedule(out);
            }
            _ => return Err(Mismatch::unexpected(fact)),
        }
        Ok(())
    }

    /// Takes the next step of a chain of the job's own.
    fn go_on(&mut self, out: &mut Vec<Command>) {
        let (moment, chain) = match &self.phase {
            Phase::Start(chain) => (Moment::JobStart, chain.clone()),
            Phase::End(chain) => (Moment::JobEnd, chain.clone()),
            Phase::StartPerson { .. }
            | Phase::Model
            | Phase::External
            | Phase::Calls(_)
            | Phase::Compacting(_)
            | Phase::Lifecycle(_)
            | Phase::EndPerson { .. }
            | Phase::Finishing(_)
            | Phase::Finished(_) => return,
        };
        let round = self.external.round();
        match chain.step() {
            Step::Ask(hook) => out.push(question::ask(&self.spec, moment, hook, &chain, None, round)),
            Step::Done(Verdict::Allow | Verdict::Modify { .. }) => self.job_chain_passed(chain.value().clone(), out),
            Step::Done(Verdict::Deny(denial)) => self.hook_denied(&denial, out),
            Step::Done(Verdict::Escalate { .. }) => {
                let (command, approval) = question::open(&self.spec, moment, &chain, None, round);
                out.push(command);
                self.phase = if moment == Moment::JobStart {
                    Phase::StartPerson { chain, approval }
                } else {
                    Phase::EndPerson { chain, approval }
                };
            }
        }
    }

    fn job_chain_passed(&mut self, value: Stored, out: &mut Vec<Command>) {
        match self.phase {
            Phase::Start(_) | Phase::StartPerson { .. } => {
                self.prompt = Some(value.clone());
                if self.spec.agent.external.is_some() {
                    return self.admit(value, out);
                }
                self.say(Message::User { content: value });
                self.open(None, out);
            }
            Phase::End(_) | Phase::EndPerson { .. } => self.finish(Outcome::Completed { output: value }, out),
            Phase::Model
            | Phase::External
            | Phase::Calls(_)
            | Phase::Compacting(_)
            | Phase::Lifecycle(_)
            | Phase::Finishing(_)
            | Phase::Finished(_) => {}
        }
    }

    fn hook_denied(&mut self, denial: &Denial, out: &mut Vec<Command>) {
        if matches!(self.phase, Phase::End(_) | Phase::EndPerson { .. }) && self.sent_back(denial, out) {
            return;
        }
        let what = match self.phase {
            Phase::Start(_) | Phase::StartPerson { .. } => "the job",
            _ => "the output",
        };
        self.fail(
            JobError {
                kind: "HookDenied".into(),
                message: format!("hook {} denied {what}: {}", denial.hook, denial.reason),
                hook: Some(denial.hook.clone()),
                reason: Some(denial.reason.clone()),
            },
            out,
        );
    }

    fn fail(&mut self, error: JobError, out: &mut Vec<Command>) {
        self.finish(Outcome::Failed { error }, out);
    }

    fn finish(&mut self, outcome: Outcome, out: &mut Vec<Command>) {
        // One that was never opened needs no closing.
        out.extend(self.pending.iter().filter(|p| p.begun).filter_map(|p| match &p.command {
            Command::OpenApproval { approval, .. } => Some(Command::CloseApproval { approval: approval.id.clone() }),
            _ => None,
        }));
        self.pending.clear();
        self.close_calls();
        self.cut_off_outside(&outcome, out);
        out.push(Command::Finish { outcome: outcome.clone() });
        self.phase = Phase::Finishing(outcome);
    }
}

/// Whether a fact is a result that a command can have.
fn fits(command: &Command, fact: &Fact) -> bool {
    if let (Command::AskLifecycle { servers, .. }, Fact::LifecycleAnswered { answers, .. }) = (command, fact) {
        return advice::fits_servers(servers, answers);
    }
    matches!(
        (command, fact),
        (Command::Ask { .. }, Fact::HookAnswered { .. })
            | (Command::CallTool { .. } | Command::LetCall { .. }, Fact::ToolReturned { .. })
            | (Command::Compact { .. }, Fact::Compacted { .. })
            | (Command::CallModel { .. }, Fact::ModelAnswered { .. } | Fact::ModelFailed { .. })
            | (Command::OpenApproval { .. }, Fact::ApprovalDecided { .. } | Fact::ApprovalExpired { .. })
    )
}

/// The call that an effect belongs to: effects of `t1.c0` are `t1.c0.…`.
fn call_of<'a>(calls: &'a mut [Call], effect: &str) -> Option<&'a mut Call> {
    calls.iter_mut().find(|c| effect.strip_prefix(c.id()).is_some_and(|rest| rest.starts_with('.')))
}

#[cfg(test)]
pub(crate) mod tests;
