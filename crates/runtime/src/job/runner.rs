//! The loop: facts in, records written, commands done.

mod boundary;
mod cancel;
mod create;
mod ended;
mod inbox;
mod outside;
mod resume;
mod stand;
mod tools;

use super::built_in::WithBuiltIn;
use super::catalogue::ToolTraits;
use super::children::{Children, Ties, Wish};
use super::effects::{Done, Late, Telling, Workshop};
use super::journal::Journal;
use super::talk::Talk;
use super::under_way::UnderWay;
use super::{Deps, End, Options, RunError, Which};
use crate::approvals;
use crate::lifecycle::{Hooks, Watched};
use crate::observe::{Event, Observer};
use crate::outside::Arrivals;
use crate::ports::store::{ApprovalState, StoreError};
use crate::ports::tools::ToolStatus;
use crate::values::Values;
use ended::effect_of;
use futures_util::future::{AbortHandle, Abortable, Aborted, FutureExt as _};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use hookwright_core::history::Record;
use hookwright_core::job::{Command, Fact, JobSpec, Machine, Outcome};
use hookwright_core::message::Message;
use hookwright_core::subagent;
use outside::{Came, Outside};
use std::collections::{HashMap, HashSet, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use tokio::sync::{broadcast, watch};
use tokio_util::sync::CancellationToken;
use tools::next_change;

/// What became of an effect: its end, a panic, or nothing because its end is not wanted any more.
type Ended = Result<std::thread::Result<Done>, Aborted>;

/// Things of an agent that somebody else runs which are taken in at once.
const AT_ONCE: usize = 256;

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
    under_way: UnderWay<Ended>,
    /// Ended while something else was awaited; in order.
    ended: VecDeque<Ended>,
    handles: HashMap<String, AbortHandle>,
    /// Answers that may still come after their time limits.
    late: FuturesUnordered<Late>,
    inbox: watch::Receiver<u64>,
    tool_changes: Option<broadcast::Receiver<ToolStatus>>,
    /// The state of each tool that was recorded last.
    tool_states: HashMap<String, &'static str>,
    /// The other side of a job whose agent somebody else runs.
    outside: Option<Outside>,
    /// Where it stops by itself.
    boundaries: boundary::Boundaries,
}

impl Runner {
    pub(super) async fn open(deps: Deps, which: Which, observer: Arc<dyn Observer>) -> Result<Self, RunError> {
        match which {
            Which::New(run) => Self::create(deps, *run, observer).await,
            Which::Resume { job, process } => Self::resume(deps, &job, process, observer, true).await,
            Which::GoOn { job, process } => Self::resume(deps, &job, process, observer, false).await,
        }
    }

