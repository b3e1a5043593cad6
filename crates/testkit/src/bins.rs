//! Where this crate's binaries and those of examples are, seen from a test of another package.
//!
//! Cargo builds a package's binaries only for its own tests. `cargo xtask test` builds all beforehand; a lone
//! `cargo nextest run -p …` gets them built here, once, if they are missing or older than their source.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// The path of one of this crate's binaries, e.g. `scripted-mcp` or `rmcp-echo`.
///
/// # Panics
/// Where it is neither there nor can be built: the message says which command failed.
pub fn bin(name: &str) -> PathBuf {
    built("hookwright-testkit", Path::new(env!("CARGO_MANIFEST_DIR")), name)
}

/// The path of the program of an example in Rust, by its folder: `todo` gives that of `hookwright-todo`.
///
/// # Panics
/// As [`bin`].
pub fn example(folder: &str) -> PathBuf {
    let package = format!("hookwright-{folder}");
    built(&package, &Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(folder), &package)
}

fn built(package: &str, sources: &Path, name: &str) -> PathBuf {
    static BUILT: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let folder = folder();
    let path = folder.join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    if !is_fresh(&path, sources) {
        // Held while it is built, so that other threads wait for it.
        let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
        if built.insert(package.to_owned()) {
            build(package, sources, &folder);
        }
        assert!(path.is_file(), "there is no binary {name:?} in {}: is it named in {package}?", folder.display());
    }
    path
}

/// `target/<profile>`, two levels above the running test.
fn folder() -> PathBuf {
    let exe = match std::env::current_exe() {
        Ok(exe) => exe,
        Err(e) => panic!("can't tell where the running test is: {e}"),
    };
    let folder = exe.parent().unwrap_or(Path::new("."));
    let folder = if folder.ends_with("deps") || folder.ends_with("examples") {
        folder.parent().unwrap_or(folder)
    } else {
        folder
    };
    folder.to_owned()
}

fn build(package: &str, sources: &Path, folder: &Path) {
    let mut command = Command::new(env!("CARGO"));
    command.args(["build", "--quiet", "--package", package, "--bins", "--manifest-path"]);
    command.arg(sources.join("Cargo.toml"));
    if let Some(target) = folder.parent() {
        command.arg("--target-dir").arg(target);
    }
    if folder.ends_with("release") {
        command.arg("--release");
    }
    match command.stdin(Stdio::null()).status() {
        Ok(status) if status.success() => {}
        other => panic!("{command:?} failed ({other:?}); run `cargo build -p {package} --bins` to see why"),
    }
}

fn is_fresh(path: &Path, sources: &Path) -> bool {
    let changed = |path: &Path| path.metadata().and_then(|m| m.modified()).ok();
    let Some(built) = changed(path) else { return false };
    newest(&sources.join("src")).is_none_or(|source| source <= built)
}

fn newest(folder: &Path) -> Option<SystemTime> {
    let entries = std::fs::read_dir(folder).ok()?;
    entries
        .filter_map(Result::ok)
        .filter_map(|entry| {
            let path = entry.path();
            if path.is_dir() { newest(&path) } else { entry.metadata().and_then(|m| m.modified()).ok() }
        })
        .max()
}
