//! Standard output and error: who reads them, colors, and the only places that write to them.
//!
//! Invariant: stdout is data only; everything said to people goes to stderr.

use crate::environment::Environment;
use crate::story::Color;
use crate::story::{self, output::Places};
use hookwright_core::diagnostic::{Diagnostic, Palette, render_all};
use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

/// Who reads what we write.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terminal {
    /// Whether stderr gets colors.
    pub(crate) color: bool,
    /// Whether a person can be asked: stdin and stderr are a terminal.
    pub(crate) interactive: bool,
}

impl Terminal {
    pub(crate) fn new(when: Color, env: &Environment) -> Self {
        let tty = std::io::stderr().is_terminal();
        let color = match when {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => tty && env.get("NO_COLOR").is_none() && env.get("TERM").as_deref() != Some("dumb"),
        };
        Self { color, interactive: tty && std::io::stdin().is_terminal() }
    }

    pub(crate) fn palette(self) -> Palette {
        if self.color { Palette::ANSI } else { Palette::PLAIN }
    }

    /// Shows warnings and the like.
    pub(crate) fn diagnostics(self, found: &[Diagnostic]) {
        if !found.is_empty() {
            note(render_all(found, &self.palette()).trim_end());
        }
    }
}

/// Columns of the terminal that stderr is.
pub(crate) fn columns() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stderr()).ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}

/// Data: to stdout, with a newline. A reader that went away is no error of ours.
pub(crate) fn data(text: &str) {
    let mut out = std::io::stdout().lock();
    let written =
        out.write_all(text.as_bytes()).and_then(|()| if text.ends_with('\n') { Ok(()) } else { out.write_all(b"\n") });
    see_to(written.and_then(|()| out.flush()));
}

/// Whether something that was asked for could not be written to stdout.
static LOST: AtomicBool = AtomicBool::new(false);

/// Says so, once, where stdout can't be written (a full disk). A reader that went away did so by its own will.
fn see_to(written: std::io::Result<()>) {
    if let Err(error) = written
        && error.kind() != std::io::ErrorKind::BrokenPipe
        && !LOST.swap(true, Ordering::Relaxed)
    {
        note(&format!("error: standard output can't be written: {error}"));
    }
}

/// Whether data was lost on its way to stdout: then no command may say that all is well.
pub(crate) fn lost_data() -> bool {
    LOST.load(Ordering::Relaxed)
}

/// For people: to stderr, with a newline.
pub(crate) fn note(text: &str) {
    let mut err = std::io::stderr().lock();
    let _ = writeln!(err, "{text}");
}

/// A job's output, on stdout. `shown` says that the story showed it already.
pub(crate) fn output(value: &serde_json::Value, shown: bool) {
    let places = Places {
        output_on_terminal: std::io::stdout().is_terminal(),
        story_on_terminal: std::io::stderr().is_terminal(),
    };
    see_to(story::output::emit(value, shown, places, &mut std::io::stdout().lock()));
}

/// One JSON value on stdout. What a terminal could act on (C1 controls, bidi marks) is written as JSON's own escapes.
pub(crate) fn json(value: &impl serde::Serialize) {
    data(&harmless(&serde_json::to_string_pretty(value).unwrap_or_default()));
}

/// As [`json`], on one line: for what goes on after it.
pub(crate) fn json_line(value: &impl serde::Serialize) {
    data(&harmless(&serde_json::to_string(value).unwrap_or_default()));
}

/// JSON text of the same value without hidden characters: outside of its texts there are none but newlines.
fn harmless(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if c == '\n' || !hookwright_core::text::is_hidden(c) {
            out.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            let _ = write!(out, "\\u{unit:04x}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_for_a_terminal_is_the_same_value_without_hidden_characters() {
        let value = serde_json::json!({"a\u{202e}": ["\u{9b}31m", "\u{e0041}", "\u{7f}é\n"]});
        let text = harmless(&serde_json::to_string_pretty(&value).unwrap());
        assert!(!text.chars().any(|c| c != '\n' && hookwright_core::text::is_hidden(c)), "{text:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
}
