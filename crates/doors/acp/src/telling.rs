//! What a prompt's job and the jobs below it do, told to the client in order.
//!
//! Invariant: a job never waits for a client that does not read; one that lets too much pile up has its prompt cancelled.
//! Invariant: what happens in a job is told in its order; the client's questions are withdrawn when nobody needs to decide them any more.

use crate::door::Door;
use crate::permission::Question;
use crate::session::Session;
use crate::tell::{Tell, Weight};
use crate::teller::{Teller, Within};
use agent_client_protocol::v1::schema::{ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields};
use hookwright_core::approval::Approval;
use hookwright_core::history::Record;
use hookwright_core::job::{Fact, JobSpec};
use hookwright_core::text::escape;
use hookwright_runtime::observe::{Event, Observer};
use hookwright_runtime::values::Values;
use serde_json::json;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// What may pile up of a prompt that its client does not read (64 MiB).
const PILE_BYTES: usize = 64 * 1024 * 1024;
/// What a record counts: small values stand in it.
const RECORD_BYTES: usize = 16 * 1024;

/// The observer of a prompt's job, and what tells the client what it sees. `cancel` cancels the prompt.
pub(crate) fn of(
    door: Arc<Door>,
    session: Arc<Session>,
    tell: Tell,
    cancel: CancellationToken,
) -> (Arc<dyn Observer>, Telling) {
    let (to, receiver) = mpsc::unbounded_channel();
    let teller = Teller::new(tell.clone(), Values::new(door.wiring.store()), session.cwd.clone(), None);
    let piled = Arc::new(AtomicUsize::new(0));
    let relay = Relay { to, job: None, piled: piled.clone(), cancel: cancel.clone() };
    let (below, questions) = (HashMap::new(), HashMap::new());
    (Arc::new(relay), Telling { door, session, tell, cancel, receiver, piled, teller, below, questions })
}

/// What an observer hands on. `job`: a subagent's.
enum Told {
    Text(String),
    Notice { what: String, job: Option<Arc<str>> },
    Record { record: Box<Record>, job: Option<Arc<str>> },
    Waiting(Box<Approval>),
    Child { spec: Box<JobSpec>, earlier: Vec<Record> },
}

impl Told {
    /// About how many bytes it holds.
    fn weight(&self) -> usize {
        match self {
            Self::Text(text) | Self::Notice { what: text, .. } => text.len() + 64,
            Self::Record { .. } | Self::Waiting(_) | Self::Child { .. } => RECORD_BYTES,
        }
    }
}

/// The observer of one job: it must not block, so it hands everything on.
struct Relay {
    to: mpsc::UnboundedSender<Told>,
    /// A subagent's job; none for the prompt's own.
    job: Option<Arc<str>>,
    /// Bytes of what was handed on and is not told yet, about.
    piled: Arc<AtomicUsize>,
    /// Cancels the prompt.
    cancel: CancellationToken,
}

impl Relay {
    fn hand_on(&self, told: Told) {
        let piled = self.piled.fetch_add(told.weight(), Ordering::Relaxed);
        if piled > PILE_BYTES && !self.cancel.is_cancelled() {
            tracing::warn!("the client does not read what it is told: its prompt is cancelled");
            self.cancel.cancel();
        }
        let _ = self.to.send(told);
    }
}

impl Observer for Relay {
    fn event(&self, event: Event<'_>) {
        let job = self.job.clone();
        let told = match event {
            Event::Recorded(record) => Told::Record { record: Box::new(record.clone()), job },
            // What a subagent says is the result of a call, and stands there.
            Event::Text(_) if job.is_some() => return,
            Event::Text(piece) => Told::Text(piece.to_owned()),
            Event::Waiting { approval, .. } => Told::Waiting(Box::new(approval.clone())),
            Event::Notice(what) => Told::Notice { what: what.to_owned(), job },
        };
        self.hand_on(told);
    }

    fn child(&self, spec: &JobSpec, earlier: &[Record]) -> Arc<dyn Observer> {
        self.hand_on(Told::Child { spec: Box::new(spec.clone()), earlier: earlier.to_vec() });
        let (to, piled, cancel) = (self.to.clone(), self.piled.clone(), self.cancel.clone());
        Arc::new(Self { to, job: Some(spec.job.as_str().into()), piled, cancel })
    }
}

/// Tells the client of a prompt's job.
pub(crate) struct Telling {
    door: Arc<Door>,
    session: Arc<Session>,
    tell: Tell,
    cancel: CancellationToken,
    receiver: mpsc::UnboundedReceiver<Told>,
    piled: Arc<AtomicUsize>,
    teller: Teller,
    /// Of subagents' jobs that are not over.
    below: HashMap<String, Teller>,
    /// Questions to people that are open, by approval.
    questions: HashMap<String, Asked>,
}

