//! The step with real coding agents: fetches them, pinned, into `.tools/clients`, and runs `crates/cli/tests/harnesses` against them.
//!
//! Invariant: where clients can't be cut off from the world, none is started, and the report says so.

use crate::steps::{Ended, cargo_command, succeed};
use crate::{env, say, tools};
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Those that every run tests: folder of packages, and the harness that it is for.
const ALWAYS: [(&str, &str); 2] = [("claude", "claude-code"), ("codex", "codex")];
/// The others.
const MORE: [(&str, &str); 5] = [
    ("gemini", "gemini-cli"),
    ("copilot", "copilot-cli"),
    ("opencode", "opencode"),
    ("opencode-config", "opencode"),
    ("cline", "cline"),
];

/// Fetches and runs.
pub(crate) fn run(all: bool) -> Result<Ended> {
    if let Some(why) = unfit() {
        return Ok(Ended::LeftOut(why));
    }
    let mut wanted = ALWAYS.to_vec();
    if all {
        wanted.extend(MORE);
    }
    let version = tools::find_node()?;
    for (name, _) in &wanted {
        let folder = env::tools().join("clients").join(name);
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        for file in ["package.json", "package-lock.json"] {
            let from = env::root().join("xtask/clients").join(name).join(file);
            fs::copy(&from, folder.join(file)).with_context(|| from.display().to_string())?;
        }
        tools::node_packages(&folder, &format!("client-{name}"), &version)?;
    }
    let mut ids: Vec<&str> = wanted.iter().map(|(_, id)| *id).collect();
    ids.dedup();
    if all {
        agent_sdk()?;
        ids.push("claude-agent-sdk");
    }
    say::line(&format!("xtask: in the jail: {}", ids.join(", ")));
    let mut tests = cargo_command(&[
        "test",
        "--locked",
        "--quiet",
        "--package",
        "hookwright",
        "--test",
        "harnesses",
        "--",
        "--clients",
    ])?;
    succeed(tests.arg(ids.join(",")).env("HOOKWRIGHT_TEST_CLIENTS", env::tools().join("clients")))
}

/// Why clients can't be run here.
fn unfit() -> Option<String> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Some("the clients are pinned for Linux on x86-64".to_owned());
    }
    let mut jail = Command::new("unshare");
    jail.args(["--net", "--mount", "--pid", "--fork", "ip", "link", "set", "lo", "up"]);
    jail.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if !jail.status().is_ok_and(|status| status.success()) {
        return Some("clients are cut off from the world, and that needs root, `unshare` and `ip`".to_owned());
    }
    let python = Path::new("/usr/bin/python3");
    (!python.exists()).then(|| "the scripted model needs /usr/bin/python3".to_owned())
}

/// The Claude Agent SDK, for the Python that runs in the jail.
fn agent_sdk() -> Result<()> {
    let list = env::root().join("xtask/clients/sdk.txt");
    let folder = env::tools().join("clients/sdk");
    let made_from = fs::read_to_string(&list).with_context(|| list.display().to_string())?;
    tools::made("the Claude Agent SDK", "client-sdk", &made_from, &folder.join("claude_agent_sdk"), || {
        let mut pip = env::command(env::venv_python())?;
        pip.args(["-m", "pip", "install", "--quiet", "--no-input", "--upgrade", "--target"]).arg(&folder);
        tools::run(pip.arg("--requirement").arg(&list))
    })
}
