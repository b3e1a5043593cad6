//! `agents:` entries.

use super::credentials::{self, Carrier};
use super::lower::Context;
use super::{AgentDecl, AgentRuns, HarnessDecl, reserved, tools};
use crate::diagnostic::{Code, shown};
use crate::yaml::{Fields, Kind, Node};
use serde_json::Value;
use std::collections::BTreeMap;

const KEYS: [&str; 14] = [
    "id",
    "description",
    "model",
    "harness",
    "command",
    "env",
    "instructions",
    "tools",
    "input_schema",
    "output_schema",
    "max_turns",
    "max_tokens",
    "context_window",
    "subagents",
];

/// Values in a declared JSON Schema: enough for any real one, little enough to compile quickly.
const MAX_SCHEMA_VALUES: usize = 5_000;

pub(super) fn agent(cx: &mut Context<'_, '_>, node: &Node, path: &str) -> Option<AgentDecl> {
    let fields = cx.read.fields(node, "an agent", &KEYS)?;
    let id = cx.read.required(&fields, "id", "an agent", "e.g. `id: pr-reviewer`").and_then(|node| {
        cx.note(format!("{path}/id"), node.place);
        cx.read.id(node, "an agent's `id`").map(str::to_owned)
    });
    let description = text(cx, &fields, "description");
    let runs = runs(cx, &fields, path);
    let instructions = text(cx, &fields, "instructions");
    let tools = match fields.get("tools") {
        Some(node) => {
            let entries = cx.read.texts(node, "an agent's `tools`", true);
            entries.map(|entries| Some(cx.noted(&format!("{path}/tools"), entries)))
        }
        None => Some(None),
    };
    let input_schema = schema(cx, &fields, "input_schema");
    let output_schema = schema(cx, &fields, "output_schema");
    let max_turns = whole(cx, &fields, "max_turns", 10_000);
    let max_tokens = whole(cx, &fields, "max_tokens", 10_000_000);
    let context_window = whole(cx, &fields, "context_window", 100_000_000);
    let subagents = subagents(cx, &fields, path);
    Some(AgentDecl {
        id: id?,
        description: description?,
        runs: runs?,
        instructions: instructions?,
        tools: tools?,
        input_schema: input_schema?,
        output_schema: output_schema?,
        max_turns: max_turns?,
        max_tokens: max_tokens?,
        context_window: context_window?,
        subagents: subagents?,
    })
}

#[allow(clippy::option_option, reason = "the outer `None` means that an error was said, as everywhere here")]
fn text(cx: &mut Context<'_, '_>, fields: &Fields<'_>, key: &str) -> Option<Option<String>> {
    match fields.get(key) {
        Some(node) => cx.read.filled(node, &format!("`{key}`"), true).map(|text| Some(text.to_owned())),
        None => Some(None),
    }
}

#[allow(clippy::option_option, reason = "the outer `None` means that an error was said, as everywhere here")]
fn whole(cx: &mut Context<'_, '_>, fields: &Fields<'_>, key: &str, most: u64) -> Option<Option<u32>> {
    match fields.get(key) {
        Some(node) => cx.read.whole(node, &format!("`{key}`"), 1..=most).map(|n| u32::try_from(n).ok()),
        None => Some(None),
    }
}

