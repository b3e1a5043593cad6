//! Text of any length, wrapped behind a bar, as it comes in pieces.
//!
//! Invariant: each row begins with the prefix and is at most `room` columns longer, so that no terminal wraps it and the
//! text can't begin a row of its own. Invariant: escaped character by character, so a piece may end anywhere.

use super::line::columns;
use hookwright_core::text;
use unicode_width::UnicodeWidthChar;

/// A wrapped text under way.
#[derive(Debug, Clone)]
pub(crate) struct Flow {
    prefix: String,
    room: usize,
    /// Rows that may be begun.
    limit: usize,
    rows: usize,
    /// A row more was wanted than may be: the rest is not taken.
    full: bool,
    /// Columns used in this row; none before it is begun.
    column: Option<usize>,
    word: String,
    word_columns: usize,
    blanks: usize,
    carriage_return: bool,
    /// Bytes of the text that are held back, and that stand in rows.
    held: usize,
    placed: usize,
}

/// Bytes of a word that are held back at most, per column; marks without a width would never fill the room.
const WORD_BYTES_PER_COLUMN: usize = 4;

impl Flow {
    /// A text whose rows begin with `prefix` (escaped, maybe coloured) and hold `room` columns.
    pub(crate) fn new(prefix: String, room: usize) -> Self {
        Self {
            prefix,
            room: room.max(8),
            limit: usize::MAX,
            rows: 0,
            full: false,
            column: None,
            word: String::new(),
            word_columns: 0,
            blanks: 0,
            carriage_return: false,
            held: 0,
            placed: 0,
        }
    }

    /// Takes a piece; what is complete of it is written to `out`.
    pub(crate) fn push(&mut self, piece: &str, out: &mut String) {
        for c in piece.chars() {
            self.push_char(c, out);
            if self.full {
                return;
            }
        }
    }

    fn push_char(&mut self, c: char, out: &mut String) {
        if std::mem::take(&mut self.carriage_return) && c != '\n' {
            self.grow("\\r", out);
        }
        match c {
            '\r' => self.carriage_return = true,
            '\n' => {
                self.place(out);
                self.held += 1;
                if self.begin(out) {
                    out.push('\n');
                    self.placed += std::mem::take(&mut self.held);
                }
                self.column = None;
                self.blanks = 0;
                return;
            }
            ' ' | '\t' => {
                self.place(out);
                self.blanks += if c == '\t' { 4 } else { 1 };
            }
            c if text::is_hidden(c) => self.grow(&text::escape(c.encode_utf8(&mut [0; 4])), out),
            c => self.grow(c.encode_utf8(&mut [0; 4]), out),
        }
        self.held += c.len_utf8();
    }

    /// Writes what is held back, and ends the last row. Returns how many bytes of the text stand in rows.
    pub(crate) fn end(mut self, out: &mut String) -> usize {
        if std::mem::take(&mut self.carriage_return) {
            self.grow("\\r", out);
        }
        self.place(out);
        if self.column.is_some() {
            out.push('\n');
        }
        if self.full { self.placed } else { self.placed + self.held }
    }

    fn grow(&mut self, shown: &str, out: &mut String) {
        for c in shown.chars() {
            let width = c.width().unwrap_or(0);
            if self.word_columns + width > self.room || self.word.len() > self.room * WORD_BYTES_PER_COLUMN {
                self.place(out);
            }
            self.word.push(c);
            self.word_columns += width;
        }
    }

    /// Begins a row where none is; false where no more may be.
    fn begin(&mut self, out: &mut String) -> bool {
        if self.column.is_some() {
            return true;
        }
        if self.full || self.rows >= self.limit {
            self.full = true;
            return false;
        }
        out.push_str(&self.prefix);
        self.column = Some(0);
        self.rows += 1;
        true
    }

    /// Sets the word that is held back.
    fn place(&mut self, out: &mut String) {
        if self.word.is_empty() || !self.begin(out) {
            return;
        }
        let column = self.column.unwrap_or(0);
        if column + self.blanks + self.word_columns <= self.room {
            out.push_str(&" ".repeat(self.blanks));
            self.column = Some(column + self.blanks + self.word_columns);
        } else {
            if column > 0 {
                out.push('\n');
                self.column = None;
                if !self.begin(out) {
                    return;
                }
            }
            self.column = Some(self.word_columns);
        }
        out.push_str(&self.word);
        self.word.clear();
        self.placed += std::mem::take(&mut self.held);
        (self.word_columns, self.blanks) = (0, 0);
    }
}

/// A text as a block of at most `rows` rows. The second part is how many of its bytes were left out.
pub(crate) fn block(text: &str, prefix: &str, width: usize, rows: usize) -> (String, usize) {
    block_in(text, prefix, width.saturating_sub(columns(prefix)), rows)
}

/// As [`block`], for a prefix that may be coloured: `room` is what stands beside it.
pub(crate) fn block_in(text: &str, prefix: &str, room: usize, rows: usize) -> (String, usize) {
    let mut flow = Flow { limit: rows, ..Flow::new(prefix.to_owned(), room) };
    let mut out = String::new();
    flow.push(text, &mut out);
    let shown = flow.end(&mut out);
    (out, text.len().saturating_sub(shown))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(pieces: &[&str], room: usize) -> String {
        let mut flow = Flow::new("| ".into(), room);
        let mut out = String::new();
        for piece in pieces {
            flow.push(piece, &mut out);
        }
        flow.end(&mut out);
        out
    }

    #[test]
    fn the_pieces_make_no_difference() {
        let text = "One two three, four  five.\n\n  indented\ttab\r\nwindows \u{1b}[31mred\u{202e} longlonglonglonglong 語語語語語語 x\r";
        let whole = flow(&[text], 12);
        for n in 1..9 {
            let chars: Vec<char> = text.chars().collect();
            let pieces: Vec<String> = chars.chunks(n).map(|c| c.iter().collect()).collect();
            assert_eq!(flow(&pieces.iter().map(String::as_str).collect::<Vec<_>>(), 12), whole);
        }
        insta::assert_snapshot!(whole, @r"
        | One two
        | three, four
        | five.
        | 
        |   indented
        | tab
        | windows
        | \u{1b}[31mre
        | d\u{202e}
        | longlonglong
        | longlong
        | 語語語語語語
        | x\r
        ");
    }

    #[test]
    fn every_row_has_the_bar_and_fits() {
        let hostile = format!("{}\n\u{1b}]0;t\u{7}{}", "x".repeat(500), "\u{301}".repeat(5_000));
        for row in flow(&[&hostile], 20).lines() {
            assert!(row.starts_with("| ") && columns(row) <= 22, "{row:?}");
        }
    }

    #[test]
    fn a_block_stops_at_its_rows_and_says_how_much_is_left_out() {
        assert_eq!(block("a\nb\nc", "| ", 20, 3), ("| a\n| b\n| c\n".into(), 0));
        assert_eq!(block("a\nb\nc\n", "| ", 20, 3), ("| a\n| b\n| c\n".into(), 0));
        assert_eq!(block("a\nb\nc\nd", "| ", 20, 2), ("| a\n| b\n".into(), 3));
        let words = "word ".repeat(100_000);
        let (out, left_out) = block(&words, "| ", 20, 2);
        assert_eq!(out, "| word word word\n| word word word\n");
        assert_eq!(left_out, words.len() - "word word word word word word".len());
        assert_eq!(block(&"x".repeat(1_000_000), "| ", 20, 1).1, 1_000_000 - 18);
        assert_eq!(block("", "| ", 20, 2), (String::new(), 0));
    }
}
