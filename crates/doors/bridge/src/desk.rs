//! One job of a harness: what its hooks ask becomes what the job's agent does, and what the job says becomes a reply.
//!
//! Invariant: every failure here is a reply that lets nothing through; a call is never let twice for one yes (the job sees to that).
//! Invariant: memory is bounded by the calls that the harness has under way.

use crate::ask::{Agent, Ask, Call, Reply, What};
use crate::harness::Harness;
use crate::taken_up::{Open, open_calls};
use hookwright_core::job::{AsksThere, Outcome};
use hookwright_core::verdict::Escalation;
use hookwright_core::{event, json, text};
use hookwright_runtime::job::Helpers;
use hookwright_runtime::outside::{CallNews, CallRequest, Gone, Left, Made, OutputNews, Outside, Stand};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Calls that were let and whose end the harness still owes; the oldest are forgotten beyond that.
const LET: usize = 1_024;
/// Subagents whose jobs are open.
const SUBAGENTS: usize = 256;

/// A job whose agent is a harness's.
pub struct Desk {
    harness: Harness,
    job: Outside,
    let_calls: Mutex<Let>,
    subagents: tokio::sync::Mutex<HashMap<String, Arc<Desk>>>,
    /// JSON Schema of the output, where the agent declares one.
    schema: Option<Value>,
    /// The digest of the job's input, where the harness can't take over a changed one.
    input: Option<String>,
    /// Calls that were asked about, of subagents too.
    asked: std::sync::atomic::AtomicU64,
    /// It was seen that hooks left that input as it is.
    is_as_given: std::sync::OnceLock<()>,
}

/// Calls as the harness knows them, with the job's ids, oldest first. Some harnesses have no ids, and don't tell the ends of failed calls:
/// of equal calls, what is told is the newest's, so that a repeated one is not taken for the failed one before it.
#[derive(Default)]
struct Let(std::collections::VecDeque<(String, String)>);

impl Let {
    fn add(&mut self, theirs: String, ours: String) {
        self.0.push_back((theirs, ours));
        if self.0.len() > LET {
            self.0.pop_front();
        }
    }

    fn take(&mut self, theirs: &str) -> Option<String> {
        let at = self.0.iter().rposition(|(id, _)| id == theirs)?;
        self.0.remove(at).map(|(_, ours)| ours)
    }
}

impl Desk {
    /// For this job.
    pub fn new(harness: Harness, job: Outside) -> Self {
        let (let_calls, subagents) = (Mutex::default(), tokio::sync::Mutex::default());
        Self {
            harness,
            job,
            let_calls,
            subagents,
            schema: None,
            input: None,
            asked: 0.into(),
            is_as_given: std::sync::OnceLock::new(),
        }
    }

    /// Takes up what is open in a job that went on in another node before.
    pub(crate) async fn take_up(&self, open: Open) {
        {
            let mut let_calls = lock(&self.let_calls);
            for (theirs, ours) in open.let_calls {
                let_calls.add(theirs, ours);
            }
        }
        for call in open.unanswered {
            if matches!(self.job.leave_call(&call).await, Ok(Left::Not)) {
                let _ = self.job.cancel_call(&call).await;
            }
        }
    }

    /// The job's output must be JSON that fits a schema.
    #[must_use]
    pub fn with_schema(mut self, schema: Option<Value>) -> Self {
        self.schema = schema;
        self
    }

    /// The harness can't take over another input than the one with this digest: where hooks change it, nothing goes through.
    #[must_use]
    pub(crate) fn with_input(mut self, sha256: String) -> Self {
        self.input = Some(sha256);
        self
    }

    /// The output as the job takes it. `Err` says why it can't be taken.
    pub fn output(&self, text: &str) -> Result<Value, String> {
        let Some(schema) = &self.schema else { return Ok(Value::String(text.to_owned())) };
        let output = serde_json::from_str(text.trim()).map_err(|e| format!("the output is not JSON: {e}"))?;
        event::against(schema, &output).map_err(|why| format!("the output breaks the agent's schema: {why}"))?;
        Ok(output)
    }

    /// How many calls were asked about, whatever became of them.
    pub(crate) fn asked(&self) -> u64 {
        self.asked.load(std::sync::atomic::Ordering::Acquire)
    }

    /// The job.
    pub fn job(&self) -> &Outside {
        &self.job
    }