fn runs(cx: &mut Context<'_, '_>, fields: &Fields<'_>, path: &str) -> Option<AgentRuns> {
    // Both are read, so that their faults are said even where they can't stand.
    let command = match fields.get("command") {
        Some(node) => {
            cx.note(format!("{path}/command"), node.place);
            tools::command(cx, node, "`command`").map(Some)
        }
        None => Some(None),
    };
    let env = match fields.get("env") {
        Some(node) => credentials::read(cx, node, Carrier::Environment, &format!("{path}/env")),
        None => Some(BTreeMap::new()),
    };
    if fields.get("harness").is_none() {
        for key in ["command", "env"] {
            if let Some(entry) = fields.entry(key) {
                let why = format!("`{key}` is for an agent with `harness`: a model is no process");
                cx.read.error(entry.key_place, Code::KeyConflict, why).hint("leave it out");
                return None;
            }
        }
    }
    match (fields.get("model"), fields.entry("harness")) {
        (Some(_), Some(harness)) => {
            cx.read
                .error(harness.key_place, Code::KeyConflict, "an agent has `model` or `harness`, not both")
                .hint("leave one out");
            None
        }
        (None, None) => {
            cx.read
                .error(fields.place(), Code::MissingKey, "an agent lacks `model` or `harness`")
                .hint("e.g. `model: anthropic/claude-sonnet-4-5`, or `harness: claude-agent-sdk`");
            None
        }
        (Some(node), None) => {
            let model = cx.read.filled(node, "`model`", false)?;
            let good = model.split_once('/').is_some_and(|(provider, name)| {
                !provider.is_empty()
                    && !provider.contains(char::is_whitespace)
                    && !name.is_empty()
                    && !name.starts_with(char::is_whitespace)
            });
            if !good {
                cx.read
                    .error(
                        node.place,
                        Code::InvalidModel,
                        format!("`model` is `{}`: expected provider/model", shown(model)),
                    )
                    .hint("e.g. anthropic/claude-sonnet-4-5, openai/gpt-5, script/demo.yaml");
                return None;
            }
            Some(AgentRuns::Model(model.to_owned()))
        }
        (None, Some(entry)) => {
            let choices = reserved::HARNESSES.map(|name| (name, name));
            let harness = cx.read.choice(&entry.value, "`harness`", &choices).map(str::to_owned);
            Some(AgentRuns::Harness(HarnessDecl { harness: harness?, command: command?, env: env? }))
        }
    }
}

/// A JSON Schema that values can really be checked against.
#[allow(clippy::option_option, reason = "the outer `None` means that an error was said, as everywhere here")]
fn schema(cx: &mut Context<'_, '_>, fields: &Fields<'_>, key: &str) -> Option<Option<Value>> {
    let Some(node) = fields.get(key) else { return Some(None) };
    if !matches!(node.kind, Kind::Map(_)) {
        cx.read.wrong_type(node, &format!("`{key}`"), "a JSON Schema (a mapping)");
        return None;
    }
    if node.values > MAX_SCHEMA_VALUES {
        let message = format!("`{key}` has {} values: expected at most {MAX_SCHEMA_VALUES}", node.values);
        cx.read.error(node.place, Code::InvalidSchema, message);
        return None;
    }
    let value = match node.to_json() {
        Ok(value) => value,
        Err(place) => {
            cx.read.error(place, Code::InvalidSchema, format!("`{key}` holds a number that JSON lacks"));
            return None;
        }
    };
    // Compiled with the very options that values are checked with, so that what passes here can be used later.
    match jsonschema::options().build(&value) {
        Ok(_) => Some(Some(value)),
        Err(error) => {
            let why = crate::text::reason(Some(&error.to_string()), 300);
            let at = error.instance_path().to_string();
            let at = if at.is_empty() { String::new() } else { format!(" at {}", shown(&at)) };
            let place = deepest(node, error.instance_path().as_str());
            cx.read.error(place, Code::InvalidSchema, format!("`{key}` is no valid JSON Schema: {why}{at}"));
            None
        }
    }
}

/// The place to which a JSON pointer leads, as far as it leads anywhere.
fn deepest(node: &Node, pointer: &str) -> crate::diagnostic::Place {
    let mut here = node;
    for step in pointer.split('/').skip(1) {
        let step = step.replace("~1", "/").replace("~0", "~");
        let next = match &here.kind {
            Kind::Map(entries) => entries.iter().find(|entry| entry.key == step).map(|entry| &entry.value),
            Kind::List(items) => step.parse::<usize>().ok().and_then(|i| items.get(i)),
            _ => None,
        };
        match next {
            Some(next) => here = next,
            None => break,
        }
    }
    here.place
}

fn subagents(cx: &mut Context<'_, '_>, fields: &Fields<'_>, path: &str) -> Option<Vec<String>> {
    let Some(node) = fields.get("subagents") else { return Some(Vec::new()) };
    let entries = cx.read.texts(node, "`subagents`", true)?;
    let mut good = true;
    for (id, place) in &entries {
        if !crate::name::is_tool_id(id) {
            cx.read
                .error(*place, Code::InvalidId, format!("`{}` can't be an agent's id", shown(id)))
                .hint("subagents are named by their ids, without patterns");
            good = false;
        }
    }
    let entries = cx.noted(&format!("{path}/subagents"), entries);
    good.then_some(entries)
}
