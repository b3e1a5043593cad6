//! Typed reading of the tree: each function gives a value or says what is wrong and gives nothing.
//!
//! Invariant: `None` means that an error was said.

use super::node::{Entry, Kind, Node};
use super::source::quoted;
use super::{Sink, sink::Said};
use crate::diagnostic::{Code, Place, nearest};
use std::collections::HashMap;

/// Reads values and collects faults.
pub(crate) struct Reader<'r, 's> {
    pub(crate) sink: &'r mut Sink<'s>,
}

/// A mapping whose keys are all known.
pub(crate) struct Fields<'n> {
    place: Place,
    entries: HashMap<&'n str, &'n Entry>,
    /// Known keys that unknown ones were probably meant to be.
    meant: Vec<String>,
}

impl<'n> Fields<'n> {
    /// Where the mapping begins.
    pub(crate) fn place(&self) -> Place {
        self.place
    }

    pub(crate) fn get(&self, key: &str) -> Option<&'n Node> {
        self.entry(key).map(|entry| entry.value.as_ref())
    }

    pub(crate) fn entry(&self, key: &str) -> Option<&'n Entry> {
        self.entries.get(key).copied()
    }
}

impl Reader<'_, '_> {
    pub(crate) fn error(&mut self, place: Place, code: Code, message: impl Into<String>) -> Said<'_> {
        self.sink.error(place, code, message)
    }

    pub(crate) fn warn(&mut self, place: Place, code: Code, message: impl Into<String>) -> Said<'_> {
        self.sink.warn(place, code, message)
    }

    /// Says that a value has another type than expected. `what` names the value: "`timeout`", "an entry of `tools`".
    pub(crate) fn wrong_type(&mut self, node: &Node, what: &str, expected: &str) -> Said<'_> {
        let found = match &node.kind {
            Kind::Null => "is empty".to_owned(),
            _ => format!("is {}", node.what()),
        };
        let hint = matches!(node.kind, Kind::Null).then(|| "give it a value, or leave the key out".to_owned());
        self.sink.error(node.place, Code::WrongType, format!("{what} {found}: expected {expected}")).maybe_hint(hint)
    }

    /// A mapping with keys of `known`; others are errors, with the nearest known one as a hint.
    pub(crate) fn fields<'n>(&mut self, node: &'n Node, what: &str, known: &[&str]) -> Option<Fields<'n>> {
        let Kind::Map(entries) = &node.kind else {
            let expected = format!("a mapping with the keys {}", known.join(", "));
            self.wrong_type(node, what, &expected);
            return None;
        };
        let mut fields =
            Fields { place: node.place, entries: HashMap::with_capacity(entries.len()), meant: Vec::new() };
        for entry in entries {
            if known.contains(&entry.key.as_str()) {
                fields.entries.insert(&entry.key, entry);
                continue;
            }
            let hint = match nearest(&entry.key, known.iter().copied()) {
                Some(name) => {
                    fields.meant.push(name.to_owned());
                    format!("did you mean `{name}`?")
                }
                None => format!("the keys of {what} are {}", known.join(", ")),
            };
            self.error(entry.key_place, Code::UnknownKey, format!("unknown key {} in {what}", quoted(&entry.key)))
                .hint(hint);
        }
        Some(fields)
    }

    /// A value that must be there. Where another key was probably meant to be it, that one was said already.
    pub(crate) fn required<'n>(&mut self, fields: &Fields<'n>, key: &str, what: &str, hint: &str) -> Option<&'n Node> {
        let found = fields.get(key);
        if found.is_none() && !fields.meant.iter().any(|meant| meant == key) {
            self.error(fields.place, Code::MissingKey, format!("{what} lacks the key `{key}`")).hint(hint);
        }
        found
    }

    /// The entries of any mapping.
    pub(crate) fn entries<'n>(&mut self, node: &'n Node, what: &str, expected: &str) -> Option<&'n [Entry]> {
        if let Kind::Map(entries) = &node.kind {
            return Some(entries);
        }
        self.wrong_type(node, what, expected);
        None
    }

    pub(crate) fn list<'n>(&mut self, node: &'n Node, what: &str) -> Option<&'n [std::rc::Rc<Node>]> {
        match &node.kind {
            Kind::List(items) => Some(items),
            Kind::Text(text) if !text.is_empty() && text.len() <= 60 && !text.contains(['\n', '"', '[', ',']) => {
                let hint = format!("write [\"{}\"]", crate::diagnostic::shown(text));
                self.wrong_type(node, what, "a list").hint(hint);
                None
            }
            _ => {
                self.wrong_type(node, what, "a list");
                None
            }
        }
    }

    /// Any text.
    pub(crate) fn text<'n>(&mut self, node: &'n Node, what: &str) -> Option<&'n str> {
        match &node.kind {
            Kind::Text(text) => Some(text),
            Kind::Number(_) | Kind::NotFinite | Kind::Bool(_) => {
                self.wrong_type(node, what, "text").hint("put it in quotes if it is meant as text");
                None
            }
            Kind::Null | Kind::List(_) | Kind::Map(_) => {
                self.wrong_type(node, what, "text");
                None
            }
        }
    }

    /// Text of at least one character that is no white space, without control characters but, where allowed, line ends and tabs.
    pub(crate) fn filled<'n>(&mut self, node: &'n Node, what: &str, lines: bool) -> Option<&'n str> {
        let text = self.text(node, what)?;
        if text.chars().all(char::is_whitespace) {
            self.error(node.place, Code::EmptyText, format!("{what} is an empty text"));
            return None;
        }
        if let Some(c) = text.chars().find(|c| c.is_control() && !(lines && matches!(c, '\n' | '\t' | '\r'))) {
            let message = format!("{what} holds the control character U+{:04X}", c as u32);
            self.error(node.place, Code::InvalidText, message);
            return None;
        }
        Some(text)
    }

    /// A list of such texts, each on one line. Entries that stand twice are warned of and kept once.
    pub(crate) fn texts(&mut self, node: &Node, what: &str, may_be_empty: bool) -> Option<Vec<(String, Place)>> {
        let items = self.list(node, what)?;
        if items.is_empty() && !may_be_empty {
            self.error(node.place, Code::EmptyList, format!("{what} is an empty list"))
                .hint("leave the key out, or name at least one");
            return None;
        }
        let entry = format!("an entry of {what}");
        let mut seen = std::collections::HashSet::new();
        let mut found = Vec::with_capacity(items.len());
        let mut good = true;
        for item in items {
            let Some(text) = self.filled(item, &entry, false) else {
                good = false;
                continue;
            };
            if seen.insert(text) {
                found.push((text.to_owned(), item.place));
            } else {
                self.warn(item.place, Code::DuplicateEntry, format!("{} stands twice in {what}", quoted(text)));
            }
        }
        good.then_some(found)
    }

    pub(crate) fn boolean(&mut self, node: &Node, what: &str) -> Option<bool> {
        match &node.kind {
            Kind::Bool(value) => Some(*value),
            Kind::Text(text)
                if matches!(text.to_ascii_lowercase().as_str(), "yes" | "on" | "no" | "off" | "true" | "false") =>
            {
                let value = matches!(text.to_ascii_lowercase().as_str(), "yes" | "on" | "true");
                self.wrong_type(node, what, "true or false").hint(format!("write {value}, without quotes"));
                None
            }
            _ => {
                self.wrong_type(node, what, "true or false");
                None
            }
        }
    }

    /// One of some words.
    pub(crate) fn choice<T: Copy>(&mut self, node: &Node, what: &str, choices: &[(&str, T)]) -> Option<T> {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        let expected = format!("one of {}", names.join(", "));
        let Kind::Text(text) = &node.kind else {
            self.wrong_type(node, what, &expected);
            return None;
        };
        if let Some((_, value)) = choices.iter().find(|(name, _)| name == text) {
            return Some(*value);
        }
        let hint = nearest(text, names.iter().copied()).map(|name| format!("did you mean `{name}`?"));
        self.error(node.place, Code::UnknownValue, format!("{what} is {}: expected {expected}", quoted(text)))
            .maybe_hint(hint);
        None
    }

    /// An id: 1–64 of `[A-Za-z0-9_-]`, beginning with a letter or digit.
    pub(crate) fn id<'n>(&mut self, node: &'n Node, what: &str) -> Option<&'n str> {
        let text = self.text(node, what)?;
        if crate::name::is_tool_id(text) {
            return Some(text);
        }
        self.error(node.place, Code::InvalidId, format!("{what} is {}: expected an id", quoted(text))).hint(ID_RULE);
        None
    }
}

/// What an id may be.
pub(crate) const ID_RULE: &str = "an id has 1 to 64 letters, digits, `-` and `_`, and begins with a letter or digit";

/// The regular expression of an id.
pub(crate) const ID_PATTERN: &str = "^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$";
