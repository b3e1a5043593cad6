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
const DOUBLED: &str = "(a frame in which a key stands twice: not read)";

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
        let reader = BufReader::with_capacity(64 * 1024, self.reader);
        let incoming = stream::unfold((reader, backlog.clone()), |(mut reader, backlog)| async move {
            if let Err(e) = backlog.room_to_read().await {
                return Some((Err(e), (reader, backlog)));
            }
            match next(&mut reader).await {
                Ok(Some((line, answered))) => {
                    if answered {
                        backlog.asked();
                    }
                    Some((Ok(line), (reader, backlog)))
                }
                Ok(None) => None,
                Err(e) => Some((Err(e), (reader, backlog))),
            }
        });
        let outgoing = sink::unfold((self.writer, backlog), |(mut writer, backlog), mut line: String| async move {
            line.push('\n');
            backlog.writes();
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

/// The next frame, and whether it gets an answer; none at the end. Empty lines are none.
async fn next<R: AsyncRead + Unpin>(reader: &mut BufReader<R>) -> io::Result<Option<(String, bool)>> {
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
            return Ok(Some((TOO_LARGE.to_owned(), true)));
        }
        if !any {
            return Ok(None);
        }
        match String::from_utf8(line) {
            Ok(line) if line.trim().is_empty() => {}
            Ok(line) => return Ok(Some(checked(line))),
            Err(_) => return Ok(Some((NOT_UTF8.to_owned(), true))),
        }
    }
}

/// A frame, cut where it is no JSON and would go back whole in the error; and whether it gets an answer.
fn checked(line: String) -> (String, bool) {
    let deep = is_deep(&line);
    let is_json = || !deep && serde_json::from_str::<serde::de::IgnoredAny>(&line).is_ok();
    match if deep { None } else { serde_json::from_str::<Keys>(&line).ok() } {
        Some(Keys { doubled: true, .. }) => return (DOUBLED.to_owned(), true),
        // Notifications and answers get none.
        Some(keys) => return (line, keys.method == keys.id),
        None if line.len() <= SHOWN_BYTES || is_json() => return (line, true),
        None => {}
    }
    let mut end = SHOWN_BYTES;
    while !line.is_char_boundary(end) {
        end -= 1;
    }
    // What is cut off must not leave something that is JSON after all.
    (format!("{} […]", &line[..end]), true)
}

/// Which keys a frame has.
#[derive(Default)]
struct Keys {
    method: bool,
    id: bool,
    /// A key stands in it twice: readers differ over which one counts.
    doubled: bool,
}

impl<'de> serde::Deserialize<'de> for Keys {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Frame;
        impl<'de> serde::de::Visitor<'de> for Frame {
            type Value = Keys;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Keys, A::Error> {
                let (mut keys, mut seen) = (Keys::default(), std::collections::HashSet::new());
                while let Some(key) = map.next_key::<String>()? {
                    map.next_value::<serde::de::IgnoredAny>()?;
                    keys.method |= key == "method";
                    keys.id |= key == "id";
                    keys.doubled |= !seen.insert(key);
                }
                Ok(keys)
            }
        }
        deserializer.deserialize_map(Frame)
    }
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
        while let Some((line, _)) = next(&mut reader).await.unwrap() {
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
        for not_read in [TOO_LARGE, NOT_UTF8, DOUBLED] {
            assert!(serde_json::from_str::<serde_json::Value>(not_read).is_err());
        }
        let deep = format!("{}{}", "[".repeat(5_000), "]".repeat(5_000));
        assert!(read(deep.as_bytes()).await[0].len() < 2_000);
        let quoted = format!("\"{}\\\"{}\"", "[".repeat(5_000), "[".repeat(5_000));
        assert_eq!(read(quoted.as_bytes()).await[0], quoted);
        let cut = &read(&[b"{", &vec![b'z'; 100_000][..]].concat()).await[0];
        assert!(cut.len() < 2_000 && serde_json::from_str::<serde_json::Value>(cut).is_err());
    }

    #[test]
    fn a_frame_with_a_key_twice_is_not_read_and_only_requests_and_what_is_no_frame_are_answered() {
        for (frame, answered) in [
            (r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"method":1,"id":2}}"#, true),
            (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, false),
            (r#"{"jsonrpc":"2.0","method":"m"}"#, false),
            ("[]", true),
            ("17", true),
            ("{", true),
            ("{}", true),
        ] {
            assert_eq!(checked(frame.to_owned()), (frame.to_owned(), answered));
        }
        for twice in [
            r#"{"jsonrpc":"2.0","id":1,"method":"session/list","method":"session/prompt"}"#,
            r#"{"id":1,"id":2,"method":"m"}"#,
            r#"{"id":1,"method":"m","params":{},"p\u0061rams":{}}"#,
        ] {
            assert_eq!(checked(twice.to_owned()), (DOUBLED.to_owned(), true));
        }
    }
}
