//! Problems that are found across plugins, bounded for each file as those within one are.

use super::Parsed;
use crate::diagnostic::{Code, Diagnostic, Severity};
use crate::yaml::MAX_PROBLEMS;
use std::collections::BTreeMap;

/// Collects at most [`MAX_PROBLEMS`] for each file, and says how many more there are.
#[derive(Default)]
pub(crate) struct Problems<'p> {
    found: Vec<Diagnostic>,
    /// By file: its plugin, how many were found, and the worst of those that were left out.
    files: BTreeMap<&'p str, (&'p Parsed, usize, Severity)>,
}

impl<'p> Problems<'p> {
    /// Adds a problem at a part of a plugin's manifest. `say` gives its message and hint; it is not asked once the file has too many, so that
    /// what costs time (the nearest name) is bounded too.
    pub(crate) fn add(
        &mut self,
        plugin: &'p Parsed,
        severity: Severity,
        code: Code,
        path: &str,
        say: impl FnOnce() -> (String, Option<String>),
    ) {
        let (_, count, worst) = self.files.entry(plugin.places.file()).or_insert((plugin, 0, Severity::Info));
        *count += 1;
        if *count > MAX_PROBLEMS {
            *worst = (*worst).max(severity);
            return;
        }
        let (message, hint) = say();
        let mut diagnostic = plugin.places.diagnostic(severity, code, path, message);
        diagnostic.hint = hint;
        self.found.push(diagnostic);
    }

    pub(crate) fn finish(mut self) -> Vec<Diagnostic> {
        for (plugin, count, worst) in self.files.into_values().filter(|(_, count, _)| *count > MAX_PROBLEMS) {
            let message = format!("{} more problems are not shown", count - MAX_PROBLEMS);
            self.found.push(plugin.places.diagnostic(worst, Code::MoreProblems, "", message));
        }
        self.found
    }
}
