//! One line: pieces with their roles, escaped as they are added, cut to the width as a whole.
//!
//! Invariant: a rendered line holds one newline, at its end, and no control character but those of our own colours.

use super::look::{Look, Role};
use hookwright_core::text::escape;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Columns that a text takes. Characters without a width (combining ones) take none.
pub(crate) fn columns(text: &str) -> usize {
    text.width()
}

/// Cuts a text to some columns; an ellipsis stands for the rest. The text must be escaped already.
pub(crate) fn fit(text: &str, room: usize, look: Look) -> String {
    // Characters without a width are bounded too: a line of combining marks is as much a flood as any other.
    let most_chars = room * 4;
    let (mut used, mut chars, mut cut_at) = (0, 0, 0);
    let mark = columns(look.ellipsis());
    for (i, c) in text.char_indices() {
        if used + mark <= room {
            cut_at = i;
        }
        used += c.width().unwrap_or(0);
        chars += 1;
        if used > room || chars > most_chars {
            return format!("{}{}", &text[..cut_at], look.ellipsis());
        }
    }
    text.to_owned()
}

/// Escapes at most `most` bytes of a text (on a character border), so that a line of 1 MB costs as little as one of 1 kB.
pub(crate) fn escaped_head(text: &str, most: usize) -> String {
    if text.len() <= most {
        return escape(text);
    }
    let mut end = most;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    escape(&text[..end])
}

/// A line under construction.
#[derive(Debug, Clone, Default)]
pub(crate) struct Line {
    pieces: Vec<(Role, String)>,
    columns: usize,
}

/// Bytes of one piece that are looked at: more than the widest line can show.
const PIECE_BYTES: usize = 4_096;

impl Line {
    /// A line that begins with where in the job it belongs, and a mark: `!` for what went wrong, `?` for a person, else a blank.
    pub(crate) fn at(place: &str, mark: char) -> Self {
        let role = match mark {
            '!' => Role::Bad,
            '?' => Role::Warn,
            _ => Role::Dim,
        };
        Self::default().add(Role::Dim, place).pad(8).add(role, &mark.to_string()).add(Role::Plain, " ")
    }

    /// A continuation: no place, no mark.
    pub(crate) fn more() -> Self {
        Self::default().pad(INDENT)
    }

    /// Adds a text, escaped.
    pub(crate) fn add(mut self, role: Role, text: &str) -> Self {
        let text = escaped_head(text, PIECE_BYTES);
        if !text.is_empty() {
            self.columns += columns(&text);
            self.pieces.push((role, text));
        }
        self
    }

    /// Adds plain text, escaped.
    pub(crate) fn plain(self, text: &str) -> Self {
        self.add(Role::Plain, text)
    }

    /// Fills with blanks up to a column; at least one blank where something stands before.
    pub(crate) fn pad(self, column: usize) -> Self {
        let blanks = column.saturating_sub(self.columns).max(usize::from(self.columns > 0));
        self.add(Role::Plain, &" ".repeat(blanks))
    }

    /// Columns that are left.
    pub(crate) fn room(&self, look: Look) -> usize {
        look.width.saturating_sub(self.columns)
    }

    /// The line, however long, with its newline: for what is copied from it, which must be whole.
    pub(crate) fn whole(self, look: Look) -> String {
        self.end(Look { width: usize::MAX, ..look })
    }

    /// The line, cut to the width, with its newline.
    pub(crate) fn end(self, look: Look) -> String {
        let mut out = String::new();
        let mut room = look.width;
        // Blanks at the end are no text.
        let last = self.pieces.iter().rposition(|(_, text)| !text.trim().is_empty()).map_or(0, |i| i + 1);
        for (i, (role, text)) in self.pieces[..last].iter().enumerate() {
            let text = if i + 1 == last { text.trim_end() } else { text };
            let rest: usize = self.pieces[i + 1..last].iter().map(|(_, t)| columns(t)).sum();
            let fits = columns(text) + rest.min(1) <= room;
            let shown = if fits { text.to_owned() } else { fit(&format!("{text}  "), room, look) };
            out.push_str(&look.paint(*role, &shown));
            if !fits {
                break;
            }
            room -= columns(text);
        }
        out.push('\n');
        out
    }
}

/// Where the text of a line begins, and its continuations.
pub(crate) const INDENT: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_by_columns_not_characters() {
        let look = Look::PLAIN;
        assert_eq!(fit("abcdef", 6, look), "abcdef");
        assert_eq!(fit("abcdefg", 6, look), "abcde…");
        assert_eq!(fit("語語語語", 6, look), "語語…");
        assert_eq!(fit("abcdefg", 6, Look { unicode: false, ..look }), "abc...");
        assert!(fit(&format!("a{}", "\u{301}".repeat(10_000)), 6, look).len() < 200, "marks without a width");
    }

    #[test]
    fn a_line_is_one_line_of_at_most_the_width_whatever_is_added() {
        for color in [false, true] {
            let look = Look { color, ..Look::PLAIN };
            let line = Line::at("t1.c0\n", '!').add(Role::Bad, "a\nb\u{1b}[2J\u{202e}").plain(&"x".repeat(1_000_000));
            let line = line.end(look);
            assert_eq!(line.matches('\n').count(), 1);
            assert!(!line.contains("\u{1b}[2J") && !line.contains('\u{202e}'));
            assert!(line.len() < 200);
        }
        let line = Line::at("t1", ' ').plain(&"y".repeat(200)).plain("never seen").end(Look::PLAIN);
        assert_eq!(columns(line.trim_end()), 80);
        assert!(line.ends_with("y…\n"));
    }

    #[test]
    fn a_line_that_just_fits_is_whole() {
        let line = Line::default().plain(&"y".repeat(70)).plain(&"z".repeat(10)).end(Look::PLAIN);
        assert_eq!(line, format!("{}{}\n", "y".repeat(70), "z".repeat(10)));
    }
}
