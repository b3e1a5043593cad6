//! One call: the chain before it, a person if one was asked for, the call, the chain after it (SPEC §3–§7).
//!
//! Invariant: [`Command::CallTool`] is emitted once, and only after the chain before the call (and the person, if asked) allowed it.
//! Invariant: the call's result is known before its post-chain; no verdict makes the call again.

mod result;

pub use result::{ReadResult, blocks, raw_result, read_result};

use crate::approval::{Approval, Grant};
use crate::chain::{Chain, Step};
use crate::event::Moment;
use crate::job::{AsksThere, Command, Fact, JobSpec, Mismatch, RequestedCall, ToolOutcome};
use crate::matching::Matching;
use crate::name::FunctionName;
use crate::question;
use crate::stored::Stored;
use crate::text;
use crate::verdict::{Denial, Escalation, Verdict};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One call under way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Call {
    id: String,
    request: RequestedCall,
    state: State,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum State {
    Queued,
    Before(Chain),
    BeforePerson {
        chain: Chain,
        approval: Box<Approval>,
        opened_ms: Option<u64>,
    },
    /// A person said yes; the call waits for its turn.
    Approved {
        arguments: Stored,
        grant: Grant,
    },
    Calling {
        arguments: Stored,
    },
    After {
        chain: Chain,
        made: Made,
    },
    AfterPerson {
        chain: Chain,
        made: Made,
        approval: Box<Approval>,
    },
    Done(CallEnd),
}

/// A call that was made (or may have been), before its post-chain's verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Made {
    arguments: Stored,
    structured: Option<Stored>,
    is_error: bool,
    #[serde(default)]
    rest: Option<Stored>,
}

/// What the model reads of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct CallEnd {
    /// A string, or a list of content blocks.
    pub(crate) content: Stored,
    /// Whether it failed, was refused or withheld.
    pub(crate) is_error: bool,
    /// What it is.
    #[serde(default)]
    pub(crate) kind: EndKind,
}

/// What the end of a call is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) enum EndKind {
    /// A sentence: the call was not made, or nobody knows.
    #[default]
    NotMade,
    /// A sentence instead of the result.
    Withheld,
    /// The result, as it stands after the hooks: what there is beside the content is left out where a hook changed it.
    Result { given: Stored, structured: Option<Stored>, rest: Option<Stored>, changed: bool },
}

impl Call {
    /// A call that waits for its turn.
    pub(crate) fn new(id: String, request: RequestedCall) -> Self {
        Self { id, request, state: State::Queued }
    }

    /// The call's id within the job, e.g. `t1.c0`.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// The function's name as the model said it.
    pub(crate) fn tool(&self) -> &str {
        &self.request.tool
    }

    /// The provider's id of the call.
    pub(crate) fn provider_id(&self) -> &str {
        &self.request.provider_id
    }

    /// What the model reads, once the call is over.
    pub(crate) fn end(&self) -> Option<&CallEnd> {
        match &self.state {
            State::Done(end) => Some(end),
            State::Queued
            | State::Before(_)
            | State::BeforePerson { .. }
            | State::Approved { .. }
            | State::Calling { .. }
            | State::After { .. }
            | State::AfterPerson { .. } => None,
        }
    }

    /// What the model reads of it where the job is cancelled now: its end if that stands, else that there is none.
    pub(crate) fn cut_off(&self, because: &str) -> CallEnd {
        let tool = text::escape(&self.request.tool);
        let why = match &self.state {
            State::Done(end) => return end.clone(),
            State::Queued | State::Before(_) | State::BeforePerson { .. } | State::Approved { .. } => {
                format!("The call to {tool} was not made: {because}.")
            }
            State::Calling { .. } => format!(
                "It is not known whether the call to {tool} was made: {because} meanwhile. Check before you call it again."
            ),
            State::After { .. } | State::AfterPerson { .. } => {
                format!("The call to {tool} was made; {because} before its result could be given.")
            }
        };
        let kind = if matches!(self.state, State::After { .. } | State::AfterPerson { .. }) {
            EndKind::Withheld
        } else {
            EndKind::NotMade
        };
        CallEnd { content: said(why), is_error: true, kind }
    }

