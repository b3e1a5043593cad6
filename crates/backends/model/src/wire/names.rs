//! Full names towards a model and back.
//!
//! Invariant: a name goes out as `hookwright_core::name::model_name` says, so it is the same in every turn; it comes back only
//! through the request's own map, so a name that the model made up stays as it said it.

use hookwright_core::message::FunctionSpec;
use hookwright_core::name::{FunctionName, model_name};
use std::collections::HashMap;

/// The names of one request.
#[derive(Debug, Default)]
pub(crate) struct Names {
    to_full: HashMap<String, String>,
}

impl Names {
    pub(crate) fn new(functions: &[FunctionSpec]) -> Self {
        Self { to_full: functions.iter().map(|f| (outward(&f.name), f.name.clone())).collect() }
    }

    /// The name that the model knows. A name that a model once made up goes back as it was, if a provider would accept it.
    pub(crate) fn wire(&self, full: &str) -> String {
        if FunctionName::parse(full).is_err() && is_acceptable(full) && !self.to_full.values().any(|f| f == full) {
            return full.to_owned();
        }
        outward(full)
    }

    /// The full name that a model means, or what it said.
    pub(crate) fn full(&self, wire: &str) -> String {
        self.to_full.get(wire).cloned().unwrap_or_else(|| wire.to_owned())
    }
}

fn outward(full: &str) -> String {
    // A name without a dot gets the empty tool, which no real one has: still injective.
    model_name(&FunctionName::parse(full).unwrap_or_else(|_| FunctionName::new("", full)))
}

fn is_acceptable(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}