    /// Answers what the harness asks, within `wait` where people are asked; subagents have jobs of their own.
    pub async fn answer(&self, ask: &Ask, helpers: &Helpers, wait: Option<Duration>) -> Reply {
        self.answer_or_ask(ask, AsksThere::No, helpers, wait).await
    }

    /// The same, where the harness may be told to ask the person at it about what hooks escalate.
    pub(crate) async fn answer_or_ask(
        &self,
        ask: &Ask,
        asks: AsksThere,
        helpers: &Helpers,
        wait: Option<Duration>,
    ) -> Reply {
        let until = wait.map(|wait| Instant::now() + wait);
        if matches!(ask.what, What::Before { .. }) {
            self.asked.fetch_add(1, std::sync::atomic::Ordering::AcqRel);
        }
        match &ask.agent {
            // Nothing goes on below a job that is over.
            Some(_) if self.job.is_over() => refused(&ask.what, &self.not_taken_up()),
            Some(agent) => {
                // Nothing begins below a job that is not admitted itself, or not even begun.
                if let Err(why) = self.as_given(until).await {
                    return refused(&ask.what, &why);
                }
                match self.of_subagent(agent, &ask.what, helpers).await {
                    Ok(desk) => desk.answer_own(&ask.what, asks, until).await,
                    Err(why) => refused(&ask.what, &why),
                }
            }
            None => self.answer_own(&ask.what, asks, until).await,
        }
    }

    async fn of_subagent(&self, agent: &Agent, what: &What, helpers: &Helpers) -> Result<Arc<Self>, String> {
        let mut open = self.subagents.lock().await;
        open.retain(|_, desk| !desk.job.is_over());
        let told = if let What::Prompt { text } = what { Some(text) } else { None };
        match open.get(&agent.id) {
            Some(desk) if told.is_none() => return Ok(desk.clone()),
            // The next prompt is the next job.
            Some(desk) => drop(desk.job.leave("the next prompt", true).await),
            None => {}
        }
        if open.len() >= SUBAGENTS {
            return Err(format!("{SUBAGENTS} subagents are at work"));
        }
        let input = Value::String(told.or(agent.kind.as_ref()).cloned().unwrap_or_default());
        let opened = helpers.open(&agent.id, input).await.map_err(|error| {
            tracing::warn!(subagent = text::shown(&agent.id, 200), "no job for a subagent: {error}");
            error.to_string()
        })?;
        let desk = Arc::new(Self::new(self.harness, opened.outside).with_input(opened.input_sha256));
        if !opened.earlier.is_empty() {
            desk.take_up(open_calls(self.harness, &opened.earlier)).await;
        }
        open.insert(agent.id.clone(), desk.clone());
        Ok(desk)
    }

    async fn answer_own(&self, what: &What, asks: AsksThere, until: Option<Instant>) -> Reply {
        if let Err(why) = self.as_given(until).await {
            if matches!(what, What::Prompt { .. }) && !self.job.is_over() {
                let _ = self.job.leave("nobody's waiting any more", false).await;
            }
            return refused(what, &why);
        }
        match what {
            What::Before { call } => self.before(call, asks, until).await,
            What::After { call, result, structured, is_error } => {
                let made =
                    Made::Returned { result: result.clone(), structured: structured.clone(), is_error: *is_error };
                self.after(call, made, until).await
            }
            What::Stop { output, already_held, .. } => self.stop(output.as_deref(), *already_held, until).await,
            What::SubagentStart | What::Started { .. } | What::Ended { .. } | What::Prompt { .. } => {
                match self.job.admitted().await {
                    Ok(Stand::Over(outcome)) => refused(what, &over(&outcome)),
                    Ok(_) => Reply::Allow,
                    Err(Gone) => refused(what, &gone()),
                }
            }
        }
    }

    /// Waits for the hooks at the job's start. Where they changed an input that the harness can't take over, the job fails.
    async fn as_given(&self, until: Option<Instant>) -> Result<(), String> {
        let Some(given) = self.input.as_ref().filter(|_| self.is_as_given.get().is_none()) else { return Ok(()) };
        let admitted = self.job.admitted();
        let stand = match until {
            Some(until) => timeout_at(until, admitted).await,
            None => Ok(admitted.await),
        };
        match stand {
            Ok(Ok(Stand::Admitted(input))) if json::digest(&input) != *given => {
                let why = format!("a hook changed the prompt, and {} can't take that over", self.harness.title());
                let _ = self.job.fail(self.harness.id(), &why).await;
                Err(format!("Hookwright let nothing through: {why}."))
            }
            Ok(Ok(Stand::Admitted(_))) => {
                self.is_as_given.get_or_init(|| ());
                Ok(())
            }
            Ok(_) => Ok(()),
            Err(_) => Err("Hookwright let nothing through: the prompt was not allowed in time.".to_owned()),
        }
    }