    /// Whether it waits for a person's answer.
    pub(crate) fn awaits_person(&self) -> bool {
        matches!(self.state, State::BeforePerson { .. } | State::AfterPerson { .. })
    }

    /// Whether it is the same call: the same function, called with the same arguments.
    pub(crate) fn is_same(&self, other: &RequestedCall) -> bool {
        self.request.tool == other.tool && self.request.arguments.sha256 == other.arguments.sha256
    }

    /// Whether it waits for its turn: to begin, or to be made after a person's yes.
    pub(crate) fn is_queued(&self) -> bool {
        matches!(self.state, State::Queued | State::Approved { .. })
    }

    /// Whether something of it runs (a call that waits for a person holds nothing).
    pub(crate) fn is_active(&self) -> bool {
        matches!(self.state, State::Before(_) | State::Calling { .. } | State::After { .. })
    }

    /// Whether it is being made.
    pub(crate) fn is_calling(&self) -> bool {
        matches!(self.state, State::Calling { .. })
    }

    /// Whether it was made, and its result waits for hooks or a person.
    pub(crate) fn is_made(&self) -> bool {
        matches!(self.state, State::After { .. } | State::AfterPerson { .. })
    }

    /// Ends a call that was never begun, with what the model reads instead.
    pub(crate) fn refuse(&mut self, why: &str) {
        self.state = done_text(why.to_owned());
    }

    /// Begins, or goes on after a person's yes.
    pub(crate) fn begin(&mut self, spec: &JobSpec, matching: &mut Matching, out: &mut Vec<Command>) {
        if let State::Approved { arguments, grant } = &self.state {
            let (arguments, grant) = (arguments.clone(), grant.clone());
            self.call(spec, arguments, Some(grant), out);
            return;
        }
        if let Some(why) = self.request.refused.clone() {
            self.refuse(&why);
            return;
        }
        let hooks = matching.of_call(spec, Moment::PreToolCall, &self.request);
        self.state = State::Before(Chain::new(hooks, self.request.arguments.clone()));
        self.go_on(spec, out);
    }

    /// Takes a fact whose effect belongs to this call.
    pub(crate) fn handle(
        &mut self,
        spec: &JobSpec,
        matching: &mut Matching,
        at_ms: u64,
        fact: &Fact,
        out: &mut Vec<Command>,
    ) -> Result<(), Mismatch> {
        match (&mut self.state, fact) {
            (State::Before(chain) | State::After { chain, .. }, Fact::HookAnswered { outcome, .. }) => {
                let Step::Ask(position) = chain.step() else { return Err(Mismatch::unexpected(fact)) };
                chain.answered(&spec.hooks.hooks[position], outcome);
                self.go_on(spec, out);
            }
            (State::BeforePerson { opened_ms, .. }, Fact::Begun { .. }) => *opened_ms = Some(at_ms),
            (_, Fact::Begun { .. }) => {}
            (State::BeforePerson { chain, approval, opened_ms }, Fact::ApprovalDecided { .. }) => {
                match question::decided(approval, fact)? {
                    None => {
                        let grant = Grant {
                            approval: approval.id.clone(),
                            digest: approval.digest.clone(),
                            expires_ms: opened_ms.unwrap_or(0).saturating_add(approval.expires_after_ms),
                            schema_sha256: approval.schema_sha256.clone(),
                        };
                        self.state = State::Approved { arguments: chain.value().clone(), grant };
                    }
                    Some(denial) => self.denied_before(&denial),
                }
            }
            (State::BeforePerson { approval, .. }, Fact::ApprovalExpired { .. }) => {
                let denial = approval.denial(None);
                self.denied_before(&denial);
            }
            (State::AfterPerson { chain, made, approval }, Fact::ApprovalDecided { .. }) => {
                match question::decided(approval, fact)? {
                    None => self.state = State::Done(given(chain, made)),
                    Some(denial) => self.denied_after(&denial),
                }
            }
            (State::AfterPerson { approval, .. }, Fact::ApprovalExpired { .. }) => {
                let denial = approval.denial(None);
                self.denied_after(&denial);
            }
            (State::Calling { arguments }, Fact::ToolReturned { outcome, .. }) => {
                let arguments = arguments.clone();
                self.returned(arguments, outcome, spec, matching, out);
            }
            _ => return Err(Mismatch::unexpected(fact)),
        }
        Ok(())
    }

