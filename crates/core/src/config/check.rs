//! A tenant's configuration against the manifests of its plugins.

use super::TenantConfig;
use crate::diagnostic::{Code, Diagnostic, Severity, nearest, shown};
use crate::manifest::{AgentRuns, McpDecl, Parsed, Problems, Secret};

/// Names every variable that a manifest takes by `from:` and the tenant's `secrets` do not allow (SPEC §2).
///
/// A tenant that a file declares allows what it lists; without `secrets` that is nothing: whoever installs a plugin decides which of
/// the node's secrets it sees. The default tenant of a node without declared tenants allows all, since its plugins are named by flags, which are
/// explicit trust.
pub fn check_secrets(plugins: &[&Parsed], tenant: &TenantConfig) -> Vec<Diagnostic> {
    let mut found = Problems::default();
    for plugin in plugins {
        let tools = plugin.manifest.tools.iter().enumerate().map(|(i, tool)| match &tool.mcp {
            McpDecl::Stdio { env, .. } => (format!("tools/{i}/env"), env),
            McpDecl::Http { headers, .. } => (format!("tools/{i}/headers"), headers),
        });
        let agents = plugin.manifest.agents.iter().enumerate().filter_map(|(i, agent)| match &agent.runs {
            AgentRuns::Harness(harness) => Some((format!("agents/{i}/env"), &harness.env)),
            AgentRuns::Model(_) => None,
        });
        for (section, values) in tools.chain(agents) {
            for (name, value) in values {
                let Secret::From { from } = value else { continue };
                if tenant.secrets.allows(from) {
                    continue;
                }
                let path = format!("{section}/{name}");
                found.add(plugin, Severity::Error, Code::SecretNotAllowed, &path, || {
                    let hint = format!(
                        "if its plugins may see it, add it to `secrets:` of the tenant in hookwright.yaml: secrets: [{from}]"
                    );
                    (format!("`from` names `{from}`, which the tenant `{}` does not allow", tenant.id), Some(hint))
                });
            }
        }
    }
    found.finish()
}

/// Warns of names under `approvers` that are nearly a group's or a member's: as people, nobody would answer to them.
pub fn check_approvers(plugins: &[&Parsed], tenant: &TenantConfig) -> Vec<Diagnostic> {
    let mut found = Problems::default();
    let known =
        || tenant.groups.iter().flat_map(|(group, people)| std::iter::once(group).chain(people)).map(String::as_str);
    for plugin in plugins {
        for (i, hook) in plugin.manifest.hooks.iter().enumerate() {
            for (j, name) in hook.approvers.iter().enumerate() {
                if known().any(|other| other == name) {
                    continue;
                }
                let Some(near) = nearest(name, known()) else { continue };
                found.add(
                    plugin,
                    Severity::Warning,
                    Code::ApproverUnknown,
                    &format!("hooks/{i}/approvers/{j}"),
                    || {
                        let name = shown(name);
                        let message =
                            format!("`{name}` is neither a group of the tenant `{}` nor a member of one", tenant.id);
                        (message, Some(format!("did you mean `{}`?", shown(near))))
                    },
                );
            }
        }
    }
    found.finish()
}
