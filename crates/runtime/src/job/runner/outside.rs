//! What comes from an agent that somebody else runs, and what it is told.
//!
//! Invariant: what is told was durable before: everything here is said after the commit of what decided it.

use super::Runner;
use crate::job::RunError;
use crate::job::effects::Workshop;
use crate::outside::{Arrival, Arrivals, Asked, CallNews, CallRequest, Left, Made, OutputNews, Stand};
use crate::ports::store::StoreError;
use crate::ports::tools::Progress;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use hookwright_core::approval;
use hookwright_core::job::{CallReply, Command, Fact, Machine, Outcome, RequestedCall, ToolOutcome};
use hookwright_core::stored::{Blob, Stored};
use hookwright_core::{text, visible};
use serde_json::Value;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use tokio::sync::oneshot;

/// A call whose function was looked up.
pub(super) struct Prepared {
    call: RequestedCall,
    blobs: Vec<Blob>,
    asked: oneshot::Sender<Asked>,
    progress: Option<Progress>,
}

/// The other side of a job.
pub(super) struct Outside {
    arrivals: Arrivals,
    preparing: FuturesUnordered<BoxFuture<'static, Prepared>>,
    /// Who waits for news of a call, by its id.
    news: HashMap<String, oneshot::Sender<CallNews>>,
    /// Who waits for what comes of the output.
    output: Vec<oneshot::Sender<OutputNews>>,
    /// Calls that were made and whose results nobody waits for any more.
    abandoned: BTreeSet<String>,
    /// To be told after the next commit.
    tell: Vec<Command>,
    closed: bool,
}

/// Something of the other side.
pub(super) enum Came {
    Arrival(Arrival),
    /// A call that was looked up.
    Prepared(Box<Prepared>),
    /// Nobody holds the other end any more.
    Nothing,
}

impl Outside {
    pub(super) fn new(arrivals: Arrivals) -> Self {
        Self {
            arrivals,
            preparing: FuturesUnordered::new(),
            news: HashMap::new(),
            output: vec![],
            abandoned: BTreeSet::new(),
            tell: vec![],
            closed: false,
        }
    }

    /// The next thing; waits for ever where there is no other side.
    pub(super) async fn next(this: &mut Option<Self>) -> Came {
        use futures_util::stream::StreamExt as _;
        let Some(this) = this else { return std::future::pending().await };
        if this.closed {
            return std::future::pending().await;
        }
        tokio::select! {
            biased;
            Some(prepared) = this.preparing.next(), if !this.preparing.is_empty() => Came::Prepared(Box::new(prepared)),
            arrival = this.arrivals.arrivals.recv() => {
                this.closed = arrival.is_none();
                arrival.map_or(Came::Nothing, Came::Arrival)
            }
        }
    }
}

impl Workshop {
    /// Looks a function up and keeps the arguments of a call.
    async fn prepare(&self, request: CallRequest, asked: oneshot::Sender<Asked>) -> Prepared {
        let CallRequest { provider_id, tool, aliases, arguments, fault, progress, asks_there } = request;
        let arguments = Arc::new(arguments);
        let (stored, blob) = Stored::shared(arguments.clone());
        self.values.keep(&stored, arguments);
        let provider_id = text::shown(&provider_id, 200);
        let mut call = if self.spec.agent.external.is_some_and(|external| external.makes_calls) {
            let shown = text::shown(&tool, 200);
            let readings = aliases.iter().map(String::as_str);
            let fault = match fault {
                None if !visible::may_make(&self.spec.agent, &tool, readings) => {
                    Some(format!("the agent {} may not use it", self.spec.agent.id))
                }
                fault => fault,
            };
            let refused = fault.map(|why| format!("The call to {shown} was not made: {why}."));
            RequestedCall {
                provider_id,
                tool,
                alias: None,
                further_aliases: vec![],
                arguments: stored,
                refused,
                idempotent: false,
                schema_sha256: None,
                asks_there,
            }
        } else {
            if self.catalogue.is_outdated(&*self.deps.tools) || !self.catalogue.snapshot().contains_key(&tool) {
                self.catalogue.refresh(&*self.deps.tools, &self.spec, &self.deps.traits).await;
            }
            self.catalogue.requested(&self.spec, provider_id, tool, stored, fault.as_deref())
        };
        let mut aliases = aliases.into_iter();
        call.alias = call.alias.or_else(|| aliases.next());
        call.further_aliases = aliases.collect();
        Prepared { call, blobs: blob.into_iter().collect(), asked, progress }
    }

    async fn news(&self, reply: CallReply) -> Result<CallNews, StoreError> {
        let load = async |value: Option<Stored>| match value {
            Some(value) => self.values.load(&value).await.map(Some),
            None => Ok(None),
        };
        Ok(match reply {
            CallReply::NotMade { text } => CallNews::NotMade(text),
            CallReply::Withheld { text } => CallNews::Withheld(text),
            CallReply::Result { content, structured, rest, is_error, changed } => CallNews::Result {
                content: self.values.load(&content).await?,
                structured: load(structured).await?,
                rest: load(rest).await?,
                is_error,
                changed,
            },
        })
    }
}

