//! Codex's trust: without it, it skips a user's or a project's hooks without a word.
//!
//! Which hash stands for a hook only Codex knows; its app server says it (`hooks/list`), offline.

use super::{Change, failed};
use crate::exit::CliResult;
use crate::installed::{self, Installed};
use crate::settings::Settings;
use crate::terminal::note;
use hookwright_bridge::install::{self, Places};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// How long Codex's app server is waited for.
const PATIENCE: Duration = Duration::from_secs(20);

/// Trusts what was just written. Whether that is done.
pub(super) fn trust(settings: &Settings, places: &Places, hooks: &Path, installed: &mut Installed) -> CliResult<bool> {
    let by_hand = "start `codex` there and trust the hooks in /hooks; until then they are skipped";
    let Some(program) = find(settings) else {
        note(&format!("trust: no `codex` is on the PATH, so its hooks are not trusted yet: {by_hand}"));
        return Ok(false);
    };
    let listed = match hashes(&program, &settings.cwd) {
        Ok(listed) => listed,
        Err(why) => {
            note(&format!("trust: `codex app-server` did not say the hooks' hashes ({why}): {by_hand}"));
            return Ok(false);
        }
    };
    let file = std::fs::canonicalize(hooks).unwrap_or_else(|_| hooks.to_owned()).to_string_lossy().into_owned();
    let text = installed::text(hooks)?.unwrap_or_default();
    let wanted = install::state_keys(&file, &text);
    let trusted: Vec<(String, String)> = listed.into_iter().filter(|(key, _)| wanted.contains(key)).collect();
    if trusted.len() < wanted.len() {
        note(&format!("trust: Codex lists {} of {} hooks: {by_hand}", trusted.len(), wanted.len()));
        return Ok(false);
    }
    let config = install::codex_home(places).join("config.toml");
    let before = installed::text(&config)?;
    let after = install::with_trust(before.as_deref(), &trusted).map_err(|e| failed(&e, None))?;
    let without = match &before {
        Some(before) => install::without_trust(before, &wanted).map_err(|e| failed(&e, None))?,
        None => None,
    };
    let change = Change { path: config, before, without, after: Some(after), executable: false };
    if !change.is_none() {
        change.show();
        change.write(installed)?;
    }
    note("trust: these hooks are trusted, as they stand there now");
    Ok(true)
}

/// What takes the trust back.
pub(super) fn distrust(places: &Places, hooks: &Path, installed: &Installed) -> CliResult<Option<Change>> {
    let config = install::codex_home(places).join("config.toml");
    let (Some(before), Some(text)) = (installed::text(&config)?, installed::text(hooks)?) else { return Ok(None) };
    let after = if let Some(kept) = installed.untouched(&config, &before) {
        kept.before.clone()
    } else {
        let file = std::fs::canonicalize(hooks).unwrap_or_else(|_| hooks.to_owned()).to_string_lossy().into_owned();
        install::without_trust(&before, &install::state_keys(&file, &text)).map_err(|e| failed(&e, None))?
    };
    Ok(Some(Change { path: config, before: Some(before), without: None, after, executable: false }))
}

fn find(settings: &Settings) -> Option<PathBuf> {
    let path = settings.env.get("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join("codex")).find(|program| program.is_file())
}

/// The hooks that Codex finds, as (key, hash).
fn hashes(program: &Path, folder: &Path) -> Result<Vec<(String, String)>, String> {
    let mut server = Command::new(program)
        .arg("app-server")
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| error.to_string())?;
    let answer = talk(&mut server, folder);
    let _ = server.kill();
    let _ = server.wait();
    answer
}

fn talk(server: &mut std::process::Child, folder: &Path) -> Result<Vec<(String, String)>, String> {
    let until = Instant::now() + PATIENCE;
    let (sender, lines) = mpsc::sync_channel(16);
    let stdout = server.stdout.take().ok_or("no output")?;
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    let mut stdin = server.stdin.take().ok_or("no input")?;
    let mut send =
        |message: Value| writeln!(stdin, "{message}").and_then(|()| stdin.flush()).map_err(|e| e.to_string());
    let wait = |id: u64| -> Result<Value, String> {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let line = lines.recv_timeout(left).map_err(|_| "it did not answer".to_owned())?;
            let message: Value = serde_json::from_str(&line).unwrap_or_default();
            if message["id"] == id {
                return Ok(message["result"].clone());
            }
        }
    };
    let version = env!("CARGO_PKG_VERSION");
    let client = json!({"name": "hookwright", "title": "Hookwright", "version": version});
    send(json!({"id": 1, "method": "initialize", "params": {"clientInfo": client}}))?;
    wait(1)?;
    send(json!({"method": "initialized"}))?;
    send(json!({"id": 2, "method": "hooks/list", "params": {"cwds": [folder]}}))?;
    let result = wait(2)?;
    let folders = result["data"].as_array().cloned().unwrap_or_default();
    let hooks = folders.iter().flat_map(|folder| folder["hooks"].as_array().cloned().unwrap_or_default());
    let pair = |hook: Value| Some((hook["key"].as_str()?.to_owned(), hook["currentHash"].as_str()?.to_owned()));
    Ok(hooks.filter_map(pair).collect())
}
