//! Plays one turn of a script.

use super::format::{CallWire, ErrorWire, ExpectWire, ScriptWire, StopWire, TurnWire};
use crate::secret::quote;
use crate::wire::{Ids, content_text, parse_arguments};
use hookwright_core::compaction::{request_bytes, turns_of};
use hookwright_core::message::{Message, StopReason, Usage};
use hookwright_runtime::ports::model::{ModelError, Purpose, Turn, TurnCall, TurnRequest, TurnSink};
use serde_json::Value;

/// What a script with a window counts as a token.
const BYTES_PER_TOKEN: u64 = 4;

pub(super) async fn turn(
    file: &str,
    script: &ScriptWire,
    request: TurnRequest<'_>,
    sink: &dyn TurnSink,
) -> Result<Turn, ModelError> {
    let tokens = tokens(&request);
    if let Some(window) = script.window.filter(|window| tokens > *window) {
        return Err(ModelError::ContextFull(format!(
            "{file} (scripted): the prompt is too long: {tokens} tokens > {window} maximum"
        )));
    }
    if request.purpose == Purpose::Summary {
        return summary(file, script, &request, tokens);
    }
    let played = request.messages.iter().map(|m| turns_of(m) as usize).sum::<usize>();
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
        Some(StopWire::MaxTokens) => StopReason::MaxTokens,
        None if !calls.is_empty() => StopReason::ToolCalls,
        None => StopReason::EndTurn,
    };
    Ok(Turn {
        text: turn.say.clone().filter(|t| !t.is_empty()),
        calls,
        stop,
        usage: turn
            .usage
            .map(|u| Usage { input_tokens: u.input, output_tokens: u.output })
            .or_else(|| script.window.map(|_| Usage { input_tokens: tokens, output_tokens: said_tokens(turn) })),
        provider_state: None,
    })
}

/// Tokens of a request, as a script with a window counts them.
fn tokens(request: &TurnRequest<'_>) -> u64 {
    let (overhead, said) =
        request_bytes(request.instructions, request.functions, request.output_schema, request.messages);
    (overhead + said).div_ceil(BYTES_PER_TOKEN)
}

fn said_tokens(turn: &TurnWire) -> u64 {
    let calls = turn.call.iter().map(|c| c.tool.len() + c.raw.as_ref().map_or_else(|| json(&c.with), String::len));
    ((turn.say.as_ref().map_or(0, String::len) + calls.sum::<usize>()) as u64).div_ceil(BYTES_PER_TOKEN)
}

fn json(map: &serde_json::Map<String, Value>) -> usize {
    Value::Object(map.clone()).to_string().len()
}

/// What a script says where the work so far is to be summarised.
fn summary(file: &str, script: &ScriptWire, request: &TurnRequest<'_>, tokens: u64) -> Result<Turn, ModelError> {
    if let Some(error) = script.summary_error {
        return Err(error_of(error, &format!("{file}, summary: scripted")));
    }
    let lines = seen(request.messages).lines().count();
    let text = script.summary.clone().unwrap_or_else(|| format!("(Scripted summary of {lines} lines of work.)"));
    let usage = script
        .window
        .map(|_| Usage { input_tokens: tokens, output_tokens: (text.len() as u64).div_ceil(BYTES_PER_TOKEN) });
    Ok(Turn { text: Some(text), calls: vec![], stop: StopReason::EndTurn, usage, provider_state: None })
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

/// The id of a scripted call, by the numbers of its turn and its place in it.
fn own_id(turn: usize, call: usize) -> String {
    format!("call_{turn}_{call}")
}

/// What the model was told since its last turn, as text.
fn seen(messages: &[Message]) -> String {
    let since = messages.iter().rposition(|m| turns_of(m) > 0).map_or(0, |i| i + 1);
    let texts = messages.get(since..).unwrap_or_default().iter().filter_map(|message| match message {
        Message::User { content } | Message::Tool { content, .. } => content.value.as_deref().map(content_text),
        Message::Assistant { .. } => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

fn shown(text: &str) -> String {
    if text.is_empty() { "nothing".to_owned() } else { format!("\"{}\"", quote(text, None, 1_000)) }
}