impl Runner {
    /// Takes in what came.
    pub(super) fn came(&mut self, came: Came) -> Result<(), RunError> {
        match came {
            Came::Arrival(arrival) => self.arrived(arrival),
            Came::Prepared(prepared) => self.requested(*prepared),
            Came::Nothing => Ok(()),
        }
    }

    fn arrived(&mut self, arrival: Arrival) -> Result<(), RunError> {
        let now = self.now();
        match arrival {
            Arrival::Call { request, asked } => {
                let workshop = self.workshop.clone();
                if let Some(outside) = &mut self.outside {
                    outside.preparing.push(Box::pin(async move { workshop.prepare(*request, asked).await }));
                }
            }
            Arrival::Left { call, left } => {
                let _ = left.send(self.left(now, &call)?);
            }
            Arrival::Cancelled { call, done } => {
                self.cancelled(now, &call)?;
                let _ = done.send(());
            }
            Arrival::Abandoned { call, made } => {
                let is_awaited = self.machine.knows_call(&call) && !self.machine.is_left(&call);
                if !is_awaited || !matches!(self.left(now, &call)?, Left::Not) {
                    return Ok(());
                }
                if !made && !self.machine.is_made(&call) {
                    return self.cancelled(now, &call);
                }
                // Its hooks say what they have to say; where they want a person, the call is left then.
                self.outside.as_mut().map(|outside| outside.abandoned.insert(call));
            }
            Arrival::Returned { call, made, news } => {
                let effect = format!("{call}.call");
                // One that was not let has no end here: its sender is dropped, which says so.
                if self.machine.let_calls().any(|let_call| let_call == call) {
                    if let Some(outside) = &mut self.outside {
                        outside.news.insert(call, news);
                    }
                    let (outcome, blobs) = self.outcome(*made);
                    self.journal.blobs(blobs);
                    self.take(now, Fact::ToolReturned { effect, outcome, ms: 0.0 })?;
                }
            }
            Arrival::Output { output, news } => {
                if !self.machine.is_admitted() {
                    return Ok(());
                }
                if let Some(outside) = &mut self.outside {
                    outside.output.retain(|waits| !waits.is_closed());
                    outside.output.push(news);
                }
                let (stored, _) = Stored::new(output.clone());
                let is_other = self.machine.is_other_output(&stored);
                if is_other {
                    // The verdict on the one before says nothing of this one.
                    self.drop_where(Machine::is_of_output);
                }
                // Else the same question is still open.
                if is_other || self.machine.takes_output() {
                    let output = self.keep(output);
                    self.take(now, Fact::OutputOffered { output })?;
                }
            }
            Arrival::Watches { names, moment, watched } => {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                let spec = self.machine.spec();
                let _ = watched.send(!spec.hooks.matching(moment, &spec.agent.id, &names).is_empty());
            }
            Arrival::Gone { by, done, failed } => {
                if self.machine.outcome().is_none() && self.machine.due_outcome().is_none() {
                    self.drop_effects();
                    self.take(now, Fact::AgentLeft { by: approval::name_of(&by), done, failed })?;
                }
            }
        }
        Ok(())
    }

    /// Nobody waits for a call while a person is asked about it.
    fn left(&mut self, now: u64, call: &str) -> Result<Left, RunError> {
        let approval = self.machine.call_waits_for(call).map(str::to_owned);
        let Some(approval) = approval.filter(|_| self.machine.may_leave(call)) else { return Ok(Left::Not) };
        self.take(now, Fact::CallLeft { call: call.to_owned() })?;
        self.outside.as_mut().map(|outside| outside.news.remove(call));
        Ok(Left::Waits { approval })
    }

    /// What is not under way (any more) needs no cancelling.
    fn cancelled(&mut self, now: u64, call: &str) -> Result<(), RunError> {
        if self.machine.knows_call(call) {
            self.drop_call(call);
            self.take(now, Fact::CallCancelled { call: call.to_owned() })?;
        }
        self.outside.as_mut().map(|outside| outside.news.remove(call));
        Ok(())
    }

    /// Leaves abandoned calls that have come to wait for a person.
    pub(super) fn leave_abandoned(&mut self) -> Result<(), RunError> {
        let Some(outside) = &mut self.outside else { return Ok(()) };
        if outside.abandoned.is_empty() {
            return Ok(());
        }
        let now = self.now();
        for call in self.outside.as_mut().map(|outside| std::mem::take(&mut outside.abandoned)).unwrap_or_default() {
            if self.machine.knows_call(&call) && matches!(self.left(now, &call)?, Left::Not) {
                self.outside.as_mut().map(|outside| outside.abandoned.insert(call));
            }
        }
        Ok(())
    }