    /// Takes the chain's next step.
    fn go_on(&mut self, spec: &JobSpec, out: &mut Vec<Command>) {
        match self.state.clone() {
            State::Before(chain) => match chain.step() {
                Step::Ask(hook) => {
                    out.push(question::ask(spec, Moment::PreToolCall, hook, &chain, Some(self.about(None)), 0));
                }
                Step::Done(Verdict::Allow | Verdict::Modify { .. }) => {
                    self.call(spec, chain.value().clone(), None, out);
                }
                Step::Done(Verdict::Deny(denial)) => self.denied_before(&denial),
                Step::Done(Verdict::Escalate { .. }) => {
                    let (command, approval) =
                        question::open(spec, Moment::PreToolCall, &chain, Some(self.about(None)), 0);
                    if self.asks_there(spec, &approval) {
                        self.let_call(spec, chain.value().clone(), (None, approval.reasons), out);
                        return;
                    }
                    out.push(command);
                    self.state = State::BeforePerson { chain, approval, opened_ms: None };
                }
            },
            State::After { chain, made } => match chain.step() {
                Step::Ask(hook) => {
                    out.push(question::ask(spec, Moment::PostToolCall, hook, &chain, Some(self.about(Some(&made))), 0));
                }
                Step::Done(Verdict::Allow | Verdict::Modify { .. }) => self.state = State::Done(given(&chain, &made)),
                Step::Done(Verdict::Deny(denial)) => self.denied_after(&denial),
                Step::Done(Verdict::Escalate { .. }) => {
                    let (command, approval) =
                        question::open(spec, Moment::PostToolCall, &chain, Some(self.about(Some(&made))), 0);
                    out.push(command);
                    self.state = State::AfterPerson { chain, made, approval };
                }
            },
            State::Queued
            | State::BeforePerson { .. }
            | State::Approved { .. }
            | State::Calling { .. }
            | State::AfterPerson { .. }
            | State::Done(_) => {}
        }
    }

    /// Whether the agent asks the person at it. Where hooks name who may decide, that person is not known to be one of them.
    fn asks_there(&self, spec: &JobSpec, approval: &Approval) -> bool {
        let shown = match self.request.asks_there {
            AsksThere::No => false,
            AsksThere::Unchanged => approval.value.same(&approval.original),
            AsksThere::Any => true,
        };
        shown && approval.approvers.is_empty() && spec.agent.external.is_some_and(|external| external.makes_calls)
    }

    fn call(&mut self, spec: &JobSpec, arguments: Stored, grant: Option<Grant>, out: &mut Vec<Command>) {
        self.let_call(spec, arguments, (grant, vec![]), out);
    }

