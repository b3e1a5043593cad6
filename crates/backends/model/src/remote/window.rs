//! How large a model's window is, as its provider says: what compaction goes by where the manifest says nothing (`context_window`).
//!
//! Invariant: bounded in time ([`PATIENCE`], all questions together) and in bytes, and never an error: what can't be found out is not known.
//! Invariant: a number that can't be true (0, or beyond [`MOST`]) is not believed.

use super::Remote;
use crate::wire::{ChatFlavour, Wire};
use reqwest::header::{ACCEPT, HeaderValue};
use reqwest::{Method, Url};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::timeout;

/// How long the provider is asked in all.
const PATIENCE: Duration = Duration::from_secs(3);
/// Bytes of an answer that are read.
const BYTES: usize = 1024 * 1024;
/// Tokens beyond which no window is believed.
const MOST: u64 = 100_000_000;
/// Ollama's own default. It cuts longer prompts without a word, so a guess that is too small is the better one.
const OLLAMA_DEFAULT: u64 = 4_096;

/// Windows of models whose providers don't tell them: the input that they take, by the start of the name, longest first within a family.
/// OpenAI, <https://platform.openai.com/docs/models>; Claude, where its metadata lack the number.
const KNOWN: [(&str, u64); 21] = [
    ("gpt-5-chat", 128_000),
    ("gpt-5.1-chat", 128_000),
    ("gpt-5.2-chat", 128_000),
    ("gpt-5", 272_000),
    ("gpt-4.1", 1_047_576),
    ("gpt-4.5", 128_000),
    ("gpt-4o", 128_000),
    ("gpt-4-turbo", 128_000),
    ("gpt-4-0125", 128_000),
    ("gpt-4-1106", 128_000),
    ("gpt-4-32k", 32_768),
    ("gpt-4", 8_192),
    ("gpt-3.5-turbo", 16_385),
    ("chatgpt-4o", 128_000),
    ("gpt-oss", 131_072),
    ("codex-mini", 200_000),
    ("o1-mini", 128_000),
    ("o1-preview", 128_000),
    ("o1", 200_000),
    ("o3", 200_000),
    ("o4-mini", 200_000),
];

/// The window of a model that is known by its name.
fn known(model: &str) -> Option<u64> {
    let name = model.strip_prefix("ft:").unwrap_or(model);
    KNOWN.iter().find(|(lead, _)| name.starts_with(lead)).map(|(_, tokens)| *tokens)
}

impl Remote {
    /// Tokens of the model's window, where it can be found out.
    pub(super) async fn ask_window(&self) -> Option<u64> {
        let asked = timeout(PATIENCE, self.told()).await.ok().flatten();
        let found = asked.or_else(|| match self.provider.wire {
            Wire::Anthropic if self.model.starts_with("claude-") => Some(200_000),
            Wire::Responses | Wire::Chat(ChatFlavour::OpenAi) => known(&self.model),
            Wire::Chat(ChatFlavour::Compatible) if self.provider.id == "ollama" => Some(OLLAMA_DEFAULT),
            Wire::Anthropic | Wire::Chat(_) | Wire::Gemini => None,
        });
        found.filter(|tokens| (1..=MOST).contains(tokens))
    }

    async fn told(&self) -> Option<u64> {
        match self.provider.wire {
            Wire::Anthropic => {
                let about = self.ask(Method::GET, &["v1", "models", &self.model], false, None).await?;
                first(&about, &["/max_input_tokens", "/context_window", "/max_model_len"])
            }
            Wire::Gemini => {
                let name = self.model.strip_prefix("models/").unwrap_or(&self.model);
                let about = self.ask(Method::GET, &["v1beta", "models", name], false, None).await?;
                first(&about, &["/inputTokenLimit"])
            }
            // OpenAI's own metadata hold no window; other servers under its variable may tell.
            Wire::Responses | Wire::Chat(ChatFlavour::OpenAi) if self.settings.is_default_base(self.provider) => None,
            Wire::Chat(ChatFlavour::Compatible) if self.provider.id == "ollama" => self.ollama().await,
            Wire::Responses | Wire::Chat(_) => self.compatible().await,
        }
    }

