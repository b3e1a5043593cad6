//! Server-sent events out of a stream of bytes, in bounded memory.

use crate::lines::{Line, Lines};

/// What came.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Event {
    /// Its data; empty for events that only carry an id.
    pub(super) data: Vec<u8>,
    /// Its id, by which the stream can be taken up again.
    pub(super) id: Option<String>,
    /// Milliseconds to wait before that.
    pub(super) retry_ms: Option<u64>,
}

/// An event is larger than a message may be.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLarge;

/// Collects bytes and gives events.
pub(super) struct Events {
    lines: Lines,
    event: Event,
    has_data: bool,
    limit: usize,
}

impl Events {
    pub(super) fn new(limit: usize) -> Self {
        Self { lines: Lines::new(limit + 64), event: Event::default(), has_data: false, limit }
    }

    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.lines.buffer().extend_from_slice(bytes);
    }

    /// The next event, once it is complete.
    pub(super) fn next(&mut self) -> Result<Option<Event>, TooLarge> {
        while let Some(line) = self.lines.next() {
            let Line::Whole(line) = line else { return Err(TooLarge) };
            let line = line.strip_suffix(b"\r").unwrap_or(&line);
            if line.is_empty() {
                let event = std::mem::take(&mut self.event);
                self.has_data = false;
                if event != Event::default() {
                    return Ok(Some(event));
                }
                continue;
            }
            let (field, value) = match line.iter().position(|b| *b == b':') {
                Some(at) => (&line[..at], &line[at + 1..]),
                None => (line, &[][..]),
            };
            let value = value.strip_prefix(b" ").unwrap_or(value);
            match field {
                b"data" => {
                    if self.has_data {
                        self.event.data.push(b'\n');
                    }
                    self.has_data = true;
                    self.event.data.extend_from_slice(value);
                    if self.event.data.len() > self.limit {
                        return Err(TooLarge);
                    }
                }
                b"id" => {
                    self.event.id = std::str::from_utf8(value)
                        .ok()
                        .filter(|id| id.len() <= 1_024 && !id.contains('\0'))
                        .map(str::to_owned);
                }
                b"retry" => self.event.retry_ms = std::str::from_utf8(value).ok().and_then(|ms| ms.parse().ok()),
                _ => {}
            }
        }
        if self.lines.skipped_bytes() > 0 { Err(TooLarge) } else { Ok(None) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(chunks: &[&str]) -> Vec<Event> {
        let mut events = Events::new(100);
        let mut got = Vec::new();
        for chunk in chunks {
            events.feed(chunk.as_bytes());
            while let Some(event) = events.next().unwrap() {
                got.push(event);
            }
        }
        got
    }

    fn event(data: &str, id: Option<&str>) -> Event {
        Event { data: data.into(), id: id.map(str::to_owned), retry_ms: None }
    }

    #[test]
    fn events_come_however_the_bytes_are_cut() {
        let text =
            "id: 0\nretry: 30\ndata:\n\n: a comment\nevent: message\r\nid: 1\r\ndata: {\"a\":\r\ndata:1}\r\n\r\n";
        let first = Event { retry_ms: Some(30), ..event("", Some("0")) };
        let expected = [first, event("{\"a\":\n1}", Some("1"))];
        assert_eq!(events(&[text]), expected);
        let single: Vec<String> = text.chars().map(String::from).collect();
        assert_eq!(events(&single.iter().map(String::as_str).collect::<Vec<_>>()), expected);
    }

    #[test]
    fn an_event_is_bounded_whether_in_one_line_or_in_many() {
        for text in [
            format!("data: {}", "x".repeat(300)),
            format!("data: {}\n", "x".repeat(300)),
            "data: xxxxxxxxx\n".repeat(20),
        ] {
            let mut events = Events::new(100);
            events.feed(text.as_bytes());
            assert_eq!(events.next(), Err(TooLarge));
        }
    }
}
