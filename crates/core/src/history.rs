//! A job's history: records of facts, chained by hash, and replay (SPEC §8).
//!
//! A record's hash is SHA-256 over the canonical JSON of the record without `hash`, in which every inline value is left out
//! (its digest stays). So values can be deleted and the chain still verifies.
//!
//! Invariant: `seq` counts from 0 without a gap; `prev` is the hash of the record before, 64 zeros for the first.

mod ordered;

use crate::job::{Fact, Machine, Mismatch};
use crate::json;
use crate::stored::Stored;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// `prev` of a first record.
pub const GENESIS: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// One record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Record {
    /// 0-based position in the job's history.
    pub seq: u64,
    /// When, Unix milliseconds. Never less than the record before.
    pub at_ms: u64,
    /// What happened.
    #[serde(flatten)]
    pub fact: Fact,
    /// The hash of the record before.
    pub prev: String,
    /// The hash of this record.
    pub hash: String,
}

/// How the text of a record ends that has no hash yet.
const NO_HASH: &str = r#","hash":""}"#;

/// Where a history stands: what the next record is chained to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// How many records there are.
    pub records: u64,
    /// The hash of the last one.
    pub hash: String,
    /// The time of the last one.
    pub at_ms: u64,
}

impl Default for Head {
    fn default() -> Self {
        Self { records: 0, hash: GENESIS.into(), at_ms: 0 }
    }
}

/// Why a history is not what it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// A text that is no record.
    #[error("record {seq} can't be read: {why}")]
    Unreadable {
        /// Its position.
        seq: u64,
        /// Why.
        why: String,
    },
    /// A record is missing, or stands twice.
    #[error("record {expected} is missing: record {found} follows")]
    Gap {
        /// The position that should come.
        expected: u64,
        /// The one that came.
        found: u64,
    },
    /// The record before is not the one that this record was written after.
    #[error("record {seq} was not written after the record before it")]
    Chain {
        /// Its position.
        seq: u64,
    },
    /// The record was changed.
    #[error("record {seq} was changed: its hash does not fit")]
    Changed {
        /// Its position.
        seq: u64,
    },
    /// A value was changed.
    #[error("a value in record {seq} was changed: its digest does not fit")]
    Value {
        /// Its position.
        seq: u64,
    },
}

impl Head {
    /// Makes the next record. Its time is never before the last one's, whatever the clock says.
    pub fn next(&self, at_ms: u64, fact: Fact) -> Record {
        self.write(at_ms, fact).0
    }

