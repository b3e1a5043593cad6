//! YAML as the files of Hookwright use it: text → a tree in which every key and value knows its place, then typed reading
//! that collects every fault instead of stopping at the first.
//!
//! The dialect is YAML 1.2 with the core schema (`yes`, `on`, `no` are text), one document, aliases and merge keys (`<<`).
//!
//! Invariant: time and memory are bounded by the text's size: values are counted *after* aliases are followed.
//! Invariant: nothing recurses deeper than [`MAX_DEPTH`].

mod compose;
mod mapping;
mod node;
mod quantities;
mod reader;
mod scalar;
mod sink;
mod source;
mod units;

pub(crate) use node::{Entry, Kind, Node};
pub(crate) use reader::{Fields, ID_PATTERN, ID_RULE, Reader};
pub(crate) use sink::Sink;
pub(crate) use source::SourceText;
pub(crate) use units::{duration_pattern, size_pattern};

/// Bytes of a file.
pub(crate) const MAX_BYTES: usize = 1024 * 1024;
/// Lists and mappings within each other.
pub(crate) const MAX_DEPTH: usize = 64;
/// Values of a document, aliases followed.
pub(crate) const MAX_VALUES: usize = 100_000;
/// Bytes of text of a document, aliases followed.
pub(crate) const MAX_TEXT_BYTES: usize = 4 * 1024 * 1024;
/// Problems that are shown of one file.
pub(crate) const MAX_PROBLEMS: usize = 100;

/// Reads a text into a tree. On a fault in the YAML itself, says so in `sink` and gives nothing.
pub(crate) fn read(source: &SourceText<'_>, sink: &mut Sink<'_>) -> Option<std::rc::Rc<Node>> {
    source::check_text(source, sink).then(|| compose::compose(source, sink)).flatten()
}

/// Reads the bytes of a file as text. The error is ready to be shown.
pub(crate) fn text_of<'b>(bytes: &'b [u8], file: &str) -> Result<&'b str, Box<crate::diagnostic::Diagnostic>> {
    source::text_of(bytes, file)
}

#[cfg(test)]
mod tests;
