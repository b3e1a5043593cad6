//! A node's side of the bridges: each harness's conversation, with the job of the prompt that it works on.
//!
//! A prompt is a job; it ends with the turn. Where a harness tells no prompts, or a node was started in the middle of a conversation, the
//! first call begins the job, and the end of the conversation ends it.
//!
//! A job that a node left which was killed is taken up with the next event of its conversation.
//!
//! Invariant: what is asked of a conversation without a job, and needs one, begins one: nothing goes on unrecorded.

use crate::ask::{Ask, Escalate, Reply, Request, What};
use crate::desk::Desk;
use crate::harness::Harness;
use crate::probe::PROBE_TOOL;
use crate::taken_up::open_calls;
use hookwright_core::history::Record;
use hookwright_core::job::{AsksThere, Outcome};
use hookwright_core::text;
use hookwright_runtime::job::{Deps, Helpers, NewRun, Options, RunError, Which, resume_external, run_external};
use hookwright_runtime::observe::Silent;
use hookwright_runtime::outside::{Stand, channel};
use hookwright_runtime::ports::store::JobRow;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Mutex as Turn;
use tokio_util::sync::CancellationToken;

/// Conversations that are kept at once; beyond that those without a job are forgotten.
const KEPT: usize = 4_096;
/// Jobs that are not over among which that of a conversation is looked for.
const LOOKED_AT: u32 = 10_000;
/// How much earlier than the bridge gives up it is answered.
const MARGIN: Duration = Duration::from_secs(1);

/// What the bridges need of the world.
pub trait Wiring: Send + Sync + 'static {
    /// A job with this input, for what the harness asks.
    fn job(&self, ask: &Ask, input: Value) -> Result<NewRun, String>;

    /// What its run needs.
    fn deps(&self) -> Deps;

    /// Whether a job that is not over, and that nobody runs, is of the conversation of this question and can go on here.
    fn is_of(&self, row: &JobRow, ask: &Ask) -> bool;
}

/// All conversations of a node.
pub struct Sessions {
    wiring: Box<dyn Wiring>,
    seats: Mutex<HashMap<(Harness, String), Arc<Seat>>>,
}

/// A conversation.
#[derive(Default)]
struct Seat {
    /// The job of its last prompt.
    current: Turn<Option<Current>>,
    /// Whether it was looked for a job that another node left.
    looked: AtomicBool,
    /// What a stop was held with: some harnesses give it back as a prompt.
    held: Mutex<Option<String>>,
}

#[derive(Clone)]
struct Current {
    desk: Arc<Desk>,
    helpers: Arc<Helpers>,
}

impl Sessions {
    /// None yet.
    pub fn new(wiring: Box<dyn Wiring>) -> Self {
        Self { wiring, seats: Mutex::default() }
    }

    /// Whether a job of a harness is under way.
    pub fn is_busy(&self) -> bool {
        let seats: Vec<Arc<Seat>> = lock(&self.seats).values().cloned().collect();
        seats.iter().any(|seat| {
            // Who has it now is at work on it.
            seat.current
                .try_lock()
                .map_or(true, |current| current.as_ref().is_some_and(|now| !now.desk.job().is_over()))
        })
    }

