//! The probe: the command that now stands in the harness's configuration is run, exactly as it stands there, with a call that nobody makes.
//! Its answer must be the harness's no.

use crate::settings::Settings;
use crate::terminal::note;
use hookwright_bridge::install::{self, Launch};
use hookwright_bridge::{Harness, Moment, PROBE_TOOL, probe_payload};
use hookwright_core::text;
use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};

/// Characters of what a probe said that are shown.
const SHOWN: u32 = 300;

/// Runs it. Whether a no was a no.
pub(super) fn run(settings: &Settings, harness: Harness, launch: &Launch) -> bool {
    let nonce = uuid::Uuid::new_v4().simple().to_string();
    let before = install::commands(harness, launch).into_iter().find(|(_, moment, _)| *moment == Moment::Before);
    let Some((event, _, line)) = before else { return false };
    let payload = probe_payload(harness, event, &nonce, &settings.cwd.to_string_lossy());
    let said = match shell(&line, &payload, settings, harness) {
        Ok(said) => said,
        Err(error) => {
            note(&format!("probe: FAILED: the command can't be run: {error}"));
            return false;
        }
    };
    let denies = hookwright_bridge::denies(harness, event, &said.0, said.1);
    if !denies {
        note(&format!(
            "probe: FAILED: the command let a call of {PROBE_TOOL} through: {}",
            text::shown(&said.0, SHOWN)
        ));
        return false;
    }
    if said.0.contains(&nonce) {
        note(
            "probe: a call was put to the node through the installed command, and its no came out as the harness's deny",
        );
    } else {
        note(&format!("probe: the installed command denies, but no node answered: {}", text::shown(&said.0, SHOWN)));
        note("probe: until a node runs for this store, every call is denied");
    }
    note(&format!(
        "probe: {} was not started: that it asks the hook shows by `{}` after its next prompt",
        harness.title(),
        settings.next().command("jobs list")
    ));
    true
}

/// What the line says, and its code. Its input is small: it can be written whole before anything is read.
fn shell(line: &str, payload: &str, settings: &Settings, harness: Harness) -> std::io::Result<(String, Option<i32>)> {
    let mut command = Command::new("/bin/sh");
    // By it a hook tells the two apart that have one configuration.
    if harness == Harness::ClaudeCode {
        command.env("CLAUDE_CODE_ENTRYPOINT", "cli");
    } else if harness == Harness::ClaudeAgentSdk {
        command.env("CLAUDE_CODE_ENTRYPOINT", "sdk-py");
    }
    let mut child = command
        .args(["-c", line])
        .current_dir(&settings.cwd)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that does not read its input says so by its answer.
        let _ = stdin.write_all(payload.as_bytes());
    }
    let mut said = String::new();
    if let Some(stdout) = child.stdout.take() {
        stdout.take(1024 * 1024).read_to_string(&mut said)?;
    }
    Ok((said, child.wait()?.code()))
}
