//! Streams back what was said in a session, as it was said then (`session/load`).
//!
//! Invariant: all that was said is told, also what compactions took out; what hooks withheld is not.

use crate::door::Door;
use crate::tell::Tell;
use crate::{errors, wire};
use agent_client_protocol::Error;
use agent_client_protocol::v1::schema::{
    CompactionStatus, CompactionUpdate, ContentBlock, SessionUpdate, TextContent, ToolCall, ToolCallStatus,
};
use hookwright_core::history::Head;
use hookwright_core::job::{Fact, Machine, Outcome};
use hookwright_core::lifecycle::is_delivery;
use hookwright_core::message::{AssistantCall, Message};
use hookwright_core::stored::Stored;
use hookwright_core::text::escape;
use hookwright_runtime::job::walk;
use hookwright_runtime::session::SessionState;
use hookwright_runtime::values::Values;
use serde_json::{Value, json};

/// Tells a session's jobs, the first one first; also one that is not over, as far as it came.
pub(crate) async fn all(door: &Door, tell: &Tell, state: &SessionState) -> Result<(), Error> {
    let store = door.wiring.store();
    let mut jobs = vec![];
    let mut last = state.continues.clone();
    if let Some(row) = &state.unfinished {
        last.clone_from(&whole(door, &row.job.id).await?.machine.spec().continues);
        jobs.push(row.job.id.clone());
    }
    if let Some(last) = last {
        let before = walk(&*store, &last, true).await.map_err(|e| errors::of_run(&e))?;
        jobs.extend(before.into_iter().map(|earlier| earlier.job));
    }
    let values = Values::new(store);
    for job in jobs.iter().rev() {
        let whole = whole(door, job).await?;
        Told { tell, values: &values, job }.job(&whole).await;
    }
    Ok(())
}

/// What was said in a job.
enum Said {
    Message(Message),
    /// From here on the model knew a summary of what was said before; the compaction's effect.
    Compacted(String, Option<Stored>),
}

impl Said {
    /// What lifecycle hooks said.
    fn is_delivery(&self) -> bool {
        let Self::Message(Message::Assistant { calls, .. }) = self else { return false };
        !calls.is_empty() && calls.iter().all(|c| is_delivery(&c.provider_id, &c.tool))
    }
}

/// A job with all that was said in it.
struct Whole {
    machine: Machine,
    said: Vec<Said>,
}

/// Records from which on a job is read on a thread that may block: some milliseconds of work, and others share the workers.
const LONG: usize = 200;

async fn whole(door: &Door, job: &str) -> Result<Whole, Error> {
    let texts = door.wiring.store().records(job, 0).await.map_err(|e| errors::of_store(&e))?;
    let read = if texts.len() < LONG {
        read(&texts)
    } else {
        let read = tokio::task::spawn_blocking(move || read(&texts)).await;
        read.unwrap_or_else(|_| Err("Hookwright is ending".to_owned()))
    };
    read.map_err(|why| errors::failed(format!("the history of job {job} can't be read: {why}")))
}

fn read(texts: &[String]) -> Result<Whole, String> {
    let (mut head, mut told, mut said) = (Head::default(), None::<Machine>, vec![]);
    for text in texts {
        let record = head.read(text).map_err(|e| e.to_string())?;
        let Some(machine) = &mut told else {
            let Fact::Started { spec } = record.fact else { return Err("it has no beginning".to_owned()) };
            told = Some(Machine::new(*spec).map_err(|e| e.to_string())?.0);
            continue;
        };
        let known = machine.conversation().len();
        machine.handle(record.at_ms, &record.fact).map_err(|e| e.to_string())?;
        match record.fact {
            Fact::Compacted { effect, summary, .. } => said.push(Said::Compacted(effect, summary)),
            _ => said.extend(machine.conversation().iter().skip(known).cloned().map(Said::Message)),
        }
    }
    let machine = told.ok_or("it is empty")?;
    Ok(Whole { machine, said })
}

struct Told<'a> {
    tell: &'a Tell,
    values: &'a Values,
    job: &'a str,
}

