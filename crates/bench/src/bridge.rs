//! What a harness waits for at each hook event: from the start of `hookwright bridge` to its answer, with a node that is there.

use crate::measure::Times;
use crate::report::{Aim, Figure, Group};
use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

/// The same hook as a harness would run it without us.
const PYTHON: &str = "import json, sys; json.load(sys.stdin); print('{}')";
/// How much the bridge may take beyond the start of `/bin/true`, in milliseconds.
const AIM_MS: f64 = 5.0;

/// Runs a command that reads a payload, and gives what it printed and how long it took.
async fn hooked(program: &OsStr, arguments: &[&OsStr], folder: &Path, payload: &[u8]) -> Result<(Vec<u8>, Duration)> {
    let since = Instant::now();
    let mut child = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("start {}", program.display()))?;
    let mut stdin = child.stdin.take().context("its stdin")?;
    // `/bin/true` reads nothing.
    let _ = stdin.write_all(payload).await;
    drop(stdin);
    let output = child.wait_with_output().await?;
    let taken = since.elapsed();
    if !output.status.success() {
        bail!("{} failed: {}", program.display(), String::from_utf8_lossy(&output.stderr));
    }
    Ok((output.stdout, taken))
}

/// Times of the bridge with a hook on a Rust server, of `/bin/true`, and of a hook in Python.
pub(crate) async fn run(hookwright: &Path, server: &Path, folder: &Path, rounds: usize) -> Result<Group> {
    let (plugin, db) = (folder.join("bridged"), folder.join("bridged.db"));
    std::fs::create_dir_all(&plugin)?;
    let manifest = json!({
        "id": "bridged",
        "tools": [{"id": "policy", "mcp": [server]}],
        "hooks": [{"on": "pre_tool_call", "call": "policy.decide", "match": {"tools": ["claude-code.*"]}, "timeout": "30s"}],
    });
    std::fs::write(plugin.join("plugin.yaml"), manifest.to_string())?;
    let words = |words: &'static str| words.split(' ').map(OsStr::new);
    let serve: Vec<_> = words("serve --background --idle 600 --plugin")
        .chain([plugin.as_os_str(), OsStr::new("--db"), db.as_os_str()])
        .collect();
    let stop: Vec<_> = words("stop --db").chain([db.as_os_str()]).collect();
    hooked(hookwright.as_os_str(), &serve, folder, b"").await?;
    let measured = measure(hookwright, folder, &db, rounds).await;
    hooked(hookwright.as_os_str(), &stop, folder, b"").await?;
    measured
}

async fn measure(hookwright: &Path, folder: &Path, db: &Path, rounds: usize) -> Result<Group> {
    let bridge: Vec<_> =
        "bridge claude-code PreToolUse --db".split(' ').map(OsStr::new).chain([db.as_os_str()]).collect();
    let (mut bridged, mut nothing, mut python) = (Times::default(), Times::default(), Times::default());
    for round in 0..=rounds {
        let payload = json!({
            "session_id": "bench", "transcript_path": "/dev/null", "cwd": folder, "permission_mode": "default",
            "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": format!("echo {round}")},
            "tool_use_id": format!("toolu_{round}"),
        })
        .to_string();
        let (said, taken) = hooked(hookwright.as_os_str(), &bridge, folder, payload.as_bytes()).await?;
        if serde_json::from_slice::<Value>(&said)? != json!({}) {
            bail!("the bridge should let the call go on, and said {}", String::from_utf8_lossy(&said));
        }
        let (_, by_nothing) = hooked(OsStr::new("/bin/true"), &[], folder, payload.as_bytes()).await?;
        let code = [OsStr::new("-c"), OsStr::new(PYTHON)];
        let (_, by_python) = hooked(OsStr::new("python3"), &code, folder, payload.as_bytes()).await?;
        if round > 0 {
            bridged.extend(vec![taken]);
            nothing.extend(vec![by_nothing]);
            python.extend(vec![by_python]);
        }
    }
    let ms = |time: Duration| time.as_secs_f64() * 1_000.0;
    let beyond = ms(bridged.p50()) - ms(nothing.p50());
    Ok(Group {
        title: "A harness's hook event, a process for each                            p50       p99".into(),
        figures: vec![
            Figure::of("bridge", "`hookwright bridge`, a hook on a Rust server asked, durable", &bridged, None),
            Figure::of("bridge_true", "`/bin/true`", &nothing, None),
            Figure::number("bridge_beyond", "the bridge beyond `/bin/true`", beyond, format!("{beyond:.2} ms"))
                .aim(Aim::at_most(beyond, AIM_MS, " ms")),
            Figure::of("bridge_python", "a hook that is `python3 -c …`", &python, None),
        ],
    })
}
