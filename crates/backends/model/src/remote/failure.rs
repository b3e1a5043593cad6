//! What a provider's refusal means: wait and ask again, ask for less, or tell the person what to change.
//!
//! Invariant: what is shown of a provider's words is escaped, bounded, and without the key.

use super::retry;
use crate::secret::quote;
use crate::settings::Settings;
use crate::wire::StreamError;
use hookwright_runtime::ports::model::ModelError;
use reqwest::header::HeaderMap;
use serde_json::Value;
use std::time::Duration;

/// Why an attempt gave no turn.
#[derive(Debug)]
pub(super) enum Failure {
    /// Asking again would not help.
    Final(ModelError),
    /// Asking again may help; `after` is what the provider asks to wait.
    Passing { what: String, after: Option<Duration> },
    /// The model does not reason: ask again without the wish for encrypted reasoning.
    NoReasoning,
}

/// Who is asked, for messages.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) label: &'a str,
    pub(super) provider: &'a str,
    pub(super) settings: &'a Settings,
}

/// A provider's words, whatever shape its error has.
#[derive(Debug, Default, PartialEq, Eq)]
struct Words {
    kind: String,
    message: String,
    wait: Option<Duration>,
}

impl Asked<'_> {
    fn quote(&self, text: &str) -> String {
        quote(text, self.settings.secret(), 500)
    }

    /// An HTTP answer that is no success.
    pub(super) fn status(&self, status: u16, headers: &HeaderMap, body: &[u8]) -> Failure {
        let words = words(body);
        let asked = retry::asked(headers).or(words.wait);
        let said = match (words.kind.as_str(), words.message.as_str()) {
            ("", "") => String::new(),
            ("", message) => format!(": {}", self.quote(message)),
            (kind, message) => format!(" {}: {}", self.quote(kind), self.quote(message)),
        };
        let id = ["request-id", "x-request-id"].iter().find_map(|n| headers.get(*n)).and_then(|v| v.to_str().ok());
        let id = id.map_or_else(String::new, |id| format!(" (request {})", quote(id, self.settings.secret(), 80)));
        let what = format!("{}: {status}{said}{id}", self.label);
        let refused = |hint: String| Failure::Final(ModelError::Refused(format!("{what}. {hint}")));
        let key = self.settings.key_variable.unwrap_or("the key");
        let base = self.settings.base_variable;
        if is_context_full(&words.kind, &words.message) || (status == 413 && !said.is_empty()) {
            return Failure::Final(Self::context_full(&what));
        }
        match status {
            300..=399 => {
                let to = headers.get("location").and_then(|v| v.to_str().ok()).unwrap_or("nowhere");
                refused(format!(
                    "It redirects to {}; redirects are not followed, so that no key goes astray. Set {base} to the right address",
                    quote(to, self.settings.secret(), 200)
                ))
            }
            400 if words.message.contains("ncrypted content is not supported") => Failure::NoReasoning,
            401 if self.settings.auth.is_none() => refused(format!("It wants a key: set {key}")),
            401 => refused(format!("Is the key in {key} right, and meant for {}?", self.settings.host())),
            402 => refused("The account has no credit left".into()),
            403 => refused(format!("The key in {key} may not use this model, or not from here")),
            404 if self.provider == "ollama" => refused(format!(
                "Is the model there? `ollama pull {}` fetches it",
                self.label.split_once('/').map_or(self.label, |(_, model)| model)
            )),
            404 => refused(format!(
                "Is the model's name right, and does {} lead to an API of this kind?",
                base_text(self.settings)
            )),
            429 if is_quota(&words) => {
                refused("The account has no credit or quota left: waiting would not help".into())
            }
            408 | 409 | 425 | 429 | 500..=599 if headers.get("x-should-retry").is_none_or(|v| v != "false") => {
                Failure::Passing { what, after: asked }
            }
            408 | 409 | 425 | 429 | 500..=599 => Failure::Final(ModelError::Unavailable(what)),
            _ => Failure::Final(ModelError::Refused(what)),
        }
    }

    /// A stream that gave no turn.
    pub(super) fn stream(&self, error: StreamError) -> Failure {
        match error {
            StreamError::Again(why) => {
                Failure::Passing { what: format!("{}: {}", self.label, self.quote(&why)), after: None }
            }
            StreamError::Malformed(why) => {
                Failure::Final(ModelError::Malformed(format!("{}: {}", self.label, self.quote(&why))))
            }
            StreamError::ContextFull(why) => Failure::Final(Self::context_full(&format!("{}: {why}", self.label))),
            StreamError::Reported { kind, message } => {
                let gap = if kind.is_empty() { "" } else { ": " };
                let what = format!("{}: {}{gap}{}", self.label, self.quote(&kind), self.quote(&message));
                if is_context_full(&kind, &message) {
                    return Failure::Final(Self::context_full(&what));
                }
                let words = Words { kind, message, wait: None };
                if is_passing(&words.kind) && !is_quota(&words) {
                    Failure::Passing { what, after: None }
                } else {
                    Failure::Final(ModelError::Refused(what))
                }
            }
        }
    }

    /// A request that got no answer.
    pub(super) fn connection(&self, error: &reqwest::Error) -> Failure {
        let why = super::http::chain(error, self.settings);
        let what = if error.is_connect() {
            let hint = match self.provider {
                "ollama" => format!(" (is Ollama running, and at {}?)", base_text(self.settings)),
                "compatible" => format!(" (is the server running, and at {}?)", base_text(self.settings)),
                _ => String::new(),
            };
            format!("{}: no connection to {}{hint}: {why}", self.label, self.settings.host())
        } else {
            format!("{}: the connection to {} broke: {why}", self.label, self.settings.host())
        };
        Failure::Passing { what, after: None }
    }

    fn context_full(what: &str) -> ModelError {
        ModelError::ContextFull(format!(
            "{what}. Start a new session, let tools answer with less, offer fewer functions, or choose a model with a larger window"
        ))
    }
}

