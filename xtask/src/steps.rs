//! The steps of `cargo xtask test`, in the order in which they run: the fast ones that often fail first, the tests last.

use crate::env;
use crate::schemas;
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The crate of the fuzz targets.
const FUZZ: &str = "crates/core/fuzz/Cargo.toml";
/// Seconds that each fuzz target runs.
const FUZZ_SECONDS: u32 = 15;

/// A step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Step {
    /// The code is formatted.
    Fmt,
    /// clippy has nothing to say about any target.
    Clippy,
    /// All programs are built; tests and examples start them.
    Build,
    /// `schemas/` is what the code says.
    Schemas,
    /// The examples' own Python tests.
    Python,
    /// Licences, sources and bans of dependencies, if `cargo-deny` is installed.
    Deny,
    /// The documentation builds without a warning.
    Doc,
    /// A short fuzz run of the parsers.
    Fuzz,
    /// The examples in the documentation.
    Doctest,
    /// All tests.
    Test,
    /// The Temporal engine against a development server; only with `--temporal`.
    Temporal,
    /// Real coding agents behind the bridge, cut off from the world; needs root.
    Harnesses,
}

/// How a step that did not fail ended.
pub(crate) enum Ended {
    /// It ran and all was well.
    Well,
    /// It was left out, and why.
    LeftOut(String),
}

impl Step {
    /// Its name on the command line.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// Whether `--quick` runs it.
    pub(crate) fn is_quick(self) -> bool {
        matches!(self, Self::Fmt | Self::Clippy | Self::Build | Self::Schemas | Self::Python | Self::Test)
    }

    /// Whether it starts servers in Python or Node.
    pub(crate) fn needs_tools(self) -> bool {
        matches!(self, Self::Python | Self::Test)
    }

    /// Runs it.
    pub(crate) fn run(self) -> Result<Ended> {
        match self {
            Self::Fmt => cargo(&["fmt", "--all", "--check"]),
            Self::Clippy => cargo(&["clippy", "--locked", "--workspace", "--all-targets", "--", "--deny", "warnings"]),
            Self::Build => cargo(&["build", "--locked", "--workspace", "--bins"]),
            Self::Schemas => schemas::check(&env::root()).map(|()| Ended::Well),
            Self::Python => python(),
            Self::Deny => deny(),
            Self::Doc => {
                let mut doc = cargo_command(&["doc", "--locked", "--workspace", "--no-deps"])?;
                succeed(doc.env("RUSTDOCFLAGS", "--deny warnings"))
            }
            Self::Fuzz => fuzz(),
            Self::Doctest => cargo(&["test", "--locked", "--workspace", "--doc", "--quiet"]),
            Self::Test => test(),
            Self::Temporal => crate::temporal::run(false),
            Self::Harnesses => crate::harnesses::run(false),
        }
    }
}

pub(crate) fn cargo_command(arguments: &[&str]) -> Result<Command> {
    let mut command = env::command("cargo")?;
    command.args(arguments);
    Ok(command)
}

fn cargo(arguments: &[&str]) -> Result<Ended> {
    succeed(&mut cargo_command(arguments)?)
}

pub(crate) fn succeed(command: &mut Command) -> Result<Ended> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.stdin(Stdio::null()).status().with_context(|| format!("start {program}"))?;
    if !status.success() {
        bail!("{program} ended with {status}");
    }
    Ok(Ended::Well)
}

/// Whether a cargo subcommand is installed.
pub(crate) fn is_installed(subcommand: &str) -> Result<bool> {
    let mut asked = cargo_command(&[subcommand, "--version"])?;
    let status = asked.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    Ok(status.context("start cargo")?.success())
}

/// Folders `examples/*/tests` that hold Python tests.
fn python_tests() -> Result<Vec<PathBuf>> {
    let mut folders = Vec::new();
    for example in fs::read_dir(env::root().join("examples")).context("examples/")? {
        let folder = example?.path().join("tests");
        let Ok(files) = fs::read_dir(&folder) else { continue };
        let is_test = |path: PathBuf| {
            let named = path.file_stem().is_some_and(|name| name.to_string_lossy().starts_with("test_"));
            named && path.extension().is_some_and(|extension| extension == "py")
        };
        if files.flatten().any(|file| is_test(file.path())) {
            folders.push(folder);
        }
    }
    folders.sort();
    Ok(folders)
}

fn python() -> Result<Ended> {
    for folder in python_tests()? {
        let mut tests = env::command(env::venv_python())?;
        succeed(tests.args(["-m", "unittest", "discover", "--start-directory"]).arg(folder))?;
    }
    Ok(Ended::Well)
}

fn deny() -> Result<Ended> {
    if !is_installed("deny")? {
        return Ok(Ended::LeftOut("cargo-deny is not installed (`cargo install cargo-deny`)".to_owned()));
    }
    // Advisories need a database from the network; CI elsewhere checks them nightly.
    cargo(&["deny", "--offline", "--all-features", "check", "bans", "licenses", "sources"])
}

fn fuzz() -> Result<Ended> {
    if !env::root().join(FUZZ).is_file() {
        return Ok(Ended::LeftOut(format!("there is no {FUZZ}")));
    }
    let seconds = FUZZ_SECONDS.to_string();
    for target in ["manifest", "answer"] {
        // A workspace of its own, with other flags: its output must not replace that of the others.
        let run =
            ["run", "--quiet", "--locked", "--target-dir", "target/fuzz", "--manifest-path", FUZZ, "--bin", target];
        cargo(&[&run[..], &["--", "--seconds", &seconds]].concat())?;
    }
    Ok(Ended::Well)
}

fn test() -> Result<Ended> {
    if is_installed("nextest")? {
        return cargo(&["nextest", "run", "--locked", "--workspace", "--no-fail-fast"]);
    }
    cargo(&["test", "--locked", "--workspace", "--lib", "--bins", "--tests", "--no-fail-fast"])
}
