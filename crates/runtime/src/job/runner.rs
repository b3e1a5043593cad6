//! The loop: facts in, records written, commands done.

mod inbox;
mod resume;
mod stand;

use super::built_in::WithBuiltIn;
use super::catalogue::ToolTraits;
use super::children::{Children, Ties, Wish};
use super::effects::{Done, Workshop};
use super::journal::Journal;
use super::{Deps, End, NewRun, Options, RunError, Which};
use crate::lifecycle::{Hooks, Watched};
use crate::observe::{Event, Observer};
use crate::ports::store::{ApprovalState, StoreError};
use crate::ports::tools::{ToolState, ToolStatus};
use crate::values::Values;
use futures_util::future::{AbortHandle, Abortable, Aborted, BoxFuture, FutureExt as _};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use hookwright_core::approval::{self, Approval};
use hookwright_core::history::{Head, Record};
use hookwright_core::job::{Command, Fact, Machine, Outcome};
use hookwright_core::message::Message;
use hookwright_core::{subagent, text};
use std::collections::{HashMap, HashSet, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use tokio::sync::{broadcast, mpsc, watch};

/// What became of an effect: its end, a panic, or nothing because its end is not wanted any more.
type Ended = Result<std::thread::Result<Done>, Aborted>;

/// Effects under way, all within the job's own task: a task for each would cost a switch, and often the waking of another thread,
/// at each of its ends.
type UnderWay = FuturesUnordered<BoxFuture<'static, Ended>>;

pub(super) struct Runner {
    machine: Machine,
    /// The conversation of the session's earlier jobs.
    earlier: Vec<Message>,
    journal: Journal,
    workshop: Arc<Workshop>,
    /// Begun and durable after the next commit; then carried out.
    next: Vec<Command>,
    /// Effects that an earlier process had begun.
    again: HashSet<String>,
    /// The job that started this one, where that was over already when this one was taken up.
    parent_over: Option<String>,
    /// When each waiting approval was opened, by effect.
    opened: HashMap<String, u64>,
    under_way: UnderWay,
    /// Ended while something else was awaited; in order.
    ended: VecDeque<Ended>,
    handles: HashMap<String, AbortHandle>,
    sender: mpsc::UnboundedSender<Done>,
    receiver: mpsc::UnboundedReceiver<Done>,
    inbox: watch::Receiver<u64>,
    tool_changes: Option<broadcast::Receiver<ToolStatus>>,
    /// The state of each tool that was recorded last.
    tool_states: HashMap<String, &'static str>,
}

impl Runner {
    pub(super) async fn open(deps: Deps, which: Which, observer: Arc<dyn Observer>) -> Result<Self, RunError> {
        match which {
            Which::New(run) => Self::create(deps, *run, observer).await,
            Which::Resume { job, process } => Self::resume(deps, &job, process, observer).await,
        }
    }

    async fn create(deps: Deps, run: NewRun, observer: Arc<dyn Observer>) -> Result<Self, RunError> {
        let now = deps.clock.now_ms();
        let job = run.spec.job.clone();
        let (machine, commands) =
            Machine::new(run.spec.clone()).map_err(|why| RunError::Machine { job: job.clone(), why })?;
        let mut journal = Journal::new(deps.store.clone(), None, Head::default(), None);
        journal.record(now, Fact::Started { spec: Box::new(run.spec) });
        journal.blobs(run.blobs);
        let earlier = super::earlier::of(&*deps.store, &machine).await?;
        let mut runner = Self::assemble(deps, machine, earlier, journal, observer);
        runner.emit(now, commands)?;
        runner.status();
        let (batch, fresh) = runner.journal.take();
        let lease = runner.journal.store.create_job(run.job, batch).await?;
        runner.journal.lease = Some(lease);
        for record in &fresh {
            runner.workshop.observer.event(Event::Recorded(record));
        }
        Ok(runner)
    }

    fn assemble(
        mut deps: Deps,
        machine: Machine,
        earlier: Vec<Message>,
        journal: Journal,
        observer: Arc<dyn Observer>,
    ) -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        let inbox = deps.store.inbox_changes();
        let tool_changes = deps.tools.changes();
        let tools_of_all = deps.tools.clone();
        let watched = Watched::new(deps.tools, deps.standing.clone());
        deps.tools = WithBuiltIn::of(watched, machine.spec(), Values::new(deps.store.clone()));
        // A child that was begun is found again by its id, however often its call is made.
        let start = ToolTraits { idempotent: vec!["start".into()], ..ToolTraits::default() };
        deps.traits.insert(subagent::TOOL.into(), start);
        let workshop = Workshop {
            spec: machine.spec().clone(),
            values: Values::new(deps.store.clone()),
            catalogue: super::catalogue::Catalogue::default(),
            listed: crate::hook::Listed::default(),
            hooks: Hooks::default(),
            observer,
            holds_output: machine.holds_output(),
            tools_of_all,
            children: Children::default(),
            deps,
        };
        Self {
            machine,
            earlier,
            journal,
            workshop: Arc::new(workshop),
            next: vec![],
            again: HashSet::new(),
            parent_over: None,
            opened: HashMap::new(),
            under_way: FuturesUnordered::new(),
            ended: VecDeque::new(),
            handles: HashMap::new(),
            sender,
            receiver,
            inbox,
            tool_changes,
            tool_states: HashMap::new(),
        }
    }

    fn now(&self) -> u64 {
        self.workshop.deps.clock.now_ms()
    }

    /// Runs until the job is over.
    pub(super) async fn run(&mut self, options: Options, mut ties: Option<Ties>) -> Result<End, RunError> {
        self.read_inbox().await?;
        if let Some(parent) = self.parent_over.take() {
            self.cancel(format!("the end of {parent}"))?;
        }
        // What was decided while nobody ran the job may have ended it.
        self.status();
        let mut cancelled = false;
        loop {
            self.commit_and_go_on().await?;
            if let Some(outcome) = self.machine.outcome() {
                return Ok(End::Finished(outcome.clone()));
            }
            if !self.ended.is_empty() {
                self.take_ended().await?;
                self.status();
                continue;
            }
            let only_waits = self.next.is_empty() && self.only_waits();
            if let Some(ties) = &ties {
                ties.only_waits(only_waits);
            }
            let leaves = options.detach || ties.as_ref().is_some_and(Ties::lets_go);
            // A child that nobody waits with any more returns; then there is nothing left to do here.
            if leaves && only_waits && self.workshop.children.let_go() {
                return Ok(End::Detached);
            }
            tokio::select! {
                biased;
                () = options.cancel.cancelled(), if !cancelled => {
                    cancelled = true;
                    self.cancel(options.cancelled_by.clone())?;
                }
                wish = Ties::wish(&mut ties) => match wish {
                    Wish::GoOn | Wish::LetGo => {}
                    Wish::Halt => return Ok(End::Detached),
                    Wish::Cancel(by) => self.cancel(by)?,
                },
                () = self.workshop.children.changed() => {}
                Some(ended) = self.under_way.next(), if !self.under_way.is_empty() => {
                    self.ended.push_back(ended);
                    // What has ended meanwhile goes into the same batch.
                    while let Some(Some(ended)) = self.under_way.next().now_or_never() {
                        self.ended.push_back(ended);
                    }
                    self.take_ended().await?;
                }
                Some(late) = self.receiver.recv() => self.done(late).await?,
                changed = self.inbox.changed() => match changed {
                    Ok(()) => self.read_inbox().await?,
                    Err(_) => return Err(StoreError::Failed("the store was closed".into()).into()),
                },
                Some(Some(status)) = next_change(&mut self.tool_changes), if self.tool_changes.is_some() => self.tool_state(status)?,
            }
            self.status();
        }
    }

    /// Gives the lease back. A store that fails here is no matter: the lease ends with the process.
    pub(super) async fn close(&mut self) {
        self.drop_effects();
        self.workshop.children.close(&*self.journal.store, self.now()).await;
        if let Some(lease) = &self.journal.lease {
            let _ = self.journal.store.release(lease).await;
        }
    }

    async fn commit_and_go_on(&mut self) -> Result<(), RunError> {
        for record in self.commit().await? {
            self.workshop.observer.event(Event::Recorded(&record));
        }
        for command in std::mem::take(&mut self.next) {
            self.carry_out(command).await?;
        }
        Ok(())
    }

    /// Makes the batch durable. Effects go on meanwhile: none waits for the disk because of another.
    async fn commit(&mut self) -> Result<Vec<Record>, StoreError> {
        let mut commit = std::pin::pin!(self.journal.commit());
        loop {
            tokio::select! {
                biased;
                fresh = &mut commit => return fresh,
                Some(ended) = self.under_way.next(), if !self.under_way.is_empty() => self.ended.push_back(ended),
            }
        }
    }

    async fn carry_out(&mut self, command: Command) -> Result<(), RunError> {
        let Some(effect) = command.effect().map(str::to_owned) else { return Ok(()) };
        let conversation = match &command {
            Command::CallModel { .. } => self.conversation(),
            _ => vec![],
        };
        let mut expires_ms = 0;
        if let Command::OpenApproval { effect, approval } = &command {
            let opened = self.opened.get(effect).copied().unwrap_or_default();
            expires_ms = opened.saturating_add(approval.expires_after_ms);
            let shown = loaded(&self.workshop.values, approval).await?;
            self.workshop.observer.event(Event::Waiting { approval: &shown, expires_ms });
        }
        let (workshop, sender) = (self.workshop.clone(), self.sender.clone());
        let again = self.again.remove(&effect);
        let work = async move { workshop.execute(command, conversation, expires_ms, again, sender).await };
        let (handle, registration) = AbortHandle::new_pair();
        self.under_way.push(Abortable::new(AssertUnwindSafe(work).catch_unwind(), registration).boxed());
        self.handles.insert(effect, handle);
        Ok(())
    }

    /// The conversation as the model sees it: what the session's earlier jobs left, then this job's own.
    fn conversation(&self) -> Vec<Message> {
        let earlier = if self.machine.carries_earlier() { &self.earlier[..] } else { &[] };
        [earlier, self.machine.conversation()].concat()
    }

    /// Takes in what has ended, until the job is over.
    async fn take_ended(&mut self) -> Result<(), RunError> {
        while let Some(ended) = self.ended.pop_front() {
            if self.machine.due_outcome().is_some() || self.machine.outcome().is_some() {
                self.ended.clear();
                return Ok(());
            }
            match ended {
                Ok(Ok(done)) => self.done(done).await?,
                // An effect that panicked has no end: the job must not wait for it.
                Ok(Err(_)) => {
                    let why = "an effect ended in a panic; the job's history is intact and it can be resumed";
                    return Err(StoreError::Failed(why.into()).into());
                }
                Err(Aborted) => {}
            }
        }
        Ok(())
    }

    /// Drops whatever is under way, which tells its servers.
    fn drop_effects(&mut self) {
        self.under_way.clear();
        self.ended.clear();
        self.handles.clear();
    }

    async fn done(&mut self, done: Done) -> Result<(), RunError> {
        let fact = done.fact?;
        if let Fact::ApprovalExpired { effect, .. } = &fact {
            // A decision that was stored in time counts, even where it is read only now.
            self.read_inbox().await?;
            if !self.machine.pending().any(|(command, _)| command.effect() == Some(effect)) {
                return Ok(());
            }
        }
        self.journal.blobs(done.blobs);
        if let Fact::ApprovalExpired { approval, .. } = &fact {
            self.journal.closed(approval.clone(), ApprovalState::Expired);
        }
        self.take(self.now(), fact)
    }

    /// Records a fact, tells the machine, and gathers what follows.
    fn take(&mut self, now: u64, fact: Fact) -> Result<(), RunError> {
        let mut facts = VecDeque::from([fact]);
        while let Some(fact) = facts.pop_front() {
            if let Some(effect) = effect_of(&fact) {
                // A question that was settled before it was put (again) is not put.
                self.next.retain(|command| command.effect() != Some(effect));
                if let Some(handle) = self.handles.remove(effect)
                    && matches!(fact, Fact::ApprovalDecided { .. })
                {
                    handle.abort();
                }
            }
            let at_ms = self.journal.record(now, fact.clone());
            let commands = self.handle(at_ms, &fact)?;
            self.emit(now, commands)?;
        }
        Ok(())
    }

    fn handle(&mut self, at_ms: u64, fact: &Fact) -> Result<Vec<Command>, RunError> {
        self.machine.handle(at_ms, fact).map_err(|why| RunError::Machine { job: self.machine.spec().job.clone(), why })
    }

    /// Records the beginnings of effects; they are carried out after the next commit.
    fn emit(&mut self, now: u64, commands: Vec<Command>) -> Result<(), RunError> {
        for command in commands {
            match &command {
                Command::Finish { outcome } => self.finish(now, outcome.clone())?,
                Command::CloseApproval { approval } => self.journal.closed(approval.clone(), ApprovalState::Closed),
                Command::Ask { .. }
                | Command::CallTool { .. }
                | Command::CallModel { .. }
                | Command::AskLifecycle { .. }
                | Command::OpenApproval { .. } => {
                    let fact = Fact::Begun { command: command.digest_only() };
                    let at_ms = self.journal.record(now, fact.clone());
                    self.handle(at_ms, &fact)?;
                    if let Command::OpenApproval { effect, approval } = &command {
                        self.opened.insert(effect.clone(), at_ms);
                        self.journal.opened(approval, at_ms);
                    }
                    self.next.push(command);
                }
            }
        }
        Ok(())
    }

    fn finish(&mut self, now: u64, outcome: Outcome) -> Result<(), RunError> {
        self.next.clear();
        self.drop_effects();
        let fact = Fact::Finished { outcome };
        let at_ms = self.journal.record(now, fact.clone());
        self.handle(at_ms, &fact).map(drop)
    }

    fn cancel(&mut self, by: String) -> Result<(), RunError> {
        if self.machine.outcome().is_some() {
            return Ok(());
        }
        self.workshop.children.cancel(&by);
        self.drop_effects();
        self.take(self.now(), Fact::Cancelled { by: approval::name_of(&by) })
    }

    fn tool_state(&mut self, status: ToolStatus) -> Result<(), RunError> {
        let state = match status.state {
            ToolState::Restarting => "restarting",
            ToolState::Failed => "failed",
            ToolState::Ready if status.starts > 1 => "ready",
            ToolState::Ready | ToolState::Starting => return Ok(()),
        };
        // Some changes are not of the state.
        if self.tool_states.insert(status.tool.clone(), state) == Some(state) {
            return Ok(());
        }
        let why = status.last_error.map(|w| text::reason(Some(&w), 1_000));
        self.take(self.now(), Fact::ToolState { tool: status.tool, state: state.into(), why })
    }
}

