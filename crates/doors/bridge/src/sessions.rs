//! A node's side of the bridges: each harness's conversation, with the job of the prompt that it works on.
//!
//! A prompt is a job; it ends with the turn. Where a harness tells no prompts, or a node was started in the middle of a conversation, the
//! first call begins the job, and the end of the conversation ends it.
//!
//! A job that a node left which was killed is taken up with the next event of its conversation.
//!
//! Invariant: what is asked of a conversation without a job, and needs one, begins one: nothing goes on unrecorded.

use crate::ask::{Ask, Escalate, Reply, Request, What};
use crate::desk::{self, Desk};
use crate::harness::Harness;
use crate::probe::PROBE_TOOL;
use crate::taken_up::open_calls;
use hookwright_core::history::Record;
use hookwright_core::job::{AsksThere, Outcome};
use hookwright_core::text;
use hookwright_runtime::job::{Deps, End, Helpers, NewRun, Options, RunError, Which, resume_external, run_external};
use hookwright_runtime::observe::Silent;
use hookwright_runtime::outside::{Outside, Stand, channel};
use hookwright_runtime::ports::store::JobRow;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::{Mutex as Turn, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Conversations that are kept at once; beyond that those without a job are forgotten, and more are refused.
const KEPT: usize = 4_096;
/// How long a conversation without a job is kept in any case: its next event may be on its way.
const FRESH: Duration = Duration::from_mins(1);
/// After how long without an event a conversation keeps no node alive.
const QUIET: Duration = Duration::from_hours(1);
/// After how long without an event a conversation's job ends: whoever decides an approval had a day for it.
const GONE: Duration = Duration::from_hours(25);
/// Jobs that are not over among which that of a conversation is looked for.
const LOOKED_AT: u32 = 10_000;
/// How much earlier than the bridge gives up it is answered.
const MARGIN: Duration = Duration::from_secs(1);

/// Whether a job is of a conversation.
pub type IsOf = Box<dyn Fn(&JobRow) -> bool + Send + Sync>;

/// What the bridges need of the world.
pub trait Wiring: Send + Sync + 'static {
    /// A job with this input, for what the harness asks, and what its run needs.
    fn job(&self, ask: &Ask, input: Value) -> Result<(NewRun, Deps), String>;

    /// What the run of a job needs that was left in the conversation of this question, and whether a job that is not over and that
    /// nobody runs is such a one and can go on here. None where the tenant is gone.
    fn left(&self, ask: &Ask) -> Option<(Deps, IsOf)>;
}

/// All conversations of a node.
pub struct Sessions {
    wiring: Box<dyn Wiring>,
    seats: Mutex<HashMap<(Harness, String), Arc<Seat>>>,
}

/// A conversation.
struct Seat {
    /// The job of its last prompt.
    current: Turn<Option<Current>>,
    /// Whether it was looked for a job that another node left.
    looked: AtomicBool,
    /// What a stop was held with: some harnesses give it back as a prompt.
    held: Mutex<Option<String>>,
    /// When its last event came or was answered.
    heard: Mutex<Instant>,
    /// Events that are being answered.
    under_way: AtomicUsize,
}

/// An event that is being answered.
struct Event<'a>(&'a Seat);

#[derive(Clone)]
struct Current {
    desk: Arc<Desk>,
    helpers: Arc<Helpers>,
    /// Why nobody runs its job; known as soon as that is so.
    broken: watch::Receiver<Option<String>>,
}

impl Sessions {
    /// None yet.
    pub fn new(wiring: Box<dyn Wiring>) -> Self {
        Self { wiring, seats: Mutex::default() }
    }

    /// Whether a job of a harness is under way.
    pub fn is_busy(&self) -> bool {
        let seats: Vec<Arc<Seat>> = lock(&self.seats).values().cloned().collect();
        // Who has it now is at work on it.
        let has_job = |seat: &Seat| seat.current.try_lock().map_or(true, |now| is_open(now.as_ref()));
        seats.iter().any(|seat| seat.silence() < QUIET && has_job(seat))
    }

    /// Forgets jobs that are over, and what they held. Where one ended with a no, that stands until the next prompt.
    pub fn let_go(&self) {
        let seats: Vec<Arc<Seat>> = lock(&self.seats).values().cloned().collect();
        for seat in seats {
            let Ok(mut current) = seat.current.try_lock() else { continue };
            let done = |now: &Current| matches!(now.desk.job().stand(), Stand::Over(Outcome::Completed { .. }));
            if current.as_ref().is_some_and(done) {
                *current = None;
            }
        }
    }

