//! Loads a job's values: inline ones as they stand, others from the store, remembered while the job runs.

use crate::ports::store::{Store, StoreError};
use hookwright_core::lifecycle;
use hookwright_core::message::{AssistantCall, Message};
use hookwright_core::stored::Stored;
use hookwright_core::text::elide_middle;
use serde_json::{Value, json};
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
                    content: match self.full(content).await? {
                        // It is short, and JSON: a middle that is taken out would make it unreadable.
                        content if lifecycle::is_delivery(provider_id, tool) => content,
                        content => shorten(content, result_bytes),
                    },
                    is_error: *is_error,
                },
            });
        }
        Ok(out)
    }
}

/// Takes the middle out of long text in a result; the whole stays in the history. All blocks together keep to the limit (SPEC §10).
fn shorten(content: Stored, result_bytes: u64) -> Stored {
    if content.bytes <= result_bytes {
        return content;
    }
    let value = match content.value.as_deref() {
        Some(Value::String(text)) => Value::String(elide_middle(text, result_bytes)),
        Some(Value::Array(blocks)) => Value::Array(shorten_blocks(blocks, result_bytes)),
        Some(other) => Value::String(elide_middle(&other.to_string(), result_bytes)),
        None => return content,
    };
    Stored::inline(value)
}

/// Blocks that are kept at each end of a list whose text is too long as a whole.
const END_BLOCKS: usize = 100;

fn shorten_blocks(blocks: &[Value], result_bytes: u64) -> Vec<Value> {
    let weights: Vec<u64> = blocks.iter().map(text_bytes).collect();
    if weights.iter().sum::<u64>() <= result_bytes {
        return blocks.to_vec();
    }
    let left_out = blocks.len().saturating_sub(2 * END_BLOCKS);
    let middle = if left_out > 0 { END_BLOCKS..END_BLOCKS + left_out } else { 0..0 };
    let kept = || (0..blocks.len()).filter(|i| !middle.contains(i));
    let cap = fair_share(kept().map(|i| weights[i]).collect(), result_bytes);
    let mut out = Vec::with_capacity(blocks.len() - left_out + 1);
    for i in kept() {
        if left_out > 0 && i == middle.end {
            out.push(text_block(format!("[… {left_out} blocks left out …]")));
        }
        out.push(if weights[i] <= cap { blocks[i].clone() } else { shorten_block(&blocks[i], cap) });
    }
    out
}

/// The most that each may have so that all together keep to the limit: what short ones leave goes to the long ones.
fn fair_share(mut weights: Vec<u64>, limit: u64) -> u64 {
    weights.sort_unstable();
    let (mut left, mut others) = (limit, weights.len() as u64);
    for weight in weights {
        if weight > left / others.max(1) {
            break;
        }
        left -= weight;
        others -= 1;
    }
    left / others.max(1)
}

/// The text of a text block or of an embedded resource.
fn block_text(block: &Value) -> Option<&str> {
    match block.get("type").and_then(Value::as_str) {
        Some("text") => block.get("text").and_then(Value::as_str),
        Some("resource") => block.pointer("/resource/text").and_then(Value::as_str),
        _ => None,
    }
}

/// Bytes of a block that a model may read as text; the data of images and sounds are none.
fn text_bytes(block: &Value) -> u64 {
    let bytes = block_text(block).map_or_else(|| block.to_string().len() - data_bytes(block), str::len);
    bytes as u64
}

fn data_bytes(block: &Value) -> usize {
    match block.get("type").and_then(Value::as_str) {
        Some("image" | "audio") => block.get("data").and_then(Value::as_str).map_or(0, str::len),
        _ => 0,
    }
}

/// A block as a text block of about so many bytes.
fn shorten_block(block: &Value, cap: u64) -> Value {
    text_block(match block_text(block) {
        Some(text) => elide_middle(text, cap),
        None => elide_middle(&block.to_string(), cap),
    })
}

fn text_block(text: String) -> Value {
    json!({"type": "text", "text": text})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shortened(value: &Value, limit: u64) -> Value {
        let stored = shorten(Stored::inline(value.clone()), limit);
        stored.value.as_deref().cloned().unwrap_or_default()
    }

    fn text(n: usize) -> Value {
        text_block("x".repeat(n))
    }

    #[test]
    fn the_text_of_all_blocks_together_keeps_to_the_limit() {
        let resource = json!({"type": "resource", "resource": {"uri": "a:b", "text": "r".repeat(200_000)}});
        let odd = json!({"type": "odd", "payload": "o".repeat(200_000)});
        for blocks in [
            vec![text(100_000), text(100_000)],
            vec![resource.clone()],
            vec![odd],
            vec![text(60_000); 3],
            vec![text(10); 20_000],
            vec![text(40_000), resource],
        ] {
            let short = shortened(&Value::Array(blocks), 51_200);
            let total: u64 = short.as_array().unwrap().iter().map(text_bytes).sum();
            assert!(total <= 52_000, "{total}");
        }
    }

    #[test]
    fn a_short_block_stays_whole_beside_a_long_one_and_an_image_counts_nothing() {
        let image = json!({"type": "image", "mimeType": "image/png", "data": "A".repeat(100_000)});
        let short = shortened(&json!([text(100), text(100_000), image]), 51_200);
        assert_eq!((&short[0], &short[2]), (&text(100), &image));
        let long = short[1]["text"].as_str().unwrap();
        assert!(long.len() > 50_000 && long.contains("bytes left out"), "{}", long.len());
    }
}
