//! Lines out of a stream of bytes, in bounded memory.
//!
//! Invariant: at most the limit and one read are held; of a longer line only its ends are kept.

use bytes::{Bytes, BytesMut};

const HEAD_BYTES: usize = 4_096;
const TAIL_BYTES: usize = 256;

/// A line, without its end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// It fits.
    Whole(Bytes),
    /// It is longer than the limit.
    TooLong(TooLong),
}

/// What is kept of a line that is longer than the limit.
#[derive(Debug, PartialEq, Eq, Default)]
pub(crate) struct TooLong {
    /// Its first bytes.
    pub(crate) head: Vec<u8>,
    /// Its last bytes.
    pub(crate) tail: Vec<u8>,
    /// Its length so far.
    pub(crate) bytes: u64,
}

/// Collects bytes and gives lines.
#[derive(Debug)]
pub(crate) struct Lines {
    buffer: BytesMut,
    /// How much of the buffer holds no end of line.
    searched: usize,
    skipping: Option<TooLong>,
    limit: usize,
}

impl Lines {
    pub(crate) fn new(limit: usize) -> Self {
        Self { buffer: BytesMut::new(), searched: 0, skipping: None, limit }
    }

    /// Where the next bytes go.
    pub(crate) fn buffer(&mut self) -> &mut BytesMut {
        self.buffer.reserve(64 * 1024);
        &mut self.buffer
    }

    /// The length of the over-long line that is being skipped.
    pub(crate) fn skipped_bytes(&self) -> u64 {
        self.skipping.as_ref().map_or(0, |long| long.bytes)
    }

    /// The next line, once it is there.
    pub(crate) fn next(&mut self) -> Option<Line> {
        let end = memchr::memchr(b'\n', &self.buffer[self.searched..]).map(|at| self.searched + at);
        let part = end.unwrap_or(self.buffer.len());
        if self.skipping.is_some() || part > self.limit {
            let long = self.skipping.get_or_insert_default();
            let bytes = self.buffer.split_to(part);
            long.bytes += bytes.len() as u64;
            long.head.extend_from_slice(&bytes[..bytes.len().min(HEAD_BYTES - long.head.len())]);
            long.tail.extend_from_slice(&bytes[bytes.len().saturating_sub(TAIL_BYTES)..]);
            long.tail.drain(..long.tail.len().saturating_sub(TAIL_BYTES));
            self.searched = 0;
            end?;
            let _ = self.buffer.split_to(1);
            return self.skipping.take().map(Line::TooLong);
        }
        self.searched = part;
        end?;
        let line = self.buffer.split_to(part).freeze();
        let _ = self.buffer.split_to(1);
        self.searched = 0;
        Some(Line::Whole(line))
    }

    /// What stands after the last end of line.
    pub(crate) fn rest(&self) -> &[u8] {
        &self.buffer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(lines: &mut Lines, bytes: &[u8]) -> Vec<Line> {
        lines.buffer().extend_from_slice(bytes);
        std::iter::from_fn(|| lines.next()).collect()
    }

    fn whole(text: &str) -> Line {
        Line::Whole(Bytes::copy_from_slice(text.as_bytes()))
    }

    #[test]
    fn lines_come_however_the_bytes_are_cut() {
        let mut lines = Lines::new(100);
        assert_eq!(feed(&mut lines, b"a"), []);
        assert_eq!(feed(&mut lines, b"b\n\nc\nd"), [whole("ab"), whole(""), whole("c")]);
        assert_eq!(lines.rest(), b"d");
    }

    #[test]
    fn of_a_long_line_the_ends_are_kept_and_the_next_line_is_whole() {
        let mut lines = Lines::new(10);
        let mut got = feed(&mut lines, b"0123456789A");
        assert_eq!(lines.skipped_bytes(), 11);
        for _ in 0..1_000 {
            got.extend(feed(&mut lines, &[b'x'; 100]));
            assert!(lines.buffer.is_empty());
        }
        got.extend(feed(&mut lines, b"END\nnext\n"));
        let [Line::TooLong(long), next] = got.as_slice() else { panic!("{got:?}") };
        assert!(long.head.starts_with(b"0123456789Axxx") && long.tail.ends_with(b"xEND"));
        assert_eq!((long.head.len(), long.tail.len(), long.bytes), (HEAD_BYTES, TAIL_BYTES, 100_014));
        assert_eq!(*next, whole("next"));
        assert_eq!(lines.skipped_bytes(), 0);
    }

    #[test]
    fn a_line_at_the_limit_fits() {
        let mut lines = Lines::new(4);
        assert_eq!(feed(&mut lines, b"1234\n"), [whole("1234")]);
        assert!(matches!(feed(&mut lines, b"12345\n").as_slice(), [Line::TooLong(_)]));
    }
}
