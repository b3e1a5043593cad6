//! Manifests against what the running servers list.

use super::{could_fit, full_names, list_of};
use crate::diagnostic::{Code, Diagnostic, Severity, nearest, shown};
use crate::manifest::{Parsed, Problems, reserved};
use crate::name::pattern_fits;
use std::collections::BTreeMap;

/// What each tool's server lists, by tool id: the bare names of its functions, or why it could not be asked.
/// A tool that is not in it was not looked at.
pub type Listed = BTreeMap<String, Result<Vec<String>, String>>;

/// Compares manifests with what the running servers list.
///
/// Errors: a tool that could not be asked; a `call` whose tool does not list the function. Warnings: patterns over functions that fit none
/// that is known, and `idempotent` names that the tool does not list. Infos: functions that begin with `_` and are no lifecycle hook.
///
/// Names of harnesses' own tools are not known beforehand: a pattern that may fit one is not warned of.
pub fn check_live(plugins: &[&Parsed], listed: &Listed) -> Vec<Diagnostic> {
    let mut found = Problems::default();
    let names = full_names(plugins, listed);
    let known = Live { names: &names, plugins, listed };
    for plugin in plugins {
        tools(plugin, listed, &mut found);
        hooks(plugin, &known, &mut found);
        agents(plugin, &known, &mut found);
    }
    found.finish()
}

struct Live<'l> {
    /// Full names of all functions that are listed.
    names: &'l [String],
    plugins: &'l [&'l Parsed],
    listed: &'l Listed,
}

impl Live<'_> {
    /// Whether a pattern fits a known function, or may fit one that can't be known now.
    fn fits(&self, pattern: &str) -> bool {
        let unknown = self
            .plugins
            .iter()
            .flat_map(|p| &p.manifest.tools)
            .filter(|tool| !matches!(self.listed.get(&tool.id), Some(Ok(_))))
            .map(|tool| tool.id.as_str());
        let prefixes = unknown.chain(reserved::HARNESSES).chain(reserved::BUILT_IN);
        self.names.iter().any(|name| pattern_fits(pattern, name))
            || prefixes.into_iter().any(|prefix| could_fit(pattern, &format!("{prefix}.")))
    }

    fn hint(&self, pattern: &str) -> Option<String> {
        nearest(pattern, self.names.iter().map(String::as_str)).map(|near| format!("did you mean `{}`?", shown(near)))
    }
}

/// `did you mean …?`, of bare names.
fn near_function(name: &str, functions: &[String]) -> Option<String> {
    nearest(name, functions.iter().map(String::as_str)).map(|near| format!("did you mean `{}`?", shown(near)))
}

fn tools<'p>(plugin: &'p Parsed, listed: &Listed, found: &mut Problems<'p>) {
    for (i, tool) in plugin.manifest.tools.iter().enumerate() {
        let functions = match listed.get(&tool.id) {
            None => continue,
            Some(Err(why)) => {
                found.add(plugin, Severity::Error, Code::ToolFailed, &format!("tools/{i}/mcp"), || {
                    let why = crate::text::reason(Some(why), 500);
                    let hint = "until it can, its hooks fail for every event that they match";
                    (format!("the functions of the tool `{}` can't be listed: {why}", tool.id), Some(hint.to_owned()))
                });
                continue;
            }
            Some(Ok(functions)) => functions,
        };
        for (j, name) in tool.idempotent.iter().enumerate().filter(|(_, name)| !functions.contains(name)) {
            let path = format!("tools/{i}/idempotent/{j}");
            found.add(plugin, Severity::Warning, Code::UnknownFunction, &path, || {
                let bare =
                    name.strip_prefix(&format!("{}.", tool.id)).filter(|bare| functions.iter().any(|f| f == bare));
                let hint = match bare {
                    Some(bare) => Some(format!("write the bare name, `{}`", shown(bare))),
                    None => near_function(name, functions),
                };
                (format!("`idempotent` names `{}`, which the tool `{}` does not list", shown(name), tool.id), hint)
            });
        }
        let odd = functions.iter().filter(|f| f.starts_with('_') && !reserved::LIFECYCLE.contains(&f.as_str()));
        for name in odd {
            found.add(plugin, Severity::Info, Code::UnknownLifecycle, &format!("tools/{i}/id"), || {
                let (id, name_shown) = (&tool.id, shown(name));
                let hint = nearest(name, reserved::LIFECYCLE).map(|near| format!("did you mean `{near}`?"));
                let message =
                    format!("the tool `{id}` lists `{name_shown}`, which is no lifecycle hook: it stays hidden and is never called");
                (message, hint)
            });
        }
    }
}

fn hooks<'p>(plugin: &'p Parsed, live: &Live<'_>, found: &mut Problems<'p>) {
    for (i, hook) in plugin.manifest.hooks.iter().enumerate() {
        let (tool, function) = (hook.call.tool(), hook.call.function());
        if let Some(Ok(functions)) = live.listed.get(tool)
            && !functions.iter().any(|f| f == function)
        {
            found.add(plugin, Severity::Error, Code::UnknownFunction, &format!("hooks/{i}/call"), || {
                let hint = match nearest(function, functions.iter().map(String::as_str)) {
                    Some(near) => format!("did you mean `{tool}.{}`?", shown(near)),
                    None => list_of("functions", functions.iter().map(String::as_str)),
                };
                let call = shown(&hook.call.to_string());
                (format!("`call` is `{call}`: the tool `{tool}` lists no function `{}`", shown(function)), Some(hint))
            });
        }
        for (j, pattern) in hook.matches.tools.iter().flatten().enumerate() {
            // One that can fit nothing at all was warned of when the file was read.
            if !pattern.contains(['.', '*']) || live.fits(pattern) {
                continue;
            }
            let path = format!("hooks/{i}/match/tools/{j}");
            found.add(plugin, Severity::Warning, Code::PatternFitsNothing, &path, || {
                (format!("the pattern `{}` fits no known function", shown(pattern)), live.hint(pattern))
            });
        }
    }
}

fn agents<'p>(plugin: &'p Parsed, live: &Live<'_>, found: &mut Problems<'p>) {
    for (i, agent) in plugin.manifest.agents.iter().enumerate() {
        for (j, entry) in agent.tools.iter().flatten().enumerate() {
            // A bare tool id stands for all of its functions, be they none.
            let is_id = !entry.contains(['.', '*']);
            let unknown_tool =
                entry.split_once('.').is_some_and(|(tool, _)| !tool.contains('*') && !live.listed.contains_key(tool));
            if is_id || unknown_tool || live.fits(entry) {
                continue;
            }
            found.add(plugin, Severity::Warning, Code::PatternFitsNothing, &format!("agents/{i}/tools/{j}"), || {
                (format!("`{}` fits no known function", shown(entry)), live.hint(entry))
            });
        }
    }
}
