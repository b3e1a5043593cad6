//! What a child writes to its stderr: it goes to the log under the tool's name, and its end is kept for error messages.
//!
//! Invariant: it is always read, in bounded memory, and a flood of it is logged only in part.

use crate::lines::{Line, Lines};
use crate::said::{Secrets, shown};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::process::ChildStderr;
use tokio::time::Instant;

const LINE_BYTES: usize = 8 * 1024;
const KEPT_LINES: usize = 20;
const KEPT_CHARS: usize = 500;
const LOGGED_PER_SECOND: u32 = 200;

/// The last lines that a child wrote to its stderr.
#[derive(Debug, Default)]
pub(super) struct LastWords(Mutex<VecDeque<String>>);

impl LastWords {
    fn add(&self, line: String) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == KEPT_LINES {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    /// For the end of an error message: empty, or `; its last words: …`.
    pub(super) fn told(&self) -> String {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.is_empty() {
            return String::new();
        }
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        format!("; its last words: {}", lines.join(" | "))
    }
}

/// Reads a child's stderr until it ends.
pub(super) async fn drain(mut stderr: ChildStderr, tool: Arc<str>, secrets: Arc<Secrets>, words: Arc<LastWords>) {
    let mut lines = Lines::new(LINE_BYTES);
    let (mut second, mut count) = (Instant::now(), 0_u32);
    let mut say = |text: &[u8], cut: bool| {
        if second.elapsed() >= Duration::from_secs(1) {
            if count > LOGGED_PER_SECOND {
                tracing::warn!(target: "hookwright::tool", tool = %tool, "{} lines left out", count - LOGGED_PER_SECOND);
            }
            (second, count) = (Instant::now(), 0);
        }
        count = count.saturating_add(1);
        let mark = if cut { " […]" } else { "" };
        let line = format!("{}{mark}", shown(&String::from_utf8_lossy(text), LINE_BYTES, &secrets));
        if count <= LOGGED_PER_SECOND {
            tracing::info!(target: "hookwright::tool", tool = %tool, "{line}");
        }
        if !line.trim().is_empty() {
            words.add(shown(&line, KEPT_CHARS, &Secrets::default()));
        }
    };
    loop {
        match stderr.read_buf(lines.buffer()).await {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
        while let Some(line) = lines.next() {
            match line {
                Line::Whole(line) => say(&line, false),
                Line::TooLong(long) => say(&long.head, true),
            }
        }
    }
    if !lines.rest().is_empty() {
        say(lines.rest(), false);
    }
}
