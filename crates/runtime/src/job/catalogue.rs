//! The functions that a job's model may call, as their servers list them.

use crate::ports::tools::{ListedFunction, ToolDown, Tools};
use hookwright_core::job::{AsksThere, JobSpec, RequestedCall};
use hookwright_core::message::FunctionSpec;
use hookwright_core::stored::Stored;
use hookwright_core::{FunctionName, json, subagent, text, visible};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::broadcast::{self, error::TryRecvError};

/// How long a turn waits for a tool that this job has asked before: one that no longer answers must not hold up every turn for as long
/// as a start may take.
const AGAIN: Duration = Duration::from_millis(if cfg!(test) { 60 } else { 5_000 });

/// The same for one that was down at the turn before.
const STILL_DOWN: Duration = Duration::from_millis(if cfg!(test) { 20 } else { 1_000 });

/// Characters of a made-up name that are kept.
const NAME_CHARS: usize = 1_000;

/// What a manifest says of a tool beside how it is reached.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolTraits {
    /// Bare names of functions that may be called again where it is not known whether a call was made.
    pub idempotent: Vec<String>,
    /// Whether the server's own hints are believed.
    pub trust_annotations: bool,
    /// Another name of the tool, whose functions hooks may match too: a session's own server that had to get another id than its name.
    pub alias: Option<String>,
}

/// What is known of a function.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub(super) spec: FunctionSpec,
    pub(super) schema_sha256: String,
    idempotent: bool,
    alias: Option<String>,
}

/// The functions of a job.
#[derive(Default)]
pub(super) struct Catalogue {
    known: Mutex<Arc<HashMap<String, Known>>>,
    down: Mutex<HashMap<String, String>>,
    /// Tools that were asked before.
    asked: Mutex<HashSet<String>>,
    /// Where servers tell that their lists changed, since somebody first asked for it.
    list_changes: Mutex<Option<broadcast::Receiver<String>>>,
}

impl Catalogue {
    /// Asks all tools that the agent may use what they list; in the tools' order. A tool that is down keeps what was known of it.
    pub(super) async fn refresh(
        &self,
        tools: &dyn Tools,
        spec: &JobSpec,
        traits: &HashMap<String, ToolTraits>,
    ) -> Vec<FunctionSpec> {
        let status = tools.status();
        let before = self.snapshot();
        let ids = visible::tools(&spec.agent, status.iter().map(|s| s.tool.as_str()));
        // Servers that still start are awaited side by side.
        let lists = futures_util::future::join_all(ids.iter().map(|tool| self.list(tools, tool))).await;
        let (mut known, mut down, mut shown) = (HashMap::new(), HashMap::new(), vec![]);
        for (tool, listed) in ids.iter().zip(lists) {
            match listed {
                Ok(listed) => {
                    let traits = traits.get(*tool);
                    for function in listed {
                        let name = FunctionName::new(*tool, function.name.clone());
                        if visible::sees(spec, &name) {
                            let entry = describe(&name, function, traits);
                            shown.push(entry.spec.clone());
                            known.insert(name.to_string(), entry);
                        }
                    }
                }
                Err(error) => {
                    down.insert((*tool).to_owned(), error.why);
                    let prefix = format!("{tool}.");
                    for (name, entry) in before.iter().filter(|(name, _)| name.starts_with(&prefix)) {
                        shown.push(entry.spec.clone());
                        known.insert(name.clone(), entry.clone());
                    }
                }
            }
        }
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(known);
        *self.down.lock().unwrap_or_else(PoisonError::into_inner) = down;
        shown
    }

    /// Whether a list may have changed since this was asked last, or it was never asked.
    pub(super) fn is_outdated(&self, tools: &dyn Tools) -> bool {
        let mut changes = self.list_changes.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(receiver) = &mut *changes else {
            *changes = tools.list_changes();
            return true;
        };
        let mut outdated = false;
        while !matches!(receiver.try_recv(), Err(TryRecvError::Empty | TryRecvError::Closed)) {
            outdated = true;
        }
        outdated
    }

    /// What a tool lists; waits for its start only the first time.
    async fn list(&self, tools: &dyn Tools, tool: &str) -> Result<Vec<ListedFunction>, ToolDown> {
        let first = self.asked.lock().unwrap_or_else(PoisonError::into_inner).insert(tool.to_owned());
        if first {
            return tools.functions(tool).await;
        }
        let was_down = self.down.lock().unwrap_or_else(PoisonError::into_inner).contains_key(tool);
        let limit = if was_down { STILL_DOWN } else { AGAIN };
        let late = |_| Err(ToolDown { why: format!("it did not list its functions within {limit:?}") });
        tokio::time::timeout(limit, tools.functions(tool)).await.unwrap_or_else(late)
    }