    /// Answers one event.
    pub async fn answer(&self, request: Request) -> Reply {
        let Request { ask, wait_ms, escalate, .. } = request;
        let asks = if escalate == Escalate::Ask { ask.harness.caps().asks } else { AsksThere::No };
        if let What::Before { call } = &ask.what
            && call.tool == PROBE_TOOL
        {
            let nonce = text::shown(call.arguments["nonce"].as_str().unwrap_or_default(), 64);
            return Reply::Deny { text: format!("This is a probe ({nonce}); nobody makes this call.") };
        }
        let wait = Duration::from_millis(wait_ms);
        let wait = wait.saturating_sub(MARGIN.min(wait / 4));
        let Some(seat) = self.seat(&ask) else {
            return refused(&ask.what, format!("{KEPT} conversations are under way at this node"));
        };
        let _event = Event::of(&seat);
        match (&ask.what, &ask.agent) {
            (What::Started { .. }, None) if !ask.harness.caps().prompts => {
                // Nobody tells its prompts: that a person begins anew is all that is heard.
                let mut current = seat.current.lock().await;
                drop(current.take_if(|now| now.is_denied()));
                Reply::Allow
            }
            (What::Started { .. } | What::SubagentStart, _) => Reply::Allow,
            (What::Ended { .. }, None) => self.ended(&ask, &seat).await,
            (What::Prompt { text }, None) => self.prompted(&ask, &seat, text, wait).await,
            (What::Stop { .. } | What::Ended { .. }, _) => {
                let now = {
                    let mut current = seat.current.lock().await;
                    self.take_up(&ask, &seat, &mut current).await;
                    current.clone()
                };
                let Some(now) = now else { return Reply::Allow };
                let reply = now.desk.answer(&ask, &now.helpers, Some(wait)).await;
                if let (Reply::Hold { text }, None) = (&reply, &ask.agent) {
                    *lock(&seat.held) = Some(text.clone());
                }
                reply
            }
            (What::Prompt { .. } | What::Before { .. } | What::After { .. }, _) => {
                match self.current(&ask, &seat).await {
                    Ok(now) => {
                        let reply = now.desk.answer_or_ask(&ask, asks, &now.helpers, Some(wait)).await;
                        now.explained(&ask.what, reply).await
                    }
                    Err(why) => refused(&ask.what, why),
                }
            }
        }
    }

    /// The conversation of a question: a subagent's may have an id of its own, below that of the main one.
    fn seat(&self, ask: &Ask) -> Option<Arc<Seat>> {
        let mut seats = lock(&self.seats);
        let own = (ask.harness, ask.session.clone());
        let above = ask.agent.as_ref().and_then(|agent| agent.parent.clone()).map(|parent| (ask.harness, parent));
        let above = above.filter(|above| *above != own);
        // Whatever a subagent says of where it belongs, a conversation stays what it is.
        if let Some(seat) = seats.get(&own) {
            return Some(seat.clone());
        }
        if seats.len() >= KEPT {
            seats.retain(|_, seat| seat.is_kept(seat.silence()));
            if seats.len() >= KEPT {
                return None;
            }
        }
        Some(match above {
            None => seats.entry(own).or_insert_with(Seat::new).clone(),
            // The same seat under both ids, so that what is below a subagent finds it too.
            Some(above) => {
                let seat = seats.entry(above).or_insert_with(Seat::new).clone();
                seats.insert(own, seat.clone());
                seat
            }
        })
    }

    async fn prompted(&self, ask: &Ask, seat: &Arc<Seat>, text: &str, wait: Duration) -> Reply {
        let held = lock(&seat.held).take();
        let mut current = seat.current.lock().await;
        self.take_up(ask, seat, &mut current).await;
        if let Some(now) = current.as_ref().filter(|now| !now.desk.job().is_over()) {
            if held.as_deref() == Some(text) {
                return Reply::Allow;
            }
            now.leave("the next prompt", false).await;
        }
        let now = match self.begin(ask, seat, Value::String(text.to_owned())) {
            Ok(now) => now,
            Err(why) => return refused(&ask.what, why),
        };
        *current = Some(now.clone());
        drop(current);
        // Where the bridge is killed meanwhile, nobody goes on with the prompt.
        let unheard = Unheard(Some(now.desk.job().clone()));
        let reply = now.desk.answer(ask, &now.helpers, Some(wait)).await;
        let reply = now.explained(&ask.what, reply).await;
        unheard.told();
        reply
    }

