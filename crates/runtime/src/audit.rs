//! Checks what stands beside a history: the large values that its records name by digest (SPEC §8), and the rows of its approvals.

use crate::approvals::difference;
use crate::ports::store::{ApprovalRow, Store, StoreError};
use hookwright_core::approval::Approval;
use hookwright_core::history::Record;
use hookwright_core::job::{Command, Fact};
use hookwright_core::json::sha256_hex;
use hookwright_core::text;
use serde_json::Value;
use std::collections::{HashMap, HashSet};

/// The large values of one history, each checked once.
#[derive(Debug, Default)]
pub struct LargeValues {
    seen: HashSet<String>,
}

impl LargeValues {
    /// Checks the values that a record names. Says what is wrong; one that is not there was deleted, which is no fault.
    pub async fn check(&mut self, store: &dyn Store, record: &str) -> Result<Option<String>, StoreError> {
        let mut named = vec![];
        if let Ok(record) = serde_json::from_str::<Value>(record) {
            self.collect(&record, &mut named);
        }
        for sha256 in named {
            if let Some(text) = store.blob(&sha256).await?
                && sha256_hex(text.as_bytes()) != sha256
            {
                return Ok(Some(format!("the value {sha256} was changed: its digest does not fit")));
            }
        }
        Ok(None)
    }

    /// The digests that were not met before. What an inline value holds is foreign and names nothing.
    fn collect(&mut self, value: &Value, named: &mut Vec<String>) {
        match value {
            Value::Object(map) => match (map.get("sha256"), map.contains_key("bytes"), map.len()) {
                (Some(Value::String(sha256)), true, 3) if map.contains_key("value") => {
                    self.seen.insert(sha256.clone());
                }
                (Some(Value::String(sha256)), true, 2) => {
                    if self.seen.insert(sha256.clone()) {
                        named.push(sha256.clone());
                    }
                }
                _ => map.values().for_each(|v| self.collect(v, named)),
            },
            Value::Array(items) => items.iter().for_each(|v| self.collect(v, named)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}

/// The approvals that one history asked, by id, with the times of their opening.
#[derive(Debug, Default)]
pub struct Asked(HashMap<String, (Box<Approval>, u64)>);

impl Asked {
    /// Of a history's records, which were verified before; what is no record is passed over.
    pub fn of<'r>(records: impl IntoIterator<Item = &'r str>) -> Self {
        let opened = records.into_iter().filter_map(|text| serde_json::from_str::<Record>(text).ok());
        Self(
            opened
                .filter_map(|record| match record.fact {
                    Fact::Begun { command: Command::OpenApproval { approval, .. } } => {
                        Some((approval.id.clone(), (approval, record.at_ms)))
                    }
                    _ => None,
                })
                .collect(),
        )
    }

    /// In what a row of this job is not what its history says.
    pub fn fault(&self, row: &ApprovalRow) -> Option<String> {
        let id = text::shown(&row.id, 200);
        let Some((asked, opened_ms)) = self.0.get(&row.id) else {
            return Some(format!("the row of the approval {id} was added: the history never asked it"));
        };
        let why = difference(row, asked, *opened_ms)?;
        Some(format!("the row of the approval {id} was changed: {why}"))
    }
}
