//! What a child writes to its stdout.
//!
//! Invariant: what a child says unasked costs others nothing: it is counted, and a child that says too much is read more slowly.

use super::pipe::{Expected, Pipe};
use crate::config::HostConfig;
use crate::heard::Heard;
use crate::lines::{Line, Lines, TooLong};
use crate::link::Reply;
use crate::said::{Secrets, shown};
use crate::unasked::Unasked;
use crate::wire::{self, Incoming};
use bytes::Bytes;
use std::io::ErrorKind;
use std::sync::Arc;
use tokio::net::unix::pipe;

/// A line so many times as long as a message may be ends the connection: it may never end.
const ENDLESS: u64 = 16;
/// Larger lines are read on a thread of their own.
const LARGE_BYTES: usize = 256 * 1024;
/// Messages of one batch.
const MAX_BATCH: usize = 1_000;

/// Reads a child's stdout until it ends; gives the reason.
pub(super) struct Reader {
    pub(super) tool: Arc<str>,
    pub(super) pipe: Arc<Pipe>,
    pub(super) heard: Arc<Heard>,
    pub(super) secrets: Arc<Secrets>,
    pub(super) config: Arc<HostConfig>,
    pub(super) unasked: Unasked,
}

impl Reader {
    pub(super) async fn read(mut self, stdout: pipe::Receiver) -> String {
        let mut lines = Lines::new(self.config.message_bytes);
        loop {
            match stdout.try_read_buf(lines.buffer()) {
                Ok(0) => {
                    if !lines.rest().is_empty() {
                        self.unasked("it ended in the middle of a line", lines.rest());
                        if let Some(id) = wire::likely_id(lines.rest(), b"") {
                            self.pipe.deliver(
                                id,
                                Reply::Lost { why: "the server ended in the middle of its answer".to_owned() },
                            );
                        }
                    }
                    return "the server closed its stdout".to_owned();
                }
                Ok(_) => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    if let Err(e) = stdout.readable().await {
                        return format!("the server's stdout can't be read: {e}");
                    }
                    continue;
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(e) => return format!("the server's stdout can't be read: {e}"),
            }
            while let Some(line) = lines.next() {
                match line {
                    Line::Whole(line) => self.line(line).await,
                    Line::TooLong(long) => self.too_long(&long),
                }
                self.unasked.calm_down(&self.tool).await;
            }
            if lines.skipped_bytes() > ENDLESS * self.config.message_bytes as u64 {
                return format!("the server wrote a line of more than {} bytes", lines.skipped_bytes());
            }
            // Reading alone never yields where the child writes faster than we read.
            tokio::task::coop::consume_budget().await;
        }
    }

    async fn line(&mut self, line: Bytes) {
        let text = line.trim_ascii();
        match text.first() {
            None => {}
            Some(b'[') if self.pipe.has_batches() && line.len() < LARGE_BYTES => self.batch(text),
            // It may hold anybody's answer.
            Some(b'[') => {
                let why = if self.pipe.has_batches() {
                    format!("a batch of {} bytes is over the limit of {LARGE_BYTES} for batches", line.len())
                } else {
                    format!("it sent a batch, which no revision but {} has", wire::BATCHES)
                };
                self.pipe.lose_all(&why);
                self.unasked(&why, &line);
            }
            Some(_) if line.len() < LARGE_BYTES => self.message(text),
            Some(_) => self.large(line).await,
        }
    }

    fn batch(&mut self, text: &[u8]) {
        match wire::batch(text) {
            Ok(messages) if messages.len() <= MAX_BATCH => {
                for message in messages {
                    self.message(message.get().as_bytes());
                }
            }
            Ok(messages) => self.unasked(&format!("it sent a batch of {} messages", messages.len()), b""),
            Err(why) => self.malformed(text, &why),
        }
    }

    fn message(&mut self, text: &[u8]) {
        match wire::read(text) {
            Ok(Incoming::Answer { id: Some(id), said }) => {
                if self.pipe.expects(id) == Expected::Nobody {
                    return self
                        .unasked("it answered a request that is not open: never made, or answered before", text);
                }
                self.pipe.deliver(id, wire::meant(said, self.config.message_values));
            }
            Ok(Incoming::Answer { id: None, .. }) => self.unasked("it answered with an id that was never given", text),
            Ok(Incoming::Request { id, method, params }) => {
                let pipe = Arc::clone(&self.pipe);
                let closed = self.pipe.closed().clone();
                if self.heard.request(id, &method, params, closed, move |answer| pipe.control(answer)) {
                    self.unasked.count(text.len());
                    return;
                }
                self.pipe.control(wire::reply(id, &method));
                if method == "ping" {
                    self.unasked.count(text.len());
                } else {
                    self.unasked("it asks for something that is not offered", text);
                }
            }
            Ok(Incoming::Notification { method, params }) => {
                self.heard.notification(&method, params);
                if self.unasked.count(text.len()) {
                    let params = shown(params.map_or("", serde_json::value::RawValue::get), 300, &self.secrets);
                    let method = shown(&method, 100, &self.secrets);
                    tracing::debug!(target: "hookwright::tool", tool = %self.tool, "{method} {params}");
                }
            }
            Err(why) => self.malformed(text, &why),
        }
    }

    /// A large answer: it is parsed where that keeps nobody waiting.
    async fn large(&mut self, line: Bytes) {
        let config = Arc::clone(&self.config);
        let parse = move || match wire::read(line.trim_ascii()) {
            Ok(Incoming::Answer { id: Some(id), said }) => Ok((id, wire::meant(said, config.message_values))),
            _ => Err(line),
        };
        match tokio::task::spawn_blocking(parse).await {
            Ok(Ok((id, reply))) => {
                if self.pipe.deliver(id, reply) == Expected::Nobody {
                    self.unasked("it answered a request that is not open: never made, or answered before", b"");
                }
            }
            Ok(Err(line)) => self.message(line.trim_ascii()),
            // The runtime ends.
            Err(_) => {}
        }
    }

    fn malformed(&mut self, text: &[u8], why: &str) {
        let tail = &text[text.len().saturating_sub(256)..];
        if let Some(id) = wire::likely_id(text, tail)
            && self.pipe.expects(id) != Expected::Nobody
        {
            let why = format!("its answer is malformed: {}", shown(why, 200, &self.secrets));
            self.pipe.deliver(id, Reply::Lost { why });
        }
        self.unasked("it wrote a line that is no JSON-RPC message", text);
    }

    fn too_long(&mut self, long: &TooLong) {
        let why = format!("a message of {} bytes is over the limit of {}", long.bytes, self.config.message_bytes);
        match wire::likely_id(&long.head, &long.tail) {
            Some(id) if self.pipe.expects(id) != Expected::Nobody => {
                self.pipe.deliver(id, Reply::Lost { why: why.clone() });
            }
            Some(_) => {}
            // A request or notification harms no call; else it may be anybody's answer.
            None if memchr::memmem::find(&long.head, b"\"method\"").is_some() => {}
            None => self.pipe.lose_all(&why),
        }
        self.unasked(&why, &long.head);
    }

    fn unasked(&mut self, what: &str, text: &[u8]) {
        if self.unasked.count(text.len()) {
            let text = shown(&String::from_utf8_lossy(&text[..text.len().min(2_000)]), 300, &self.secrets);
            tracing::warn!(target: "hookwright::tool", tool = %self.tool, "{what}: {text}");
        }
    }
}
