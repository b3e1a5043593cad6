//! A harness's process: lines of JSON in and out, its stderr to the log.
//!
//! Invariant: no line, and no write that the child does not take, is waited for or kept without a limit.

use super::Launch;
use hookwright_core::text;
use hookwright_process::Group;
use serde_json::Value;
use std::collections::VecDeque;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child as Process, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

/// The longest line that is read.
const LINE_BYTES: u64 = 32 * 1024 * 1024;
/// How long the child may take to take a line.
const WRITE: Duration = Duration::from_secs(30);
/// Bytes of a line of stderr, and lines that are kept for error messages.
const STDERR_BYTES: u64 = 4_096;
const STDERR_LINES: usize = 5;

/// A running harness.
pub(super) struct Child {
    pub(super) lines: Lines,
    pub(super) input: Input,
    process: Process,
    words: Arc<Mutex<VecDeque<String>>>,
    _group: Group,
}

/// What it says.
pub(super) struct Lines(BufReader<ChildStdout>);

/// What it is told.
pub(super) struct Input(tokio::sync::Mutex<Option<ChildStdin>>);

impl Child {
    /// Starts it. `Err` says what to do.
    pub(super) fn start(launch: &Launch, args: &[String]) -> Result<Self, String> {
        let Some((program, first)) = launch.command.split_first() else {
            return Err("its command is empty".to_owned());
        };
        hookwright_process::ready();
        let mut process = Command::new(program)
            .args(first)
            .args(args)
            .current_dir(&launch.cwd)
            .env_clear()
            .envs(launch.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| {
                format!("{program} can't be started ({error}): install it, or name it in the agent's `command`")
            })?;
        let group = Group::new(process.id());
        let streams = (process.stdin.take(), process.stdout.take(), process.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = streams else {
            return Err("it has no standard streams".to_owned());
        };
        let words = Arc::new(Mutex::default());
        tokio::spawn(drain(stderr, words.clone()));
        let (lines, input) = (Lines(BufReader::new(stdout)), Input(tokio::sync::Mutex::new(Some(stdin))));
        Ok(Self { lines, input, process, words, _group: group })
    }

    /// How it ended, and its last words.
    pub(super) async fn end(&mut self) -> String {
        self.input.close().await;
        let status = match timeout(Duration::from_secs(2), self.process.wait()).await {
            Ok(Ok(status)) => status.to_string(),
            Ok(Err(error)) => format!("its end can't be told: {error}"),
            Err(_) => "it closed its stdout and went on".to_owned(),
        };
        let words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        if words.is_empty() { status } else { format!("{status}; its last words: {}", words.join(" | ")) }
    }
}

impl Lines {
    /// The next line that is JSON; none at the end. Not to be dropped before it returns: part of a line would be lost.
    pub(super) async fn next(&mut self) -> Result<Option<Value>, String> {
        loop {
            let Some(line) = line(&mut self.0, LINE_BYTES).await? else { return Ok(None) };
            if let Ok(value) = serde_json::from_slice(&line) {
                return Ok(Some(value));
            }
            tracing::debug!(bytes = line.len(), "a line of the harness is no JSON: not for us");
        }
    }
}

impl Input {
    /// Tells it something.
    pub(super) async fn put(&self, value: &Value) -> Result<(), String> {
        self.put_text(&format!("{value}\n")).await
    }

    /// Tells it a text.
    pub(super) async fn put_text(&self, text: &str) -> Result<(), String> {
        let write = async {
            let mut stdin = self.0.lock().await;
            match &mut *stdin {
                Some(stdin) => stdin.write_all(text.as_bytes()).await.map_err(|error| format!("its stdin: {error}")),
                None => Err("its stdin is closed".to_owned()),
            }
        };
        timeout(WRITE, write).await.unwrap_or_else(|_| Err("it no longer reads its stdin".to_owned()))
    }

    pub(super) async fn close(&self) {
        *self.0.lock().await = None;
    }
}

/// A line without its end; an error where it is too long.
async fn line(from: &mut (impl Unpin + tokio::io::AsyncBufRead), most: u64) -> Result<Option<Vec<u8>>, String> {
    let mut line = vec![];
    let read =
        from.take(most + 1).read_until(b'\n', &mut line).await.map_err(|error| format!("its stdout: {error}"))?;
    if read == 0 {
        return Ok(None);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
    } else if line.len() as u64 > most {
        return Err(format!("it wrote a line of more than {} MiB", most / 1024 / 1024));
    }
    Ok(Some(line))
}

async fn drain(stderr: impl AsyncRead + Unpin, words: Arc<Mutex<VecDeque<String>>>) {
    let mut stderr = BufReader::new(stderr);
    loop {
        let mut line = vec![];
        match (&mut stderr).take(STDERR_BYTES).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let said = text::shown(String::from_utf8_lossy(&line).trim_end(), 500);
        if said.is_empty() {
            continue;
        }
        tracing::info!(target: "hookwright::harness", "{said}");
        let mut words = words.lock().unwrap_or_else(PoisonError::into_inner);
        if words.len() == STDERR_LINES {
            words.pop_front();
        }
        words.push_back(said);
    }
}
