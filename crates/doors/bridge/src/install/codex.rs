//! Codex: managed hooks in its requirements, and the trust that a user's hooks need.
//!
//! Facts: hooks that a user or a project brings are skipped without a word until they are trusted, by a hash over what they say; managed ones
//! need no trust. The state of a hook stands in `config.toml` under its file, event and place.

use super::line::{Launch, is_ours};
use super::{InstallError, events};
use crate::harness::{Harness, Moment};
use serde_json::Value;
use toml_edit::{ArrayOfTables, DocumentMut, Item, Table, value};

pub(super) fn with(before: Option<&str>, launch: &Launch) -> Result<String, InstallError> {
    let mut document = parse(before.unwrap_or_default())?;
    take(&mut document)?;
    let hooks = document.entry("hooks").or_insert_with(|| Item::Table(implicit()));
    let hooks = hooks.as_table_mut().ok_or_else(|| InstallError::Foreign("`hooks` is no table".to_owned()))?;
    if hooks.get("managed_dir").is_none() {
        // It must be there for managed hooks to count, and holds nothing that they need.
        let folder = launch.program.parent().map(|folder| folder.to_string_lossy().into_owned());
        hooks.insert("managed_dir", value(folder.unwrap_or_else(|| "/".to_owned())));
        hooks.set_implicit(false);
    }
    for (event, moment) in events(Harness::Codex) {
        let list = hooks.entry(event).or_insert_with(|| Item::ArrayOfTables(ArrayOfTables::new()));
        let list = list
            .as_array_of_tables_mut()
            .ok_or_else(|| InstallError::Foreign(format!("`hooks.{event}` is no list of tables")))?;
        let mut hook = Table::new();
        hook.insert("type", value("command"));
        hook.insert("command", value(launch.line(Harness::Codex, event, moment)));
        let timeout = i64::try_from(launch.timeout_s(Harness::Codex, moment)).unwrap_or(i64::MAX);
        hook.insert("timeout", value(timeout));
        let mut inner = ArrayOfTables::new();
        inner.push(hook);
        let mut group = Table::new();
        if matches!(moment, Moment::Before | Moment::After) {
            group.insert("matcher", value("*"));
        }
        group.insert("hooks", Item::ArrayOfTables(inner));
        list.push(group);
    }
    Ok(document.to_string())
}

pub(super) fn without(before: &str) -> Result<Option<String>, InstallError> {
    let mut document = parse(before)?;
    if !take(&mut document)? {
        return Ok(Some(before.to_owned()));
    }
    let empty = document
        .get("hooks")
        .and_then(Item::as_table)
        .is_some_and(|hooks| hooks.iter().all(|(key, _)| key == "managed_dir"));
    if empty {
        document.remove("hooks");
    }
    Ok(if document.is_empty() { None } else { Some(document.to_string()) })
}

fn take(document: &mut DocumentMut) -> Result<bool, InstallError> {
    let Some(hooks) = document.get_mut("hooks") else { return Ok(false) };
    let hooks = hooks.as_table_mut().ok_or_else(|| InstallError::Foreign("`hooks` is no table".to_owned()))?;
    let mut found = false;
    let mut emptied = vec![];
    for (event, list) in hooks.iter_mut() {
        let Some(list) = list.as_array_of_tables_mut() else { continue };
        let before = list.len();
        list.retain(|group| !all_ours(group));
        found |= list.len() < before;
        if list.is_empty() && before > 0 {
            emptied.push(event.get().to_owned());
        }
    }
    for event in emptied {
        hooks.remove(&event);
    }
    Ok(found)
}

fn all_ours(group: &Table) -> bool {
    let Some(inner) = group.get("hooks").and_then(Item::as_array_of_tables) else { return false };
    let is =
        |hook: &Table| hook.get("command").and_then(Item::as_str).is_some_and(|line| is_ours(Harness::Codex, line));
    !inner.is_empty() && inner.iter().all(is)
}

/// `config.toml` with these hooks trusted: keys and hashes as Codex itself says them.
pub fn with_trust(before: Option<&str>, trusted: &[(String, String)]) -> Result<String, InstallError> {
    let mut document = parse(before.unwrap_or_default())?;
    let hooks = document.entry("hooks").or_insert_with(|| Item::Table(implicit()));
    let hooks = hooks.as_table_mut().ok_or_else(|| InstallError::Foreign("`hooks` is no table".to_owned()))?;
    let state = hooks.entry("state").or_insert_with(|| Item::Table(implicit()));
    let state = state.as_table_mut().ok_or_else(|| InstallError::Foreign("`hooks.state` is no table".to_owned()))?;
    for (key, hash) in trusted {
        let entry = state.entry(key).or_insert_with(|| Item::Table(Table::new()));
        let entry = entry
            .as_table_like_mut()
            .ok_or_else(|| InstallError::Foreign(format!("the state of {key} is no table")))?;
        if entry.get("trusted_hash").and_then(Item::as_str) != Some(hash) {
            entry.insert("trusted_hash", value(hash));
        }
    }
    Ok(document.to_string())
}

/// `config.toml` without the trust in these hooks.
pub fn without_trust(before: &str, keys: &[String]) -> Result<Option<String>, InstallError> {
    let mut document = parse(before)?;
    let Some(hooks) = document.get_mut("hooks").and_then(Item::as_table_mut) else {
        return Ok(Some(before.to_owned()));
    };
    let Some(state) = hooks.get_mut("state").and_then(Item::as_table_mut) else { return Ok(Some(before.to_owned())) };
    let removed = keys.iter().filter(|key| state.remove(key).is_some()).count();
    if removed == 0 {
        return Ok(Some(before.to_owned()));
    }
    if state.is_empty() {
        hooks.remove("state");
    }
    if hooks.is_empty() {
        document.remove("hooks");
    }
    Ok(if document.is_empty() { None } else { Some(document.to_string()) })
}

/// The keys under which Codex keeps the state of our hooks in a hooks file.
pub fn state_keys(file: &str, text: &str) -> Vec<String> {
    let parsed: Value = serde_json::from_str(text).unwrap_or_default();
    let mut keys = vec![];
    for (event, _) in events(Harness::Codex) {
        let groups = parsed["hooks"][event].as_array().map(Vec::as_slice).unwrap_or_default();
        for (at, group) in groups.iter().enumerate() {
            let hooks = group["hooks"].as_array().map(Vec::as_slice).unwrap_or_default();
            for (inner, hook) in hooks.iter().enumerate() {
                if hook["command"].as_str().is_some_and(|line| is_ours(Harness::Codex, line)) {
                    keys.push(format!("{file}:{}:{at}:{inner}", snake(event)));
                }
            }
        }
    }
    keys
}

fn snake(event: &str) -> String {
    let mut out = String::new();
    for c in event.chars() {
        if c.is_ascii_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

fn parse(text: &str) -> Result<DocumentMut, InstallError> {
    text.parse().map_err(|error: toml_edit::TomlError| InstallError::Foreign(error.to_string()))
}

fn implicit() -> Table {
    let mut table = Table::new();
    table.set_implicit(true);
    table
}