/// An approval with its values in it.
async fn loaded(values: &Values, approval: &Approval) -> Result<Approval, StoreError> {
    let mut shown = approval.clone();
    shown.original = values.full(&approval.original).await?;
    shown.value = values.full(&approval.value).await?;
    if let Some(arguments) = &approval.arguments {
        shown.arguments = Some(values.full(arguments).await?);
    }
    for change in &mut shown.changes {
        change.from = values.full(&change.from).await?;
        change.to = values.full(&change.to).await?;
    }
    Ok(shown)
}

fn effect_of(fact: &Fact) -> Option<&str> {
    match fact {
        Fact::HookAnswered { effect, .. }
        | Fact::ModelAnswered { effect, .. }
        | Fact::ModelFailed { effect, .. }
        | Fact::ToolReturned { effect, .. }
        | Fact::LifecycleAnswered { effect, .. }
        | Fact::ApprovalDecided { effect, .. }
        | Fact::ApprovalExpired { effect, .. } => Some(effect),
        _ => None,
    }
}

/// The next change of a tool; `Some(None)` where some were missed.
async fn next_change(changes: &mut Option<broadcast::Receiver<ToolStatus>>) -> Option<Option<ToolStatus>> {
    let receiver = changes.as_mut()?;
    match receiver.recv().await {
        Ok(status) => Some(Some(status)),
        Err(broadcast::error::RecvError::Lagged(_)) => Some(None),
        Err(broadcast::error::RecvError::Closed) => {
            *changes = None;
            std::future::pending().await
        }
    }
}