/// A question that is open.
struct Asked {
    withdrawn: CancellationToken,
    /// Whether the client was asked.
    shown: Arc<AtomicBool>,
    /// The client's id of what it is about, where that is no call, which ends of itself.
    place: Option<String>,
}

impl Telling {
    /// Until the job's run is over, and its observer gone.
    pub(crate) async fn run(mut self) {
        while let Some(told) = self.receiver.recv().await {
            // A prompt that was cancelled must end, whether somebody reads of it or not.
            tokio::select! {
                () = self.tell.room() => {}
                () = self.cancel.cancelled() => {}
            }
            self.piled.fetch_sub(told.weight(), Ordering::Relaxed);
            match told {
                Told::Text(piece) => self.teller.text(&piece),
                Told::Notice { what, job } => {
                    job.as_deref().and_then(|job| self.below.get(job)).unwrap_or(&self.teller).notice(&what);
                }
                Told::Waiting(approval) => self.ask(*approval),
                Told::Child { spec, earlier } => self.child(&spec, &earlier),
                Told::Record { record, job } => self.record(&record, job.as_deref()).await,
            }
        }
        // The job is over, whatever still waited.
        let left: Vec<String> = self.questions.keys().cloned().collect();
        for approval in left {
            self.close(&approval, false);
        }
    }

    async fn record(&mut self, record: &Record, job: Option<&str>) {
        match &record.fact {
            Fact::ApprovalDecided { approval, approve, by, .. } => {
                self.close(approval, *approve);
                self.decided(approval, *approve, by);
            }
            Fact::ApprovalExpired { approval, .. } => {
                self.close(approval, false);
                let title = format!("Nobody decided approval {approval} in time: it counts as a no");
                let details = json!({"approval": approval, "state": "expired"});
                self.tell.notice(Weight::Warning, &title, None, details);
            }
            _ => {}
        }
        let Some(job) = job else { return self.teller.record(record).await };
        if let Some(teller) = self.below.get_mut(job) {
            teller.record(record).await;
        }
        if matches!(record.fact, Fact::Finished { .. }) {
            self.below.remove(job);
        }
    }

    /// A subagent's job begins, or is taken up again.
    fn child(&mut self, spec: &JobSpec, earlier: &[Record]) {
        let parent = spec.parent_jobs.last().and_then(|job| self.below.get(job)).unwrap_or(&self.teller);
        let call = parent.call_that_started(&spec.job);
        if let Some(call) = &call {
            parent.started(call, &spec.agent.id, &spec.job);
        }
        let within = Within { agent: escape(&spec.agent.id), call };
        let mut teller = Teller::new(
            self.tell.clone(),
            Values::new(self.door.wiring.store()),
            self.session.cwd.clone(),
            Some(within),
        );
        teller.catch_up(earlier);
        self.below.insert(spec.job.clone(), teller);
    }

    fn ask(&mut self, approval: Approval) {
        let place = approval.call.clone().unwrap_or_else(|| approval.event.name().to_owned());
        let id = format!("{}/{place}", approval.job);
        let asked = Asked {
            withdrawn: CancellationToken::new(),
            shown: Arc::default(),
            place: approval.call.is_none().then(|| id.clone()),
        };
        let question = Question {
            door: self.door.clone(),
            session: self.session.clone(),
            tell: self.tell.clone(),
            id,
            withdrawn: asked.withdrawn.clone(),
            shown: asked.shown.clone(),
            cancel: self.cancel.clone(),
            approval,
        };
        self.questions.insert(question.approval.id.clone(), asked);
        tokio::spawn(question.see_to());
    }

    /// Nobody needs to decide it any more.
    fn close(&mut self, approval: &str, approved: bool) {
        let Some(asked) = self.questions.remove(approval) else { return };
        asked.withdrawn.cancel();
        if let Some(id) = asked.place.filter(|_| asked.shown.load(Ordering::Relaxed)) {
            let status = if approved { ToolCallStatus::Completed } else { ToolCallStatus::Failed };
            self.tell.call_update(ToolCallUpdate::new(id, ToolCallUpdateFields::new().status(status)));
        }
    }

    fn decided(&self, approval: &str, approve: bool, by: &str) {
        let (word, state) = if approve { ("approved", "approved") } else { ("declined", "denied") };
        let title = format!("Approval {approval} was {word} by {}", escape(by));
        self.tell.notice(Weight::Info, &title, None, json!({"approval": approval, "state": state, "by": by}));
    }
}
