//! What a server lists.
//!
//! Invariant: one odd entry costs the others nothing, and no cursor leads on without end.

use crate::link::{Ask, Link, Reply, later};
use crate::said::{Secrets, shown};
use hookwright_runtime::ports::tools::ListedFunction;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::time::Duration;
use tokio::time::Instant;

const MAX_PAGES: usize = 1_000;
const MAX_FUNCTIONS: usize = 10_000;
/// Bytes of names, descriptions and schemas together.
const MAX_BYTES: usize = 32 * 1024 * 1024;
const METHOD_NOT_FOUND: i64 = -32_601;

#[derive(Serialize)]
struct ListParams<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<&'a str>,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<&'a Value>,
}

/// Asks for all pages, within `limit` altogether.
pub(crate) async fn list(
    link: &Link,
    meta: Option<&Value>,
    limit: Duration,
    tool: &str,
    secrets: &Secrets,
) -> Result<Vec<ListedFunction>, String> {
    let end = later(Instant::now(), limit);
    let mut listed = Listed::default();
    let mut cursors: HashSet<String> = HashSet::new();
    let mut cursor: Option<String> = None;
    for _ in 0..MAX_PAGES {
        let left = end.saturating_duration_since(Instant::now());
        let params = ListParams { cursor: cursor.as_deref(), meta };
        let mut page = match link.request(Ask::new("tools/list", left), &params).await {
            Reply::Result { value, .. } => value,
            // A server without any tools need not know the method.
            Reply::Error { code: METHOD_NOT_FOUND, .. } if cursor.is_none() => return Ok(Vec::new()),
            Reply::Error { code, message, .. } => {
                return Err(format!(
                    "it answered tools/list with an error: {} ({code})",
                    shown(&message, 500, secrets)
                ));
            }
            Reply::TimedOut { .. } => return Err("it did not answer tools/list in time".to_owned()),
            Reply::NotSent { why } | Reply::Lost { why } | Reply::Refused { why, .. } => {
                return Err(format!("tools/list failed: {why}"));
            }
            Reply::SessionGone => return Err("tools/list failed: its session ended".to_owned()),
        };
        let Some(entries) = page.get_mut("tools").and_then(Value::as_array_mut).map(std::mem::take) else {
            return Err("its answer to tools/list holds no list of tools".to_owned());
        };
        for entry in entries {
            if let Err(odd) = listed.add(entry) {
                tracing::warn!(target: "hookwright::tool", tool, "tools/list: {}", shown(&odd, 300, secrets));
            }
        }
        let stop = match page["nextCursor"].as_str() {
            None | Some("") => None,
            Some(_) if listed.is_full() => Some("it lists too many functions"),
            Some(next) if !cursors.insert(next.to_owned()) => Some("its cursor repeats"),
            Some(next) => {
                cursor = Some(next.to_owned());
                continue;
            }
        };
        if let Some(stop) = stop {
            tracing::warn!(target: "hookwright::tool", tool, "tools/list: {stop}; the first {} functions count", listed.functions.len());
        }
        return Ok(listed.functions);
    }
    tracing::warn!(target: "hookwright::tool", tool, "tools/list: it has more than {MAX_PAGES} pages; the first {} functions count", listed.functions.len());
    Ok(listed.functions)
}

#[derive(Default)]
struct Listed {
    functions: Vec<ListedFunction>,
    names: HashSet<String>,
    bytes: usize,
}

impl Listed {
    fn is_full(&self) -> bool {
        self.functions.len() >= MAX_FUNCTIONS || self.bytes >= MAX_BYTES
    }

    fn add(&mut self, mut entry: Value) -> Result<(), String> {
        let Some(name) = entry["name"].as_str().filter(|name| !name.is_empty()).map(str::to_owned) else {
            return Err("an entry without a name is left out".to_owned());
        };
        if self.is_full() {
            return Err(format!("{name} is left out: the list is too long"));
        }
        if !self.names.insert(name.clone()) {
            return Err(format!("{name} is listed twice; the first one counts"));
        }
        let definition = std::sync::Arc::new(entry.clone());
        let hint = |key: &str| entry["annotations"][key] == true;
        let (read_only_hint, idempotent_hint) = (hint("readOnlyHint"), hint("idempotentHint"));
        let description = entry["description"].as_str().map(str::to_owned);
        let input_schema = match entry["inputSchema"].take() {
            schema @ Value::Object(_) => schema,
            _ => json!({"type": "object"}),
        };
        self.bytes += definition.to_string().len();
        self.functions.push(ListedFunction {
            name,
            description,
            input_schema,
            read_only_hint,
            idempotent_hint,
            definition,
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_entries_cost_the_others_nothing() {
        let mut listed = Listed::default();
        assert!(listed.add(json!({"name": "a", "inputSchema": {"type": "object", "x": 1}, "annotations": {"readOnlyHint": true}})).is_ok());
        assert!(listed.add(json!({"name": "b"})).is_ok());
        assert!(listed.add(json!({"name": "c", "description": 7, "inputSchema": [], "annotations": "no"})).is_ok());
        for odd in [json!({}), json!(7), json!({"name": ""}), json!({"name": 3}), json!({"name": "a"})] {
            assert!(listed.add(odd).is_err());
        }
        let got: Vec<_> = listed.functions.iter().map(|f| (&*f.name, &f.input_schema, f.read_only_hint)).collect();
        let (any, own) = (json!({"type": "object"}), json!({"type": "object", "x": 1}));
        assert_eq!(got, [("a", &own, true), ("b", &any, false), ("c", &any, false)]);
        // What was listed is kept as it was, also where it is odd.
        assert_eq!(listed.functions[2].definition["description"], 7);
    }
}
