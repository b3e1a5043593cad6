//! Which hooks of a job match a call, remembered by function, so that a thousand hooks that don't match cost nothing per call.

use crate::event::Moment;
use crate::job::JobSpec;
use std::collections::HashMap;

/// The remembered matches of one job. Derived from its hook set: never stored.
#[derive(Debug, Clone, Default)]
pub(crate) struct Matching(HashMap<(Moment, String, Option<String>), Vec<usize>>);

/// Functions that are remembered at most: a model that makes names up must not fill the memory.
const REMEMBERED: usize = 4_096;

impl Matching {
    /// The positions of the hooks that watch a call of this function, in chain order.
    pub(crate) fn of_call(&mut self, spec: &JobSpec, moment: Moment, tool: &str, alias: Option<&str>) -> Vec<usize> {
        let key = (moment, tool.to_owned(), alias.map(str::to_owned));
        if let Some(known) = self.0.get(&key) {
            return known.clone();
        }
        let names: Vec<&str> = std::iter::once(tool).chain(alias).collect();
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
