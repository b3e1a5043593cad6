//! Keys and values on their way to a mapping: duplicates are named, merge keys (`<<`) are followed.

use super::Sink;
use super::node::{Entry, Kind, Node};
use super::source::quoted;
use crate::diagnostic::{Code, Place};
use std::collections::HashMap;
use std::rc::Rc;

/// A mapping that is not complete yet.
#[derive(Default)]
pub(super) struct MapBody {
    entries: Vec<Entry>,
    /// Keys that were written, and where.
    seen: HashMap<String, Place>,
    /// What `<<` brings in.
    merged: Vec<Entry>,
    key: Option<Key>,
}

struct Key {
    place: Place,
    /// None: a key that can't be one; its value is skipped.
    text: Option<String>,
    merge: bool,
}

/// A finished node, and whether it was a plain, untagged scalar `<<`.
pub(super) struct Done {
    pub(super) node: Rc<Node>,
    pub(super) text: Option<String>,
    pub(super) merge: bool,
}

impl MapBody {
    /// Takes a key or, where one waits, its value.
    pub(super) fn take(&mut self, done: Done, sink: &mut Sink<'_>) {
        let Some(key) = self.key.take() else {
            if done.text.is_none() {
                let message = format!("a key is {}: expected text", done.node.what());
                sink.error(done.node.place, Code::YamlKey, message);
            }
            self.key = Some(Key { place: done.node.place, text: done.text, merge: done.merge });
            return;
        };
        let Some(text) = key.text else { return };
        if let Some(first) = self.seen.get(&text) {
            let message = format!("the key {} stands twice; first on line {}", quoted(&text), first.line);
            sink.error(key.place, Code::DuplicateKey, message).hint("YAML would keep one of them: leave one out");
            return;
        }
        self.seen.insert(text.clone(), key.place);
        if !key.merge {
            self.entries.push(Entry { key: text, key_place: key.place, value: done.node });
            return;
        }
        let sources: Vec<&Rc<Node>> = match &done.node.kind {
            Kind::List(items) => items.iter().collect(),
            _ => vec![&done.node],
        };
        for source in sources {
            match &source.kind {
                Kind::Map(entries) => self.merged.extend(entries.iter().cloned()),
                _ => {
                    sink.error(
                        key.place,
                        Code::WrongType,
                        format!("`<<` merges {}: expected a mapping, or a list of them", source.what()),
                    );
                }
            }
        }
    }

    /// The entries: those that were written, then what `<<` brings in and nothing else gives.
    pub(super) fn close(mut self) -> Vec<Entry> {
        for entry in self.merged {
            if !self.seen.contains_key(&entry.key) {
                self.seen.insert(entry.key.clone(), entry.key_place);
                self.entries.push(entry);
            }
        }
        self.entries
    }
}
