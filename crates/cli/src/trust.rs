//! Which configurations the user trusts: kept outside of any project, bound to digests (SPEC §2).
//!
//! The digest covers hookwright.yaml and the manifests of the plugins that it names: those decide what is started.

use crate::environment::Environment;
use crate::exit::{CliError, CliResult};
use hookwright_core::json;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What is trusted, or what stands for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Trusted {
    /// The mark of a store.
    Mark(String),
    /// A configuration.
    Config {
        /// Over all of it, as [`digest`] makes it.
        digest: String,
        /// The digest of each file, by its real path: to say what has changed.
        files: BTreeMap<String, String>,
    },
}

impl Trusted {
    /// The configuration of that digest, with its manifests.
    pub(crate) fn config(file: &Path, sha256: &str, manifests: &BTreeMap<PathBuf, String>) -> Self {
        let manifest = |(folder, sha): (&PathBuf, &String)| {
            (folder.join(crate::setup::MANIFEST_NAME).to_string_lossy().into_owned(), sha.clone())
        };
        let mut files: BTreeMap<String, String> = manifests.iter().map(manifest).collect();
        files.insert(crate::settings::real(file), sha256.to_owned());
        Self::Config { digest: digest(sha256, manifests), files }
    }

    /// The digest or the mark.
    pub(crate) fn digest(&self) -> &str {
        match self {
            Self::Mark(digest) | Self::Config { digest, .. } => digest,
        }
    }

    /// What is different now, file by file, fit to show; none where that is not known.
    pub(crate) fn changes(&self, now: &Self) -> Vec<String> {
        let (Self::Config { files: then, .. }, Self::Config { files: now, .. }) = (self, now) else { return vec![] };
        let shown = |file: &String| crate::settings::shown(Path::new(file));
        let changed = now.iter().filter_map(|(file, sha)| match then.get(file) {
            Some(before) if before == sha => None,
            Some(_) => Some(format!("{} changed", shown(file))),
            None => Some(format!("{} is new", shown(file))),
        });
        let gone = then.keys().filter(|file| !now.contains_key(*file));
        changed.chain(gone.map(|file| format!("{} is not named any more", shown(file)))).collect()
    }
}

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

/// What stands for a store that was made here: which file it is, so that another one under the same path is not taken for it.
fn store_mark(path: &Path) -> Option<String> {
    use std::os::unix::fs::MetadataExt as _;
    let file = std::fs::metadata(path).ok()?;
    let made = file.created().ok().and_then(|t| t.duration_since(std::time::UNIX_EPOCH).ok());
    Some(format!("store {}:{}:{}", file.dev(), file.ino(), made.unwrap_or_default().as_nanos()))
}

/// Remembers a store that this user's own command has just made. Where that can't be remembered, the store has to be named.
pub(crate) fn remember_store(env: &Environment, path: &Path) {
    let Some(mark) = store_mark(path) else { return };
    let _ = change(env, |trusted| trusted.insert(crate::settings::real(path), Trusted::Mark(mark)));
}

/// Changes what is trusted; of processes that do it at once, none undoes what another one wrote.
pub(crate) fn change<T>(env: &Environment, with: impl FnOnce(&mut BTreeMap<String, Trusted>) -> T) -> CliResult<T> {
    let path = file(env)?;
    let failed = |e: std::io::Error| CliError::usage(format!("{} can't be written: {e}", path.display()));
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    // Beside the file, which is replaced by each change; the lock ends with the handle.
    let lock = std::fs::File::create(path.with_extension("lock")).map_err(failed)?;
    lock.lock().map_err(failed)?;
    let mut trusted = read(env)?;
    let result = with(&mut trusted);
    write(env, &trusted)?;
    Ok(result)
}

/// Whether a store was made by this user's own command: what its jobs start may then be started again.
pub(crate) fn knows_store(env: &Environment, path: &Path) -> bool {
    let known = read(env).ok().and_then(|trusted| trusted.get(&crate::settings::real(path)).cloned());
    known.is_some() && known == store_mark(path).map(Trusted::Mark)
}

/// What is trusted, by the configuration's or the store's real path.
pub(crate) fn read(env: &Environment) -> CliResult<BTreeMap<String, Trusted>> {
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
fn write(env: &Environment, trusted: &BTreeMap<String, Trusted>) -> CliResult<()> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_that_remember_at_once_none_is_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let env = Environment::with(&[("XDG_CONFIG_HOME", &folder.path().join("config").to_string_lossy())]);
        let stores: Vec<PathBuf> = (0..24).map(|n| folder.path().join(format!("{n}.db"))).collect();
        std::thread::scope(|scope| {
            for store in &stores {
                let env = &env;
                scope.spawn(move || {
                    std::fs::write(store, "1").unwrap();
                    remember_store(env, store);
                });
            }
        });
        assert!(stores.iter().all(|store| knows_store(&env, store)));
    }

    #[test]
    fn a_store_is_known_as_the_file_that_was_made_not_by_its_path() {
        let folder = tempfile::tempdir().unwrap();
        let env = Environment::with(&[("XDG_CONFIG_HOME", &folder.path().join("config").to_string_lossy())]);
        let (store, other) = (folder.path().join("a.db"), folder.path().join("b.db"));
        std::fs::write(&store, "1").unwrap();
        assert!(!knows_store(&env, &store), "a store that came with a folder");
        remember_store(&env, &store);
        assert!(knows_store(&env, &store));
        std::fs::write(&store, "changed").unwrap();
        assert!(knows_store(&env, &store));
        std::fs::write(&other, "2").unwrap();
        std::fs::rename(&other, &store).unwrap();
        assert!(!knows_store(&env, &store), "another file under its path");
        assert!(!knows_store(&Environment::default(), &store));
    }
}
