//! From the start of `hookwright ask` to its answer: a process, a manifest, a server, a question.

use crate::measure::Times;
use crate::report::{Figure, Group};
use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use std::ffi::OsStr;
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::process::Command;

/// An event of the demo's own.
const EVENT: &str = include_str!("../../../examples/demo/events/push_to_main.json");

async fn output(program: &Path, arguments: &[&OsStr], folder: &Path) -> Result<(Vec<u8>, Duration)> {
    let since = Instant::now();
    let output =
        Command::new(program).args(arguments).current_dir(folder).output().await.context("start hookwright")?;
    let taken = since.elapsed();
    if !output.status.success() {
        bail!("hookwright {arguments:?} failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok((output.stdout, taken))
}

/// Times of the whole command on the demo's plugin, and of a command that does nothing.
pub(crate) async fn run(hookwright: &Path, folder: &Path, rounds: usize) -> Result<Group> {
    let (demo, event) = (folder.join("demo"), folder.join("event.json"));
    std::fs::write(&event, EVENT)?;
    let words = |words: &'static str| words.split(' ').map(OsStr::new);
    let make: Vec<_> = words("demo --approve yes --dir").chain([demo.as_os_str()]).collect();
    output(hookwright, &make, folder).await?;
    let plugin = demo.join("plugin");
    let ask: Vec<_> = words("ask --output json --plugin")
        .chain([plugin.as_os_str(), OsStr::new("--event"), event.as_os_str()])
        .collect();
    let (mut answers, mut nothing) = (Times::default(), Times::default());
    for round in 0..=rounds {
        let (said, taken) = output(hookwright, &ask, folder).await?;
        let said: Value = serde_json::from_slice(&said)?;
        if said["verdict"] != "escalate" {
            bail!("the demo's hook should ask for a person, and said {said}");
        }
        let (_, taken_by_nothing) = output(hookwright, &[OsStr::new("--version")], folder).await?;
        if round > 0 {
            answers.extend(vec![taken]);
            nothing.extend(vec![taken_by_nothing]);
        }
    }
    Ok(Group {
        title: "`hookwright ask` on the demo's plugin, from start to exit             p50       p99".into(),
        figures: vec![
            Figure::of("ask", "with its server started, asked and ended", &answers, None),
            Figure::of("version", "`hookwright --version`, for comparison", &nothing, None),
        ],
    })
}
