//! The one thing that `run` writes to standard output in text mode: the job's output.
//!
//! Invariant: into a file or pipe goes the output byte for byte (and a newline at its end); onto a terminal it is escaped.

use hookwright_core::text::escape_block;
use serde_json::Value;
use std::io::{self, Write};

/// Where output and story go.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Places {
    /// Whether standard output is a terminal.
    pub(crate) output_on_terminal: bool,
    /// Whether standard error, where the story goes, is a terminal.
    pub(crate) story_on_terminal: bool,
}

/// Writes a job's output: a string as it is, other JSON indented.
///
/// Where both go to terminals and the story showed the output already ([`super::Printer::shown_output`]), nothing is written:
/// nobody wants to read it twice.
pub(crate) fn emit(output: &Value, shown: bool, places: Places, out: &mut dyn Write) -> io::Result<()> {
    if shown && places.output_on_terminal && places.story_on_terminal {
        return Ok(());
    }
    let mut text = match output {
        Value::String(text) => text.clone(),
        other => serde_json::to_string_pretty(other).unwrap_or_default(),
    };
    if places.output_on_terminal {
        text = escape_block(&text);
    }
    if !text.ends_with('\n') {
        text.push('\n');
    }
    out.write_all(text.as_bytes())?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn emitted(output: &Value, shown: bool, output_on_terminal: bool, story_on_terminal: bool) -> String {
        let mut out = vec![];
        emit(output, shown, Places { output_on_terminal, story_on_terminal }, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_pipe_gets_the_output_byte_for_byte_whatever_the_story_showed() {
        let hostile = "a\u{1b}[1mb\r\n";
        assert_eq!(emitted(&json!(hostile), true, false, true), hostile);
        assert_eq!(emitted(&json!("no newline"), true, false, false), "no newline\n");
        assert_eq!(emitted(&json!({"a": 1}), false, false, true), "{\n  \"a\": 1\n}\n");
    }

    #[test]
    fn a_terminal_gets_it_escaped_and_once() {
        assert_eq!(emitted(&json!("a\u{1b}[1m\nb"), false, true, true), "a\\u{1b}[1m\nb\n");
        assert_eq!(emitted(&json!("a"), true, true, true), "");
        assert_eq!(emitted(&json!("a"), true, true, false), "a\n", "the story went into a file");
    }
}
