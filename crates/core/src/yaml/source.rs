//! The text of a file: its lines, and what must not stand in any text.

use super::{MAX_BYTES, Sink};
use crate::diagnostic::{Code, Diagnostic, Excerpt, Place, Severity, shown};

/// A text with its name and the beginnings of its lines.
#[derive(Debug)]
pub(crate) struct SourceText<'t> {
    pub(crate) file: &'t str,
    pub(crate) text: &'t str,
    /// Byte offsets at which lines begin. Lines end at LF, CR LF or a lone CR, as YAML counts them.
    starts: Vec<usize>,
}

impl<'t> SourceText<'t> {
    pub(crate) fn new(file: &'t str, text: &'t str) -> Self {
        let bytes = text.as_bytes();
        let mut starts = vec![0];
        for (i, byte) in bytes.iter().enumerate() {
            if *byte == b'\n' || (*byte == b'\r' && bytes.get(i + 1) != Some(&b'\n')) {
                starts.push(i + 1);
            }
        }
        Self { file, text, starts }
    }

    /// A line without its end; empty behind the last.
    pub(crate) fn line(&self, line: u32) -> &'t str {
        let index = line.saturating_sub(1) as usize;
        let Some(start) = self.starts.get(index) else { return "" };
        let end = self.starts.get(index + 1).copied().unwrap_or(self.text.len());
        self.text[*start..end].trim_end_matches(['\n', '\r'])
    }

    pub(crate) fn excerpt(&self, place: Place) -> Option<Excerpt> {
        Excerpt::of_line(self.line(place.line), place)
    }

    /// The place of the character that begins at a byte.
    fn place_at(&self, byte: usize) -> Place {
        let line = self.starts.partition_point(|start| *start <= byte).max(1);
        let start = self.starts[line - 1];
        let column = self.text[start..byte].chars().count() + 1;
        Place { line: number(line), column: number(column), length: 1 }
    }
}

fn number(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// Checks what holds for any text, before it is read as YAML. False: not to be read.
pub(super) fn check_text(source: &SourceText<'_>, sink: &mut Sink<'_>) -> bool {
    let text = source.text;
    if text.len() > MAX_BYTES {
        sink.error(Place::START, Code::TooLarge, too_large());
        return false;
    }
    let control = |c: char| matches!(c, '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{7f}' | '\u{80}'..='\u{84}' | '\u{86}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}');
    if let Some((at, c)) = text.char_indices().find(|(_, c)| control(*c)) {
        sink.error(
            source.place_at(at),
            Code::Binary,
            format!("the control character U+{:04X} stands here: expected plain text", c as u32),
        )
        .hint("in a double-quoted text, write it as an escape, e.g. \"\\u001b\"");
        return false;
    }
    // Text that is shown in another order than it is read ("Trojan Source").
    let mut line = 0;
    for (at, _) in text.char_indices().filter(|(_, c)| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')) {
        let place = source.place_at(at);
        if place.line != line {
            line = place.line;
            sink.warn(place, Code::HiddenCharacters, "characters here change the order in which the line is shown");
        }
    }
    true
}

/// Reads the bytes of a file as UTF-8.
pub(super) fn text_of<'b>(bytes: &'b [u8], file: &str) -> Result<&'b str, Box<Diagnostic>> {
    let error = |code, place, message: String| Diagnostic::new(Severity::Error, code, file, place, message);
    if bytes.len() > MAX_BYTES {
        return Err(Box::new(error(Code::TooLarge, Place::START, too_large())));
    }
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        let d = error(Code::NotUtf8, Place::START, "the file is UTF-16: expected UTF-8".into());
        return Err(Box::new(d.with_hint("save it as UTF-8")));
    }
    std::str::from_utf8(bytes).map_err(|e| {
        let good = String::from_utf8_lossy(&bytes[..e.valid_up_to()]);
        let source = SourceText::new(file, &good);
        let place = source.place_at(good.len());
        let byte = bytes.get(e.valid_up_to()).copied().unwrap_or(0);
        let mut d = error(
            Code::NotUtf8,
            place,
            format!("the byte 0x{byte:02X} (at {} in the file) is not UTF-8: expected text", e.valid_up_to()),
        )
        .with_hint("save the file as UTF-8");
        d.excerpt = source.excerpt(place);
        Box::new(d)
    })
}

fn too_large() -> String {
    // Files are read up to just over the limit: how large they are altogether is not known here.
    format!("the file has more than {MAX_BYTES} bytes: at most so many (1 MiB) are read")
}

/// A key or value as it may stand in a message, in backquotes.
pub(crate) fn quoted(text: &str) -> String {
    format!("`{}`", shown(text))
}