    async fn before(&self, call: &Call, asks: AsksThere, until: Option<Instant>) -> Reply {
        let (asked, news) = match self.ask(call, asks).await {
            Ok(asked) => (asked.call, asked.news),
            Err(Gone) => return Reply::Deny { text: self.not_taken_up() },
        };
        // A bridge that is killed hears of nothing.
        let awaits = self.job.awaits(&asked, false);
        let news = self.wait(&asked, news, until).await;
        awaits.told();
        match news {
            Ok(CallNews::Make { arguments, changed, asked: reasons }) => {
                // What is told of it later has these arguments.
                let made = Call { arguments: (*arguments).clone(), ..call.clone() };
                lock(&self.let_calls).add(key(&made), asked);
                if !reasons.is_empty() {
                    let arguments = changed.then(|| (*arguments).clone());
                    return Reply::AskPerson { text: question(&reasons), arguments };
                }
                if changed { Reply::Rewrite { arguments: (*arguments).clone() } } else { Reply::Allow }
            }
            Ok(CallNews::NotMade(text) | CallNews::Withheld(text)) | Err(text) => Reply::Deny { text },
            // It was made before, and its result waited for a person.
            Ok(CallNews::Result { content, .. }) => {
                let said = content.as_str().map_or_else(|| content.to_string(), str::to_owned);
                Reply::Deny { text: format!("The call was made when it was asked for before. Its result: {said}") }
            }
        }
    }

    async fn after(&self, call: &Call, made: Made, until: Option<Instant>) -> Reply {
        let known = lock(&self.let_calls).take(&key(call));
        let asked = match known {
            Some(asked) => asked,
            // It was made without having been asked about: what hooks would have said of it counts for its result.
            None => match self.before(call, AsksThere::No, until).await {
                Reply::Allow => match lock(&self.let_calls).take(&key(call)) {
                    Some(asked) => asked,
                    None => return Reply::Withhold { text: self.not_taken_up() },
                },
                // Hooks would have had it made otherwise than it was.
                Reply::Rewrite { arguments } => {
                    let wanted = Call { arguments, ..call.clone() };
                    match lock(&self.let_calls).take(&key(&wanted)) {
                        Some(asked) => asked,
                        None => return Reply::Withhold { text: self.not_taken_up() },
                    }
                }
                Reply::Deny { text } => return Reply::Withhold { text },
                _ => return Reply::Withhold { text: self.not_taken_up() },
            },
        };
        let awaits = self.job.awaits(&asked, true);
        let returned = self.job.returned(&asked, made);
        let news = match until {
            Some(until) => timeout_at(until, returned).await,
            None => Ok(returned.await),
        };
        let Ok(news) = news else {
            let (text, awaits) = (self.left(&asked, call, "its result is not given yet").await, awaits);
            // Where its hooks still speak and want a person then, it is left later.
            drop(awaits);
            return Reply::Withhold { text };
        };
        awaits.told();
        match news {
            Ok(CallNews::Result { changed: false, .. }) => Reply::Allow,
            Ok(CallNews::Result { content, changed: true, .. }) => Reply::Replace { result: (*content).clone() },
            Ok(CallNews::Withheld(text) | CallNews::NotMade(text)) => Reply::Withhold { text },
            Ok(CallNews::Make { .. }) | Err(Gone) => Reply::Withhold { text: self.not_taken_up() },
        }
    }

    async fn stop(&self, output: Option<&str>, already_held: bool, until: Option<Instant>) -> Reply {
        let output = match self.output(output.unwrap_or_default()) {
            Ok(output) => output,
            Err(why) => {
                let _ = self.job.fail(&format!("harness/{}", self.harness), &why).await;
                return Reply::Allow;
            }
        };
        let offered = self.job.offer(output);
        let news = match until {
            Some(until) => timeout_at(until, offered).await,
            None => Ok(offered.await),
        };
        match news {
            Ok(Ok(OutputNews::SentBack { hook, reason })) if !already_held => {
                Reply::Hold { text: format!("Hook {hook} denied the output: {reason}. Go on until that is mended.") }
            }
            Ok(Ok(OutputNews::Over(_) | OutputNews::SentBack { .. }) | Err(Gone)) => Reply::Allow,
            Err(_) if already_held => Reply::Allow,
            Err(_) => Reply::Hold { text: "The output waits for a person. Wait, then end your turn again.".to_owned() },
        }
    }

