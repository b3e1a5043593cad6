//! What is said to a model: the conversation that an effect is given, and the request for a summary of it.
//!
//! Invariant: nothing of a request for a summary is shown as the model's text, and nothing that it says is acted on.

use super::effects::Workshop;
use crate::hook::ms_since;
use crate::observe::Event;
use crate::ports::model::{Model, Purpose, Turn, TurnRequest, TurnSink};
use crate::ports::store::StoreError;
use hookwright_core::compaction::{self, Plan, Rate};
use hookwright_core::job::{Command, Fact, Machine, Sent};
use hookwright_core::message::{FunctionSpec, Message, StopReason};
use hookwright_core::stored::{Blob, Stored};
use hookwright_core::text;
use serde_json::Value;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// Bytes of the words for people that say why there is no summary.
const FAULT_BYTES: u64 = 1_000;

/// How long a model is asked for its window, should it not bound that itself.
const WINDOW_PATIENCE: Duration = Duration::from_secs(5);

/// Tokens of a model's window, where it can be found out.
pub(super) async fn window(model: &dyn Model) -> Option<u64> {
    timeout(WINDOW_PATIENCE, model.window()).await.ok().flatten()
}

/// The conversation that an effect is given.
#[derive(Debug, Default)]
pub(super) struct Talk {
    /// What the session's earlier jobs left, then the job's own.
    pub(super) messages: Vec<Message>,
    /// Bytes of each message's result that the model is given.
    pub(super) limits: Vec<u64>,
    /// The position of the job's input.
    task: usize,
    rate: Rate,
}

impl Talk {
    /// What a command is about: for a model's turn all, for a compaction what it takes out, and the job's input.
    pub(super) fn of(command: &Command, machine: &Machine, earlier: &[Message]) -> Self {
        let own = match command {
            Command::CallModel { .. } => machine.conversation(),
            Command::Compact { plan, .. } => machine.conversation().get(..plan.keep_from).unwrap_or_default(),
            Command::Ask { .. }
            | Command::CallTool { .. }
            | Command::LetCall { .. }
            | Command::AskLifecycle { .. }
            | Command::OpenApproval { .. }
            | Command::CloseApproval { .. }
            | Command::Admit { .. }
            | Command::Answer { .. }
            | Command::SendBack { .. }
            | Command::Finish { .. } => return Self::default(),
        };
        let earlier = if machine.carries_earlier() { earlier } else { &[] };
        let mut limits = vec![machine.result_bytes(); earlier.len()];
        limits.extend(machine.result_limits());
        Self { messages: [earlier, own].concat(), limits, task: earlier.len(), rate: machine.rate() }
    }

    /// The size of a request with these messages, which are the talk's with their values; `Err` where what can't be left out of it is
    /// larger than the window.
    pub(super) fn measure(
        &self,
        window: Option<u64>,
        instructions: Option<&str>,
        functions: &[FunctionSpec],
        output_schema: Option<&Value>,
        messages: &[Message],
    ) -> (Sent, Result<(), compaction::TooSmall>) {
        let (overhead_bytes, said) = compaction::request_bytes(instructions, functions, output_schema, messages);
        let task = messages.get(self.task).map_or(0, |task| compaction::weight(task, u64::MAX));
        let fits = match window {
            Some(window) => compaction::essentials(window, self.rate, overhead_bytes, task),
            None => Ok(()),
        };
        (Sent { bytes: overhead_bytes.saturating_add(said), overhead_bytes }, fits)
    }
}

impl Workshop {
    /// Tokens of an answer at most: no more than a part of a small window.
    pub(super) fn max_tokens(&self, part: u64) -> Option<u32> {
        let agent = &self.spec.agent;
        let most = agent.context_window.map_or(u32::MAX, |w| u32::try_from(w / part).unwrap_or(u32::MAX)).max(1);
        agent.max_tokens.map(|tokens| tokens.min(most))
    }

    /// Has the same model summarise what a compaction takes out, without functions.
    pub(super) async fn compact(
        &self,
        effect: &str,
        turn: u32,
        plan: Plan,
        talk: Talk,
        blobs: &mut Vec<Blob>,
    ) -> Result<Fact, StoreError> {
        let start = Instant::now();
        let mut fact = (None, None, 0, None);
        if plan.summary_tokens > 0 {
            let messages = self.values.conversation(&talk.messages, &talk.limits).await?;
            let turns = messages.iter().map(compaction::turns_of).fold(0, u32::saturating_add);
            let transcript = compaction::transcript(&messages, plan.transcript_bytes);
            let instructions = compaction::instructions(plan.summary_tokens);
            let asked = [Message::User { content: Stored::inline(Value::String(transcript)) }];
            let request = TurnRequest {
                job: &self.spec.job,
                turn,
                instructions: Some(&instructions),
                messages: &asked,
                functions: &[],
                output_schema: None,
                max_tokens: self.max_tokens(4),
                window: self.spec.agent.context_window,
                purpose: Purpose::Summary,
            };
            let (words, usage) = match self.deps.model.turn(request, &Notices(self)).await {
                Ok(turn) => (words(&turn).map(str::to_owned), turn.usage),
                Err(error) => (Err(error.to_string()), None),
            };
            fact = match words {
                Ok(words) => {
                    // A model that says more than it was given room for must not fill what was just made free.
                    let words = text::elide_middle(&words, talk.rate.bytes(u64::from(plan.summary_tokens)).max(80));
                    let (summary, blob) = Stored::new(Value::String(compaction::summary_message(turns, &words)));
                    blobs.extend(blob);
                    (Some(summary), None, turns, usage)
                }
                Err(why) => (None, Some(text::elide_middle(&text::escape_block(&why), FAULT_BYTES)), turns, usage),
            };
        }
        let go_on = if plan.keep_first { self.go_on(blobs).await? } else { None };
        let (summary, fault, turns, usage) = fact;
        Ok(Fact::Compacted { effect: effect.to_owned(), summary, fault, turns, go_on, usage, ms: ms_since(start) })
    }
}

impl Workshop {
    /// The message that says again what the session began with; none where that was deleted.
    async fn go_on(&self, blobs: &mut Vec<Blob>) -> Result<Option<Stored>, StoreError> {
        let Some(first) = self.spec.continues.as_ref().and_then(|c| c.first.as_ref()) else { return Ok(None) };
        let Some(prompt) = super::earlier::prompt(&*self.deps.store, &first.job).await? else { return Ok(None) };
        let text = match prompt.value.as_deref() {
            Some(Value::String(text)) => text.clone(),
            Some(value) => hookwright_core::json::canonical(value),
            None => return Ok(None),
        };
        let (go_on, blob) = Stored::new(Value::String(compaction::go_on_after(&text)));
        blobs.extend(blob);
        Ok(Some(go_on))
    }
}

/// The words of a summary: what was cut off at its end is one too.
fn words(turn: &Turn) -> Result<&str, String> {
    match turn.text.as_deref().map(str::trim).filter(|words| !words.is_empty()) {
        _ if turn.stop == StopReason::Refusal => Err("the model, or its provider, refused to summarise".to_owned()),
        Some(words) => Ok(words),
        None => Err("the model gave no summary".to_owned()),
    }
}

/// Shows what people should know, and no text.
struct Notices<'a>(&'a Workshop);

impl TurnSink for Notices<'_> {
    fn text(&self, _: &str) {}
    fn notice(&self, what: &str) {
        self.0.observer.event(Event::Notice(what));
    }
}
