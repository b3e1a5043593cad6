//! The four wire formats: a conversation in, a request's body out; a stream's events in, a turn out.
//!
//! Invariant: pure; no IO here. What a format needs beside the neutral conversation (signatures of thoughts, encrypted
//! reasoning) travels in a turn's `provider_state`, `{"wire": …, …}`, and is used only while it fits the message it stands in.

mod anthropic;
mod calls;
mod chat;
mod content;
mod gemini;
mod names;
mod responses;
mod schema;

pub(crate) use calls::{Ids, parse_arguments};
pub(crate) use content::as_text as content_text;
pub(crate) use names::Names;

use hookwright_core::Stored;
use hookwright_core::message::{Message, StopReason, Usage};
use hookwright_runtime::ports::model::{ModelError, TurnRequest};
use serde_json::{Value, json};

/// A wire format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wire {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Responses.
    Responses,
    /// OpenAI Chat Completions.
    Chat(ChatFlavour),
    /// Gemini `streamGenerateContent`.
    Gemini,
}

/// Who speaks Chat Completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChatFlavour {
    /// OpenAI itself: newer names of keys, limits of its own.
    OpenAi,
    /// Everybody else: the oldest names of keys, nothing that is OpenAI's alone.
    Compatible,
}

/// What a body is made of.
#[derive(Clone, Copy)]
pub(crate) struct Ask<'a> {
    pub(crate) model: &'a str,
    pub(crate) request: TurnRequest<'a>,
    pub(crate) names: &'a Names,
    /// Whether to ask OpenAI for encrypted reasoning (models that don't reason refuse the wish).
    pub(crate) reasoning: bool,
}

/// One event of a stream: its name, where the format has one, and its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Event<'a> {
    pub(crate) name: Option<&'a str>,
    pub(crate) data: &'a str,
}

/// Whether a stream has more to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    More,
    Done,
}

/// A turn as a wire format told it: names and arguments are still the provider's.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Draft {
    pub(crate) text: String,
    pub(crate) calls: Vec<DraftCall>,
    pub(crate) stop: StopReason,
    pub(crate) usage: Option<Usage>,
    pub(crate) state: Option<Value>,
}

/// A call as a wire format told it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DraftCall {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: String,
}

/// Why a stream gave no turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StreamError {
    /// It ended, or holds something, before the turn was complete: asking again helps.
    Again(String),
    /// It can't be read.
    Malformed(String),
    /// The provider reports an error inside the stream: its kind and its words.
    Reported { kind: String, message: String },
    /// The model's window ran full while it answered.
    ContextFull(String),
}

/// Reads a stream's events one by one.
pub(crate) trait Decoder: Send {
    /// Takes one event; hands text to `text` as it comes.
    fn event(&mut self, event: Event<'_>, text: &mut dyn FnMut(&str)) -> Result<Flow, StreamError>;
    /// Whether all that a turn needs has been seen, so that the end of the stream is its end.
    fn is_complete(&self) -> bool;
    /// The turn.
    fn finish(self: Box<Self>) -> Draft;
}

impl Wire {
    /// The request's body.
    pub(crate) fn body(self, ask: &Ask<'_>) -> Result<Value, ModelError> {
        match self {
            Self::Anthropic => anthropic::body(ask),
            Self::Responses => responses::body(ask),
            Self::Chat(flavour) => chat::body(ask, flavour),
            Self::Gemini => gemini::body(ask),
        }
    }

    /// The path below the base URL, as segments, and the query.
    pub(crate) fn path(self, model: &str) -> (Vec<String>, Option<&'static str>) {
        let segments: &[&str] = match self {
            Self::Anthropic => &["v1", "messages"],
            Self::Responses => &["responses"],
            Self::Chat(_) => &["chat", "completions"],
            Self::Gemini => {
                let name = model.strip_prefix("models/").unwrap_or(model);
                let last = format!("{name}:streamGenerateContent");
                return (vec!["v1beta".into(), "models".into(), last], Some("alt=sse"));
            }
        };
        (segments.iter().map(|s| (*s).to_owned()).collect(), None)
    }