fn base_text(settings: &Settings) -> String {
    format!("{} ({})", settings.base_variable, settings.host())
}

fn words(body: &[u8]) -> Words {
    let text = String::from_utf8_lossy(body);
    let Ok(value) = serde_json::from_str::<Value>(&text) else {
        return Words { message: text.trim().to_owned(), ..Words::default() };
    };
    let value = value.as_array().and_then(|a| a.first()).unwrap_or(&value);
    let error = value.get("error").or_else(|| value.get("detail")).unwrap_or(value);
    let field = |key: &str| error.get(key).and_then(Value::as_str).filter(|t| !t.is_empty());
    let message = error.as_str().or_else(|| field("message")).or_else(|| value.get("message").and_then(Value::as_str));
    let kind = field("code").or_else(|| field("status")).or_else(|| field("type")).unwrap_or_default();
    let delay =
        error.get("details").and_then(Value::as_array).into_iter().flatten().find_map(|d| d["retryDelay"].as_str());
    Words {
        kind: kind.to_owned(),
        message: message.map_or_else(|| error.to_string(), str::to_owned),
        wait: delay
            .and_then(|d| d.strip_suffix('s'))
            .and_then(|s| s.parse().ok())
            .and_then(|s| Duration::try_from_secs_f64(s).ok()),
    }
}

/// The ways in which providers say that the window is full.
fn is_context_full(kind: &str, message: &str) -> bool {
    const KINDS: [&str; 4] = [
        "context_length_exceeded",
        "exceed_context_size_error",
        "request_too_large",
        "model_max_prompt_tokens_exceeded",
    ];
    // In this order: Anthropic, OpenAI, vLLM, SGLang, Ollama, llama.cpp, LM Studio, Gemini, xAI, Bedrock, Moonshot, TGI.
    const MESSAGES: [&str; 25] = [
        "prompt is too long",
        "exceed context limit",
        "maximum context length",
        "max context length",
        "context window",
        "context_length_exceeded",
        "input tokens exceed the configured limit",
        "reduce the length of the messages",
        "context length is only",
        "longer than the maximum model length",
        "longer than the model's context length",
        "prompt too long",
        "exceeds the context length",
        "available context size",
        "context size has been exceeded",
        "context size exceeded",
        "larger than the context length",
        "greater than the context length",
        "context the overflows",
        "exceeds the maximum number of tokens",
        "maximum prompt length",
        "input is too long",
        "exceeded model token limit",
        "`inputs` tokens + `max_new_tokens` must be",
        "`inputs` must have less than",
    ];
    let message = message.to_lowercase();
    KINDS.contains(&kind) || MESSAGES.iter().any(|m| message.contains(m))
}

fn is_quota(words: &Words) -> bool {
    words.kind == "insufficient_quota" || words.message.contains("credit balance is too low")
}

/// Kinds of errors inside a stream that pass.
fn is_passing(kind: &str) -> bool {
    const PASSING: [&str; 13] = [
        "overloaded_error",
        "api_error",
        "timeout_error",
        "rate_limit_error",
        "rate_limit_exceeded",
        "server_error",
        "internal_server_error",
        "server_is_overloaded",
        "vector_store_timeout",
        "UNAVAILABLE",
        "INTERNAL",
        "RESOURCE_EXHAUSTED",
        "DEADLINE_EXCEEDED",
    ];
    PASSING.contains(&kind) || kind.parse::<u16>().is_ok_and(|n| matches!(n, 408 | 409 | 429 | 500..=599))
}

#[cfg(test)]
mod tests;
