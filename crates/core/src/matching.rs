//! Which hooks of a job match a call, remembered by function, so that a thousand hooks that don't match cost nothing per call.

use crate::event::Moment;
use crate::job::{JobSpec, RequestedCall};
use std::collections::HashMap;

/// The remembered matches of one job. Derived from its hook set: never stored.
#[derive(Debug, Clone, Default)]
pub(crate) struct Matching(HashMap<(Moment, Vec<String>), Vec<usize>>);

/// Functions that are remembered at most: a model that makes names up must not fill the memory.
const REMEMBERED: usize = 4_096;

impl Matching {
    /// The positions of the hooks that watch this call, in chain order.
    pub(crate) fn of_call(&mut self, spec: &JobSpec, moment: Moment, call: &RequestedCall) -> Vec<usize> {
        let names = std::iter::once(&call.tool).chain(&call.alias).chain(&call.further_aliases);
        let key = (moment, names.cloned().collect::<Vec<_>>());
        if let Some(known) = self.0.get(&key) {
            return known.clone();
        }
        let names: Vec<&str> = key.1.iter().map(String::as_str).collect();
        let found = spec.hooks.matching(moment, &spec.agent.id, &names);
        if self.0.len() < REMEMBERED {
            self.0.insert(key, found.clone());
        }
        found
    }
}

impl PartialEq for Matching {
    /// Memory is no part of what a machine is.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