    fn assemble(
        mut deps: Deps,
        machine: Machine,
        earlier: Vec<Message>,
        journal: Journal,
        observer: Arc<dyn Observer>,
    ) -> Self {
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
            telling: Telling::default(),
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
            under_way: UnderWay::new(),
            ended: VecDeque::new(),
            handles: HashMap::new(),
            late: FuturesUnordered::new(),
            inbox,
            tool_changes,
            tool_states: HashMap::new(),
            outside: None,
            boundaries: boundary::Boundaries::None,
        }
    }

    /// With the other side of a job whose agent somebody else runs.
    pub(super) fn with_outside(mut self, arrivals: Arrivals) -> Self {
        self.outside = Some(Outside::new(arrivals));
        if self.machine.is_admitted()
            && let Some(input) = self.machine.prompt().cloned()
        {
            self.tell_later(Command::Admit { input });
        }
        self
    }

    pub(super) fn spec(&self) -> &JobSpec {
        self.machine.spec()
    }

    pub(super) fn holds_output(&self) -> bool {
        self.machine.holds_output()
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
        if self.outside.is_none()
            && self.machine.spec().agent.external.is_some()
            && self.machine.due_outcome().is_none()
        {
            let by = "nobody: its agent is gone".to_owned();
            self.take(self.now(), Fact::AgentLeft { by, done: false, failed: None })?;
        }
        // What was decided while nobody ran the job may have ended it.
        self.status();
        let mut cancelled = false;
        loop {
            self.commit_and_go_on(&options.cancel).await?;
            if let Some(outcome) = self.machine.outcome().cloned() {
                self.tell_over(&outcome).await?;
                return Ok(End::Finished(outcome));
            }
            if !self.journal.is_empty() {
                continue;
            }
            if !self.ended.is_empty() {
                self.take_ended().await?;
                self.status();
                continue;
            }
            if self.is_paused() && self.next.is_empty() {
                return Ok(End::Detached);
            }
            // An agent outside can't be left while it waits.
            let only_waits = self.outside.is_none() && self.next.is_empty() && self.only_waits();
            if only_waits
                && options.detach
                && let Some(ended) = self.under_way.next().now_or_never()
            {
                // One whose time is over waits no more.
                self.ended.push_back(ended);
                continue;
            }
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
                came = Outside::next(&mut self.outside) => {
                    // What has come meanwhile goes into the same batch.
                    let (mut came, mut room) = (Some(came), AT_ONCE);
                    while let Some(something) = came {
                        if matches!(something, Came::Nothing) {
                            self.commit_and_go_on(&options.cancel).await?;
                            return Ok(End::Detached);
                        }
                        self.came(something)?;
                        room -= 1;
                        came = if room > 0 { Outside::next(&mut self.outside).now_or_never() } else { None };
                    }
                }
                ended = self.under_way.next() => {
                    self.ended.push_back(ended);
                    // What has ended meanwhile goes into the same batch.
                    while let Some(ended) = self.under_way.next().now_or_never() {
                        self.ended.push_back(ended);
                    }
                    self.take_ended().await?;
                }
                Some(late) = self.late.next(), if !self.late.is_empty() => {
                    if let Some(fact) = late {
                        self.take(self.now(), fact)?;
                    }
                }
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

    async fn commit_and_go_on(&mut self, cancel: &CancellationToken) -> Result<(), RunError> {
        self.leave_abandoned()?;
        loop {
            for record in self.commit().await? {
                self.workshop.observer.event(Event::Recorded(&record));
            }
            self.tell().await?;
            if self.next.is_empty() || !self.inbox.has_changed().unwrap_or(false) {
                break;
            }
            // What came while the disk was awaited, a cancel for one, comes before what would begin now.
            self.inbox.mark_unchanged();
            self.read_inbox().await?;
            if self.journal.is_empty() {
                break;
            }
            self.status();
        }
        if cancel.is_cancelled() {
            // Nothing begins any more: what was to begin is dropped with the cancel's record.
            return Ok(());
        }
        for command in std::mem::take(&mut self.next) {
            if let Command::LetCall { .. } = command {
                self.let_call(command).await?;
            } else {
                self.carry_out(command).await?;
            }
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
                ended = self.under_way.next() => self.ended.push_back(ended),
            }
        }
    }

    async fn carry_out(&mut self, command: Command) -> Result<(), RunError> {
        let Some(effect) = command.effect().map(str::to_owned) else { return Ok(()) };
        let talk = Talk::of(&command, &self.machine, &self.earlier);
        let mut expires_ms = 0;
        if let Command::OpenApproval { approval, .. } = &command {
            let opened_ms = self.machine.opened(&approval.id).map_or(0, |(_, _, opened_ms)| opened_ms);
            expires_ms = approval.expires_ms(opened_ms);
            let mut shown = (**approval).clone();
            approvals::load(&self.workshop.values, &mut shown).await?;
            self.workshop.observer.event(Event::Waiting { approval: &shown, expires_ms });
        }
        let workshop = self.workshop.clone();
        let again = self.again.remove(&effect);
        let work = async move { workshop.execute(command, talk, expires_ms, again).await };
        let (handle, registration) = AbortHandle::new_pair();
        self.under_way.push(Abortable::new(AssertUnwindSafe(work).catch_unwind(), registration));
        self.handles.insert(effect, handle);
        Ok(())
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
        self.late.extend(done.late);
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
            let after_turn = matches!(fact, Fact::ModelAnswered { .. } | Fact::ModelFailed { .. });
            let (_, mut commands) = self.record(now, fact)?;
            self.hold_back(after_turn, &mut commands);
            self.emit(now, commands)?;
        }
        Ok(())
    }

    /// Records a fact and tells the machine: gives the record's time and what follows.
    fn record(&mut self, now: u64, fact: Fact) -> Result<(u64, Vec<Command>), RunError> {
        let record = self.journal.record(now, fact);
        match self.machine.handle(record.at_ms, &record.fact) {
            Ok(commands) => Ok((record.at_ms, commands)),
            Err(why) => Err(RunError::Machine { job: self.machine.spec().job.clone(), why }),
        }
    }

    /// Records the beginnings of effects; they are carried out after the next commit.
    fn emit(&mut self, now: u64, commands: Vec<Command>) -> Result<(), RunError> {
        for command in commands {
            match &command {
                Command::Finish { outcome } => self.finish(now, outcome.clone())?,
                Command::CloseApproval { approval } => self.journal.closed(approval.clone(), ApprovalState::Closed),
                Command::Admit { .. } | Command::Answer { .. } | Command::SendBack { .. } => self.tell_later(command),
                Command::Ask { .. }
                | Command::CallTool { .. }
                | Command::LetCall { .. }
                | Command::CallModel { .. }
                | Command::Compact { .. }
                | Command::AskLifecycle { .. }
                | Command::OpenApproval { .. } => {
                    let (at_ms, _) = self.record(now, Fact::Begun { command: command.digest_only() })?;
                    if let Command::OpenApproval { approval, .. } = &command {
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
        // Nothing is recorded after the end: what has come by now is, and nobody waits for more.
        while let Some(Some(late)) = self.late.next().now_or_never() {
            if let Some(fact) = late {
                self.record(now, fact)?;
            }
        }
        self.record(now, Fact::Finished { outcome }).map(drop)
    }
}
