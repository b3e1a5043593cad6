//! `cargo xtask schemas`: the published JSON Schemas, generated from the code.
//!
//! Invariant: `schemas/` holds what the code says and nothing else.

#[cfg(test)]
mod tests;

use crate::say;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Schemas that their own crate's test holds: xtask would have to build the crate and all that it needs.
/// `script.schema.json`: crates/backends/model.
const HELD_ELSEWHERE: [&str; 1] = ["script.schema.json"];

/// What `schemas/` should hold, by file name.
fn wanted() -> BTreeMap<String, String> {
    let all = hookwright_core::schemas::all().into_iter();
    all.map(|(name, schema)| (name.to_owned(), hookwright_core::schemas::text(&schema))).collect()
}

/// What a folder holds of ours, by file name; nothing if there is none.
fn found(folder: &Path) -> Result<BTreeMap<String, String>> {
    let mut files = BTreeMap::new();
    if !folder.is_dir() {
        return Ok(files);
    }
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if HELD_ELSEWHERE.contains(&name.as_str()) {
            continue;
        }
        files.insert(name, fs::read_to_string(&path).with_context(|| path.display().to_string())?);
    }
    Ok(files)
}

/// Names of files that are missing, differ, or are too many.
fn differences(wanted: &BTreeMap<String, String>, found: &BTreeMap<String, String>) -> Vec<String> {
    let missing = wanted.keys().filter(|name| !found.contains_key(*name)).map(|name| format!("{name}: missing"));
    let extra =
        found.keys().filter(|name| !wanted.contains_key(*name)).map(|name| format!("{name}: nothing generates it"));
    let changed = wanted.iter().filter(|(name, text)| found.get(*name).is_some_and(|other| other != *text));
    missing.chain(extra).chain(changed.map(|(name, _)| format!("{name}: differs from the code"))).collect()
}

fn folder(root: &Path) -> PathBuf {
    root.join("schemas")
}

/// Fails if `schemas/` is not what the code says.
pub(crate) fn check(root: &Path) -> Result<()> {
    let differences = differences(&wanted(), &found(&folder(root))?);
    if !differences.is_empty() {
        bail!(
            "schemas/ is not what the code says; run `cargo xtask schemas` and commit the result\n  {}",
            differences.join("\n  ")
        );
    }
    Ok(())
}

/// Writes `schemas/`, and removes what nothing generates.
pub(crate) fn write(root: &Path) -> Result<()> {
    let (folder, wanted) = (folder(root), wanted());
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    for difference in differences(&wanted, &found(&folder)?) {
        say::line(&format!("schemas/{difference}"));
    }
    for name in found(&folder)?.keys().filter(|name| !wanted.contains_key(*name)) {
        fs::remove_file(folder.join(name))?;
    }
    for (name, text) in &wanted {
        fs::write(folder.join(name), text).with_context(|| name.clone())?;
    }
    say::line(&format!("schemas/: {} files", wanted.len()));
    Ok(())
}
