//! What a child writes to its stderr: it goes to the log under the tool's name, and its end is kept for error messages.
//!
//! Invariant: it is always read, in bounded memory; a flood of it is logged only in part and read more slowly.

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
const KEPT_BYTES: usize = 2_000;
const KEPT_CHARS: usize = 500;
/// Characters of all last words together; the newest count.
const TOLD_CHARS: usize = 2_000;
const LOGGED_PER_SECOND: u32 = 200;
const BYTES_PER_SECOND: u64 = 16 * 1024 * 1024;
const SECOND: Duration = Duration::from_secs(1);

/// The last lines that a child wrote to its stderr, as they came.
#[derive(Debug)]
pub(super) struct LastWords {
    lines: Mutex<VecDeque<Vec<u8>>>,
    secrets: Arc<Secrets>,
}

impl LastWords {
    pub(super) fn new(secrets: Arc<Secrets>) -> Self {
        Self { lines: Mutex::default(), secrets }
    }

    fn add(&self, line: &[u8]) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == KEPT_LINES {
            lines.pop_front();
        }
        lines.push_back(line[..line.len().min(KEPT_BYTES)].to_vec());
    }

    /// For the end of an error message: empty, or `; its last words: …`.
    pub(super) fn told(&self) -> String {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let mut told = VecDeque::new();
        let mut chars = 0;
        for line in lines.iter().rev() {
            let line = shown(&String::from_utf8_lossy(line), KEPT_CHARS, &self.secrets);
            chars += line.chars().count();
            if chars > TOLD_CHARS {
                break;
            }
            if !line.trim().is_empty() {
                told.push_front(line);
            }
        }
        if told.is_empty() {
            return String::new();
        }
        format!("; its last words: {}", told.make_contiguous().join(" | "))
    }
}

/// Reads a child's stderr until it ends.
pub(super) async fn drain(mut stderr: ChildStderr, tool: Arc<str>, words: Arc<LastWords>) {
    let mut lines = Lines::new(LINE_BYTES);
    let mut log = Log { tool, words, second: Instant::now(), lines: 0 };
    let mut bytes = 0_u64;
    loop {
        match stderr.read_buf(lines.buffer()).await {
            Ok(0) | Err(_) => break,
            Ok(read) => bytes += read as u64,
        }
        while let Some(line) = lines.next() {
            match line {
                Line::Whole(line) => log.say(&line, ""),
                Line::TooLong(long) => log.say(&long.head, " […]"),
            }
        }
        let elapsed = log.second.elapsed();
        if elapsed >= SECOND {
            log.next_second();
            bytes = 0;
        } else if bytes > BYTES_PER_SECOND {
            tokio::time::sleep(SECOND.saturating_sub(elapsed)).await;
        }
    }
    if !lines.rest().is_empty() {
        log.say(lines.rest(), "");
    }
    log.next_second();
}

struct Log {
    tool: Arc<str>,
    words: Arc<LastWords>,
    second: Instant,
    lines: u32,
}

impl Log {
    fn say(&mut self, line: &[u8], mark: &str) {
        self.words.add(line);
        self.lines = self.lines.saturating_add(1);
        if self.lines <= LOGGED_PER_SECOND {
            let line = shown(&String::from_utf8_lossy(line), LINE_BYTES, &self.words.secrets);
            tracing::info!(target: "hookwright::tool", tool = %self.tool, "{line}{mark}");
        }
    }

    fn next_second(&mut self) {
        if let Some(left_out @ 1..) = self.lines.checked_sub(LOGGED_PER_SECOND) {
            tracing::warn!(target: "hookwright::tool", tool = %self.tool, "{left_out} lines left out");
        }
        (self.second, self.lines) = (Instant::now(), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_words_the_last_are_told_without_secrets() {
        let mut secrets = Secrets::default();
        secrets.add("TOKEN", "s3cret-value");
        let words = LastWords::new(Arc::new(secrets));
        assert_eq!(words.told(), "");
        for n in 0..100 {
            words.add(format!("line {n}").as_bytes());
        }
        words.add(b"");
        words.add(b"the token s3cret-value is bad \x1b[0m");
        let told = words.told();
        assert!(
            told.starts_with("; its last words: line 82 | ") && told.ends_with("the token [TOKEN] is bad \\u{1b}[0m"),
            "{told}"
        );
        for _ in 0..20 {
            words.add("x".repeat(100_000).as_bytes());
        }
        assert!(words.told().chars().count() < TOLD_CHARS + 100);
    }
}