impl Told<'_> {
    async fn job(&self, Whole { machine, said }: &Whole) {
        let input = self.value(&machine.spec().input).await;
        self.tell.user(&format!("{}.input", self.job), &wire::output_text(&input));
        let is_output =
            |said: &Said| matches!(said, Said::Message(Message::Assistant { calls, .. }) if calls.is_empty());
        // The last text may be the output: what was given of it stands in the outcome, and nothing before that stands.
        let last_text = said.iter().rposition(is_output);
        // Of a job that came to no output it was told, unless it was held back.
        let completed = matches!(machine.outcome(), Some(Outcome::Completed { .. }));
        let ended = machine.outcome().is_some();
        // So is an output that was objected to, as long as no other took its place.
        let is_kept = |at: usize| is_output(&said[at]) && said.get(at + 1).is_some_and(Said::is_delivery);
        let kept = (0..said.len()).rev().find(|at| machine.kept_output().is_some() && is_kept(*at));
        let is_held = |at: usize| {
            Some(at) == kept && machine.holds_output()
                || Some(at) == last_text && (completed || machine.holds_output() && (ended || at + 1 == said.len()))
        };
        let mut turn = 0;
        for (i, what) in said.iter().enumerate() {
            self.tell.room().await;
            let (text, calls) = match what {
                Said::Message(Message::Assistant { text, calls, .. }) => (text, calls),
                Said::Message(_) => continue,
                Said::Compacted(effect, summary) => {
                    self.compacted(effect, summary.as_ref()).await;
                    continue;
                }
            };
            // What lifecycle hooks said was told as notices, which are no part of the conversation.
            if what.is_delivery() {
                continue;
            }
            turn += 1;
            if let Some(text) = text.as_ref().filter(|_| !is_held(i)) {
                self.tell.message(&format!("{}.t{turn}", self.job), &wire::output_text(&self.value(text).await));
            }
            for (n, call) in calls.iter().enumerate() {
                let end = match said.get(i + 1 + n) {
                    Some(Said::Message(Message::Tool { content, is_error, .. })) => {
                        Some((self.value(content).await, *is_error))
                    }
                    _ => None,
                };
                self.tell.room().await;
                self.call(&format!("t{turn}.c{n}"), call, end).await;
            }
        }
        match machine.outcome() {
            Some(Outcome::Completed { output }) => {
                let output = wire::output_text(&self.value(output).await);
                self.tell.message(&format!("{}.t{}", self.job, turn.max(1)), &output);
            }
            Some(Outcome::Failed { error }) => self.tell.message(&format!("{}.end", self.job), &error.message),
            Some(Outcome::Cancelled { .. }) | None => {}
        }
    }

    async fn call(&self, id: &str, call: &AssistantCall, end: Option<(Value, bool)>) {
        let arguments = self.value(&call.arguments).await;
        let (status, content) = match end {
            Some((content, false)) => (ToolCallStatus::Completed, wire::result_content(&content)),
            Some((content, true)) => (ToolCallStatus::Failed, wire::result_content(&content)),
            None => (ToolCallStatus::Failed, vec![wire::text_content("[left unfinished]")]),
        };
        let name = escape(&call.tool);
        self.tell.call(
            ToolCall::new(format!("{}/{id}", self.job), name.clone())
                .name(name)
                .status(status)
                .raw_input(wire::raw_input(&arguments))
                .content(content),
        );
    }

    async fn compacted(&self, effect: &str, summary: Option<&Stored>) {
        if !self.tell.compactions {
            return;
        }
        let mut update = CompactionUpdate::new(format!("{}/{effect}", self.job), CompactionStatus::Completed);
        if let Some(summary) = summary {
            let text = wire::summary_text(&self.value(summary).await);
            update = update.summary(vec![ContentBlock::Text(TextContent::new(text))]);
        }
        self.tell.update(SessionUpdate::CompactionUpdate(update));
    }

    /// A value, or what stands for one that was deleted.
    async fn value(&self, stored: &Stored) -> Value {
        match self.values.load(stored).await {
            Ok(value) => (*value).clone(),
            Err(_) => json!("[deleted]"),
        }
    }
}