    /// A call was looked up: it is asked for now.
    fn requested(&mut self, prepared: Prepared) -> Result<(), RunError> {
        let Prepared { call, blobs, asked, progress } = prepared;
        // Who asked may be gone meanwhile: then nobody would hear of it.
        if !self.machine.is_admitted() || asked.is_closed() {
            return Ok(());
        }
        let now = self.now();
        while let Some(overdue) = self.machine.overdue_call() {
            let effect = format!("{overdue}.call");
            let outcome = ToolOutcome::Unknown { why: "the agent never told how it ended".to_owned() };
            self.take(now, Fact::ToolReturned { effect, outcome, ms: 0.0 })?;
        }
        let id = self.machine.id_of_call(&call);
        let (sender, news) = oneshot::channel();
        if let Some(outside) = &mut self.outside {
            outside.news.insert(id.clone(), sender);
        }
        self.workshop.telling.set(&id, progress);
        self.journal.blobs(blobs);
        self.take(now, Fact::CallRequested { id: id.clone(), call })?;
        match asked.send(Asked { call: id, news }) {
            Ok(()) => Ok(()),
            Err(Asked { call, .. }) => self.arrived(Arrival::Abandoned { call, made: false }),
        }
    }

    fn keep(&mut self, value: Value) -> Stored {
        let value = Arc::new(value);
        let (stored, blob) = Stored::shared(value.clone());
        self.workshop.values.keep(&stored, value);
        self.journal.blobs(blob.into_iter().collect());
        stored
    }

    fn outcome(&mut self, made: Made) -> (ToolOutcome, Vec<Blob>) {
        match made {
            Made::Otherwise(outcome) => (outcome, vec![]),
            Made::Returned { result, structured, is_error } => {
                let result = self.keep(result);
                let structured = structured.map(|value| self.keep(value));
                (ToolOutcome::Returned { result, structured, is_error, rest: None }, vec![])
            }
        }
    }

    /// Breaks off what is under way for a call.
    fn drop_call(&mut self, call: &str) {
        self.workshop.telling.set(call, None);
        self.drop_where(|effect| effect.strip_prefix(call).is_some_and(|rest| rest.starts_with('.')));
    }

    fn drop_where(&mut self, whose: impl Fn(&str) -> bool) {
        let whose = &whose;
        self.next.retain(|command| !command.effect().is_some_and(whose));
        self.handles.retain(|effect, handle| {
            if whose(effect) {
                handle.abort();
            }
            !whose(effect)
        });
        // What has ended meanwhile is not wanted any more.
        self.ended.retain(|ended| !matches!(ended, Ok(Ok(done)) if done.fact.as_ref().is_ok_and(|fact| super::effect_of(fact).is_some_and(whose))));
    }

    /// To be told after the next commit.
    pub(super) fn tell_later(&mut self, command: Command) {
        if let Some(outside) = &mut self.outside {
            outside.tell.push(command);
        }
    }

    /// Tells the other side what is durable now.
    pub(super) async fn tell(&mut self) -> Result<(), RunError> {
        let Some(outside) = &mut self.outside else { return Ok(()) };
        for command in std::mem::take(&mut outside.tell) {
            match command {
                Command::Admit { input } => {
                    let input = self.workshop.values.load(&input).await?;
                    outside.arrivals.stand.send_replace(Stand::Admitted(input));
                }
                Command::Answer { call, reply } => {
                    self.workshop.telling.set(&call, None);
                    let waits = outside.news.remove(&call);
                    if let Some(waits) = waits {
                        let _ = waits.send(self.workshop.news(reply).await?);
                    }
                }
                Command::SendBack { hook, reason } => {
                    for waits in outside.output.drain(..) {
                        let _ = waits.send(OutputNews::SentBack { hook: hook.clone(), reason: reason.clone() });
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The job is over, and that is durable.
    pub(super) async fn tell_over(&mut self, outcome: &Outcome) -> Result<(), RunError> {
        self.tell().await?;
        let outcome = match outcome {
            Outcome::Completed { output } => Outcome::Completed { output: self.workshop.values.full(output).await? },
            Outcome::Failed { .. } | Outcome::Cancelled { .. } => outcome.clone(),
        };
        if let Some(outside) = &mut self.outside {
            for waits in outside.output.drain(..) {
                let _ = waits.send(OutputNews::Over(outcome.clone()));
            }
            outside.arrivals.stand.send_replace(Stand::Over(outcome));
        }
        Ok(())
    }

    /// Lets the agent make a call, if its yes still holds.
    pub(super) async fn let_call(&mut self, command: Command) -> Result<(), RunError> {
        let Command::LetCall { effect, call, tool, arguments, changed, grant, asked } = command else { return Ok(()) };
        if let Some(grant) = &grant {
            let (spec, name) = (self.machine.spec(), tool.to_string());
            let digest =
                approval::digest(&spec.tenant, &spec.job, Some(&call), &spec.agent.id, Some(&name), &arguments, None);
            let now = self.now();
            if let Err(why) = approval::check_dispatch(grant, &digest, now, grant.schema_sha256.as_deref()) {
                let outcome = ToolOutcome::NotMade { why: why.to_string() };
                return self.take(now, Fact::ToolReturned { effect, outcome, ms: 0.0 });
            }
        }
        let arguments = self.workshop.values.load(&arguments).await?;
        if let Some(outside) = &mut self.outside
            && let Some(waits) = outside.news.remove(&call)
        {
            let _ = waits.send(CallNews::Make { arguments, changed, asked });
        }
        Ok(())
    }
}
