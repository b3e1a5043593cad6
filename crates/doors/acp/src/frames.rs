//! Frames: one JSON-RPC message a line, over any pair of byte streams.
//!
//! Invariant: memory for a frame is bounded, whatever the other side sends; a bad frame is one error and the next one is read.

use crate::backlog::Backlog;
use agent_client_protocol::Lines;
use futures_util::{Sink, Stream, sink, stream};
use std::io;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};

/// Bytes of a frame, without its newline (4 MiB). A longer one is answered with a parse error.
pub const FRAME_BYTES: usize = 4 * 1024 * 1024;

/// Bytes of a frame that is no JSON which go back in the error.
const SHOWN_BYTES: usize = 1_024;

/// What is handed on instead of a frame that was not read: no JSON, so that the SDK answers with a parse error that holds it.
const TOO_LARGE: &str = "(a frame of more than 4194304 bytes: not read)";
const NOT_UTF8: &str = "(a frame that is not UTF-8: not read)";

/// Where a client is spoken with.
pub struct Frames<R, W> {
    reader: R,
    writer: W,
}

impl<R, W> Frames<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    /// Over two byte streams.
    pub fn new(reader: R, writer: W) -> Self {
        Self { reader, writer }
    }

    /// As the SDK's transport.
    pub(crate) fn into_lines(
        self,
        backlog: Backlog,
    ) -> Lines<
        impl Sink<String, Error = io::Error> + Send + 'static,
        impl Stream<Item = io::Result<String>> + Send + 'static,
    > {
        let incoming = stream::unfold(BufReader::with_capacity(64 * 1024, self.reader), |mut reader| async move {
            match next(&mut reader).await {
                Ok(Some(line)) => Some((Ok(line), reader)),
                Ok(None) => None,
                Err(e) => Some((Err(e), reader)),
            }
        });
        let outgoing = sink::unfold((self.writer, backlog), |(mut writer, backlog), mut line: String| async move {
            line.push('\n');
            let written = async {
                writer.write_all(line.as_bytes()).await?;
                writer.flush().await
            };
            let result = written.await;
            backlog.wrote(&line);
            result.map(|()| (writer, backlog))
        });
        Lines::new(outgoing, Box::pin(incoming))
    }
}

/// The next frame; none at the end. Empty lines are none.
async fn next<R: AsyncRead + Unpin>(reader: &mut BufReader<R>) -> io::Result<Option<String>> {
    loop {
        let mut line = Vec::new();
        let (mut too_large, mut any) = (false, false);
        loop {
            let chunk = reader.fill_buf().await?;
            if chunk.is_empty() {
                break;
            }
            any = true;
            let end = chunk.iter().position(|b| *b == b'\n');
            let taken = end.unwrap_or(chunk.len());
            too_large |= line.len() + taken > FRAME_BYTES;
            if !too_large {
                line.extend_from_slice(&chunk[..taken]);
            }
            reader.consume(taken + usize::from(end.is_some()));
            if end.is_some() {
                break;
            }
        }
        if too_large {
            return Ok(Some(TOO_LARGE.to_owned()));
        }
        if !any {
            return Ok(None);
        }
        match String::from_utf8(line) {
            Ok(line) if line.trim().is_empty() => {}
            Ok(line) => return Ok(Some(checked(line))),
            Err(_) => return Ok(Some(NOT_UTF8.to_owned())),
        }
    }
}

/// A frame, cut where it is no JSON and would go back whole in the error.
fn checked(line: String) -> String {
    let reads = || !is_deep(&line) && serde_json::from_str::<serde::de::IgnoredAny>(&line).is_ok();
    if line.len() <= SHOWN_BYTES || reads() {
        return line;
    }
    let mut end = SHOWN_BYTES;
    while !line.is_char_boundary(end) {
        end -= 1;
    }
    // What is cut off must not leave something that is JSON after all.
    format!("{} […]", &line[..end])
}

/// Whether a frame is nested deeper than a reader of JSON goes.
fn is_deep(line: &str) -> bool {
    const LEVELS: usize = 127;
    let (mut depth, mut quoted, mut escaped) = (0_usize, false, false);
    for byte in line.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'[' | b'{' if !quoted => {
                depth += 1;
                if depth > LEVELS {
                    return true;
                }
            }
            b']' | b'}' if !quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(bytes: &[u8]) -> Vec<String> {
        let mut reader = BufReader::with_capacity(7, bytes);
        let mut lines = vec![];
        while let Some(line) = next(&mut reader).await.unwrap() {
            lines.push(line);
        }
        lines
    }

    #[tokio::test]
    async fn frames_are_lines_and_empty_ones_are_none() {
        assert_eq!(read(b"{\"a\":1}\n\n  \r\n[2]\r\n{\"last\":3}").await, ["{\"a\":1}", "[2]\r", "{\"last\":3}"]);
        assert!(read(b"").await.is_empty());
    }

    #[tokio::test]
    async fn a_bad_frame_costs_itself_alone() {
        let mut bytes = format!("\"{}\"\n", "x".repeat(FRAME_BYTES - 2)).into_bytes();
        bytes.extend_from_slice(&vec![b'y'; FRAME_BYTES + 1]);
        bytes.extend_from_slice(b"\n\xff\xfe\n{}\n");
        let lines = read(&bytes).await;
        assert_eq!(lines.len(), 4);
        assert_eq!(
            (lines[0].len(), &lines[1][..], &lines[2][..], &lines[3][..]),
            (FRAME_BYTES, TOO_LARGE, NOT_UTF8, "{}")
        );
        for not_read in [TOO_LARGE, NOT_UTF8] {
            assert!(serde_json::from_str::<serde_json::Value>(not_read).is_err());
        }
        let deep = format!("{}{}", "[".repeat(5_000), "]".repeat(5_000));
        assert!(read(deep.as_bytes()).await[0].len() < 2_000);
        let quoted = format!("\"{}\\\"{}\"", "[".repeat(5_000), "[".repeat(5_000));
        assert_eq!(read(quoted.as_bytes()).await[0], quoted);
        let cut = &read(&[b"{", &vec![b'z'; 100_000][..]].concat()).await[0];
        assert!(cut.len() < 2_000 && serde_json::from_str::<serde_json::Value>(cut).is_err());
    }
}