    /// Commands the call: with a yes, without anybody asked, or with who is to be asked by the agent itself.
    fn let_call(
        &mut self,
        spec: &JobSpec,
        arguments: Stored,
        (grant, asked): (Option<Grant>, Vec<Escalation>),
        out: &mut Vec<Command>,
    ) {
        let Ok(tool) = FunctionName::parse(&self.request.tool) else {
            self.refuse(&format!("unknown tool: {}", text::escape(&self.request.tool)));
            return;
        };
        let (effect, call) = (format!("{}.call", self.id), self.id.clone());
        let by_agent = spec.agent.external.is_some_and(|external| external.makes_calls);
        out.push(if by_agent {
            let changed = !arguments.same(&self.request.arguments);
            Command::LetCall { effect, call, tool, arguments: arguments.clone(), changed, grant, asked }
        } else {
            let idempotent = self.request.idempotent;
            Command::CallTool { effect, call, tool, arguments: arguments.clone(), idempotent, grant }
        });
        self.state = State::Calling { arguments };
    }

    fn returned(
        &mut self,
        arguments: Stored,
        outcome: &ToolOutcome,
        spec: &JobSpec,
        matching: &mut Matching,
        out: &mut Vec<Command>,
    ) {
        let tool = text::escape(&self.request.tool);
        let (result, structured, is_error) = match outcome {
            ToolOutcome::Returned { result, structured, is_error, .. } => {
                (result.clone(), structured.clone(), *is_error)
            }
            ToolOutcome::Failed { why } => (said(format!("The call to {tool} failed: {why}.")), None, true),
            ToolOutcome::TimedOut { after_ms } => {
                let limit = text::duration(*after_ms);
                (
                    said(format!(
                        "The call to {tool} did not end within {limit}. It may have taken effect: check before you call it again."
                    )),
                    None,
                    true,
                )
            }
            ToolOutcome::Unknown { why } => (
                said(format!(
                    "It is not known whether the call to {tool} was made: {why}. Check before you call it again."
                )),
                None,
                true,
            ),
            ToolOutcome::NotMade { why } => {
                self.refuse(&format!("The call to {tool} was not made: {why}."));
                return;
            }
        };
        let hooks = matching.of_call(spec, Moment::PostToolCall, &self.request);
        let chain = Chain::new(hooks, result);
        let rest = if let ToolOutcome::Returned { rest, .. } = outcome { rest.clone() } else { None };
        self.state = State::After { chain, made: Made { arguments, structured, is_error, rest } };
        self.go_on(spec, out);
    }

    fn denied_before(&mut self, denial: &Denial) {
        self.state = done_text(denial.before_call(&self.request.tool));
    }

    fn denied_after(&mut self, denial: &Denial) {
        let content = said(denial.after_call(&self.request.tool));
        self.state = State::Done(CallEnd { content, is_error: true, kind: EndKind::Withheld });
    }

    fn about(&self, made: Option<&Made>) -> question::AboutCall {
        question::AboutCall {
            call: self.id.clone(),
            tool: self.request.tool.clone(),
            alias: self.request.alias.clone(),
            schema_sha256: self.request.schema_sha256.clone(),
            arguments: made.map(|m| m.arguments.clone()),
            structured: made.and_then(|m| m.structured.clone()),
            is_error: made.map(|m| m.is_error),
        }
    }
}

/// What the model reads of a result that stands: the structured part where there is nothing else and no hook changed it.
fn given(chain: &Chain, made: &Made) -> CallEnd {
    let is_empty = || {
        let empty = Stored::inline(Value::Array(vec![]));
        chain.value().same(&empty) && chain.original().same(&empty)
    };
    let content = match &made.structured {
        Some(structured) if is_empty() => structured.clone(),
        _ => chain.value().clone(),
    };
    let changed = !chain.value().same(chain.original());
    let unchanged = |value: &Option<Stored>| value.clone().filter(|_| !changed);
    let kind = EndKind::Result {
        given: chain.value().clone(),
        structured: unchanged(&made.structured),
        rest: unchanged(&made.rest),
        changed,
    };
    CallEnd { content, is_error: made.is_error, kind }
}

fn said(text: String) -> Stored {
    Stored::inline(Value::String(text))
}

fn done_text(text: String) -> State {
    State::Done(CallEnd { content: said(text), is_error: true, kind: EndKind::NotMade })
}
