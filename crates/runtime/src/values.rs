//! Loads a job's values: inline ones as they stand, others from the store, remembered while the job runs.

use crate::ports::store::{Store, StoreError};
use hookwright_core::message::{AssistantCall, Message};
use hookwright_core::stored::Stored;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of large values that a job keeps in memory.
const KEPT_BYTES: u64 = 64 * 1024 * 1024;

/// A job's values.
pub struct Values {
    store: Arc<dyn Store>,
    kept: Mutex<(HashMap<String, Arc<Value>>, u64)>,
}

impl Values {
    /// Over a store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, kept: Mutex::default() }
    }

    /// The value.
    pub async fn load(&self, stored: &Stored) -> Result<Arc<Value>, StoreError> {
        if let Some(value) = &stored.value {
            return Ok(value.clone());
        }
        if let Some(value) = self.kept.lock().unwrap_or_else(PoisonError::into_inner).0.get(&stored.sha256) {
            return Ok(value.clone());
        }
        let gone = || StoreError::Failed(format!("the value {} ({} bytes) was deleted", stored.sha256, stored.bytes));
        let text = self.store.blob(&stored.sha256).await?.ok_or_else(gone)?;
        if hookwright_core::json::sha256_hex(text.as_bytes()) != stored.sha256 {
            return Err(StoreError::Failed(format!("the value {} was changed in the store", stored.sha256)));
        }
        let value: Value = serde_json::from_str(&text)
            .map_err(|e| StoreError::Failed(format!("the value {} can't be read: {e}", stored.sha256)))?;
        let value = Arc::new(value);
        self.keep(stored, value.clone());
        Ok(value)
    }

    /// Remembers a large value that was just made.
    pub fn keep(&self, stored: &Stored, value: Arc<Value>) {
        if stored.value.is_some() {
            return;
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.1 + stored.bytes > KEPT_BYTES {
            *kept = Default::default();
        }
        kept.1 += stored.bytes;
        kept.0.insert(stored.sha256.clone(), value);
    }

    /// A copy with the value in it.
    pub async fn full(&self, stored: &Stored) -> Result<Stored, StoreError> {
        Ok(Stored { value: Some(self.load(stored).await?), ..stored.digest_only() })
    }

    async fn full_opt(&self, stored: Option<&Stored>) -> Result<Option<Stored>, StoreError> {
        match stored {
            Some(stored) => Ok(Some(self.full(stored).await?)),
            None => Ok(None),
        }
    }

    /// A conversation with all its values in it, results shortened for the model (elision comes last: SPEC §3).
    pub async fn conversation(&self, messages: &[Message], result_bytes: u64) -> Result<Vec<Message>, StoreError> {
        let mut out = Vec::with_capacity(messages.len());
        for message in messages {
            out.push(match message {
                Message::User { content } => Message::User { content: self.full(content).await? },
                Message::Assistant { text, calls, provider_state } => {
                    let mut full_calls = Vec::with_capacity(calls.len());
                    for call in calls {
                        full_calls.push(AssistantCall { arguments: self.full(&call.arguments).await?, ..call.clone() });
                    }
                    Message::Assistant {
                        text: self.full_opt(text.as_ref()).await?,
                        calls: full_calls,
                        provider_state: self.full_opt(provider_state.as_ref()).await?,
                    }
                }
                Message::Tool { provider_id, tool, content, is_error } => Message::Tool {
                    provider_id: provider_id.clone(),
                    tool: tool.clone(),
                    content: shorten(self.full(content).await?, result_bytes),
                    is_error: *is_error,
                },
            });
        }
        Ok(out)
    }
}

/// Takes the middle out of long text in a result; the whole stays in the history.
fn shorten(content: Stored, result_bytes: u64) -> Stored {
    if content.bytes <= result_bytes {
        return content;
    }
    let short = |text: &str| hookwright_core::text::elide_middle(text, result_bytes);
    let value = match content.value.as_deref() {
        Some(Value::String(text)) => Value::String(short(text)),
        Some(Value::Array(blocks)) => Value::Array(
            blocks
                .iter()
                .map(|block| {
                    let mut block = block.clone();
                    if let Some(text) = block.get("text").and_then(Value::as_str).map(short) {
                        block["text"] = Value::String(text);
                    }
                    block
                })
                .collect(),
        ),
        Some(other) => Value::String(short(&other.to_string())),
        None => return content,
    };
    Stored::inline(value)
}
