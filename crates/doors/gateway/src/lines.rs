//! Lines out of a byte stream, in bounded memory.

use std::io;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};

/// A line, without its end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Whole(Vec<u8>),
    /// Longer than the limit; so many bytes were passed over.
    TooLong(u64),
}

/// Reads lines.
pub(crate) struct Lines<R> {
    reader: BufReader<R>,
    limit: usize,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(crate) fn new(reader: R, limit: usize) -> Self {
        Self { reader: BufReader::with_capacity(64 * 1024, reader), limit }
    }

    /// Bytes of a line at most.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Whether another line has been read already.
    pub(crate) fn has_more(&self) -> bool {
        self.reader.buffer().contains(&b'\n')
    }

    /// The next line that is not blank; none at the end. What stands after the last end of line is no message.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Line>> {
        let (mut line, mut skipped) = (Vec::new(), 0_u64);
        loop {
            let chunk = self.reader.fill_buf().await?;
            if chunk.is_empty() {
                return Ok(None);
            }
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let taken = end.unwrap_or(chunk.len());
            if skipped > 0 || line.len() + taken > self.limit {
                skipped += (line.len() + taken) as u64;
                line = Vec::new();
            } else {
                line.extend_from_slice(&chunk[..taken]);
            }
            self.reader.consume(taken + usize::from(end.is_some()));
            if end.is_none() {
                continue;
            }
            if skipped > 0 {
                return Ok(Some(Line::TooLong(skipped)));
            }
            if !line.trim_ascii().is_empty() {
                return Ok(Some(Line::Whole(line)));
            }
            line.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_line_over_the_limit_is_passed_over_and_the_next_one_is_read() {
        let text = format!("a\n\n{}\n \nb\r\nrest", "x".repeat(300_000));
        let mut lines = Lines::new(text.as_bytes(), 10);
        let mut got = vec![];
        while let Some(line) = lines.next().await.unwrap() {
            got.push(line);
        }
        assert_eq!(got, [Line::Whole(b"a".into()), Line::TooLong(300_000), Line::Whole(b"b\r".into())]);
    }
}