    /// What is known of functions, by full name, as they were listed last.
    pub(super) fn snapshot(&self) -> Arc<HashMap<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A call that a model asks for, with what is known of the function; refused where it may not or can't be made. `fault` is what
    /// is wrong with its arguments.
    pub(super) fn requested(
        &self,
        spec: &JobSpec,
        provider_id: String,
        tool: String,
        arguments: Stored,
        fault: Option<&str>,
    ) -> RequestedCall {
        let known = self.snapshot().get(&tool).cloned();
        // A name that the model made up may be of any length: it stands in records and goes back to the model.
        let tool = if known.is_some() { tool } else { tool.chars().take(NAME_CHARS).collect() };
        let shown = text::shown(&tool, 200);
        let refused = match &known {
            Some(_) => fault.map(|why| format!("The call to {shown} was not made: {why}.")),
            None if tool == subagent::FUNCTION && subagent::too_deep(spec).is_some() => {
                subagent::too_deep(spec).map(|why| format!("The call to {shown} was not made: {why}."))
            }
            None => Some(match FunctionName::parse(&tool) {
                Ok(name) if visible::sees(spec, &name) => {
                    let down = self.down.lock().unwrap_or_else(PoisonError::into_inner);
                    match down.get(name.tool()) {
                        Some(why) => format!(
                            "The call to {shown} was not made: the tool {} is not available: {}.",
                            name.tool(),
                            text::reason(Some(why), 500)
                        ),
                        None => format!("unknown tool: {shown}"),
                    }
                }
                _ => format!("unknown tool: {shown}"),
            }),
        };
        RequestedCall {
            provider_id,
            tool,
            alias: known.as_ref().and_then(|k| k.alias.clone()),
            further_aliases: vec![],
            arguments,
            refused,
            idempotent: known.as_ref().is_some_and(|k| k.idempotent),
            schema_sha256: known.map(|k| k.schema_sha256),
            asks_there: AsksThere::No,
        }
    }
}

/// A function as its server lists it now.
pub(super) async fn current(tools: &dyn Tools, name: &str) -> Option<ListedFunction> {
    let name = FunctionName::parse(name).ok()?;
    let listed = tools.functions(name.tool()).await.ok()?;
    listed.into_iter().find(|f| f.name == name.function())
}

/// The digest of a function's schema as its server lists it now.
pub(super) async fn current_schema_sha256(tools: &dyn Tools, name: &FunctionName) -> Option<String> {
    current(tools, &name.to_string()).await.map(|f| json::digest(&f.input_schema))
}

fn describe(name: &FunctionName, function: ListedFunction, traits: Option<&ToolTraits>) -> Known {
    let idempotent = traits.is_some_and(|t| {
        t.idempotent.contains(&function.name)
            || (t.trust_annotations && (function.idempotent_hint || function.read_only_hint))
    });
    Known {
        alias: traits.and_then(|t| t.alias.as_ref()).map(|alias| format!("{alias}.{}", name.function())),
        schema_sha256: json::digest(&function.input_schema),
        spec: FunctionSpec {
            name: name.to_string(),
            description: function.description,
            input_schema: function.input_schema,
        },
        idempotent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::tools::{CallOutcome, ToolStatus};
    use serde_json::{Map, Value};
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Lists once, then never again.
    #[derive(Default)]
    struct Silent(AtomicUsize);

    #[async_trait::async_trait]
    impl Tools for Silent {
        async fn ready(&self, _: &str) -> Result<(), ToolDown> {
            Ok(())
        }
        async fn functions(&self, _: &str) -> Result<Vec<ListedFunction>, ToolDown> {
            if self.0.fetch_add(1, Ordering::Relaxed) > 0 {
                std::future::pending::<()>().await;
            }
            Ok(vec![])
        }
        async fn call(&self, _: &FunctionName, _: Map<String, Value>, _: Duration) -> CallOutcome {
            CallOutcome::NotSent { why: String::new() }
        }
        fn status(&self) -> Vec<ToolStatus> {
            vec![]
        }
        async fn kill(&self, _: &str, _: &str) -> bool {
            false
        }
        async fn shutdown(&self) {}
    }

    #[tokio::test]
    async fn a_tool_that_no_longer_lists_holds_a_turn_up_for_seconds_only() {
        let (tools, catalogue) = (Silent::default(), Catalogue::default());
        assert_eq!(catalogue.list(&tools, "t").await.unwrap(), []);
        let why = catalogue.list(&tools, "t").await.unwrap_err().why;
        assert!(why.contains(&format!("{AGAIN:?}")), "{why}");
        catalogue.down.lock().unwrap().insert("t".into(), why);
        let why = catalogue.list(&tools, "t").await.unwrap_err().why;
        assert!(why.contains(&format!("{STILL_DOWN:?}")), "{why}");
    }
}
