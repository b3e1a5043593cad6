//! The text that a record's hash is made over, out of the text that is stored: keys sorted, inline values left out.
//!
//! Invariant: gives what [`crate::json::canonical`] gives for the same record without its inline values, or nothing.

use std::ops::Range;

/// Orders compact JSON as `serde_json` writes it. None where a key is escaped or stands twice, and where the text is something else.
///
/// Numbers and strings are taken as they stand: one writer writes both texts.
pub(super) fn ordered(text: &str) -> Option<Vec<u8>> {
    let mut order = Order { text: text.as_bytes(), at: 0, out: Vec::with_capacity(text.len()), entries: vec![] };
    order.value()?;
    (order.at == text.len()).then_some(order.out)
}

struct Order<'a> {
    text: &'a [u8],
    at: usize,
    out: Vec<u8>,
    /// Of the objects that are open: those of an outer one stand before those of an inner one.
    entries: Vec<Entry>,
}

struct Entry {
    /// Its key without quotes, in the text.
    key: Range<usize>,
    /// Key, colon and value, in what is written.
    whole: Range<usize>,
}

impl Order<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    fn value(&mut self) -> Option<()> {
        match self.peek()? {
            b'{' => self.object(),
            b'[' => self.list(),
            b'"' => self.copy(self.end_of_string()?),
            _ => self.copy(self.end_of_value()?),
        }
    }

    fn copy(&mut self, end: usize) -> Option<()> {
        self.out.extend_from_slice(self.text.get(self.at..end)?);
        self.at = end;
        Some(())
    }

    fn list(&mut self) -> Option<()> {
        self.expect(b'[')?;
        self.out.push(b'[');
        let start = self.out.len();
        while self.peek()? != b']' {
            if self.out.len() > start {
                self.expect(b',')?;
                self.out.push(b',');
            }
            self.value()?;
        }
        self.copy(self.at + 1)
    }

    fn object(&mut self) -> Option<()> {
        self.expect(b'{')?;
        self.out.push(b'{');
        let (first, start) = (self.entries.len(), self.out.len());
        while self.peek()? != b'}' {
            if self.entries.len() > first {
                self.expect(b',')?;
                self.out.push(b',');
            }
            let (from, end) = (self.out.len(), self.end_of_string()?);
            let key = self.at + 1..end - 1;
            if self.text[key.clone()].contains(&b'\\') {
                return None;
            }
            self.copy(end)?;
            self.expect(b':')?;
            self.out.push(b':');
            self.entries.push(Entry { key: key.clone(), whole: from..self.out.len() });
            if self.text[key] == *b"value" && self.is_inline(first) {
                // Mostly the value is the last of the three: then it is passed over.
                let end = self.end_of_value()?;
                if self.text.get(end) == Some(&b'}') {
                    self.at = end;
                    break;
                }
            }
            self.value()?;
            let to = self.out.len();
            self.entries.last_mut()?.whole.end = to;
        }
        self.close(first, start)?;
        self.expect(b'}')?;
        self.out.push(b'}');
        Some(())
    }

    /// Whether the keys from `first` on are those of a stored value that is inline.
    fn is_inline(&self, first: usize) -> bool {
        let has = |name: &[u8]| self.entries[first..].iter().any(|entry| self.text[entry.key.clone()] == *name);
        self.entries.len() == first + 3 && has(b"value") && has(b"sha256") && has(b"bytes")
    }

    /// Brings the entries of an object, which begin at `start`, into their order.
    fn close(&mut self, first: usize, start: usize) -> Option<()> {
        let text = self.text;
        let inline = self.is_inline(first);
        let entries = &mut self.entries[first..];
        let key = |entry: &Entry| &text[entry.key.clone()];
        let were_ordered = entries.is_sorted_by(|a, b| key(a) < key(b));
        if inline || !were_ordered {
            entries.sort_unstable_by(|a, b| key(a).cmp(key(b)));
            if !entries.is_sorted_by(|a, b| key(a) < key(b)) {
                return None;
            }
            // The new order is made behind the old one, then takes its place.
            let end = self.out.len();
            for entry in entries.iter().filter(|entry| !inline || key(entry) != b"value") {
                if self.out.len() > end {
                    self.out.push(b',');
                }
                self.out.extend_from_within(entry.whole.clone());
            }
            self.out.drain(start..end);
        }
        self.entries.truncate(first);
        Some(())
    }

    /// Where the string that begins here ends.
    fn end_of_string(&self) -> Option<usize> {
        (self.peek()? == b'"').then_some(())?;
        let mut at = self.at + 1;
        loop {
            match self.text.get(at)? {
                b'"' => return Some(at + 1),
                b'\\' => at += 2,
                _ => at += 1,
            }
        }
    }

    /// Where the value that begins here ends.
    fn end_of_value(&self) -> Option<usize> {
        let (mut at, mut open, mut inside) = (self.at, 0_usize, false);
        loop {
            match self.text.get(at) {
                Some(b'\\') if inside => at += 1,
                Some(b'"') => inside = !inside,
                None if inside || open > 0 => return None,
                None => return Some(at),
                Some(_) if inside => {}
                Some(b'{' | b'[') => open += 1,
                Some(b',' | b'}' | b']') if open == 0 => return Some(at),
                Some(b'}' | b']') => open -= 1,
                Some(_) => {}
            }
            at += 1;
        }
    }
}

#[cfg(test)]
mod tests;