    /// A decoder for one answer.
    pub(crate) fn decoder(self) -> Box<dyn Decoder> {
        match self {
            Self::Anthropic => Box::<anthropic::decode::Messages>::default(),
            Self::Responses => Box::<responses::decode::Responses>::default(),
            Self::Chat(_) => Box::<chat::decode::Chat>::default(),
            Self::Gemini => Box::<gemini::decode::Gemini>::default(),
        }
    }
}

/// The most calls that are read from one turn; the runtime's own limit is lower.
const MAX_CALLS: usize = 1_024;

/// A value of the conversation, which the port promises is present.
fn present(stored: &Stored) -> Result<&Value, ModelError> {
    stored.value.as_deref().ok_or_else(|| {
        ModelError::Config(format!("a value of the conversation is not there any more (sha256 {})", stored.sha256))
    })
}

/// What the user said, as text: a string as it is, any other JSON in its compact form.
fn user_text(content: &Stored) -> Result<String, ModelError> {
    Ok(match present(content)? {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    })
}

/// The state that a turn of this wire format left in a message.
fn state_of<'a>(state: Option<&'a Stored>, wire: &str) -> Option<&'a Value> {
    state.and_then(|s| s.value.as_deref()).filter(|s| s.get("wire").and_then(Value::as_str) == Some(wire))
}

/// The instructions, with the wish for JSON where the provider can't be told of the schema otherwise.
fn instructions(request: &TurnRequest<'_>, schema_in_words: bool) -> Option<String> {
    let given = request.instructions.filter(|t| !t.trim().is_empty());
    let wish = request.output_schema.filter(|_| schema_in_words).map(schema::in_words);
    match (given, wish) {
        (Some(a), Some(b)) => Some(format!("{a}\n\n{b}")),
        (Some(a), None) => Some(a.to_owned()),
        (None, wish) => wish,
    }
}

/// Whether the conversation starts with the user, as some formats demand.
fn starts_with_user(messages: &[Message]) -> bool {
    matches!(messages.first(), Some(Message::User { .. }))
}

/// What stands first where the conversation does not start with the user, or where they said nothing: formats refuse empty text.
const NO_TEXT: &str = "(no text)";

fn parse_event(event: Event<'_>) -> Result<Value, StreamError> {
    serde_json::from_str(event.data).map_err(|e| {
        let excerpt: String = event.data.chars().take(120).collect();
        StreamError::Malformed(format!("an event of the answer is no JSON ({e}): {excerpt}"))
    })
}

/// The error that a provider reports inside a stream, from `{"error": …}` or from the object itself.
pub(crate) fn reported(value: &Value) -> StreamError {
    let error = value.get("error").filter(|e| !e.is_null()).unwrap_or(value);
    let text = |key: &str| error.get(key).and_then(Value::as_str).filter(|t| !t.is_empty());
    let kind = text("code")
        .or_else(|| text("type"))
        .or_else(|| text("status"))
        .map(str::to_owned)
        .or_else(|| error.get("code").filter(|c| c.is_number()).map(Value::to_string))
        .unwrap_or_default();
    let message = text("message").or(error.as_str()).map_or_else(|| error.to_string(), str::to_owned);
    StreamError::Reported { kind, message }
}

fn str_at<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer).and_then(Value::as_str)
}

fn u64_at(value: &Value, pointer: &str) -> Option<u64> {
    value.pointer(pointer).and_then(Value::as_u64)
}

/// Appends a further block of text, set off from what stands before; what is returned is what was added.
fn set_off(text: &mut String) -> &'static str {
    let gap = if text.is_empty() || text.ends_with('\n') { "" } else { "\n\n" };
    text.push_str(gap);
    gap
}

fn with(mut object: Value, key: &str, value: Option<Value>) -> Value {
    if let (Some(map), Some(value)) = (object.as_object_mut(), value) {
        map.insert(key.to_owned(), value);
    }
    object
}

fn text_block(text: impl Into<String>) -> Value {
    json!({"type": "text", "text": text.into()})
}
