//! What only shows when the plugins of a tenant are looked at together, and when their servers run (SPEC §2).

use super::{AgentRuns, Parsed, Problems, reserved};
use crate::FunctionName;
use crate::diagnostic::{Code, Diagnostic, Severity, nearest, shown};
use crate::name::pattern_fits;
use std::collections::{BTreeSet, HashMap};

mod live;

pub use live::{Listed, check_live};

/// Checks the plugins of one tenant against each other, in install order. Nothing is started for it.
///
/// Errors: a plugin, tool or agent id that stands twice; a `call` whose tool no plugin declares; an agent's `tools` or `subagents` entry
/// that names nothing. Warnings: a `match.agents` pattern that fits no agent.
pub fn check(plugins: &[&Parsed]) -> Vec<Diagnostic> {
    let mut found = Problems::default();
    unique(plugins, "plugin", |p| vec![(p.manifest.id.as_str(), "id".to_owned())], &mut found);
    let tools_of = |p| ids(p, "tools", |p: &Parsed| p.manifest.tools.iter().map(|t| t.id.as_str()).collect());
    unique(plugins, "tool", tools_of, &mut found);
    let agents_of = |p| ids(p, "agents", |p: &Parsed| p.manifest.agents.iter().map(|a| a.id.as_str()).collect());
    unique(plugins, "agent", agents_of, &mut found);
    let known = Known::of(plugins);
    for plugin in plugins {
        hooks(plugin, &known, &mut found);
        agents(plugin, &known, &mut found);
    }
    found.finish()
}

/// The ids that a tenant's plugins declare.
struct Known<'p> {
    tools: BTreeSet<&'p str>,
    agents: BTreeSet<&'p str>,
}

impl<'p> Known<'p> {
    fn of(plugins: &[&'p Parsed]) -> Self {
        Self {
            tools: plugins.iter().flat_map(|p| p.manifest.tools.iter().map(|t| t.id.as_str())).collect(),
            agents: plugins.iter().flat_map(|p| p.manifest.agents.iter().map(|a| a.id.as_str())).collect(),
        }
    }
}

/// Ids of a section with their paths.
fn ids<'p>(plugin: &'p Parsed, section: &str, of: impl Fn(&'p Parsed) -> Vec<&'p str>) -> Vec<(&'p str, String)> {
    of(plugin).into_iter().enumerate().map(|(i, id)| (id, format!("{section}/{i}/id"))).collect()
}

fn unique<'p>(
    plugins: &[&'p Parsed],
    kind: &str,
    ids: impl Fn(&'p Parsed) -> Vec<(&'p str, String)>,
    found: &mut Problems<'p>,
) {
    let mut first: HashMap<&str, (&Parsed, String)> = HashMap::new();
    for &plugin in plugins {
        for (id, path) in ids(plugin) {
            let Some((other, at)) = first.get(id) else {
                first.insert(id, (plugin, path));
                continue;
            };
            found.add(plugin, Severity::Error, Code::DuplicateId, &path, || {
                let (file, line) = (shown(other.places.file()), other.places.get(at).line);
                let hint = format!("{kind} ids are unique within a tenant: rename one, or leave its plugin out");
                (format!("a second {kind} with the id `{id}` in the tenant; the first is in {file}:{line}"), Some(hint))
            });
        }
    }
}

fn hooks<'p>(plugin: &'p Parsed, known: &Known<'_>, found: &mut Problems<'p>) {
    for (i, hook) in plugin.manifest.hooks.iter().enumerate() {
        let tool = hook.call.tool();
        if !known.tools.contains(tool) {
            found.add(plugin, Severity::Error, Code::UnknownTool, &format!("hooks/{i}/call"), || {
                let call = shown(&hook.call.to_string());
                let hint = match nearest(tool, known.tools.iter().copied()) {
                    Some(near) => format!("did you mean `{near}.{}`?", shown(hook.call.function())),
                    None => list_of("tools", known.tools.iter().copied()),
                };
                (format!("`call` is `{call}`: no plugin of the tenant declares a tool `{tool}`"), Some(hint))
            });
        }
        for (j, pattern) in hook.matches.agents.iter().flatten().enumerate() {
            if known.agents.contains(pattern.as_str()) || known.agents.iter().any(|agent| pattern_fits(pattern, agent))
            {
                continue;
            }
            let path = format!("hooks/{i}/match/agents/{j}");
            found.add(plugin, Severity::Warning, Code::PatternFitsNothing, &path, || {
                let message = format!("the pattern `{}` fits no agent of the tenant", shown(pattern));
                (message, Some(known.nearest_agent(pattern)))
            });
        }
    }
}