    async fn ended(&self, ask: &Ask, seat: &Arc<Seat>) -> Reply {
        lock(&self.seats).retain(|(harness, _), other| *harness != ask.harness || !Arc::ptr_eq(other, seat));
        let mut current = seat.current.lock().await;
        self.take_up(ask, seat, &mut current).await;
        if let Some(now) = current.take() {
            now.leave("the end of the session", true).await;
        }
        Reply::Allow
    }

    /// The job that goes on, or a new one.
    async fn current(&self, ask: &Ask, seat: &Arc<Seat>) -> Result<Current, String> {
        let mut current = seat.current.lock().await;
        self.take_up(ask, seat, &mut current).await;
        // Where it was denied or cancelled, what its agent still does is refused until the next prompt; where no prompts are told, until
        // the conversation ends or is begun anew. Where it had its output and goes on all the same (somebody else's hook held its stop),
        // that is a job of its own.
        let goes_on = |now: &&Current| {
            let over = now.desk.job().is_over() || now.broken.borrow().is_some();
            !over || now.is_denied()
        };
        if let Some(now) = current.as_ref().filter(goes_on) {
            return Ok(now.clone());
        }
        let now = self.begin(ask, seat, Value::String(format!("a session of {}", ask.harness.title())))?;
        *current = Some(now.clone());
        Ok(now)
    }

    /// Takes up the job that a node left in the middle of this conversation, if there is one. Looked for once.
    async fn take_up(&self, ask: &Ask, seat: &Arc<Seat>, current: &mut Option<Current>) {
        if current.is_some() || seat.looked.swap(true, Ordering::Relaxed) {
            return;
        }
        let Some((deps, is_of)) = self.wiring.left(ask) else { return };
        let rows = match deps.store.jobs(true, LOOKED_AT).await {
            Ok(rows) => rows,
            Err(error) => return tracing::warn!("it can't be looked for a job that was left: {error}"),
        };
        let is_left = |row: &&JobRow| !row.running && row.job.parent.is_none() && is_of(row);
        let Some(row) = rows.iter().filter(is_left).max_by_key(|row| row.job.created_ms) else { return };
        match resumed(deps, ask.harness, &row.job.id, seat).await {
            Ok(now) => *current = Some(now),
            // Then the conversation goes on with a job of its own.
            Err(error) => tracing::warn!(job = row.job.id, "the job of a harness can't be taken up: {error}"),
        }
    }

    fn begin(&self, ask: &Ask, seat: &Arc<Seat>, input: Value) -> Result<Current, String> {
        let (run, deps) = self.wiring.job(ask, input)?;
        let (outside, arrivals) = channel();
        let helpers = Arc::new(Helpers::new(deps.clone(), run.spec.clone(), Arc::new(Silent)));
        let options = Options { detach: false, cancel: CancellationToken::new(), cancelled_by: String::new() };
        let (job, input) = (run.spec.job.clone(), run.spec.input.sha256.clone());
        let desk = Arc::new(Desk::new(ask.harness, outside).with_input(input));
        let run = run_external(deps, Which::New(Box::new(run)), options, Arc::new(Silent), arrivals);
        let (breaks, broken) = watch::channel(None);
        tokio::spawn(attend(run, job, Arc::downgrade(&desk), helpers.clone(), Arc::downgrade(seat), breaks));
        Ok(Current { desk, helpers, broken })
    }
}

/// Takes up a job that was begun.
async fn resumed(deps: Deps, harness: Harness, job: &str, seat: &Arc<Seat>) -> Result<Current, RunError> {
    let texts = deps.store.records(job, 0).await?;
    let (outside, arrivals) = channel();
    let options = Options { detach: false, cancel: CancellationToken::new(), cancelled_by: String::new() };
    let (spec, run) = resume_external(deps.clone(), job, options, Arc::new(Silent), arrivals).await?;
    let input = spec.input.sha256.clone();
    let helpers = Arc::new(Helpers::new(deps, spec, Arc::new(Silent)));
    let records: Vec<Record> = texts.iter().map_while(|text| serde_json::from_str(text).ok()).collect();
    let desk = Arc::new(Desk::new(harness, outside).with_input(input));
    let (breaks, broken) = watch::channel(None);
    tokio::spawn(attend(run, job.to_owned(), Arc::downgrade(&desk), helpers.clone(), Arc::downgrade(seat), breaks));
    desk.take_up(open_calls(harness, &records)).await;
    Ok(Current { desk, helpers, broken })
}