    /// Answers one event.
    pub async fn answer(&self, request: Request) -> Reply {
        let Request { ask, wait_ms, escalate } = request;
        let asks = if escalate == Escalate::Ask { ask.harness.caps().asks } else { AsksThere::No };
        if let What::Before { call } = &ask.what
            && call.tool == PROBE_TOOL
        {
            let nonce = text::shown(call.arguments["nonce"].as_str().unwrap_or_default(), 64);
            return Reply::Deny { text: format!("This is a probe ({nonce}); nobody makes this call.") };
        }
        let wait = Duration::from_millis(wait_ms);
        let wait = wait.saturating_sub(MARGIN.min(wait / 4));
        let seat = self.seat(&ask);
        match (&ask.what, &ask.agent) {
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
                    Ok(now) => now.desk.answer_or_ask(&ask, asks, &now.helpers, Some(wait)).await,
                    Err(why) => refused(&ask.what, why),
                }
            }
        }
    }

    /// The conversation of a question: a subagent's may have an id of its own, below that of the main one.
    fn seat(&self, ask: &Ask) -> Arc<Seat> {
        let mut seats = lock(&self.seats);
        if seats.len() >= KEPT {
            seats.retain(|_, seat| {
                Arc::strong_count(seat) > 1 || seat.current.try_lock().is_ok_and(|now| is_open(now.as_ref()))
            });
        }
        let own = (ask.harness, ask.session.clone());
        let above = ask.agent.as_ref().and_then(|agent| agent.parent.clone()).map(|parent| (ask.harness, parent));
        match above.filter(|above| *above != own) {
            None => seats.entry(own).or_default().clone(),
            // The same seat under both ids, so that what is below a subagent finds it too.
            Some(above) => {
                let seat = seats.entry(above).or_default().clone();
                seats.insert(own, seat.clone());
                seat
            }
        }
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
        let now = match self.begin(ask, Value::String(text.to_owned())) {
            Ok(now) => now,
            Err(why) => return refused(&ask.what, why),
        };
        *current = Some(now.clone());
        drop(current);
        let admitted = tokio::time::timeout(wait, now.desk.answer(ask, &now.helpers, None)).await;
        match (admitted, now.desk.job().stand()) {
            (Ok(Reply::Allow), Stand::Admitted(input)) if input.as_str() != Some(text) => {
                let why = format!("a hook changed the prompt, and {} can't take that over", ask.harness.title());
                let _ = now.desk.job().fail(ask.harness.id(), &why).await;
                refused(&ask.what, format!("Hookwright let nothing through: {why}."))
            }
            (Ok(reply), _) => reply,
            (Err(_), _) => {
                now.leave("nobody's waiting any more", false).await;
                refused(&ask.what, "Hookwright let nothing through: the prompt was not allowed in time.".to_owned())
            }
        }
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
        // Where it was denied or cancelled, what its agent still does is refused until the next prompt. Where it had its output and goes on
        // all the same (somebody else's hook held its stop), that is a job of its own.
        let denied = |now: &Current| {
            matches!(now.desk.job().stand(), Stand::Over(Outcome::Failed { .. } | Outcome::Cancelled { .. }))
        };
        let goes_on = |now: &&Current| !now.desk.job().is_over() || (ask.harness.caps().prompts && denied(now));
        if let Some(now) = current.as_ref().filter(goes_on) {
            return Ok(now.clone());
        }
        let now = self.begin(ask, Value::String(format!("a session of {}", ask.harness.title())))?;
        *current = Some(now.clone());
        Ok(now)
    }

    /// Takes up the job that a node left in the middle of this conversation, if there is one. Looked for once.
    async fn take_up(&self, ask: &Ask, seat: &Seat, current: &mut Option<Current>) {
        if current.is_some() || seat.looked.swap(true, Ordering::Relaxed) {
            return;
        }
        let deps = self.wiring.deps();
        let rows = match deps.store.jobs(true, LOOKED_AT).await {
            Ok(rows) => rows,
            Err(error) => return tracing::warn!("it can't be looked for a job that was left: {error}"),
        };
        let is_left = |row: &&JobRow| !row.running && row.job.parent.is_none() && self.wiring.is_of(row, ask);
        let Some(row) = rows.iter().filter(is_left).max_by_key(|row| row.job.created_ms) else { return };
        match resumed(deps, ask.harness, &row.job.id).await {
            Ok(now) => *current = Some(now),
            // Then the conversation goes on with a job of its own.
            Err(error) => tracing::warn!(job = row.job.id, "the job of a harness can't be taken up: {error}"),
        }
    }

    fn begin(&self, ask: &Ask, input: Value) -> Result<Current, String> {
        let run = self.wiring.job(ask, input)?;
        let deps = self.wiring.deps();
        let (outside, arrivals) = channel();
        let helpers = Arc::new(Helpers::new(deps.clone(), run.spec.clone(), Arc::new(Silent)));
        let options = Options { detach: false, cancel: CancellationToken::new(), cancelled_by: String::new() };
        let job = run.spec.job.clone();
        tokio::spawn(async move {
            if let Err(error) = run_external(deps, Which::New(Box::new(run)), options, Arc::new(Silent), arrivals).await
            {
                tracing::error!(job, "the job of a harness can't go on: {error}");
            }
        });
        Ok(Current { desk: Arc::new(Desk::new(ask.harness, outside)), helpers })
    }
}

/// Takes up a job that was begun.
async fn resumed(deps: Deps, harness: Harness, job: &str) -> Result<Current, RunError> {
    let texts = deps.store.records(job, 0).await?;
    let (outside, arrivals) = channel();
    let options = Options { detach: false, cancel: CancellationToken::new(), cancelled_by: String::new() };
    let (spec, run) = resume_external(deps.clone(), job, options, Arc::new(Silent), arrivals).await?;
    let id = job.to_owned();
    tokio::spawn(async move {
        if let Err(error) = run.await {
            tracing::error!(job = id, "the job of a harness can't go on: {error}");
        }
    });
    let records: Vec<Record> = texts.iter().map_while(|text| serde_json::from_str(text).ok()).collect();
    let desk = Arc::new(Desk::new(harness, outside));
    desk.take_up(open_calls(harness, &records)).await;
    Ok(Current { desk, helpers: Arc::new(Helpers::new(deps, spec, Arc::new(Silent))) })
}

impl Current {
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