impl Known<'_> {
    fn nearest_agent(&self, id: &str) -> String {
        match nearest(id, self.agents.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => list_of("agents", self.agents.iter().copied()),
        }
    }
}

fn agents<'p>(plugin: &'p Parsed, known: &Known<'_>, found: &mut Problems<'p>) {
    for (i, agent) in plugin.manifest.agents.iter().enumerate() {
        for (j, entry) in agent.tools.iter().flatten().enumerate() {
            // A pattern with a star in the tool's part is compared with what the servers list.
            let tool = entry.split_once('.').map_or(entry.as_str(), |(tool, _)| tool);
            if tool.contains('*') || known.tools.contains(tool) || reserved::BUILT_IN.contains(&tool) {
                continue;
            }
            // A harness has MCP servers of its own, which its own configuration names.
            let severity = match &agent.runs {
                AgentRuns::Harness(_) if reserved::HARNESSES.contains(&tool) => continue,
                AgentRuns::Harness(_) => Severity::Warning,
                AgentRuns::Model(_) => Severity::Error,
            };
            found.add(plugin, severity, Code::UnknownTool, &format!("agents/{i}/tools/{j}"), || {
                let hint = match nearest(tool, known.tools.iter().copied()) {
                    Some(near) => format!("did you mean `{near}{}`?", shown(&entry[tool.len()..])),
                    None => list_of("tools", known.tools.iter().copied()),
                };
                (format!("no plugin of the tenant declares a tool `{}`", shown(tool)), Some(hint))
            });
        }
        for (j, id) in agent.subagents.iter().enumerate().filter(|(_, id)| !known.agents.contains(id.as_str())) {
            found.add(plugin, Severity::Error, Code::UnknownAgent, &format!("agents/{i}/subagents/{j}"), || {
                (format!("no plugin of the tenant declares an agent `{id}`"), Some(known.nearest_agent(id)))
            });
        }
    }
}

/// `the tools are a, b, c, …`.
fn list_of<'n>(what: &str, names: impl IntoIterator<Item = &'n str>) -> String {
    let mut names = names.into_iter();
    let some: Vec<String> = names.by_ref().take(8).map(shown).collect();
    if some.is_empty() {
        return format!("there are no {what}");
    }
    let more = if names.next().is_some() { ", …" } else { "" };
    format!("the {what} are {}{more}", some.join(", "))
}

/// Whether a pattern fits `prefix` followed by anything: whether it may fit some function of a tool.
fn could_fit(pattern: &str, prefix: &str) -> bool {
    // Positions in the pattern that reading the prefix can lead to, as a set; a star stays and lets go on.
    let pattern = pattern.as_bytes();
    let close = |states: &mut Vec<bool>| {
        for i in 0..pattern.len() {
            if states[i] && pattern[i] == b'*' {
                states[i + 1] = true;
            }
        }
    };
    let mut states = vec![false; pattern.len() + 1];
    states[0] = true;
    close(&mut states);
    for byte in prefix.bytes() {
        let mut next = vec![false; pattern.len() + 1];
        for i in 0..pattern.len() {
            if states[i] && pattern[i] == b'*' {
                next[i] = true;
            } else if states[i] && pattern[i] == byte {
                next[i + 1] = true;
            }
        }
        close(&mut next);
        states = next;
    }
    // The pattern's end alone would fit the bare prefix, which is no function's name.
    states[..pattern.len()].contains(&true)
}

/// All declared tools' functions that a model may be offered, by full name.
fn full_names(plugins: &[&Parsed], listed: &Listed) -> Vec<String> {
    let mut names = Vec::new();
    for tool in plugins.iter().flat_map(|p| &p.manifest.tools) {
        if let Some(Ok(functions)) = listed.get(&tool.id) {
            names.extend(
                functions.iter().filter(|f| !f.starts_with('_')).map(|f| FunctionName::new(&tool.id, f).to_string()),
            );
        }
    }
    names
}

#[cfg(test)]
mod tests;
