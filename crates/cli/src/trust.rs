//! Which configurations the user trusts: kept outside of any project, bound to digests (SPEC §2).
//!
//! The digest covers hookwright.yaml and the manifests of the plugins that it names: those decide what is started.

use crate::environment::Environment;
use crate::exit::{CliError, CliResult};
use hookwright_core::json;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Where trust is remembered.
pub(crate) fn file(env: &Environment) -> CliResult<PathBuf> {
    env.config_home().map(|home| home.join("trust.json")).ok_or_else(|| {
        CliError::usage("neither XDG_CONFIG_HOME nor HOME is set, so nothing can be remembered as trusted")
            .hint("name the configuration with --config: that trusts it for one command")
    })
}

/// The digest of a configuration and its plugins' manifests.
pub(crate) fn digest(config_sha256: &str, manifests: &BTreeMap<PathBuf, String>) -> String {
    let manifests: Vec<Value> =
        manifests.iter().map(|(path, sha)| json!({"path": path.to_string_lossy(), "sha256": sha})).collect();
    json::digest(&json!({"config": config_sha256, "manifests": manifests}))
}

/// What is trusted: digests by the configuration's real path.
pub(crate) fn read(env: &Environment) -> CliResult<BTreeMap<String, String>> {
    let path = file(env)?;
    match std::fs::read_to_string(&path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(BTreeMap::new()),
        Err(e) => Err(CliError::usage(format!("{} can't be read: {e}", path.display()))),
        Ok(text) => serde_json::from_str(&text).map_err(|e| {
            CliError::usage(format!("{} is damaged: {e}", path.display()))
                .hint("remove it, and trust again what you trust")
        }),
    }
}

/// Remembers, whole or not at all.
pub(crate) fn write(env: &Environment, trusted: &BTreeMap<String, String>) -> CliResult<()> {
    let path = file(env)?;
    let failed = |e: std::io::Error| CliError::usage(format!("{} can't be written: {e}", path.display()));
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).map_err(failed)?;
    let text = serde_json::to_string_pretty(trusted).unwrap_or_default();
    let draft = folder.join(format!(".trust.{}.tmp", std::process::id()));
    std::fs::write(&draft, text).and_then(|()| std::fs::rename(&draft, &path)).map_err(|e| {
        let _ = std::fs::remove_file(&draft);
        failed(e)
    })
}