/// Drives a job with those of its subagents, until it is over or its harness is gone.
async fn attend(
    run: impl Future<Output = Result<End, RunError>>,
    job: String,
    desk: Weak<Desk>,
    helpers: Arc<Helpers>,
    seat: Weak<Seat>,
    breaks: watch::Sender<Option<String>>,
) {
    let mut run = std::pin::pin!(helpers.beside(run));
    let ended = tokio::select! {
        ended = &mut run => ended,
        () = gone(&seat) => {
            let leave = async {
                if let (Some(desk), Some(seat)) = (desk.upgrade(), seat.upgrade()) {
                    let _ = desk.job().leave("nobody: its harness is gone", false).await;
                    // Nobody denied what comes all the same.
                    drop(seat.current.lock().await.take_if(|now| Arc::ptr_eq(&now.desk, &desk)));
                }
            };
            tokio::join!(run, leave).0
        }
    };
    if let Err(error) = ended {
        tracing::error!(job, "the job of a harness can't go on: {error}");
        breaks.send_replace(Some(text::shown(&error.to_string(), 500)));
    }
}

/// Waits until nothing has been heard of a conversation for so long that its harness is gone. Keeps nothing of it alive.
async fn gone(seat: &Weak<Seat>) {
    loop {
        let Some(silence) = seat.upgrade().map(|seat| seat.silence()) else { return std::future::pending().await };
        let left = GONE.saturating_sub(silence);
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(left).await;
    }
}

impl Seat {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            current: Turn::default(),
            looked: AtomicBool::new(false),
            held: Mutex::default(),
            heard: Mutex::new(Instant::now()),
            under_way: AtomicUsize::new(0),
        })
    }

    /// How long nothing has been heard of it.
    fn silence(&self) -> Duration {
        if self.under_way.load(Ordering::Acquire) > 0 { Duration::ZERO } else { lock(&self.heard).elapsed() }
    }

    /// Whether it may not be forgotten for others. What was denied stays denied for as long as its harness may be there.
    fn is_kept(&self, silence: Duration) -> bool {
        silence < FRESH
            || self.current.try_lock().map_or(true, |now| {
                is_open(now.as_ref()) || (silence < GONE && now.as_ref().is_some_and(Current::is_denied))
            })
    }
}

impl<'a> Event<'a> {
    fn of(seat: &'a Seat) -> Self {
        seat.under_way.fetch_add(1, Ordering::AcqRel);
        Self(seat)
    }
}

impl Drop for Event<'_> {
    fn drop(&mut self) {
        *lock(&self.0.heard) = Instant::now();
        self.0.under_way.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A prompt whose answer was not told. Dropped, its job ends.
struct Unheard(Option<Outside>);

impl Unheard {
    fn told(mut self) {
        self.0 = None;
    }
}

impl Drop for Unheard {
    fn drop(&mut self) {
        if let Some(job) = self.0.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(async move { job.leave("nobody's waiting any more", false).await });
        }
    }
}

impl Current {
    /// Whether its job was denied or cancelled.
    fn is_denied(&self) -> bool {
        matches!(self.desk.job().stand(), Stand::Over(Outcome::Failed { .. } | Outcome::Cancelled { .. }))
    }

    /// A no because nobody runs the job says why that is.
    async fn explained(&self, what: &What, reply: Reply) -> Reply {
        match &reply {
            Reply::Deny { text } | Reply::Withhold { text } if *text == desk::gone() => {}
            _ => return reply,
        }
        let mut broken = self.broken.clone();
        // It is told just after its end is seen; where the job was left in order, never.
        let why = match broken.wait_for(Option::is_some).await {
            Ok(why) => why.clone().unwrap_or_default(),
            Err(_) => return reply,
        };
        refused(what, format!("Hookwright let nothing through: {}.", why.trim_end_matches('.')))
    }

    async fn leave(&self, by: &str, done: bool) {
        let _ = self.desk.job().leave(by, done).await;
        self.helpers.end().await;
    }
}

fn is_open(current: Option<&Current>) -> bool {
    current.is_some_and(|now| !now.desk.job().is_over())
}

fn refused(what: &What, text: String) -> Reply {
    match what {
        What::Before { .. } | What::Prompt { .. } => Reply::Deny { text },
        What::After { .. } => Reply::Withhold { text },
        What::Stop { .. } | What::Started { .. } | What::SubagentStart | What::Ended { .. } => Reply::Allow,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
