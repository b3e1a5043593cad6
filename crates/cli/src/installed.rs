//! Files of others that `install` changed: what stood there, so that `uninstall` restores it; and writing them whole or not at all.

use crate::environment::Environment;
use crate::exit::{CliError, CliResult};
use hookwright_core::json::sha256_hex;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Bytes of a configuration that is edited.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// What is known of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Kept {
    /// What stood there before the first change; none: there was no file.
    pub(crate) before: Option<String>,
    /// The digest of what was written last.
    pub(crate) after_sha256: String,
}

/// All such files.
pub(crate) struct Installed {
    file: PathBuf,
    known: BTreeMap<String, Kept>,
    /// Ends with this: of processes that install at once, none undoes what another one remembers.
    _lock: Option<std::fs::File>,
}

impl Installed {
    /// `to_change`: others that change something wait until this is gone.
    pub(crate) fn read(env: &Environment, to_change: bool) -> CliResult<Self> {
        let home = env.config_home().ok_or_else(|| {
            CliError::usage("neither XDG_CONFIG_HOME nor HOME is set, so what stood there before can't be kept")
        })?;
        let file = home.join("installed.json");
        let lock = if to_change {
            let failed = |e: std::io::Error| CliError::usage(format!("{} can't be written: {e}", file.display()));
            std::fs::create_dir_all(&home).map_err(failed)?;
            // Beside the file, which is replaced by each change.
            let lock = std::fs::File::create(file.with_extension("lock")).map_err(failed)?;
            lock.lock().map_err(failed)?;
            Some(lock)
        } else {
            None
        };
        let known = match text(&file)? {
            None => BTreeMap::new(),
            Some(text) => serde_json::from_str(&text).map_err(|e| {
                CliError::usage(format!("{} is damaged: {e}", file.display())).hint(
                    "it holds what stood in harnesses' files before `install`; move it away if you don't need that",
                )
            })?,
        };
        Ok(Self { file, known, _lock: lock })
    }

    /// What stood in a file before, if it is still as it was written.
    pub(crate) fn untouched(&self, path: &Path, now: &str) -> Option<&Kept> {
        self.known.get(&key(path)).filter(|kept| kept.after_sha256 == sha256_hex(now.as_bytes()))
    }

    /// Remembers a change, before it is made. `without`: what stands there now, without anything of ours.
    pub(crate) fn remember(
        &mut self,
        path: &Path,
        before: Option<&str>,
        without: Option<&str>,
        after: &str,
    ) -> CliResult<()> {
        let known = before.and_then(|now| self.untouched(path, now)).map(|kept| kept.before.clone());
        let before = known.unwrap_or_else(|| without.map(str::to_owned));
        self.known.insert(key(path), Kept { before, after_sha256: sha256_hex(after.as_bytes()) });
        self.write()
    }

    /// Forgets a file.
    pub(crate) fn forget(&mut self, path: &Path) -> CliResult<()> {
        if self.known.remove(&key(path)).is_some() { self.write() } else { Ok(()) }
    }

    fn write(&self) -> CliResult<()> {
        let text = serde_json::to_string_pretty(&self.known).unwrap_or_default();
        // What harnesses' files hold may be secret.
        write(&self.file, &text, Some(0o600))
    }
}

fn key(path: &Path) -> String {
    real(path).to_string_lossy().into_owned()
}

/// The file that a path leads to: a link stays a link.
fn real(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// A file's text; none where there is no file.
pub(crate) fn text(path: &Path) -> CliResult<Option<String>> {
    if !path.exists() {
        return Ok(None);
    }
    let bytes = crate::settings::read_bounded(path, MAX_BYTES)?;
    if bytes.len() > MAX_BYTES {
        return Err(CliError::usage(format!("{} is too large to be edited", path.display())));
    }
    let text = String::from_utf8(bytes);
    text.map(Some).map_err(|_| CliError::usage(format!("{} is no UTF-8, so it is left as it is", path.display())))
}

/// That a file is still what was read: who wrote it since is not overwritten.
pub(crate) fn is_still(path: &Path, before: Option<&str>) -> CliResult<()> {
    if text(path)?.as_deref() == before {
        return Ok(());
    }
    Err(CliError::failed(format!("{} was changed meanwhile, so it is left as it is", path.display()))
        .hint("run this command again"))
}

/// Writes a file whole or not at all. It keeps its rights; a new one gets `mode`.
pub(crate) fn write(path: &Path, text: &str, mode: Option<u32>) -> CliResult<()> {
    let path = real(path);
    let failed = |e: std::io::Error| CliError::usage(format!("{} can't be written: {e}", path.display()));
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).map_err(failed)?;
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let beside = folder.join(format!(".{name}.{}.new", std::process::id()));
    let kept = std::fs::metadata(&path).ok().map(|found| found.permissions().mode() & 0o7777);
    let mode = kept.or(mode).unwrap_or(0o644);
    let result = (|| {
        // Another's leftover under that name is not followed.
        let _ = std::fs::remove_file(&beside);
        let mut file = std::fs::File::options().write(true).create_new(true).mode(mode).open(&beside)?;
        file.set_permissions(std::fs::Permissions::from_mode(mode))?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&beside, &path)
    })();
    if result.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    result.map_err(failed)
}

/// Removes a file, and the folders above it that are empty then, up to `until`.
pub(crate) fn remove(path: &Path) -> CliResult<()> {
    let path = real(path);
    std::fs::remove_file(&path).map_err(|e| CliError::usage(format!("{} can't be removed: {e}", path.display())))
}