    /// vLLM, SGLang, LM Studio, OpenRouter, Groq, Mistral and the like tell in their list of models; llama.cpp in its properties.
    async fn compatible(&self) -> Option<u64> {
        const KEYS: [&str; 7] = [
            "/max_model_len",
            "/loaded_context_length",
            "/meta/n_ctx",
            "/context_window",
            "/context_length",
            "/max_context_length",
            "/top_provider/context_length",
        ];
        let list = self.ask(Method::GET, &["models"], false, None).await;
        let models = list.as_ref().and_then(|l| l.get("data").and_then(Value::as_array));
        let entry = models.and_then(|all| {
            all.iter().find(|m| m["id"] == self.model.as_str()).or_else(|| all.first().filter(|_| all.len() == 1))
        });
        if let Some(tokens) = entry.and_then(|entry| first(entry, &KEYS)) {
            return Some(tokens);
        }
        let properties = self.ask(Method::GET, &["props"], true, None).await?;
        first(&properties, &["/default_generation_settings/n_ctx", "/n_ctx"])
    }

    /// What Ollama runs the model with, not what the model could: its own `num_ctx`, or what it was loaded with (an empty request loads
    /// it, as the first turn would).
    async fn ollama(&self) -> Option<u64> {
        let about = self.ask(Method::POST, &["api", "show"], true, Some(json!({"model": self.model}))).await?;
        let parameters = about["parameters"].as_str().unwrap_or_default();
        let own = parameters.lines().find_map(|line| line.trim().strip_prefix("num_ctx")?.trim().parse().ok());
        if own.is_some() {
            return own;
        }
        let loaded = async || {
            let running = self.ask(Method::GET, &["api", "ps"], true, None).await?;
            let same = |m: &&Value| {
                let is = |key: &str| {
                    m[key].as_str().is_some_and(|n| n == self.model || n.strip_suffix(":latest") == Some(&self.model))
                };
                is("name") || is("model")
            };
            running["models"].as_array()?.iter().find(same)?["context_length"].as_u64()
        };
        if let Some(tokens) = loaded().await {
            return Some(tokens);
        }
        self.ask(Method::POST, &["api", "generate"], true, Some(json!({"model": self.model, "stream": false}))).await?;
        loaded().await
    }

    /// One question; none where it is not answered with JSON. `root`: beside the API, not below it.
    async fn ask(&self, method: Method, path: &[&str], root: bool, body: Option<Value>) -> Option<Value> {
        let mut url: Url = self.settings.base.clone();
        {
            let mut segments = url.path_segments_mut().ok()?;
            segments.pop_if_empty();
            if root {
                segments.pop();
            }
            segments.extend(path.iter().flat_map(|p| p.split('/')));
        }
        let mut request = self.client.request(method, url).headers(self.headers.clone());
        request = request.header(ACCEPT, HeaderValue::from_static("application/json"));
        if let Some(body) = body {
            request = request.body(body.to_string());
        }
        let mut response = request.send().await.ok().filter(|r| r.status().is_success())?;
        let mut bytes = vec![];
        while let Some(chunk) = response.chunk().await.ok()? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > BYTES {
                return None;
            }
        }
        serde_json::from_slice(&bytes).ok()
    }
}

/// The first of these numbers that is there.
fn first(value: &Value, pointers: &[&str]) -> Option<u64> {
    pointers.iter().find_map(|pointer| value.pointer(pointer).and_then(Value::as_u64).filter(|n| *n > 0))
}

#[cfg(test)]
mod tests {
    use super::known;

    #[test]
    fn well_known_models_have_their_windows_whatever_their_dates() {
        for (model, window) in [
            ("gpt-5.1", Some(272_000)),
            ("gpt-5-chat-latest", Some(128_000)),
            ("gpt-4.1-mini-2025-04-14", Some(1_047_576)),
            ("gpt-4", Some(8_192)),
            ("gpt-4-0613", Some(8_192)),
            ("gpt-4o-mini", Some(128_000)),
            ("ft:gpt-4o:acme::x", Some(128_000)),
            ("o3-mini", Some(200_000)),
            ("some-model", None),
        ] {
            assert_eq!(known(model), window, "{model}");
        }
    }
}
