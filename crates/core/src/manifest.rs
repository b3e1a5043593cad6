//! A plugin's manifest: YAML text → [`Manifest`], with all faults of a file at once (SPEC §2).
//!
//! [`parse`] reads one file; [`tenant::check`] looks across the plugins of a tenant; [`tenant::check_live`] compares with
//! what the running servers list.
//!
//! Invariant: nothing here reads a file or the environment; the caller hands over the text and its name.
//! Invariant: a manifest is accepted whole or not at all.

use crate::diagnostic::{Code, Diagnostic, Excerpt, Place, Severity};
use crate::json::sha256_hex;
use crate::yaml::{self, Sink, SourceText};
use std::collections::BTreeMap;
use std::sync::Arc;

mod agents;
mod credentials;
mod hooks;
mod lower;
mod problems;
pub mod reserved;
pub mod schema;
pub mod tenant;
mod tools;
pub mod types;

pub(crate) use credentials::is_variable;
pub(crate) use problems::Problems;
pub use types::*;

/// The largest `timeout` of a hook, in milliseconds: 30 s. More is an error, never clamped.
pub const MAX_TIMEOUT_MS: u64 = 30_000;
/// A hook's default `timeout`, in milliseconds: 2 s.
pub const DEFAULT_TIMEOUT_MS: u64 = 2_000;
/// The largest `expires` of a hook, in milliseconds: 30 days.
pub const MAX_EXPIRES_MS: u64 = 30 * 86_400_000;
/// A hook's default `expires`, in milliseconds: 24 h.
pub const DEFAULT_EXPIRES_MS: u64 = 86_400_000;
/// The largest `start_timeout` of a tool, in milliseconds: 10 min.
pub const MAX_START_TIMEOUT_MS: u64 = 600_000;
/// A tool's default `start_timeout`, in milliseconds: 30 s.
pub const DEFAULT_START_TIMEOUT_MS: u64 = 30_000;
/// The largest manifest, in bytes: 1 MiB.
pub const MAX_MANIFEST_BYTES: usize = yaml::MAX_BYTES;

/// Where a manifest's text comes from.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// The file's name as people know it; stands in every diagnostic.
    pub file: &'a str,
    /// The name of the plugin's folder: the default of `id`.
    pub folder_name: &'a str,
}

/// A manifest that was read, what is odd about it, and where its parts stand.
#[derive(Debug, Clone)]
pub struct Parsed {
    /// What it says.
    pub manifest: Manifest,
    /// What is odd, but no error; in the order of the file.
    pub warnings: Vec<Diagnostic>,
    /// Where its parts stand.
    pub places: Places,
}

/// Where the parts of a manifest stand, by path: `hooks/0/call`, `tools/1/id`, `agents/0/subagents/2`.
#[derive(Debug, Clone)]
pub struct Places {
    file: String,
    text: Arc<str>,
    by_path: BTreeMap<String, Place>,
}

impl Places {
    /// The file's name.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The place of a part, or of the nearest part around it; the beginning of the file where nothing is known.
    pub fn get(&self, path: &str) -> Place {
        let mut path = path;
        loop {
            if let Some(place) = self.by_path.get(path) {
                return *place;
            }
            match path.rsplit_once('/') {
                Some((around, _)) => path = around,
                None => return Place::START,
            }
        }
    }

    /// A diagnostic at a part of the file, with its line.
    pub fn diagnostic(&self, severity: Severity, code: Code, path: &str, message: impl Into<String>) -> Diagnostic {
        let place = self.get(path);
        let mut diagnostic = Diagnostic::new(severity, code, &self.file, place, message);
        // Lines as YAML counts them; looked up by need, since most files have nothing to say.
        let line = SourceText::new(&self.file, &self.text).line(place.line).to_owned();
        diagnostic.excerpt = Excerpt::of_line(&line, place);
        diagnostic
    }
}

/// Reads a manifest.
///
/// # Errors
/// All faults of the file, in its order; warnings among them. Never empty, and at least one is an error.
/// At most 100 are listed; a last one says how many more there are.
pub fn parse(text: &str, source: Source<'_>) -> Result<Parsed, Vec<Diagnostic>> {
    let source_text = SourceText::new(source.file, text);
    let mut sink = Sink::new(&source_text);
    let root = yaml::read(&source_text, &mut sink);
    let lowered = root.and_then(|root| lower::manifest(&root, source.folder_name, &mut sink));
    let has_errors = sink.has_errors();
    let found = sink.finish();
    match lowered {
        Some(lower::Lowered { id, tools, hooks, agents, places }) if !has_errors => Ok(Parsed {
            manifest: Manifest { id, sha256: sha256_hex(text.as_bytes()), tools, hooks, agents },
            warnings: found,
            places: Places { file: source.file.to_owned(), text: text.into(), by_path: places },
        }),
        _ => Err(found),
    }
}

/// Reads a manifest from a file's bytes.
///
/// # Errors
/// As [`parse`]; bytes that are no UTF-8 are named with their place.
pub fn parse_bytes(bytes: &[u8], source: Source<'_>) -> Result<Parsed, Vec<Diagnostic>> {
    let text = yaml::text_of(bytes, source.file).map_err(|d| vec![*d])?;
    parse(text, source)
}

#[cfg(test)]
mod tests;
