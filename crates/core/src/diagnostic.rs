//! What is wrong with a file that a person wrote: where, what was expected, what to do next.
//!
//! Invariant: whatever comes from a file or a server is escaped and bounded before it stands in a message.
//! Invariant: what looks like a secret is never repeated, neither in a message nor in an excerpt.

use serde::Serialize;
use std::fmt;

mod code;
mod render;
mod secret;
mod suggest;

pub use code::Code;
pub use render::Palette;
pub use secret::{mask, secret_kind, sounds_secret};
pub use suggest::{nearest, shown};

/// How much a diagnostic weighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth knowing; nothing to be done.
    Info,
    /// Probably not what was meant; changes no exit code (SPEC §2).
    Warning,
    /// The file is refused.
    Error,
}

impl Severity {
    /// Its word in output.
    pub fn word(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// A place in a text: 1-based line and column (in characters), and how many characters of that line it covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place {
    /// 1-based.
    pub line: u32,
    /// 1-based, in characters.
    pub column: u32,
    /// Characters; at least 1.
    pub length: u32,
}

impl Place {
    /// The beginning of a file.
    pub const START: Self = Self { line: 1, column: 1, length: 1 };
}

/// One thing that is wrong, or odd, with a file. Serialized, it is an element of `check --output json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// How much it weighs.
    pub severity: Severity,
    /// Which rule; stable, in kebab-case.
    pub code: Code,
    /// The file, as the caller named it.
    pub file: String,
    /// 1-based.
    pub line: u32,
    /// 1-based, in characters.
    pub column: u32,
    /// What happened and what was expected. One line, escaped.
    pub message: String,
    /// What to do about it. One line, escaped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The line of the file that it is about, with secrets masked.
    #[serde(skip)]
    pub excerpt: Option<Excerpt>,
}

/// The line of a file that a diagnostic is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excerpt {
    /// The line, raw but with secrets masked, at most [`Excerpt::MAX_CHARS`] characters around the place.
    pub text: String,
    /// Where the place begins in `text`, in characters from 0.
    pub start: u32,
    /// Characters that it covers; at least 1.
    pub length: u32,
    /// Whether characters of the line are missing before and after `text`.
    pub cut: (bool, bool),
}

impl Excerpt {
    /// Characters of a line that are kept, so that an excerpt with its margin fits 80 columns.
    pub const MAX_CHARS: usize = 68;

    /// Bytes of a line beyond which there is no excerpt: finding secrets in it would cost too much.
    const MAX_LINE_BYTES: usize = 16 * 1024;

    /// Of a whole line and a place in it; none where the line is longer than 16 KiB.
    pub fn of_line(line: &str, place: Place) -> Option<Self> {
        if line.len() > Self::MAX_LINE_BYTES {
            return None;
        }
        let column = place.column.max(1) as usize - 1;
        let (masked, moved) = mask(line, column);
        let end = mask(line, column + place.length.max(1) as usize).1;
        let chars: Vec<char> = masked.chars().collect();
        // Not moved: the place lies behind the end of the line.
        let start = moved.unwrap_or(chars.len());
        let from = if start < Self::MAX_CHARS * 2 / 3 { 0 } else { start - Self::MAX_CHARS / 3 };
        let to = (from + Self::MAX_CHARS).min(chars.len());
        let length = end.unwrap_or(chars.len()).min(to).saturating_sub(start).max(1);
        Some(Self {
            text: chars[from.min(to)..to].iter().collect(),
            start: u32::try_from(start - from).unwrap_or(0),
            length: u32::try_from(length).unwrap_or(1),
            cut: (from > 0, to < chars.len()),
        })
    }

    /// Puts `***` where the place is, for values that are secrets by their name only.
    #[must_use]
    pub fn redacted(self) -> Self {
        let (start, length) = (self.start as usize, self.length as usize);
        let mut text: String = self.text.chars().take(start).collect();
        text.push_str("***");
        text.extend(self.text.chars().skip(start + length));
        Self { text, length: 3, ..self }
    }
}

impl Diagnostic {
    /// At a place of a file, without hint and excerpt.
    pub fn new(severity: Severity, code: Code, file: &str, place: Place, message: impl Into<String>) -> Self {
        Self {
            severity,
            code,
            file: file.to_owned(),
            line: place.line,
            column: place.column,
            message: message.into(),
            hint: None,
            excerpt: None,
        }
    }

    /// With a hint.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Whether the file is refused for it.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    /// As a person reads it: `file:line:column: error: …`, the line with a caret, the hint. Ends with a newline.
    pub fn render(&self, palette: &Palette) -> String {
        render::render(self, palette)
    }
}

impl fmt::Display for Diagnostic {
    /// The plain rendering without the last newline.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.render(&Palette::PLAIN).trim_end_matches('\n'))
    }
}

/// Renders all, in the order given, and says how many there are: `2 errors, 1 warning`.
pub fn render_all(diagnostics: &[Diagnostic], palette: &Palette) -> String {
    let mut out: String = diagnostics.iter().map(|d| d.render(palette)).collect::<Vec<_>>().join("\n");
    if let Some(line) = summary(diagnostics) {
        out.push('\n');
        out.push_str(&line);
        out.push('\n');
    }
    out
}

/// `2 errors, 1 warning`; nothing where there is none of either.
pub fn summary(diagnostics: &[Diagnostic]) -> Option<String> {
    let count = |severity| diagnostics.iter().filter(|d| d.severity == severity).count();
    let parts: Vec<String> = [Severity::Error, Severity::Warning]
        .into_iter()
        .map(|severity| (count(severity), severity.word()))
        .filter(|(n, _)| *n > 0)
        .map(|(n, word)| format!("{n} {word}{}", if n == 1 { "" } else { "s" }))
        .collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

#[cfg(test)]
mod tests;
