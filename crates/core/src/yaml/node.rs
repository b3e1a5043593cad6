//! The tree.

use crate::diagnostic::Place;
use serde_json::{Map, Number, Value};
use std::rc::Rc;

/// A value and where it stands. What an alias brings in keeps the place at which it was written.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) place: Place,
    pub(crate) kind: Kind,
    /// Values in it, itself included, aliases followed.
    pub(crate) values: usize,
    /// Bytes of text in it, aliases followed.
    pub(crate) bytes: usize,
    /// Lists and mappings within each other, aliases followed; 0 for a scalar.
    pub(crate) depth: usize,
}

/// A value.
#[derive(Debug)]
pub(crate) enum Kind {
    Null,
    Bool(bool),
    /// A number as JSON has it.
    Number(Number),
    /// `.inf`, `-.inf`, `.nan`: numbers that JSON lacks.
    NotFinite,
    Text(String),
    List(Vec<Rc<Node>>),
    Map(Vec<Entry>),
}

/// A key with its value. Keys of one mapping differ.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) key_place: Place,
    pub(crate) value: Rc<Node>,
}

impl Node {
    /// What it is, for messages: `a list`, `a number`, ….
    pub(crate) fn what(&self) -> &'static str {
        match &self.kind {
            Kind::Null => "nothing",
            Kind::Bool(_) => "a boolean",
            Kind::Number(_) | Kind::NotFinite => "a number",
            Kind::Text(_) => "text",
            Kind::List(_) => "a list",
            Kind::Map(_) => "a mapping",
        }
    }

    /// The value as JSON; `Err` holds the place of a number that JSON lacks.
    pub(crate) fn to_json(&self) -> Result<Value, Place> {
        Ok(match &self.kind {
            Kind::Null => Value::Null,
            Kind::Bool(b) => Value::Bool(*b),
            Kind::Number(n) => Value::Number(n.clone()),
            Kind::NotFinite => return Err(self.place),
            Kind::Text(text) => Value::String(text.clone()),
            Kind::List(items) => Value::Array(items.iter().map(|item| item.to_json()).collect::<Result<_, _>>()?),
            Kind::Map(entries) => {
                let mut map = Map::with_capacity(entries.len());
                for entry in entries {
                    map.insert(entry.key.clone(), entry.value.to_json()?);
                }
                Value::Object(map)
            }
        })
    }
}
