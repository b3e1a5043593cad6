//! Server-sent events from bytes, as they come.
//!
//! Invariant: linear in the bytes, however they are cut into chunks. One event is bounded here, all of them by the caller.

use crate::wire::{Event, Flow, StreamError};

/// The longest event that is read: an answer's parts are far smaller, and parsed JSON is many times its text.
const MAX_EVENT_BYTES: usize = 16 * 1024 * 1024;

/// What takes the events.
pub(super) type Take<'a> = dyn FnMut(Event<'_>) -> Result<Flow, StreamError> + 'a;

/// A reader that keeps the line and the event that have begun.
#[derive(Debug, Default)]
pub(super) struct Sse {
    line: Vec<u8>,
    name: Option<String>,
    data: Option<Vec<u8>>,
    after_cr: bool,
    begun: bool,
}

impl Sse {
    /// Takes a chunk and hands on the events that it completes.
    pub(super) fn push(&mut self, mut chunk: &[u8], take: &mut Take<'_>) -> Result<Flow, StreamError> {
        while !chunk.is_empty() {
            if std::mem::take(&mut self.after_cr) && chunk.first() == Some(&b'\n') {
                chunk = chunk.get(1..).unwrap_or_default();
                continue;
            }
            let Some(at) = chunk.iter().position(|b| matches!(b, b'\n' | b'\r')) else {
                self.line.extend_from_slice(chunk);
                self.bound()?;
                break;
            };
            let (head, tail) = chunk.split_at(at);
            self.after_cr = tail.first() == Some(&b'\r');
            chunk = tail.get(1..).unwrap_or_default();
            self.line.extend_from_slice(head);
            let line = std::mem::take(&mut self.line);
            if self.line(&line, take)? == Flow::Done {
                return Ok(Flow::Done);
            }
            self.line = line;
            self.line.clear();
        }
        Ok(Flow::More)
    }

    fn bound(&self) -> Result<(), StreamError> {
        if self.line.len() + self.data.as_ref().map_or(0, Vec::len) > MAX_EVENT_BYTES {
            return Err(StreamError::Malformed(format!(
                "an event of the answer is longer than {MAX_EVENT_BYTES} bytes"
            )));
        }
        Ok(())
    }

    /// Hands on an event that the stream's end left without its empty line.
    pub(super) fn end(&mut self, take: &mut Take<'_>) -> Result<Flow, StreamError> {
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.line(&line, take)?;
        }
        self.dispatch(take)
    }

    fn line(&mut self, mut line: &[u8], take: &mut Take<'_>) -> Result<Flow, StreamError> {
        if !std::mem::replace(&mut self.begun, true) {
            line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
        }
        if line.is_empty() {
            return self.dispatch(take);
        }
        let at = line.iter().position(|b| *b == b':');
        let (field, value) = line.split_at(at.unwrap_or(line.len()));
        let value = value.strip_prefix(b":").unwrap_or(value);
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => match &mut self.data {
                Some(data) => {
                    data.push(b'\n');
                    data.extend_from_slice(value);
                }
                None => self.data = Some(value.to_vec()),
            },
            b"event" => self.name = Some(String::from_utf8_lossy(value).into_owned()),
            // Comments, ids, retry times: nothing for us.
            _ => {}
        }
        self.bound()?;
        Ok(Flow::More)
    }

    fn dispatch(&mut self, take: &mut Take<'_>) -> Result<Flow, StreamError> {
        let name = self.name.take();
        let Some(data) = self.data.take().filter(|d| !d.is_empty()) else { return Ok(Flow::More) };
        let data =
            std::str::from_utf8(&data).map_err(|e| StreamError::Malformed(format!("the answer is not UTF-8 ({e})")))?;
        take(Event { name: name.as_deref(), data })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(chunks: &[&[u8]]) -> Result<Vec<(Option<String>, String)>, StreamError> {
        let mut out = Vec::new();
        let mut sse = Sse::default();
        let mut take = |e: Event<'_>| {
            out.push((e.name.map(str::to_owned), e.data.to_owned()));
            Ok(Flow::More)
        };
        for chunk in chunks {
            sse.push(chunk, &mut take)?;
        }
        sse.end(&mut take)?;
        Ok(out)
    }

    const STREAM: &[u8] = b"\xef\xbb\xbfevent: a\r\ndata: one\r\ndata:two\r\n\r\n: comment\n\ndata: {\"x\":\"\xc3\xa4\"}\r\rid: 7\nevent: b\n\ndata: last";

    #[test]
    fn events_are_the_same_however_the_bytes_are_cut() {
        let whole = events(&[STREAM]).unwrap();
        let expected = [(Some("a"), "one\ntwo"), (None, "{\"x\":\"ä\"}"), (None, "last")];
        assert_eq!(whole, expected.map(|(n, d)| (n.map(str::to_owned), d.to_owned())));
        for size in 1..STREAM.len() {
            let chunks: Vec<&[u8]> = STREAM.chunks(size).collect();
            assert_eq!(events(&chunks).unwrap(), whole, "cut every {size} bytes");
        }
    }

    #[test]
    fn bytes_that_are_no_utf8_are_an_error() {
        assert!(matches!(events(&[b"data: a\xff\n\n"]), Err(StreamError::Malformed(_))));
    }

    #[test]
    fn an_endless_event_is_cut_off() {
        let many = vec![b"data: 0123456789\n".repeat(1_000); 2_000];
        let long = vec![vec![b'x'; 10_000]; 2_000];
        for chunks in [many, long] {
            let chunks: Vec<&[u8]> = chunks.iter().map(Vec::as_slice).collect();
            assert!(matches!(events(&chunks), Err(StreamError::Malformed(_))));
        }
    }

    #[test]
    fn a_long_line_in_small_chunks_is_read_in_linear_time() {
        let mut sse = Sse::default();
        let mut length = 0;
        let mut take = |e: Event<'_>| {
            length = e.data.len();
            Ok(Flow::More)
        };
        sse.push(b"data: ", &mut take).unwrap();
        for _ in 0..1_000_000 {
            sse.push(b"0123456789", &mut take).unwrap();
        }
        sse.push(b"\n\n", &mut take).unwrap();
        assert_eq!(length, 10_000_000);
    }
}