    /// Makes the next record as [`Head::next`] does, and gives its text too: JSON on one line, as stores keep it.
    pub fn write(&self, at_ms: u64, fact: Fact) -> (Record, String) {
        let mut record = Record {
            seq: self.records,
            at_ms: at_ms.max(self.at_ms),
            fact,
            prev: self.hash.clone(),
            hash: String::new(),
        };
        let mut text = Vec::with_capacity(1024);
        // Writing a record into memory cannot fail: its keys are texts. It is written by one writer, whose text is UTF-8.
        let _ = serde_json::to_writer(&mut text, &record);
        let mut text = String::from_utf8(text).unwrap_or_default();
        // The hash comes last and is not hashed.
        text.truncate(text.len().saturating_sub(NO_HASH.len()));
        text.push('}');
        record.hash = match ordered::ordered(&text) {
            Some(hashed) => json::sha256_hex(&hashed),
            None => hash_of(serde_json::from_str(&text).unwrap_or_default()),
        };
        text.pop();
        text.push_str(r#","hash":""#);
        text.push_str(&record.hash);
        text.push_str("\"}");
        (record, text)
    }

    /// Moves past a record that was made by [`Head::next`].
    pub fn advance(&mut self, record: &Record) {
        self.records = record.seq + 1;
        self.hash.clone_from(&record.hash);
        self.at_ms = record.at_ms;
    }

    /// Reads the next record of a history, checks it against the chain, and moves past it.
    pub fn read(&mut self, text: &str) -> Result<Record, Broken> {
        let seq = self.records;
        let unreadable = |e: serde_json::Error| Broken::Unreadable { seq, why: e.to_string() };
        let value: Value = serde_json::from_str(text).map_err(unreadable)?;
        let record = Record::deserialize(&value).map_err(unreadable)?;
        if record.seq != self.records {
            return Err(Broken::Gap { expected: self.records, found: record.seq });
        }
        if record.prev != self.hash {
            return Err(Broken::Chain { seq });
        }
        if !values_intact(&value) {
            return Err(Broken::Value { seq });
        }
        if hash_of(value) != record.hash {
            return Err(Broken::Changed { seq });
        }
        self.advance(&record);
        Ok(record)
    }
}

/// Whether an object is a [`Stored`] with its inline value.
fn is_inline(map: &serde_json::Map<String, Value>) -> bool {
    map.len() == 3 && map.contains_key("sha256") && map.contains_key("bytes") && map.contains_key("value")
}

fn hash_of(mut record: Value) -> String {
    if let Value::Object(map) = &mut record {
        map.shift_remove("hash");
    }
    strip(&mut record);
    json::digest(&record)
}

fn strip(value: &mut Value) {
    match value {
        Value::Object(map) if is_inline(map) => {
            map.shift_remove("value");
        }
        Value::Object(map) => map.values_mut().for_each(strip),
        Value::Array(items) => items.iter_mut().for_each(strip),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn values_intact(value: &Value) -> bool {
    match value {
        Value::Object(map) if is_inline(map) => Stored::deserialize(value).is_ok_and(|stored| stored.is_intact()),
        Value::Object(map) => map.values().all(values_intact),
        Value::Array(items) => items.iter().all(values_intact),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

/// Why a history can't be replayed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// The history is not what it was.
    #[error(transparent)]
    Broken(#[from] Broken),
    /// The logic would do something else than the history says.
    #[error("record {seq}: {mismatch}")]
    Mismatch {
        /// The record.
        seq: u64,
        /// What differs.
        mismatch: Mismatch,
    },
    /// There is no first record.
    #[error("the history is empty")]
    Empty,
}

/// A job that is rebuilt record by record: what [`replay`] does, for whoever gets a history in pieces.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Replay {
    machine: Option<Machine>,
    head: Head,
}

impl Replay {
    /// Takes the next record: checks it against the chain, and what it says against what the logic would do.
    pub fn take(&mut self, text: &str) -> Result<Record, ReplayError> {
        let record = self.head.read(text)?;
        let at = |mismatch| ReplayError::Mismatch { seq: record.seq, mismatch };
        match (&mut self.machine, &record.fact) {
            (machine @ None, Fact::Started { spec }) => {
                *machine = Some(Machine::new((**spec).clone()).map_err(at)?.0);
            }
            (None, fact) => return Err(at(Mismatch::unexpected(fact))),
            (Some(machine), fact) => drop(machine.handle(record.at_ms, fact).map_err(at)?),
        }
        Ok(record)
    }

    /// The machine, once there is a first record.
    pub fn machine(&self) -> Option<&Machine> {
        self.machine.as_ref()
    }

    /// Where the history stands.
    pub fn head(&self) -> &Head {
        &self.head
    }
}

/// A record's text without its inline values: their digests stay, and with them its hash. None where it can't be read.
pub fn without_values(text: &str) -> Option<String> {
    let mut value = serde_json::from_str(text).ok()?;
    strip(&mut value);
    serde_json::to_string(&value).ok()
}

/// Rebuilds a job from the texts of its records, calling nothing.
pub fn replay<S: AsRef<str>>(records: impl IntoIterator<Item = S>) -> Result<(Machine, Head), ReplayError> {
    let mut replay = Replay::default();
    for text in records {
        replay.take(text.as_ref())?;
    }
    replay.machine.map(|m| (m, replay.head)).ok_or(ReplayError::Empty)
}

#[cfg(test)]
mod tests;
