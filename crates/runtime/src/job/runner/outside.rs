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
use hookwright_core::job::{CallReply, Command, Fact, Outcome, RequestedCall, ToolOutcome};
use hookwright_core::stored::{Blob, Stored};
use hookwright_core::{text, visible};
use serde_json::Value;
use std::collections::HashMap;
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
    output: Option<oneshot::Sender<OutputNews>>,
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
            output: None,
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
        let CallRequest { provider_id, tool, aliases, arguments, fault, progress } = request;
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
                let approval = self.machine.call_waits_for(&call).map(str::to_owned);
                let came = match approval.filter(|_| self.machine.may_leave(&call)) {
                    Some(approval) => {
                        self.take(now, Fact::CallLeft { call: call.clone() })?;
                        self.outside.as_mut().map(|outside| outside.news.remove(&call));
                        Left::Waits { approval }
                    }
                    None => Left::Not,
                };
                let _ = left.send(came);
            }
            Arrival::Cancelled { call, done } => {
                self.cancelled(call)?;
                let _ = done.send(());
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
                if self.machine.takes_output() {
                    if let Some(outside) = &mut self.outside {
                        outside.output = Some(news);
                    }
                    let output = self.keep(output);
                    self.take(now, Fact::OutputOffered { output })?;
                } else if self.machine.is_admitted()
                    && let Some(outside) = &mut self.outside
                {
                    // The same question is still open: whoever asks last is told.
                    outside.output = Some(news);
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

    /// A call was looked up: it is asked for now.
    fn requested(&mut self, prepared: Prepared) -> Result<(), RunError> {
        let Prepared { call, blobs, asked, progress } = prepared;
        // Whoever asked may have gone while the function was looked up.
        if asked.is_closed() || !self.machine.is_admitted() {
            return Ok(());
        }
        let id = self.machine.id_of_call(&call);
        let (sender, news) = oneshot::channel();
        if let Some(outside) = &mut self.outside {
            outside.news.insert(id.clone(), sender);
        }
        self.workshop.telling.set(&id, progress);
        self.journal.blobs(blobs);
        let now = self.now();
        self.take(now, Fact::CallRequested { id: id.clone(), call })?;
        match asked.send(Asked { call: id, news }) {
            Ok(()) => Ok(()),
            Err(Asked { call, .. }) => self.cancelled(call),
        }
    }

    /// Nobody wants a call any more.
    fn cancelled(&mut self, call: String) -> Result<(), RunError> {
        if let Some(outside) = &mut self.outside {
            outside.news.remove(&call);
        }
        // What is not under way (any more) needs no cancelling.
        if !self.machine.knows_call(&call) {
            return Ok(());
        }
        self.drop_call(&call);
        let now = self.now();
        self.take(now, Fact::CallCancelled { call })
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
        let whose = |effect: &str| effect.strip_prefix(call).is_some_and(|rest| rest.starts_with('.'));
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
                    if let Some(output) = outside.output.take() {
                        let _ = output.send(OutputNews::SentBack { hook, reason });
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
            if let Some(output) = outside.output.take() {
                let _ = output.send(OutputNews::Over(outcome.clone()));
            }
            outside.arrivals.stand.send_replace(Stand::Over(outcome));
        }
        Ok(())
    }

    /// Lets the agent make a call, if its yes still holds.
    pub(super) async fn let_call(&mut self, command: Command) -> Result<(), RunError> {
        let Command::LetCall { effect, call, tool, arguments, changed, grant } = command else { return Ok(()) };
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
            let _ = waits.send(CallNews::Make { arguments, changed });
        }
        Ok(())
    }
}
