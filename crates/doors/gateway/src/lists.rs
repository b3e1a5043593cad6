//! What a client may call: the functions that its agent sees, as their servers list them.
//!
//! Invariant: two functions never have one name; a name that could mean two is not given out short.

use crate::session::{Session, lock};
use crate::wire::{self, Fault};
use hookwright_core::{FunctionName, visible};
use hookwright_runtime::ports::tools::ListedFunction;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::sync::Mutex;

/// Functions on one page.
const PAGE: usize = 1_000;

/// Full names by the names that a client was given, where those are short.
#[derive(Default)]
pub(crate) struct Names(Mutex<HashMap<String, String>>);

/// A function as a client has it.
struct Offered {
    name: String,
    full: FunctionName,
    function: ListedFunction,
}

impl Session {
    async fn offered(&self) -> Vec<Offered> {
        let status = self.tools.status();
        let ids = visible::tools(&self.spec.agent, status.iter().map(|s| s.tool.as_str()));
        // Servers that still start are awaited side by side.
        let lists = futures_util::future::join_all(ids.iter().map(|tool| self.tools.functions(tool))).await;
        let mut offered = vec![];
        for (tool, functions) in ids.iter().zip(lists) {
            match functions {
                Ok(functions) => offered.extend(functions.into_iter().filter_map(|function| {
                    let full = FunctionName::new(*tool, function.name.clone());
                    visible::sees(&self.spec, &full).then(|| Offered { name: full.to_string(), full, function })
                })),
                Err(down) => tracing::warn!(tool, "its functions are not listed: {down}"),
            }
        }
        if self.gateway.options.bare_names {
            self.shorten(&mut offered);
        }
        offered
    }

    fn shorten(&self, offered: &mut [Offered]) {
        let mut count: HashMap<String, usize> = HashMap::new();
        for one in &*offered {
            *count.entry(one.full.function().to_owned()).or_default() += 1;
            *count.entry(one.full.to_string()).or_default() += 1;
        }
        let mut names = HashMap::new();
        for one in offered.iter_mut().filter(|one| count.get(one.full.function()) == Some(&1)) {
            one.name = one.full.function().to_owned();
            names.insert(one.name.clone(), one.full.to_string());
        }
        *lock(&self.names.0) = names;
    }

    /// The full name of what a client calls so. One that is not known stays as it is.
    pub(crate) async fn full_name(&self, name: &str) -> String {
        if !self.gateway.options.bare_names {
            return name.to_owned();
        }
        let known = lock(&self.names.0).get(name).cloned();
        if let Some(full) = known {
            return full;
        }
        self.offered().await;
        lock(&self.names.0).get(name).cloned().unwrap_or_else(|| name.to_owned())
    }

    /// `tools/list`.
    pub(crate) async fn list_functions(&self, params: &Map<String, Value>) -> Result<Map<String, Value>, Fault> {
        let start = match params.get("cursor") {
            None | Some(Value::Null) => 0,
            Some(cursor) => cursor
                .as_str()
                .and_then(|cursor| cursor.parse::<usize>().ok())
                .ok_or_else(|| Fault::new(wire::INVALID_PARAMS, "this cursor was not given out"))?,
        };
        let offered = self.offered().await;
        let end = offered.len().min(start.saturating_add(PAGE));
        let page = offered.get(start..end).unwrap_or_default();
        let tools: Vec<Value> = page.iter().map(|one| self.definition(one)).collect();
        let mut result = Map::from_iter([("tools".to_owned(), Value::Array(tools))]);
        if end < offered.len() {
            result.insert("nextCursor".to_owned(), end.to_string().into());
        }
        Ok(result)
    }

    /// The definition as the server listed it, under the name that the client is to use.
    fn definition(&self, one: &Offered) -> Value {
        let mut definition = match &*one.function.definition {
            Value::Object(definition) => definition.clone(),
            _ => Map::new(),
        };
        if !definition.get("inputSchema").is_some_and(Value::is_object) {
            definition.insert("inputSchema".to_owned(), one.function.input_schema.clone());
        }
        // Calls as tasks are not offered.
        definition.shift_remove("execution");
        if self.is_watched(&one.full) {
            // A hook that changes a result takes its structured content away, and clients hold servers to their word.
            definition.shift_remove("outputSchema");
        }
        let mut named = Map::from_iter([("name".to_owned(), json!(one.name))]);
        named.extend(definition.into_iter().filter(|(key, _)| key != "name"));
        Value::Object(named)
    }
}
