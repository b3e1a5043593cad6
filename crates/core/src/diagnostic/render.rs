//! Diagnostics as text for people.

use super::{Diagnostic, Excerpt, Severity};
use crate::text::escape;
use std::fmt::Write as _;

/// Sequences put around the parts of a rendered diagnostic. [`Palette::PLAIN`] puts none.
#[derive(Debug, Clone, Copy)]
pub struct Palette {
    /// Before `error`.
    pub error: &'static str,
    /// Before `warning`.
    pub warning: &'static str,
    /// Before `info`.
    pub info: &'static str,
    /// Before margins and line numbers.
    pub dim: &'static str,
    /// Before the place and the word `help`.
    pub strong: &'static str,
    /// After each.
    pub reset: &'static str,
}

impl Palette {
    /// No colour.
    pub const PLAIN: Self = Self { error: "", warning: "", info: "", dim: "", strong: "", reset: "" };
    /// ANSI colours.
    pub const ANSI: Self = Self {
        error: "\u{1b}[1;31m",
        warning: "\u{1b}[1;33m",
        info: "\u{1b}[1;36m",
        dim: "\u{1b}[2m",
        strong: "\u{1b}[1m",
        reset: "\u{1b}[0m",
    };

    fn of(&self, severity: Severity) -> &'static str {
        match severity {
            Severity::Error => self.error,
            Severity::Warning => self.warning,
            Severity::Info => self.info,
        }
    }
}

pub(super) fn render(d: &Diagnostic, p: &Palette) -> String {
    let mut out = String::new();
    let paint = p.of(d.severity);
    let _ = writeln!(
        out,
        "{}{}:{}:{}{}: {paint}{}{}: {} [{}]",
        p.strong,
        escape(&d.file),
        d.line,
        d.column,
        p.reset,
        d.severity.word(),
        p.reset,
        escape(&d.message),
        d.code
    );
    if let Some(excerpt) = &d.excerpt {
        let number = d.line.to_string();
        let margin = " ".repeat(number.len());
        let (line, pad, carets) = lay_out(excerpt);
        let (dim, reset) = (p.dim, p.reset);
        let _ = writeln!(out, "{dim}{number} |{reset} {line}");
        let _ = writeln!(out, "{dim}{margin} |{reset} {}{paint}{}{reset}", " ".repeat(pad), "^".repeat(carets));
    }
    if let Some(hint) = &d.hint {
        let _ = writeln!(out, "  {}help:{} {}", p.strong, p.reset, escape(hint));
    }
    out
}

/// The line as shown, the columns before the carets, and their number.
fn lay_out(excerpt: &Excerpt) -> (String, usize, usize) {
    let mut line = String::new();
    let (mut pad, mut carets) = (0, 0);
    if excerpt.cut.0 {
        line.push('…');
        pad += 1;
    }
    let (start, end) = (excerpt.start as usize, (excerpt.start + excerpt.length) as usize);
    for (i, c) in excerpt.text.chars().enumerate() {
        // A tab as one space: its width is not known here, and carets must fit.
        let piece = if c == '\t' { " ".to_owned() } else { escape(c.encode_utf8(&mut [0; 4])) };
        let width: usize = piece.chars().map(columns).sum();
        if i < start {
            pad += width;
        } else if i < end {
            carets += width;
        }
        line.push_str(&piece);
    }
    // A place behind the last character, e.g. of a value that is missing.
    pad += start.saturating_sub(excerpt.text.chars().count());
    if excerpt.cut.1 {
        line.push('…');
    }
    (line.trim_end().to_owned(), pad, carets.max(1))
}

/// Columns that a terminal gives a character: 2 for East Asian wide ones and most emoji, 0 for combining marks.
fn columns(c: char) -> usize {
    match c as u32 {
        0x0300..=0x036F | 0xFE00..=0xFE0F => 0,
        0x1100..=0x115F
        | 0x2E80..=0xA4CF
        | 0xAC00..=0xD7A3
        | 0xF900..=0xFAFF
        | 0xFE30..=0xFE6F
        | 0xFF00..=0xFF60
        | 0xFFE0..=0xFFE6
        | 0x1F300..=0x1F64F
        | 0x1F900..=0x1F9FF
        | 0x20000..=0x3FFFD => 2,
        _ => 1,
    }
}
