//! Jobs of agents that somebody else runs (docs/decisions/0115): a door holds the [`Outside`] of such a job, says what the agent does,
//! and is told what becomes of it. The job itself is driven by [`crate::job::run_external`].
//!
//! Invariant: nothing is answered before what decides it is durable.

use crate::ports::tools::Progress;
use hookwright_core::event::Moment;
use hookwright_core::job::{AsksThere, Outcome, ToolOutcome};
use hookwright_core::text;
use hookwright_core::verdict::Escalation;
use serde_json::Value;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot, watch};

/// Things that wait to be taken up by the job; more wait at the door.
const QUEUE: usize = 64;

/// A job's two ends: one for the door, one for [`crate::job::run_external`].
pub fn channel() -> (Outside, Arrivals) {
    let (to_job, arrivals) = mpsc::channel(QUEUE);
    let (stand, standing) = watch::channel(Stand::Starting);
    (Outside { to_job, standing }, Arrivals { arrivals, stand })
}

/// The door's end. Clones lead to the same job.
#[derive(Debug, Clone)]
pub struct Outside {
    to_job: mpsc::Sender<Arrival>,
    standing: watch::Receiver<Stand>,
}

/// The job's end.
#[derive(Debug)]
pub struct Arrivals {
    pub(crate) arrivals: mpsc::Receiver<Arrival>,
    pub(crate) stand: watch::Sender<Stand>,
}

/// How such a job stands, as far as its agent is concerned.
#[derive(Debug, Clone, PartialEq)]
pub enum Stand {
    /// The hooks at its start are asked, or a person is.
    Starting,
    /// The agent may work, on this input.
    Admitted(Arc<Value>),
    /// It is over. For an output that a hook changed, the outcome holds the new one.
    Over(Outcome),
}

/// What the agent asks for.
#[derive(Debug, Clone)]
pub struct CallRequest {
    /// The agent's own id of the call, for the history.
    pub provider_id: String,
    /// The function's full name.
    pub tool: String,
    /// Other names that hooks may match: for an MCP call inside a harness, `server.function`, in all ways that its name can be read.
    pub aliases: Vec<String>,
    /// The arguments.
    pub arguments: Value,
    /// Why the call can't be made as it is (arguments that are no object, numbers that can't be kept); nobody is asked then.
    pub fault: Option<String>,
    /// Who is told how far the call has come, where it is made here.
    pub progress: Option<Progress>,
    /// Whether the agent asks the person at it about what hooks escalate, where it makes the call itself.
    pub asks_there: AsksThere,
}

/// A call that was taken up.
#[derive(Debug)]
pub struct Asked {
    /// Its id within the job.
    pub call: String,
    /// What becomes of it. Closed without a word where the job is left by its process.
    pub news: oneshot::Receiver<CallNews>,
}

/// What becomes of a call.
#[derive(Debug, Clone, PartialEq)]
pub enum CallNews {
    /// The agent may make it, with these arguments, and has to say how it ended ([`Outside::returned`]).
    Make {
        /// The arguments, as the hooks left them.
        arguments: Arc<Value>,
        /// Whether a hook changed them.
        changed: bool,
        /// Who asked for a person and why, where the agent has to ask the one at it first.
        asked: Vec<Escalation>,
    },
    /// It was not made (or, where the job was cut off, may have been): a sentence says why.
    NotMade(String),
    /// It was made; its result is withheld: a sentence says why.
    Withheld(String),
    /// It was made.
    Result {
        /// A string, or a list of content blocks.
        content: Arc<Value>,
        /// Its `structuredContent`; none where a hook changed the result.
        structured: Option<Arc<Value>>,
        /// What else the server's result held; none where a hook changed the result.
        rest: Option<Arc<Value>>,
        /// Whether it failed.
        is_error: bool,
        /// Whether a hook changed it.
        changed: bool,
    },
}

/// How a call ended that the agent made itself.
#[derive(Debug, Clone, PartialEq)]
pub enum Made {
    /// With a result.
    Returned {
        /// A string, or a list of content blocks.
        result: Value,
        /// Its `structuredContent`.
        structured: Option<Value>,
        /// Whether it failed.
        is_error: bool,
    },
    /// Otherwise.
    Otherwise(ToolOutcome),
}

/// What came of leaving a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Left {
    /// It waits for this approval without the agent; the same call asked for again gets the answer.
    Waits {
        /// The approval's id.
        approval: String,
    },
    /// No person is asked about it (any more), or too many calls were left already: its news come, and are to be waited for.
    Not,
}

/// What came of an output.
#[derive(Debug, Clone, PartialEq)]
pub enum OutputNews {
    /// It stands, or the job failed over it: the job is over.
    Over(Outcome),
    /// It was denied: the agent is to go on.
    SentBack {
        /// The hook.
        hook: String,
        /// Its reason.
        reason: String,
    },
}

/// Somebody waits for a call. Dropped before they were told, they wait no more: where a person is asked, the call is left to be asked for
/// again; one that is not made yet is cancelled; and what was made runs through its hooks, and is left where these want a person.
#[derive(Debug)]
pub struct Awaits {
    to_job: mpsc::Sender<Arrival>,
    call: Option<String>,
    made: bool,
}

impl Awaits {
    /// They were told.
    pub fn told(mut self) {
        self.call = None;
    }
}

impl Drop for Awaits {
    fn drop(&mut self) {
        if let Some(call) = self.call.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let (to_job, made) = (self.to_job.clone(), self.made);
            runtime.spawn(async move { to_job.send(Arrival::Abandoned { call, made }).await });
        }
    }
}

