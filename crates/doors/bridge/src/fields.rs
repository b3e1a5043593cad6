//! Reading a harness's payload strictly: a key that is missing or of another type is a fault, not a default.

use serde_json::{Map, Value};

/// What a payload lacks.
pub(crate) type Fault = String;

/// An object of a payload, with its place for faults.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'a>(pub(crate) &'a Map<String, Value>);

impl<'a> Fields<'a> {
    pub(crate) fn of(value: &'a Value) -> Result<Self, Fault> {
        value.as_object().map(Self).ok_or_else(|| "the payload is no JSON object".to_owned())
    }

    /// A text that must be there.
    pub(crate) fn text(self, key: &str) -> Result<&'a str, Fault> {
        self.0.get(key).and_then(Value::as_str).ok_or_else(|| format!("`{key}` is no text"))
    }

    /// A text that must be there and not be empty.
    pub(crate) fn name(self, key: &str) -> Result<&'a str, Fault> {
        self.text(key).and_then(|text| if text.is_empty() { Err(format!("`{key}` is empty")) } else { Ok(text) })
    }

    /// A text that may be missing or null.
    pub(crate) fn maybe(self, key: &str) -> Result<Option<&'a str>, Fault> {
        match self.0.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(format!("`{key}` is no text")),
        }
    }

    pub(crate) fn owned(self, key: &str) -> Result<Option<String>, Fault> {
        Ok(self.maybe(key)?.map(str::to_owned))
    }

    /// Yes or no; missing counts as no.
    pub(crate) fn flag(self, key: &str) -> Result<bool, Fault> {
        match self.0.get(key) {
            None | Some(Value::Null) => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => Err(format!("`{key}` is neither true nor false")),
        }
    }

    /// A call's arguments: an object.
    pub(crate) fn arguments(self, key: &str) -> Result<Value, Fault> {
        match self.0.get(key) {
            Some(value @ Value::Object(_)) => Ok(value.clone()),
            _ => Err(format!("`{key}` is no object")),
        }
    }

    pub(crate) fn value(self, key: &str) -> Result<&'a Value, Fault> {
        self.0.get(key).ok_or_else(|| format!("`{key}` is missing"))
    }

    /// An object that may be missing.
    pub(crate) fn inner(self, key: &str) -> Result<Option<Fields<'a>>, Fault> {
        match self.0.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Object(map)) => Ok(Some(Fields(map))),
            Some(_) => Err(format!("`{key}` is no object")),
        }
    }
}

/// A result as hooks get it: text and lists of content blocks as they are; anything else as its JSON, with the value beside it.
pub(crate) fn result(value: &Value) -> (Value, Option<Value>) {
    match value {
        Value::String(_) => (value.clone(), None),
        Value::Array(blocks) if blocks.iter().all(is_block) => match single_text(blocks) {
            Some(text) => (Value::String(text.to_owned()), None),
            None => (value.clone(), None),
        },
        other => (Value::String(other.to_string()), Some(other.clone())),
    }
}

/// Whether it is an MCP content block.
fn is_block(value: &Value) -> bool {
    value.get("type").is_some_and(Value::is_string)
}

fn single_text(blocks: &[Value]) -> Option<&str> {
    match blocks {
        [block] if block["type"] == "text" => block["text"].as_str(),
        _ => None,
    }
}

/// A result as text, for harnesses that take no blocks.
pub(crate) fn as_text(result: &Value) -> String {
    match result {
        Value::String(text) => text.clone(),
        Value::Array(blocks) if blocks.iter().all(is_block) => {
            let part = |block: &Value| block["text"].as_str().map_or_else(|| block.to_string(), str::to_owned);
            blocks.iter().map(part).collect::<Vec<_>>().join("\n")
        }
        other => other.to_string(),
    }
}

/// All ways to split the rest of an MCP tool's name into `server.function`.
pub(crate) fn splits(name: &str, between: &str) -> Vec<String> {
    let ways = name.match_indices(between).filter(|(at, _)| *at > 0 && at + between.len() < name.len());
    ways.map(|(at, _)| format!("{}.{}", &name[..at], &name[at + between.len()..])).collect()
}
