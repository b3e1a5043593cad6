//! The servers of a session: those of plugins that each session has for itself, and those that the client brings.
//!
//! Invariant: a client's server never takes the id of a plugin's tool, so no name of a hook or of an agent changes what it means.

use crate::environment::Environment;
use crate::setup::Tenant;
use hookwright_acp::{Equipment, OwnServer, Reach, ServerDecl};
use hookwright_core::config::Servers;
use hookwright_core::manifest::reserved::is_reserved;
use hookwright_core::manifest::{McpDecl, Secret, ToolDecl};
use hookwright_core::name::is_tool_id;
use hookwright_core::text::shown;
use hookwright_mcp::{HostConfig, McpHost, ToolSpec, Transport};
use hookwright_runtime::job::ToolTraits;
use hookwright_runtime::ports::tools::Tools;
use hookwright_runtime::toolbox::Toolbox;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

/// Servers that a client may bring to a session.
const MAX_SERVERS: usize = 100;

/// Changes of state that are kept for a slow listener: few, since every session has such a list.
const CHANGES_KEPT: usize = 16;

/// Starts a session's servers, side by side and in the background.
pub(super) fn equip(
    env: &Environment,
    tenant: &Tenant,
    node: Arc<McpHost>,
    cwd: &str,
    servers: Vec<ServerDecl>,
) -> Equipment {
    let of_session = |tool: &str| tenant.is_of_session(tool);
    let mut specs = tenant.specs(env, &of_session);
    let mut own: Vec<OwnServer> = specs
        .iter()
        .map(|spec| OwnServer { name: spec.id.clone(), tool: spec.id.clone(), from_client: false })
        .collect();
    let mut taken: HashSet<String> = tenant.tool_ids().map(str::to_owned).collect();
    let left_out = servers.len().saturating_sub(MAX_SERVERS);
    for server in servers.into_iter().take(MAX_SERVERS) {
        let tool = id_of(&server.name, &taken);
        taken.insert(tool.clone());
        let spec = spec_of(env, &tool, cwd, server.reach);
        // As the tenant's own servers do, where they run as another OS user.
        specs.push(match &tenant.run_as {
            Some(user) => spec.run_as(user.clone()),
            None => spec,
        });
        own.push(OwnServer { name: server.name, tool, from_client: true });
    }
    let host = (!specs.is_empty()).then(|| {
        let message_bytes = usize::try_from(tenant.config.limits.message_bytes).unwrap_or(usize::MAX);
        let config = HostConfig { message_bytes, changes_kept: CHANGES_KEPT, ..HostConfig::default() };
        McpHost::start(specs, config) as Arc<dyn Tools>
    });
    let mut warnings = unknown(tenant, &own);
    if left_out > 0 {
        warnings.push(format!(
            "a session has at most {MAX_SERVERS} servers of its client: the last {left_out} of them are left out"
        ));
    }
    Equipment { tools: Toolbox::new(node, host), own, warnings }
}

/// Names of the allowlist of lifecycle hooks that fit no server here.
fn unknown(tenant: &Tenant, own: &[OwnServer]) -> Vec<String> {
    let Servers::Named(names) = &tenant.config.lifecycle.servers else { return vec![] };
    let known = |name: &str| {
        tenant.tool_ids().any(|id| id == name) || own.iter().any(|server| server.name == name || server.tool == name)
    };
    let unknown = names.iter().filter(|name| !known(name));
    unknown
        .map(|name| format!("lifecycle hooks are allowed for {}, which is no server of this session", shown(name, 100)))
        .collect()
}

/// What is known of the tools beside how they are reached. Hooks that name a client's server by its own name match it too.
pub(super) fn traits(tenant: &Tenant, equipment: &Equipment) -> HashMap<String, ToolTraits> {
    let mut traits = tenant.traits();
    for server in equipment.own.iter().filter(|s| s.from_client && s.tool != s.name) {
        traits.insert(server.tool.clone(), ToolTraits { alias: Some(server.name.clone()), ..ToolTraits::default() });
    }
    traits
}