/// Nothing takes up what the agent does: the job is over, or was left by its process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the job no longer takes anything up")]
pub struct Gone;

#[derive(Debug)]
pub(crate) enum Arrival {
    Call { request: Box<CallRequest>, asked: oneshot::Sender<Asked> },
    Left { call: String, left: oneshot::Sender<Left> },
    Cancelled { call: String, done: oneshot::Sender<()> },
    Abandoned { call: String, made: bool },
    Returned { call: String, made: Box<Made>, news: oneshot::Sender<CallNews> },
    Output { output: Value, news: oneshot::Sender<OutputNews> },
    Watches { names: Vec<String>, moment: Moment, watched: oneshot::Sender<bool> },
    Gone { by: String, done: bool, failed: Option<String> },
}

impl Outside {
    /// Waits until the agent may work, or the job is over.
    pub async fn admitted(&self) -> Result<Stand, Gone> {
        let mut standing = self.standing.clone();
        let stand = standing.wait_for(|stand| *stand != Stand::Starting).await.map_err(|_| Gone)?;
        Ok(stand.clone())
    }

    /// How the job stands now.
    pub fn stand(&self) -> Stand {
        self.standing.borrow().clone()
    }

    /// Waits until the job is over.
    pub async fn over(&self) -> Result<Outcome, Gone> {
        let mut standing = self.standing.clone();
        let stand = standing.wait_for(|stand| matches!(stand, Stand::Over(_))).await.map_err(|_| Gone)?;
        if let Stand::Over(outcome) = &*stand { Ok(outcome.clone()) } else { Err(Gone) }
    }

    /// Asks for a call. Returns when it is taken up; its news come later.
    ///
    /// To be used once [`Outside::admitted`] says so: earlier calls wait until then. Dropping the future takes the call back, wherever it is:
    /// one that was not taken up is never asked about, another one is cancelled.
    pub async fn call(&self, request: CallRequest) -> Result<Asked, Gone> {
        if !matches!(self.admitted().await?, Stand::Admitted(_)) {
            return Err(Gone);
        }
        let (sender, asked) = oneshot::channel();
        self.to_job.send(Arrival::Call { request: Box::new(request), asked: sender }).await.map_err(|_| Gone)?;
        let mut waits = Waits { outside: self, asked };
        (&mut waits.asked).await.map_err(|_| Gone)
    }

    /// The agent no longer waits for a call; the same call may be asked for again.
    pub async fn leave_call(&self, call: &str) -> Result<Left, Gone> {
        self.put(|left| Arrival::Left { call: call.to_owned(), left }).await
    }

    /// The agent no longer wants a call. What is under way for it is broken off; its news never come.
    pub async fn cancel_call(&self, call: &str) -> Result<(), Gone> {
        self.put(|done| Arrival::Cancelled { call: call.to_owned(), done }).await
    }

    /// Whoever holds this waits for a call: for its permission, or for its result where it was `made` by the agent.
    #[must_use]
    pub fn awaits(&self, call: &str, made: bool) -> Awaits {
        Awaits { to_job: self.to_job.clone(), call: Some(call.to_owned()), made }
    }

    /// How a call ended that the agent made itself; what the agent is to read of it. A call that was not let is not known: `Gone`.
    pub async fn returned(&self, call: &str, made: Made) -> Result<CallNews, Gone> {
        self.put(|news| Arrival::Returned { call: call.to_owned(), made: Box::new(made), news }).await
    }

    /// The agent ends its work with this output. Dropping the future leaves the question to the hooks, or to people, as it is.
    pub async fn offer(&self, output: Value) -> Result<OutputNews, Gone> {
        self.put(|news| Arrival::Output { output, news }).await
    }

    /// Whether any hook watches a function of these names at that moment.
    pub async fn is_watched(&self, names: Vec<String>, moment: Moment) -> Result<bool, Gone> {
        self.put(|watched| Arrival::Watches { names, moment, watched }).await
    }

    /// The agent is gone. `done` says that this is how its work ends; else it was broken off.
    pub async fn leave(&self, by: &str, done: bool) -> Result<Outcome, Gone> {
        // Where the job is over already nobody takes it up, and nobody needs to.
        let _ = self.to_job.send(Arrival::Gone { by: by.to_owned(), done, failed: None }).await;
        self.over().await
    }

    /// The agent went wrong: its job fails, unless it is over.
    pub async fn fail(&self, by: &str, why: &str) -> Result<Outcome, Gone> {
        let failed = Some(text::reason(Some(why), 2_000));
        let _ = self.to_job.send(Arrival::Gone { by: by.to_owned(), done: false, failed }).await;
        self.over().await
    }

    /// Whether the job is over, or was left by its process.
    pub fn is_over(&self) -> bool {
        self.to_job.is_closed() || matches!(*self.standing.borrow(), Stand::Over(_))
    }

    async fn put<T>(&self, what: impl FnOnce(oneshot::Sender<T>) -> Arrival) -> Result<T, Gone> {
        let (sender, receiver) = oneshot::channel();
        self.to_job.send(what(sender)).await.map_err(|_| Gone)?;
        receiver.await.map_err(|_| Gone)
    }
}

/// Waits until a call is taken up. Dropped before it knows of it, it takes the call back.
struct Waits<'a> {
    outside: &'a Outside,
    asked: oneshot::Receiver<Asked>,
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.asked.close();
        let Ok(Asked { call, .. }) = self.asked.try_recv() else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let to_job = self.outside.to_job.clone();
        runtime.spawn(async move {
            let (done, _) = oneshot::channel();
            let _ = to_job.send(Arrival::Cancelled { call, done }).await;
        });
    }
}
