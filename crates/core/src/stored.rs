//! A job's value: its digest and length, and the value itself where it is small enough to stand in a record.
//!
//! Invariant: `sha256` and `bytes` are over the canonical text, so equal values have equal digests wherever they stand.
//! Invariant: a record's hash is made without the inline value, so deleting values keeps the chain verifiable (SPEC §8).

use crate::json;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// Values whose canonical text is longer than this stand beside the history, by digest (SPEC §8).
pub const INLINE_LIMIT_BYTES: u64 = 64 * 1024;

/// Levels of an inline value. Deeper ones stand beside the history as large ones do: around them a record has some levels of its
/// own, and readers of JSON refuse what has more than 128 in all, so a hostile value would make the history unreadable.
const INLINE_DEPTH: usize = 64;

/// A value by digest, with the value itself where it is inline.
///
/// Equality is by digest and length: an inline copy makes no difference.
#[derive(Debug, Clone, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Stored {
    /// SHA-256 of the canonical text, 64 hex digits.
    pub sha256: String,
    /// Length of the canonical text in bytes.
    pub bytes: u64,
    /// The value, unless it is longer than [`INLINE_LIMIT_BYTES`], deeper than 64 levels, or was deleted.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schemars(with = "Option<Value>")]
    pub value: Option<Arc<Value>>,
}

impl PartialEq for Stored {
    fn eq(&self, other: &Self) -> bool {
        self.sha256 == other.sha256 && self.bytes == other.bytes
    }
}

/// `null` is a value too: a key that is present is `Some`, whatever it holds.
fn present<'de, D: serde::Deserializer<'de>>(d: D) -> Result<Option<Arc<Value>>, D::Error> {
    Value::deserialize(d).map(|v| Some(Arc::new(v)))
}

/// A value that is too large to stand in a record; the store keeps `text` under `sha256`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    /// SHA-256 of `text`, 64 hex digits.
    pub sha256: String,
    /// The canonical text.
    pub text: String,
}

impl Stored {
    /// Wraps a value. The second part is what the store must keep, before any record names it, for a value that is too large.
    pub fn new(value: Value) -> (Self, Option<Blob>) {
        Self::shared(Arc::new(value))
    }

    /// As [`Stored::new`], for a value that is kept elsewhere too.
    pub fn shared(value: Arc<Value>) -> (Self, Option<Blob>) {
        let text = json::canonical(&value);
        let sha256 = json::sha256_hex(text.as_bytes());
        let bytes = text.len() as u64;
        if bytes > INLINE_LIMIT_BYTES || json::is_deep(&value, INLINE_DEPTH) {
            (Self { sha256: sha256.clone(), bytes, value: None }, Some(Blob { sha256, text }))
        } else {
            (Self { sha256, bytes, value: Some(value) }, None)
        }
    }

    /// Wraps a value that is known to be small (a name, a flag). Larger ones are kept inline too: use [`Stored::new`] for foreign values.
    pub fn inline(value: Value) -> Self {
        let text = json::canonical(&value);
        Self { sha256: json::sha256_hex(text.as_bytes()), bytes: text.len() as u64, value: Some(Arc::new(value)) }
    }

    /// Whether both are the same value, inline or not.
    pub fn same(&self, other: &Self) -> bool {
        self.sha256 == other.sha256
    }

    /// This value without its inline copy, as a record's hash sees it.
    #[must_use]
    pub fn digest_only(&self) -> Self {
        Self { sha256: self.sha256.clone(), bytes: self.bytes, value: None }
    }

    /// Whether the inline copy, if any, is the value that the digest names.
    pub fn is_intact(&self) -> bool {
        self.value.as_ref().is_none_or(|v| json::digest(v) == self.sha256)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_value_over_64_kib_is_by_digest_and_a_smaller_one_inline() {
        let (small, blob) = Stored::new(json!("x".repeat(65_534)));
        assert!(small.value.is_some() && blob.is_none() && small.bytes == 65_536);
        let (large, blob) = Stored::new(json!("x".repeat(65_535)));
        let blob = blob.unwrap();
        assert_eq!((large.value.clone(), &large.sha256), (None, &blob.sha256));
        assert_eq!(json::sha256_hex(blob.text.as_bytes()), large.sha256);
    }

    #[test]
    fn a_deep_value_is_by_digest_so_that_its_record_can_be_read() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        let value = |levels| json::parse_strict(&nested(levels)).unwrap();
        assert!(Stored::new(value(64)).0.value.is_some());
        let (deep, blob) = Stored::new(value(127));
        assert_eq!((deep.value, blob.map(|b| b.text)), (None, Some(nested(127))));
    }

    #[test]
    fn null_is_a_value_and_survives_serde() {
        let stored = Stored::inline(Value::Null);
        let back: Stored = serde_json::from_value(serde_json::to_value(&stored).unwrap()).unwrap();
        assert_eq!(back.value.as_deref(), Some(&Value::Null));
    }
}
