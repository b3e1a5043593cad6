//! Plays one turn of a script.

use super::format::{CallWire, ErrorWire, ExpectWire, ScriptWire, StopWire, TurnWire};
use crate::secret::quote;
use crate::wire::{Ids, content_text, parse_arguments};
use hookwright_core::FunctionName;
use hookwright_core::message::{Message, StopReason, Usage};
use hookwright_runtime::ports::model::{ModelError, Turn, TurnCall, TurnRequest, TurnSink};
use serde_json::Value;

pub(super) async fn turn(
    file: &str,
    script: &ScriptWire,
    request: TurnRequest<'_>,
    sink: &dyn TurnSink,
) -> Result<Turn, ModelError> {
    let played = request.messages.iter().filter(|m| is_turn(m)).count();
    let seen = seen(request.messages);
    let at = played + 1;
    let Some(turn) = script.turns.get(played) else {
        return Err(ModelError::Refused(format!(
            "{file} has {} turns, and was asked for turn {at}. The model was last told: {}",
            script.turns.len(),
            shown(&seen)
        )));
    };
    for expect in &turn.expect {
        let (fits, wanted) = match expect {
            ExpectWire::Text(text) => (seen.contains(text.as_str()), format!("the text {}", shown(text))),
            ExpectWire::Matches(p) => (p.0.is_match(&seen), format!("something that matches {}", shown(p.0.as_str()))),
        };
        if !fits {
            return Err(ModelError::Refused(format!(
                "{file}, turn {at}: expected {wanted}, but the model was told: {}",
                shown(&seen)
            )));
        }
    }
    say(turn, sink).await;
    if let Some(error) = turn.error {
        return Err(error_of(error, &format!("{file}, turn {at}: scripted")));
    }
    let mut ids = Ids::of(request.messages);
    let calls: Vec<TurnCall> =
        turn.call.iter().enumerate().map(|(i, call)| turn_call(call, &mut ids, &own_id(at, i + 1))).collect();
    let stop = match turn.stop {
        Some(StopWire::Refusal) => StopReason::Refusal,
        _ if !calls.is_empty() => StopReason::ToolCalls,
        Some(StopWire::MaxTokens) => StopReason::MaxTokens,
        None => StopReason::EndTurn,
    };
    Ok(Turn {
        text: turn.say.clone().filter(|t| !t.is_empty()),
        calls,
        stop,
        usage: turn.usage.map(|u| Usage { input_tokens: u.input, output_tokens: u.output }),
        provider_state: None,
    })
}

async fn say(turn: &TurnWire, sink: &dyn TurnSink) {
    let pause = async || {
        if let Some(delay) = turn.delay {
            tokio::time::sleep(delay.0).await;
        }
    };
    pause().await;
    for word in turn.say.as_deref().unwrap_or_default().split_inclusive(' ') {
        sink.text(word);
        pause().await;
    }
}

fn turn_call(call: &CallWire, ids: &mut Ids, id: &str) -> TurnCall {
    let arguments = call.raw.as_deref().map_or_else(|| Value::Object(call.with.clone()), parse_arguments);
    TurnCall { provider_id: ids.take(id), tool: call.tool.clone(), arguments }
}

fn error_of(error: ErrorWire, what: &str) -> ModelError {
    match error {
        ErrorWire::Unavailable => ModelError::Unavailable(format!("{what}: unavailable")),
        ErrorWire::ContextFull => ModelError::ContextFull(what.to_owned()),
        ErrorWire::Refused => ModelError::Refused(format!("{what}: refused")),
        ErrorWire::Malformed => ModelError::Malformed(format!("{what}: malformed")),
    }
}

/// Whether a message is a turn of the model. What a lifecycle hook says is delivered as a call of its own (SPEC §9); no model made it. A
/// script may call such a function too, as a confused model does: its calls are known by their ids.
fn is_turn(message: &Message) -> bool {
    match message {
        Message::Assistant { text: None, calls, .. } if !calls.is_empty() => calls.iter().any(|call| {
            let lifecycle =
                call.tool.starts_with('_') || FunctionName::parse(&call.tool).is_ok_and(|name| name.is_lifecycle());
            !lifecycle || is_own_id(&call.provider_id)
        }),
        Message::Assistant { .. } => true,
        Message::User { .. } | Message::Tool { .. } => false,
    }
}

/// The id of a scripted call, by the numbers of its turn and its place in it.
fn own_id(turn: usize, call: usize) -> String {
    format!("call_{turn}_{call}")
}

fn is_own_id(id: &str) -> bool {
    let number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    id.strip_prefix("call_")
        .and_then(|rest| rest.split_once('_'))
        .is_some_and(|(turn, call)| number(turn) && number(call))
}

/// What the model was told since its last turn, as text.
fn seen(messages: &[Message]) -> String {
    let since = messages.iter().rposition(is_turn).map_or(0, |i| i + 1);
    let texts = messages.get(since..).unwrap_or_default().iter().filter_map(|message| match message {
        Message::User { content } | Message::Tool { content, .. } => content.value.as_deref().map(content_text),
        Message::Assistant { .. } => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

fn shown(text: &str) -> String {
    if text.is_empty() { "nothing".to_owned() } else { format!("\"{}\"", quote(text, None, 1_000)) }
}
