//! JSON files with a map `hooks` from events to lists: Claude Code, Codex, Gemini CLI, Copilot CLI, Goose, Cursor.

use super::line::{Launch, is_ours};
use super::{InstallError, events};
use crate::harness::{Harness, Moment};
use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstArray, CstInputValue, CstNode, CstObject, CstRootNode};
use serde_json::{Value, json};

/// An entry of the list of an event.
fn entry(harness: Harness, event: &str, moment: Moment, launch: &Launch) -> Value {
    let command = launch.line(harness, event, moment);
    let timeout = launch.timeout_s(harness, moment);
    let of_tools = matches!(moment, Moment::Before | Moment::After | Moment::Failed);
    let grouped = |matcher: Option<&str>, hook: Value| match matcher {
        Some(matcher) if of_tools => json!({"matcher": matcher, "hooks": [hook]}),
        _ => json!({"hooks": [hook]}),
    };
    match harness {
        Harness::CopilotCli => json!({"type": "command", "bash": command, "timeoutSec": timeout}),
        Harness::Cursor => json!({"command": command, "timeout": timeout, "failClosed": true}),
        Harness::GeminiCli => grouped(
            Some(".*"),
            json!({"name": "hookwright", "type": "command", "command": command, "timeout": timeout * 1000}),
        ),
        Harness::Codex => grouped(Some("*"), json!({"type": "command", "command": command, "timeout": timeout})),
        // `*` is no pattern there; without one all tools match.
        Harness::Goose => {
            grouped(None, json!({"type": "command", "command": command, "timeout": timeout, "on_failure": "block"}))
        }
        Harness::ClaudeCode | Harness::ClaudeAgentSdk | Harness::OpenCode | Harness::Cline => {
            grouped(Some("*"), json!({"type": "command", "command": command, "timeout": timeout, "onFailure": "block"}))
        }
    }
}

/// Whether the file needs its format's version.
fn versioned(harness: Harness) -> bool {
    matches!(harness, Harness::CopilotCli | Harness::Cursor)
}

pub(super) fn with(harness: Harness, before: Option<&str>, launch: &Launch) -> Result<String, InstallError> {
    let root = parse(before.unwrap_or("{}\n"))?;
    let top = object(&root)?;
    if versioned(harness) && top.get("version").is_none() {
        top.insert(0, "version", CstInputValue::Number("1".to_owned()));
    }
    let hooks = match top.get("hooks") {
        None => top.append("hooks", CstInputValue::Object(vec![])).object_value(),
        Some(hooks) => hooks.object_value(),
    };
    let hooks = hooks.ok_or_else(|| InstallError::Foreign("`hooks` is no object".to_owned()))?;
    for (event, moment) in events(harness) {
        let wanted = entry(harness, event, moment, launch);
        let list = match hooks.get(event) {
            None => hooks.append(event, CstInputValue::Array(vec![])).array_value(),
            Some(list) => list.array_value(),
        };
        let list = list.ok_or_else(|| InstallError::Foreign(format!("`hooks.{event}` is no list")))?;
        put(harness, &list, &wanted);
    }
    // Events that an older version hooked.
    for property in hooks.properties() {
        let known = property.decoded_name().is_some_and(|name| events(harness).any(|(event, _)| event == name));
        if let (false, Some(list)) = (known, property.array_value()) {
            take(harness, &list);
            if list.elements().is_empty() {
                property.remove();
            }
        }
    }
    let text = root.to_string();
    Ok(if text.ends_with('\n') || before.is_some() { text } else { text + "\n" })
}

pub(super) fn without(harness: Harness, before: &str) -> Result<Option<String>, InstallError> {
    let root = parse(before)?;
    let top = object(&root)?;
    let Some(property) = top.get("hooks") else { return Ok(Some(before.to_owned())) };
    let Some(hooks) = property.object_value() else { return Ok(Some(before.to_owned())) };
    let mut changed = false;
    for event in hooks.properties() {
        let Some(list) = event.array_value() else { continue };
        if take(harness, &list) {
            changed = true;
            if list.elements().is_empty() {
                event.remove();
            }
        }
    }
    if !changed {
        return Ok(Some(before.to_owned()));
    }
    if hooks.properties().is_empty() {
        property.remove();
    }
    let rest = top.properties();
    let only_version = rest.iter().all(|property| property.decoded_name().is_some_and(|name| name == "version"));
    Ok(if only_version && (versioned(harness) || rest.is_empty()) { None } else { Some(root.to_string()) })
}

/// Puts our entry into a list: in the place of our older one, or at the end.
fn put(harness: Harness, list: &CstArray, wanted: &Value) {
    let ours: Vec<CstNode> = list.elements().into_iter().filter(|node| all_ours(harness, node)).collect();
    if let [only] = &ours[..] {
        if only.to_serde_value().as_ref() != Some(wanted) {
            let at = only.element_index().unwrap_or_default();
            only.clone().remove();
            list.insert(at, input(wanted));
        }
        return;
    }
    take(harness, list);
    list.append(input(wanted));
}

/// Takes ours out of a list, also from between others' hooks of one entry. Whether there was any.
fn take(harness: Harness, list: &CstArray) -> bool {
    let mut found = false;
    for node in list.elements() {
        if all_ours(harness, &node) {
            node.remove();
            found = true;
        } else if let Some(inner) = node.as_object().and_then(|group| group.array_value("hooks")) {
            for hook in inner.elements().into_iter().filter(|hook| is_hook_of_ours(harness, hook)) {
                hook.remove();
                found = true;
            }
        }
    }
    found
}

/// Whether an entry of an event's list is ours alone.
fn all_ours(harness: Harness, node: &CstNode) -> bool {
    let Some(object) = node.as_object() else { return false };
    match object.array_value("hooks") {
        Some(inner) => {
            let hooks = inner.elements();
            !hooks.is_empty() && hooks.iter().all(|hook| is_hook_of_ours(harness, hook))
        }
        None => is_hook_of_ours(harness, node),
    }
}

fn is_hook_of_ours(harness: Harness, node: &CstNode) -> bool {
    let value = node.to_serde_value().unwrap_or_default();
    ["command", "bash"].iter().any(|key| value[key].as_str().is_some_and(|line| is_ours(harness, line)))
}

fn parse(text: &str) -> Result<CstRootNode, InstallError> {
    // Comments and trailing commas are kept where a harness takes them; nothing else beyond JSON.
    let options = ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    CstRootNode::parse(text, &options).map_err(|error| InstallError::Foreign(error.to_string()))
}

fn object(root: &CstRootNode) -> Result<CstObject, InstallError> {
    if root.value().is_none() {
        return Ok(root.object_value_or_set());
    }
    root.object_value().ok_or_else(|| InstallError::Foreign("it is no JSON object".to_owned()))
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(flag) => CstInputValue::Bool(*flag),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(input).collect()),
        Value::Object(map) => {
            CstInputValue::Object(map.iter().map(|(key, value)| (key.clone(), input(value))).collect())
        }
    }
}
