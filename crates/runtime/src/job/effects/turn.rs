//! Asks the model for a turn and reads what it said.
//!
//! Invariant: what can't be kept as it was written is refused to the model, never changed.

use super::Workshop;
use crate::checked;
use crate::hook::ms_since;
use crate::job::talk::Talk;
use crate::observe::{Event, Observer};
use crate::ports::model::{ModelError, Purpose, Turn, TurnRequest, TurnSink};
use crate::ports::store::StoreError;
use hookwright_core::event;
use hookwright_core::job::{Fact, ModelFault, Sent};
use hookwright_core::stored::{Blob, Stored};
use hookwright_core::{json, subagent, text};
use serde_json::Value;
use std::borrow::Cow;
use std::sync::Arc;
use tokio::time::Instant;

/// Levels of what a provider wants back with a turn.
const STATE_DEPTH: usize = 120;

impl Workshop {
    pub(super) async fn turn(
        &self,
        effect: &str,
        turn: u32,
        talk: Talk,
        blobs: &mut Vec<Blob>,
    ) -> Result<Fact, StoreError> {
        let agent = &self.spec.agent;
        let functions = self.catalogue.refresh(&*self.deps.tools, &self.spec, &self.deps.traits).await;
        let messages = self.values.conversation(&talk.messages, &talk.limits).await?;
        let instructions = match &agent.instructions {
            Some(stored) => self.values.load(stored).await?.as_str().map(str::to_owned),
            None => None,
        };
        let output_schema = match &agent.output_schema {
            Some(stored) => Some(self.values.load(stored).await?),
            None => None,
        };
        let request = TurnRequest {
            job: &self.spec.job,
            turn,
            instructions: instructions.as_deref(),
            messages: &messages,
            functions: &functions,
            output_schema: output_schema.as_deref(),
            max_tokens: self.max_tokens(2),
            window: agent.context_window,
            purpose: Purpose::Turn,
        };
        let (sent, fits) = talk.measure(
            agent.context_window,
            request.instructions,
            request.functions,
            request.output_schema,
            request.messages,
        );
        if let Err(why) = fits {
            return Ok(Fact::ModelFailed {
                effect: effect.to_owned(),
                fault: ModelFault::WindowTooSmall,
                message: why.to_string(),
                sent: Some(sent),
            });
        }
        let sink = Sink { observer: &*self.observer, silent: self.holds_output };
        let start = Instant::now();
        match self.deps.model.turn(request, &sink).await {
            Ok(turn) => Ok(self.answered(effect, turn, sent, output_schema, ms_since(start), blobs).await),
            Err(error) => Ok(Fact::ModelFailed {
                effect: effect.to_owned(),
                fault: if matches!(error, ModelError::ContextFull(_)) {
                    ModelFault::ContextFull
                } else {
                    ModelFault::Failed
                },
                message: text::elide_middle(&text::escape_block(&error.to_string()), 4_000),
                sent: Some(sent),
            }),
        }
    }

    async fn answered(
        &self,
        effect: &str,
        turn: Turn,
        sent: Sent,
        schema: Option<Arc<Value>>,
        ms: f64,
        blobs: &mut Vec<Blob>,
    ) -> Fact {
        let (mut output, mut output_fault) = (None, None);
        if let Some(schema) = schema
            && turn.calls.is_empty()
        {
            let said = turn.text.as_deref().unwrap_or("");
            match serde_json::from_str::<Value>(said.trim()) {
                Err(e) => output_fault = Some(format!("it is not JSON: {e}")),
                Ok(value) => {
                    let against = schema.clone();
                    match checked::check(&schema, move || event::against(&against, &value).map(|()| value)).await {
                        Ok(value) => output = Some(value),
                        Err(why) => output_fault = Some(why),
                    }
                }
            }
        }
        let mut keep = |value: Value| {
            let value = Arc::new(value);
            let (stored, blob) = Stored::shared(value.clone());
            self.values.keep(&stored, value);
            blobs.extend(blob);
            stored
        };
        let output = output.map(&mut keep);
        let calls = turn
            .calls
            .into_iter()
            .map(|call| {
                let mut fault = arguments_fault(&call.arguments).map(Cow::Borrowed);
                if fault.is_none() && call.tool == subagent::FUNCTION {
                    // Nobody is asked about what can't be started.
                    fault = subagent::read(&self.spec, &call.arguments).err().map(Cow::Owned);
                }
                let arguments = keep(call.arguments);
                self.catalogue.requested(&self.spec, call.provider_id, call.tool, arguments, fault.as_deref())
            })
            .collect();
        Fact::ModelAnswered {
            effect: effect.to_owned(),
            text: turn.text.filter(|t| !t.is_empty()).map(|t| keep(Value::String(t))),
            calls,
            stop: turn.stop,
            usage: turn.usage,
            sent: Some(sent),
            // What is nested deeper could be stored and never read again; no provider sends such a thing.
            provider_state: turn.provider_state.filter(|s| !json::is_deep(s, STATE_DEPTH)).map(&mut keep),
            output,
            output_fault,
            ms,
        }
    }
}

/// Why arguments can't be sent. They are text where the model wrote no object, or a number that would not arrive as it was written.
fn arguments_fault(arguments: &Value) -> Option<&'static str> {
    match arguments {
        Value::Object(_) => None,
        Value::String(raw) if json::parse_strict(raw).is_ok_and(|v| v.is_object()) && !json::keeps_numbers(raw) => {
            Some(
                "a number in its arguments has more digits than can be kept; where a text is accepted, write it as text",
            )
        }
        _ => Some("its arguments are not a JSON object"),
    }
}

struct Sink<'a> {
    observer: &'a dyn Observer,
    silent: bool,
}

impl TurnSink for Sink<'_> {
    fn text(&self, piece: &str) {
        if !self.silent {
            self.observer.event(Event::Text(piece));
        }
    }
    fn notice(&self, what: &str) {
        self.observer.event(Event::Notice(what));
    }
}
