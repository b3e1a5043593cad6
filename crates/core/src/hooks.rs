//! The hooks of a tenant as one job sees them, and which of them match an event.
//!
//! Invariant: order is the tenant's plugin order, then manifest order (SPEC §5); nothing re-sorts it.
//! Invariant: a hook set is read once, when a job starts, and stands in its first record (SPEC §8).

use crate::event::Moment;
use crate::manifest::{DEFAULT_EXPIRES_MS, DEFAULT_TIMEOUT_MS, Manifest, Match, OnTimeout};
use crate::name::{FunctionName, pattern_fits};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The hooks that may be asked in a job.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct HookSet {
    /// The manifests that the hooks came from, in the tenant's plugin order.
    pub manifests: Vec<ManifestDigest>,
    /// The hooks, in chain order.
    pub hooks: Vec<Hook>,
}

/// A manifest by its digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ManifestDigest {
    /// The plugin's id.
    pub plugin: String,
    /// SHA-256 of the manifest's text, 64 hex digits.
    pub sha256: String,
}

/// One hook.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Hook {
    /// The plugin that declares it.
    pub plugin: String,
    /// The moment at which it is asked.
    pub on: Moment,
    /// The function that is called.
    pub call: FunctionName,
    /// What it watches.
    #[serde(rename = "match", default)]
    pub matches: Match,
    /// Milliseconds from the ask to the complete answer.
    pub timeout_ms: u64,
    /// What counts where it gives no valid decision.
    pub on_timeout: OnTimeout,
    /// Milliseconds until an approval that it asks for counts as a no.
    pub expires_ms: u64,
    /// People who may decide, groups expanded. Empty: anybody.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvers: Vec<String>,
    /// Why it can't be asked, where that was known when the job started; it then fails for every event that it matches (SPEC §2).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unavailable: Option<String>,
}

impl Hook {
    /// A hook that watches everything at a moment, with the defaults of SPEC §2: 2 s, then deny; approvals for 24 h, by anybody.
    pub fn new(plugin: impl Into<String>, on: Moment, call: FunctionName) -> Self {
        Self {
            plugin: plugin.into(),
            on,
            call,
            matches: Match::default(),
            timeout_ms: DEFAULT_TIMEOUT_MS,
            on_timeout: OnTimeout::Deny,
            expires_ms: DEFAULT_EXPIRES_MS,
            approvers: vec![],
            unavailable: None,
        }
    }

    /// Whether it watches an event. `names` are the function's full name and its alias, if any; empty for events of a job.
    pub fn watches(&self, moment: Moment, agent: &str, names: &[&str]) -> bool {
        let fits = |patterns: &Option<Vec<String>>, names: &[&str]| {
            patterns.as_ref().is_none_or(|ps| ps.iter().any(|p| names.iter().any(|n| pattern_fits(p, n))))
        };
        self.on == moment && fits(&self.matches.agents, &[agent]) && fits(&self.matches.tools, names)
    }
}

impl HookSet {
    /// The hooks of a tenant's plugins that may concern an agent, with groups of approvers expanded.
    pub fn for_agent(plugins: &[Manifest], agent: &str, groups: &BTreeMap<String, Vec<String>>) -> Self {
        let mut set = Self::default();
        for plugin in plugins {
            set.manifests.push(ManifestDigest { plugin: plugin.id.clone(), sha256: plugin.sha256.clone() });
            for decl in &plugin.hooks {
                if !decl.matches.agents.as_ref().is_none_or(|ps| ps.iter().any(|p| pattern_fits(p, agent))) {
                    continue;
                }
                let mut approvers: Vec<String> = Vec::new();
                for name in &decl.approvers {
                    match groups.get(name) {
                        Some(people) => approvers.extend(people.iter().cloned()),
                        None => approvers.push(name.clone()),
                    }
                }
                set.hooks.push(Hook {
                    plugin: plugin.id.clone(),
                    on: decl.on,
                    call: decl.call.clone(),
                    matches: decl.matches.clone(),
                    timeout_ms: decl.timeout_ms,
                    on_timeout: decl.on_timeout,
                    expires_ms: decl.expires_ms,
                    approvers,
                    unavailable: None,
                });
            }
        }
        set
    }

    /// The positions of the hooks that watch an event, in chain order.
    pub fn matching(&self, moment: Moment, agent: &str, names: &[&str]) -> Vec<usize> {
        (0..self.hooks.len()).filter(|&i| self.hooks[i].watches(moment, agent, names)).collect()
    }

    /// Whether any hook watches a moment of this agent's jobs at all.
    pub fn any(&self, moment: Moment, agent: &str) -> bool {
        self.hooks.iter().any(|h| h.on == moment && (moment.is_call() || h.watches(moment, agent, &[])))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn hook(call: &str, on: Moment, tools: Option<&[&str]>, agents: Option<&[&str]>) -> Hook {
        let list = |l: Option<&[&str]>| l.map(|l| l.iter().map(|s| (*s).to_owned()).collect());
        Hook {
            matches: Match { tools: list(tools), agents: list(agents) },
            ..Hook::new("p", on, FunctionName::parse(call).unwrap())
        }
    }

    #[test]
    fn both_lists_must_match_and_one_entry_of_a_list_suffices() {
        let h = hook("a.b", Moment::PreToolCall, Some(&["git.*", "x.y"]), Some(&["dev", "ops*"]));
        for (agent, tool, fits) in [
            ("dev", "git.push", true),
            ("ops-1", "x.y", true),
            ("dev", "x.z", false),
            ("qa", "git.push", false),
            ("Dev", "git.push", false),
        ] {
            assert_eq!(h.watches(Moment::PreToolCall, agent, &[tool]), fits, "{agent} {tool}");
        }
        assert!(!h.watches(Moment::PostToolCall, "dev", &["git.push"]));
    }

    #[test]
    fn no_match_watches_everything_and_an_alias_counts() {
        assert!(hook("a.b", Moment::JobEnd, None, None).watches(Moment::JobEnd, "any", &[]));
        let h = hook("a.b", Moment::PreToolCall, Some(&["brg.greet"]), None);
        assert!(h.watches(Moment::PreToolCall, "any", &["claude-code.mcp__brg__greet", "brg.greet"]));
    }

    #[test]
    fn the_order_is_the_plugins_then_the_manifests() {
        let set = HookSet {
            manifests: vec![],
            hooks: ["z.z", "a.a", "m.m"].map(|c| hook(c, Moment::JobEnd, None, None)).into(),
        };
        assert_eq!(set.matching(Moment::JobEnd, "x", &[]), [0, 1, 2]);
    }
}