/// A tool id for a client's server: its name if that can be one and is free, else the nearest that is.
fn id_of(name: &str, taken: &HashSet<String>) -> String {
    let free = |id: &str| is_tool_id(id) && !is_reserved(id) && !taken.contains(id);
    if free(name) {
        return name.to_owned();
    }
    let mut base = String::new();
    for c in name.chars() {
        let c = if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '-' };
        if (c.is_ascii_alphanumeric() || !base.is_empty()) && base.len() < 56 {
            base.push(c);
        }
    }
    let base = base.trim_end_matches(['-', '_']);
    let base = if base.is_empty() { "server" } else { base };
    if free(base) {
        return base.to_owned();
    }
    // One of more numbers than there are ids is free.
    let numbered = (2..).take(taken.len() + 1).map(|n: usize| format!("{base}-{n}"));
    numbered.into_iter().find(|id| free(id)).unwrap_or_default()
}

fn spec_of(env: &Environment, tool: &str, cwd: &str, reach: Reach) -> ToolSpec {
    let mut given = HashMap::new();
    let mcp = match reach {
        Reach::Not(why) => {
            let transport = Transport::Http { url: String::new(), headers: vec![] };
            let mut spec = ToolSpec::new(tool, transport);
            spec.broken = Some(why);
            return spec;
        }
        Reach::Stdio { command, env } => McpDecl::Stdio { command, env: values(env, &mut given) },
        Reach::Http { url, headers } => McpDecl::Http { url, headers: values(headers, &mut given) },
    };
    let decl = ToolDecl {
        id: tool.to_owned(),
        mcp,
        scope: None,
        idempotent: vec![],
        trust_annotations: false,
        start_timeout_ms: 30_000,
        passes: vec![],
    };
    let env = env.clone();
    let lookup = move |name: &str| given.get(name).cloned().or_else(|| env.get(name));
    ToolSpec::from_decl(&decl, Path::new(cwd), &lookup)
}

/// Values as a manifest has them. All go by name, so that errors never show them: which are secrets is not known.
fn values(given: Vec<(String, String)>, secrets: &mut HashMap<String, String>) -> BTreeMap<String, Secret> {
    given
        .into_iter()
        .map(|(name, value)| {
            // Under a name that is no variable of ours.
            let from = format!("client's {name}");
            secrets.insert(from.clone(), value);
            (name, Secret::From { from })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clients_server_gets_an_id_that_is_valid_and_free() {
        let mut taken: HashSet<String> = ["github".to_owned()].into();
        let long = "x".repeat(200);
        for (name, id) in [
            ("todo", "todo"),
            ("github", "github-2"),
            ("github", "github-3"),
            ("My Server!", "My-Server"),
            ("__", "server"),
            ("日本", "server-2"),
            ("codex", "codex-2"),
            ("a.b", "a-b"),
            ("", "server-3"),
            (long.as_str(), &long[..56]),
        ] {
            let got = id_of(name, &taken);
            assert_eq!(got, id, "{name}");
            assert!(is_tool_id(&got));
            taken.insert(got);
        }
    }

    #[test]
    fn every_value_of_a_client_goes_by_name() {
        let mut secrets = HashMap::new();
        let given = [("GITHUB_TOKEN", "t0k"), ("LOG", "info"), ("Authorization", "Bearer x")];
        let given = given.map(|(n, v)| (n.to_owned(), v.to_owned())).to_vec();
        let values = values(given, &mut secrets);
        assert!(matches!(&values["LOG"], Secret::From { from } if secrets[from] == "info"));
        assert!(matches!(&values["GITHUB_TOKEN"], Secret::From { from } if secrets[from] == "t0k"));
        assert!(matches!(&values["Authorization"], Secret::From { from } if secrets[from] == "Bearer x"));
    }
}
