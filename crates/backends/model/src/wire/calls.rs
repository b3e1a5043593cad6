//! Calls: their ids, and arguments in both directions.

use hookwright_core::json::{keeps_numbers, parse_strict, sha256_hex};
use hookwright_core::message::Message;
use serde_json::{Value, json};
use std::collections::HashSet;

/// What ids that we made up start with; they are never told to a provider that has no ids.
pub(super) const MADE_UP: &str = "hwcall_";

/// The ids of a conversation, to keep new ones apart from them.
#[derive(Debug)]
pub(crate) struct Ids {
    taken: HashSet<String>,
    next: usize,
}

impl Ids {
    pub(crate) fn of(messages: &[Message]) -> Self {
        let mut taken = HashSet::new();
        for message in messages {
            if let Message::Assistant { calls, .. } = message {
                taken.extend(calls.iter().map(|c| c.provider_id.clone()));
            }
        }
        Self { next: taken.len() + 1, taken }
    }

    /// The provider's id, or one made up where it gave none, an endless one, or one that stands in the conversation already.
    pub(crate) fn take(&mut self, given: &str) -> String {
        if !given.is_empty() && given.len() <= 512 && self.taken.insert(given.to_owned()) {
            return given.to_owned();
        }
        loop {
            let id = format!("{MADE_UP}{}", self.next);
            self.next += 1;
            if self.taken.insert(id.clone()) {
                return id;
            }
        }
    }
}

/// An id as a provider takes it: itself where it is plain and short enough, else a digest of it. The same id always becomes the same.
pub(super) fn wire_id(id: &str, max_len: usize) -> String {
    let plain = !id.is_empty() && id.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    if plain && id.len() <= max_len { id.to_owned() } else { format!("id_{}", &sha256_hex(id.as_bytes())[..32]) }
}

/// Arguments as the model wrote them. No text, or `null`, is a call without arguments; what is no JSON object
/// (cut off, a list, a key twice), or holds a number that reading would change, stays text, and the runtime refuses the call.
pub(crate) fn parse_arguments(raw: &str) -> Value {
    if raw.trim().is_empty() {
        return json!({});
    }
    match parse_strict(raw) {
        Ok(value @ Value::Object(_)) if keeps_numbers(raw) => value,
        Ok(Value::Null) => json!({}),
        Ok(_) | Err(_) => Value::String(raw.to_owned()),
    }
}

/// Arguments as they may stand in a request: always an object, since servers refuse or crash on anything else.
/// Text that was no object is shown to the model, so that it sees what it did: `{"not_a_json_object": "…"}`.
pub(super) fn sendable(arguments: &Value) -> Value {
    match arguments {
        Value::Object(_) => arguments.clone(),
        Value::Null => json!({}),
        Value::String(text) => json!({"not_a_json_object": text.chars().take(2_000).collect::<String>()}),
        other => json!({"not_a_json_object": other.to_string().chars().take(2_000).collect::<String>()}),
    }
}
