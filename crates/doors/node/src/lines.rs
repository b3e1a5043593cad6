//! Lines from a client, bounded.
//!
//! Invariant: [`Lines::next`] may be dropped at any await and called again: what was read of a line is kept.

use crate::wire::LINE_BYTES;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::unix::OwnedReadHalf;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

/// A line that is longer than this needs one of the node's few places for long lines.
const SHORT_BYTES: usize = 256 * 1024;

/// How long a line may take from its first byte to its last.
const LINE_TIME: Duration = Duration::from_mins(1);

/// A whole line, and its place while it is worked on.
pub(crate) struct Line {
    pub(crate) bytes: Vec<u8>,
    pub(crate) place: Option<OwnedSemaphorePermit>,
}

/// Why there is no line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoLine {
    /// The client closed its side, perhaps amidst a line.
    #[error("the client hung up")]
    End,
    #[error("a line is longer than {LINE_BYTES} bytes")]
    TooLong,
    #[error("a line was not ended in {} s", LINE_TIME.as_secs())]
    TooSlow,
    #[error(transparent)]
    Broken(#[from] io::Error),
}

/// The lines of one client.
pub(crate) struct Lines {
    reader: BufReader<OwnedReadHalf>,
    places: Arc<Semaphore>,
    line: Vec<u8>,
    place: Option<OwnedSemaphorePermit>,
    begun: Option<Instant>,
}

impl Lines {
    pub(crate) fn new(reader: OwnedReadHalf, places: Arc<Semaphore>) -> Self {
        Self { reader: BufReader::with_capacity(16 * 1024, reader), places, line: vec![], place: None, begun: None }
    }

    /// For who takes the bytes over, after a whole line.
    pub(crate) fn inner(&mut self) -> &mut BufReader<OwnedReadHalf> {
        &mut self.reader
    }

    /// The same, for good.
    pub(crate) fn into_inner(self) -> BufReader<OwnedReadHalf> {
        self.reader
    }

    /// The next line, without its newline.
    pub(crate) async fn next(&mut self) -> Result<Line, NoLine> {
        loop {
            let Some(begun) = self.begun else {
                if self.reader.fill_buf().await?.is_empty() {
                    return Err(NoLine::End);
                }
                self.begun = Some(Instant::now());
                continue;
            };
            let rest = tokio::time::timeout_at(begun + LINE_TIME, self.rest());
            let bytes = rest.await.map_err(|_| NoLine::TooSlow)??;
            self.begun = None;
            return Ok(Line { bytes, place: self.place.take() });
        }
    }

    async fn rest(&mut self) -> Result<Vec<u8>, NoLine> {
        loop {
            if self.line.len() > SHORT_BYTES && self.place.is_none() {
                // Nobody gives the semaphore up.
                self.place = self.places.clone().acquire_owned().await.ok();
            }
            let chunk = self.reader.fill_buf().await?;
            if chunk.is_empty() {
                return Err(NoLine::End);
            }
            let end = memchr::memchr(b'\n', chunk);
            let taken = end.unwrap_or(chunk.len());
            if self.line.len() + taken > LINE_BYTES {
                return Err(NoLine::TooLong);
            }
            self.line.extend_from_slice(&chunk[..taken]);
            self.reader.consume(taken + usize::from(end.is_some()));
            if end.is_some() {
                return Ok(std::mem::take(&mut self.line));
            }
        }
    }
}
