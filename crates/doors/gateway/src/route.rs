//! Which server a resource or a prompt is of.
//!
//! Invariant: what two servers have under one name goes to the first in the tenant's order, always.

use crate::session::Session;
use crate::wire::{self, Fault};
use hookwright_core::manifest::Pass;
use hookwright_runtime::ports::tools::CallOutcome;
use serde_json::{Map, Value, json};
use std::time::Duration;

/// How long a server has for what is no call.
pub(crate) const LIMIT: Duration = Duration::from_mins(2);
/// Pages of a server's list that are looked through for a name.
const PAGES: usize = 100;

/// What came back, or the error that did.
pub(crate) fn came(outcome: CallOutcome) -> Result<Map<String, Value>, Fault> {
    match outcome {
        CallOutcome::Answered { result: Value::Object(result), .. } => Ok(result),
        CallOutcome::Answered { .. } => Err(Fault::new(wire::INTERNAL, "the server's answer is no object")),
        CallOutcome::RpcError { code, message, data } => Err(Fault { code, message, data: data.map(|data| *data) }),
        CallOutcome::TimedOut { .. } => Err(Fault::new(wire::INTERNAL, "the server did not answer in time")),
        CallOutcome::NotSent { why } | CallOutcome::Lost { why } => {
            Err(Fault::new(wire::INTERNAL, format!("the server can't be asked: {why}")))
        }
    }
}

impl Session {
    /// Servers that pass a kind and have it.
    pub(crate) fn homes(&self, kind: Pass, capability: &str) -> Vec<String> {
        let has = |tool: &String| {
            // One that is not connected now may have it.
            let said = self.tools.introduction(tool);
            said.is_none_or(|said| said.capabilities.get(capability).is_some_and(|value| !value.is_null()))
        };
        self.passing(kind).into_iter().filter(has).collect()
    }

    pub(crate) async fn pass(
        &self,
        tool: &str,
        method: &'static str,
        params: Map<String, Value>,
    ) -> Result<Map<String, Value>, Fault> {
        came(self.tools.pass(tool, method, Value::Object(params), LIMIT).await)
    }

    /// The server that has a resource.
    pub(crate) async fn home_of_resource(&self, uri: &str) -> Result<String, Fault> {
        let homes = self.homes(Pass::Resources, "resources");
        let unknown = || {
            let shown = hookwright_core::text::shown(uri, 300);
            let code = if self.modern { wire::INVALID_PARAMS } else { wire::NOT_FOUND };
            Fault { code, message: format!("no server here has the resource {shown}"), data: Some(json!({"uri": uri})) }
        };
        if let [only] = homes.as_slice() {
            return Ok(only.clone());
        }
        for tool in &homes {
            if self.lists(tool, "resources/list", "resources", |entry| entry["uri"] == uri).await {
                return Ok(tool.clone());
            }
        }
        let mut best: Option<(usize, String)> = None;
        for tool in homes {
            let mut longest = None;
            self.lists(&tool, "resources/templates/list", "resourceTemplates", |entry| {
                if let Some(template) = entry["uriTemplate"].as_str() {
                    let start = template.split('{').next().unwrap_or_default();
                    if uri == template || (!start.is_empty() && uri.starts_with(start)) {
                        longest = longest.max(Some(start.len()));
                    }
                }
                false
            })
            .await;
            if let Some(length) = longest
                && best.as_ref().is_none_or(|(other, _)| length > *other)
            {
                best = Some((length, tool));
            }
        }
        best.map(|(_, tool)| tool).ok_or_else(unknown)
    }

    /// Whether a server's list has an entry that fits.
    async fn lists(
        &self,
        tool: &str,
        method: &'static str,
        key: &str,
        mut fits: impl FnMut(&Value) -> bool + Send,
    ) -> bool {
        let mut params = Map::new();
        for _ in 0..PAGES {
            let Ok(page) = self.pass(tool, method, params).await else { return false };
            if page.get(key).and_then(Value::as_array).into_iter().flatten().any(&mut fits) {
                return true;
            }
            match page.get("nextCursor") {
                Some(cursor @ Value::String(_)) => params = Map::from_iter([("cursor".to_owned(), cursor.clone())]),
                _ => return false,
            }
        }
        false
    }

    /// The server that has a prompt, and the prompt's name there.
    pub(crate) async fn home_of_prompt(&self, name: &str) -> Result<(String, String), Fault> {
        let homes = self.homes(Pass::Prompts, "prompts");
        if let Some((tool, prompt)) = name.split_once('.')
            && homes.iter().any(|home| home == tool)
        {
            return Ok((tool.to_owned(), prompt.to_owned()));
        }
        if self.gateway.options.bare_names {
            if let [only] = homes.as_slice() {
                return Ok((only.clone(), name.to_owned()));
            }
            for tool in homes {
                if self.lists(&tool, "prompts/list", "prompts", |entry| entry["name"] == name).await {
                    return Ok((tool, name.to_owned()));
                }
            }
        }
        let shown = hookwright_core::text::shown(name, 300);
        Err(Fault::new(wire::INVALID_PARAMS, format!("no server here has the prompt {shown}")))
    }

    /// What a client calls a server's prompt.
    pub(crate) fn prompt_name(&self, tool: &str, name: &str) -> String {
        let alone = self.gateway.options.bare_names && self.homes(Pass::Prompts, "prompts").len() == 1;
        if alone { name.to_owned() } else { format!("{tool}.{name}") }
    }
}