    async fn ask(&self, call: &Call, asks: AsksThere) -> Result<hookwright_runtime::outside::Asked, Gone> {
        let fault = (!call.arguments.is_object()).then(|| "its arguments are not a JSON object".to_owned());
        self.job
            .call(CallRequest {
                provider_id: call.id.clone().unwrap_or_default(),
                tool: format!("{}.{}", self.harness, call.tool),
                aliases: call.aliases.clone(),
                arguments: call.arguments.clone(),
                fault,
                progress: None,
                asks_there: asks,
            })
            .await
    }

    /// Waits for news of a call; where they take too long, the call is left to whoever asks for it again.
    async fn wait(
        &self,
        asked: &str,
        mut news: tokio::sync::oneshot::Receiver<CallNews>,
        until: Option<Instant>,
    ) -> Result<CallNews, String> {
        let gone = |_| self.not_taken_up();
        let Some(until) = until else { return news.await.map_err(gone) };
        if let Ok(news) = timeout_at(until, &mut news).await {
            return news.map_err(gone);
        }
        match self.job.leave_call(asked).await {
            Ok(Left::Waits { approval }) => Err(waits(&approval)),
            // A hook takes its time, or they came this very moment: a yes that comes too late is taken back, and the history says so.
            Ok(Left::Not) => {
                let _ = self.job.cancel_call(asked).await;
                match news.try_recv() {
                    Ok(CallNews::Make { .. }) | Err(_) => {
                        Err("The call was not made: its hooks did not answer in time.".to_owned())
                    }
                    Ok(news) => Ok(news),
                }
            }
            Err(Gone) => Err(self.not_taken_up()),
        }
    }

    async fn left(&self, asked: &str, call: &Call, what: &str) -> String {
        match self.job.leave_call(asked).await {
            Ok(Left::Waits { approval }) => format!(
                "The call to {}.{} was made; {what}: it waits for a person (approval {approval}). Ask for the same call again once that is approved.",
                self.harness,
                text::shown(&call.tool, 200)
            ),
            Ok(Left::Not) => format!(
                "The call to {}.{} was made; its hooks did not answer in time.",
                self.harness,
                text::shown(&call.tool, 200)
            ),
            Err(Gone) => self.not_taken_up(),
        }
    }

    fn not_taken_up(&self) -> String {
        match self.job.stand() {
            Stand::Over(outcome) => over(&outcome),
            Stand::Starting | Stand::Admitted(_) => gone(),
        }
    }
}

/// What a model reads of a call that waits for a person longer than its harness does.
fn waits(approval: &str) -> String {
    format!(
        "The call was not made yet: it waits for a person (approval {approval}). Ask for the same call again once it is approved; it goes through once."
    )
}

/// What the person at the harness reads.
fn question(reasons: &[Escalation]) -> String {
    let lines = reasons.iter().map(|Escalation { hook, reason }| format!("Hook {hook} asks for a person: {reason}"));
    lines.collect::<Vec<_>>().join("\n")
}

/// What is told where nobody runs the job.
pub(crate) fn gone() -> String {
    "Hookwright let nothing through: the job is no longer taken care of.".to_owned()
}

fn over(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Failed { error } => {
            format!("Hookwright let nothing through: {}.", error.message.trim_end_matches('.'))
        }
        Outcome::Cancelled { by } => format!("Hookwright let nothing through: the job was cancelled by {by}."),
        Outcome::Completed { .. } => "Hookwright let nothing through: the job is over.".to_owned(),
    }
}

fn refused(what: &What, why: &str) -> Reply {
    let text = text::shown(why, 600);
    match what {
        What::Before { .. } | What::Prompt { .. } => Reply::Deny { text },
        What::After { .. } => Reply::Withhold { text },
        What::Stop { .. } | What::Started { .. } | What::SubagentStart | What::Ended { .. } => Reply::Allow,
    }
}

/// What a call is known by until its end is told.
fn key(call: &Call) -> String {
    match &call.id {
        Some(id) => id.clone(),
        None => nameless(&call.tool, &json::digest(&call.arguments)),
    }
}

/// What a call without an id is known by.
pub(crate) fn nameless(tool: &str, arguments: &str) -> String {
    format!("{tool} {arguments}")
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
