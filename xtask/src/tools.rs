//! What the tests need beside Rust: a Python virtual environment and Node packages, both under `.tools`.
//!
//! Invariant: a finished tool carries a stamp of all that it was made from; it is made again exactly if that changed.

use crate::{env, say};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// The oldest Python that all packages of the tests accept.
const PYTHON: (u32, u32) = (3, 11);
/// The oldest Node likewise.
const NODE: u32 = 20;

/// Makes whatever is missing or outdated.
pub(crate) fn set_up() -> Result<()> {
    let root = env::root();
    fs::create_dir_all(env::tools()).with_context(|| env::tools().display().to_string())?;
    let (python, python_version) = find_python()?;
    let node_version = find_node()?;
    virtual_environment(&root, &python, &python_version)?;

    // `peers` are programs that tests talk with; they bring the Node that they need, where there is one for this system.
    for kind in ["node", "peers"] {
        let packages = env::tools().join(kind);
        fs::create_dir_all(&packages)?;
        for name in ["package.json", "package-lock.json"] {
            fs::copy(root.join("xtask").join(kind).join(name), packages.join(name)).with_context(|| name.to_owned())?;
        }
        node_packages(&packages, kind, &node_version)?;
    }
    // An example's imports are looked up from its own folder.
    node_packages(&root.join("examples/policy-typescript"), "node-example", &node_version)
}

/// What a command prints, or nothing if it can't be started or fails.
fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn find_python() -> Result<(String, String)> {
    for program in ["python3", "python"] {
        let Some(version) = output(program, &["-c", "import sys; print(*sys.version_info[:3], sep='.')"]) else {
            continue;
        };
        if numbers(&version) < vec![PYTHON.0, PYTHON.1] {
            continue;
        }
        if output(program, &["-c", "import venv, ensurepip"]).is_none() {
            bail!("{program} {version} has no `venv`; install it (Debian and Ubuntu: `apt install python3-venv`)");
        }
        return Ok((program.to_owned(), version));
    }
    bail!(
        "the tests need Python {}.{} or newer as `python3`; install it, or run single steps that do without: `cargo xtask test --only fmt,clippy`",
        PYTHON.0,
        PYTHON.1
    )
}

pub(crate) fn find_node() -> Result<String> {
    let Some(version) = output("node", &["--version"]) else {
        bail!(
            "the tests need Node {NODE} or newer as `node`; install it, or run single steps that do without: `cargo xtask test --only fmt,clippy`"
        );
    };
    let version = version.trim_start_matches('v').to_owned();
    if numbers(&version) < vec![NODE] {
        bail!("the tests need Node {NODE} or newer; `node` is {version}");
    }
    if output(npm(), &["--version"]).is_none() {
        bail!("node {version} is there, but no `npm`; install it");
    }
    Ok(version)
}

fn npm() -> &'static str {
    if cfg!(windows) { "npm.cmd" } else { "npm" }
}

fn numbers(version: &str) -> Vec<u32> {
    version.split('.').map_while(|part| part.parse().ok()).collect()
}

fn virtual_environment(root: &Path, python: &str, version: &str) -> Result<()> {
    let folder = env::tools().join("venv");
    let requirements = root.join("xtask/requirements.txt");
    let constraints = root.join("xtask/constraints.txt");
    let mut made_from = format!("python {version}\n{}\n", folder.display());
    for file in [&requirements, &constraints] {
        made_from += &fs::read_to_string(file).with_context(|| file.display().to_string())?;
    }
    made("Python packages", "python", &made_from, &env::venv_python(), || {
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        run(Command::new(python).args(["-m", "venv"]).arg(&folder))?;
        let mut pip = env::command(env::venv_python())?;
        pip.args(["-m", "pip", "install", "--quiet", "--no-input", "--requirement"]).arg(&requirements);
        run(pip.arg("--constraint").arg(&constraints))
    })
}

pub(crate) fn node_packages(folder: &Path, stamp: &str, version: &str) -> Result<()> {
    let lock = folder.join("package-lock.json");
    let made_from =
        format!("node {version}\n{}", fs::read_to_string(&lock).with_context(|| lock.display().to_string())?);
    made(&format!("Node packages in {}", shown(folder)), stamp, &made_from, &folder.join("node_modules"), || {
        let mut npm = env::command(npm())?;
        // Packages' install scripts are programs of strangers, and none of these needs one.
        npm.current_dir(folder).args(["ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]);
        run(&mut npm)
    })
}

fn shown(folder: &Path) -> String {
    folder.strip_prefix(env::root()).unwrap_or(folder).display().to_string()
}

/// Makes something unless its stamp says that it stands as wanted. The stamp is written last, so half of a tool is made anew.
pub(crate) fn made(
    what: &str,
    stamp: &str,
    made_from: &str,
    result: &Path,
    make: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let stamp = stamp_file(stamp);
    if result.exists() && fs::read_to_string(&stamp).is_ok_and(|found| found == made_from) {
        say::line(&format!("xtask: {what}: there already"));
        return Ok(());
    }
    say::step(&format!("{what}: fetching them, into this clone only"));
    let started = Instant::now();
    if stamp.exists() {
        fs::remove_file(&stamp)?;
    }
    make().with_context(|| format!("set up {what} (is the network there?)"))?;
    fs::write(&stamp, made_from)?;
    say::line(&format!("xtask: {what}: done in {}", say::duration(started.elapsed())));
    Ok(())
}

fn stamp_file(name: &str) -> PathBuf {
    env::tools().join(format!("{name}.stamp"))
}

pub(crate) fn run(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.stdin(Stdio::null()).status().with_context(|| format!("start {program}"))?;
    if !status.success() {
        bail!("{program} ended with {status}");
    }
    Ok(())
}
