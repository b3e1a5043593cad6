//! A node's configuration, `hookwright.yaml`: YAML text → [`Config`], with all faults of the file at once (SPEC §2).
//!
//! Without a file [`Config::default`] holds: one tenant `default`, whose plugins come by flag.
//!
//! Invariant: nothing here reads a file or the environment, and no path is resolved: relative ones are relative to the file's folder,
//! which the caller knows.

use crate::diagnostic::Diagnostic;
use crate::json::sha256_hex;
use crate::yaml::{self, Sink, SourceText};

mod check;
mod engine;
mod limits;
mod lower;
pub mod schema;
mod servers;
mod types;

pub use check::{check_approvers, check_secrets};
pub use servers::{Servers, ServersError};
pub use types::{
    Config, Engine, LifecycleConfig, LogConfig, LogFormat, Secrets, TemporalConfig, TenantConfig, TlsConfig,
};

/// The largest configuration file, in bytes: 1 MiB.
pub const MAX_CONFIG_BYTES: usize = yaml::MAX_BYTES;

/// A configuration that was read, and what is odd about it.
#[derive(Debug, Clone)]
pub struct ParsedConfig {
    /// What it says.
    pub config: Config,
    /// SHA-256 of the file's text, 64 hex digits: what `hookwright trust` binds to.
    pub sha256: String,
    /// What is odd, but no error; in the order of the file.
    pub warnings: Vec<Diagnostic>,
}

/// Reads a configuration; `file` is the file's name as people know it.
///
/// # Errors
/// All faults of the file, in its order; warnings among them. Never empty, and at least one is an error.
pub fn parse(text: &str, file: &str) -> Result<ParsedConfig, Vec<Diagnostic>> {
    let source = SourceText::new(file, text);
    let mut sink = Sink::new(&source);
    let config = yaml::read(&source, &mut sink).and_then(|root| lower::config(&root, &mut sink));
    let has_errors = sink.has_errors();
    let found = sink.finish();
    match config {
        Some(config) if !has_errors => {
            Ok(ParsedConfig { config, sha256: sha256_hex(text.as_bytes()), warnings: found })
        }
        _ => Err(found),
    }
}

/// Reads a configuration from a file's bytes.
///
/// # Errors
/// As [`parse`]; bytes that are no UTF-8 are named with their place.
pub fn parse_bytes(bytes: &[u8], file: &str) -> Result<ParsedConfig, Vec<Diagnostic>> {
    let text = yaml::text_of(bytes, file).map_err(|d| vec![*d])?;
    parse(text, file)
}

#[cfg(test)]
mod tests;
