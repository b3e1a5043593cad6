//! Where things are, and the environment of what is run. The one home of xtask's view of its own environment.

use anyhow::{Context, Result};
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The clone's folder.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// `.tools`: the virtual environment, Node packages, caches and temporary files of the tests. Ignored by git.
pub(crate) fn tools() -> PathBuf {
    root().join(".tools")
}

/// Where a virtual environment keeps its programs.
pub(crate) fn venv_programs() -> PathBuf {
    tools().join("venv").join(if cfg!(windows) { "Scripts" } else { "bin" })
}

/// The virtual environment's Python.
pub(crate) fn venv_python() -> PathBuf {
    venv_programs().join(if cfg!(windows) { "python.exe" } else { "python" })
}

/// The variable PATH, as it is.
#[expect(clippy::disallowed_methods, reason = "the one place where xtask reads its environment")]
pub(crate) fn search_path() -> OsString {
    env::var_os("PATH").unwrap_or_default()
}

/// PATH of what the tests start: the virtual environment's programs first, then those of the workspace, then the user's.
fn test_search_path() -> Result<OsString> {
    let own = env::current_exe().context("where xtask itself stands")?;
    let mut folders = vec![venv_programs()];
    folders.extend(own.parent().map(Path::to_owned));
    folders.extend(env::split_paths(&search_path()).filter(|folder| !folders.contains(folder)).collect::<Vec<_>>());
    Ok(env::join_paths(folders)?)
}

/// A command in the clone's folder, with the environment that tests and their tools get.
pub(crate) fn command(program: impl Into<OsString>) -> Result<Command> {
    let mut command = Command::new(program.into());
    let cache = tools().join("cache");
    command
        .current_dir(root())
        .env("PATH", test_search_path()?)
        .env("HOOKWRIGHT_TEST_TOOLS", tools())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("PIP_CACHE_DIR", cache.join("pip"))
        .env("PIP_DISABLE_PIP_VERSION_CHECK", "1")
        .env("npm_config_cache", cache.join("npm"))
        .env("npm_config_update_notifier", "false")
        .env("TMPDIR", temporary());
    Ok(command)
}

/// Temporary files of tests. Emptied before each run.
pub(crate) fn temporary() -> PathBuf {
    tools().join("tmp")
}
