//! Standard output and error: who reads them, colors, and the only places that write to them.
//!
//! Invariant: stdout is data only; everything said to people goes to stderr.

use crate::args::ColorWhen;
use crate::environment::Environment;
use hookwright_core::diagnostic::{Diagnostic, Palette, render_all};
use std::io::{IsTerminal as _, Write as _};

/// Who reads what we write.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terminal {
    /// Whether stderr gets colors.
    pub(crate) color: bool,
    /// Whether a person can be asked: stdin and stderr are a terminal.
    pub(crate) interactive: bool,
}

impl Terminal {
    pub(crate) fn new(when: ColorWhen, env: &Environment) -> Self {
        let tty = std::io::stderr().is_terminal();
        let color = match when {
            ColorWhen::Always => true,
            ColorWhen::Never => false,
            ColorWhen::Auto => tty && env.get("NO_COLOR").is_none() && env.get("TERM").as_deref() != Some("dumb"),
        };
        Self { color, interactive: tty && std::io::stdin().is_terminal() }
    }

    pub(crate) fn palette(&self) -> Palette {
        if self.color { Palette::ANSI } else { Palette::PLAIN }
    }

    /// Shows warnings and the like.
    pub(crate) fn diagnostics(&self, found: &[Diagnostic]) {
        if !found.is_empty() {
            note(render_all(found, &self.palette()).trim_end());
        }
    }
}

/// Data: to stdout, with a newline. A reader that went away is no error of ours.
pub(crate) fn data(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| if text.ends_with('\n') { Ok(()) } else { out.write_all(b"\n") });
    let _ = out.flush();
}

/// For people: to stderr, with a newline.
pub(crate) fn note(text: &str) {
    let mut err = std::io::stderr().lock();
    let _ = writeln!(err, "{text}");
}

/// One JSON value on stdout.
pub(crate) fn json(value: &impl serde::Serialize) {
    data(&serde_json::to_string_pretty(value).unwrap_or_default());
}
