//! A tenant made ready: its plugins read and checked, its servers started, an agent chosen.

mod links;
mod run_as;

use crate::environment::Environment;
use crate::exit::{CliError, CliResult};
use crate::settings::{Settings, faults, read_bounded, shown};
use crate::terminal::note;
use hookwright_core::config::{Servers, TenantConfig, check_approvers, check_secrets};
use hookwright_core::diagnostic::{Diagnostic, nearest};
use hookwright_core::hooks::HookSet;
use hookwright_core::job::{AgentSpec, External};
use hookwright_core::lifecycle::LifecycleSpec;
use hookwright_core::manifest::{self, AgentDecl, AgentRuns, Manifest, Parsed, Scope, Source, tenant};
use hookwright_core::stored::{Blob, Stored};
use hookwright_core::subagent::SubagentSpec;
use hookwright_mcp::{HostConfig, McpHost, PASSED_ON, RunAs, ToolSpec};
use hookwright_runtime::job::ToolTraits;
use serde_json::Value;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The name of a plugin's manifest in its folder.
pub(crate) const MANIFEST_NAME: &str = "plugin.yaml";

/// A plugin that was read.
pub(crate) struct Plugin {
    pub(crate) folder: PathBuf,
    pub(crate) parsed: Parsed,
    /// The digest of its manifest's bytes, as they were read.
    pub(crate) sha256: String,
}

/// A tenant with its plugins, in install order.
pub(crate) struct Tenant {
    pub(crate) config: TenantConfig,
    pub(crate) plugins: Vec<Plugin>,
    /// What is odd about its files.
    pub(crate) warnings: Vec<Diagnostic>,
    /// The OS user that its servers run as; none: the node's own.
    pub(crate) run_as: Option<RunAs>,
}

/// Which plugins: those that flags name, else those of the configuration.
pub(crate) fn tenant(settings: &mut Settings, flags: &[PathBuf]) -> CliResult<Tenant> {
    checked(load(settings, flags)?, settings)
}

fn checked(loaded: (Tenant, Vec<Diagnostic>), settings: &Settings) -> CliResult<Tenant> {
    match loaded {
        (tenant, found) if found.iter().any(Diagnostic::is_error) => {
            drop(tenant);
            Err(faults(&found, settings.terminal))
        }
        (mut tenant, found) => {
            tenant.warnings = found;
            Ok(tenant)
        }
    }
}

/// As [`tenant()`], but no plugin needs to be named.
pub(crate) fn tenant_or_empty(settings: &mut Settings, flags: &[PathBuf]) -> CliResult<Tenant> {
    checked(load_or_empty(settings, flags)?, settings)
}

/// As [`load`], but no plugin needs to be named.
pub(crate) fn load_or_empty(settings: &mut Settings, flags: &[PathBuf]) -> CliResult<(Tenant, Vec<Diagnostic>)> {
    if flags.is_empty() {
        settings.adopt_local_config()?;
        let config = settings.tenant()?;
        if config.plugins.is_empty() {
            return Ok((Tenant { run_as: None, config, plugins: vec![], warnings: vec![] }, vec![]));
        }
    }
    load(settings, flags)
}

/// As [`tenant()`], but hands over what was found, errors too; plugins with errors are left out.
pub(crate) fn load(settings: &mut Settings, flags: &[PathBuf]) -> CliResult<(Tenant, Vec<Diagnostic>)> {
    if flags.is_empty() {
        settings.adopt_local_config()?;
    }
    if settings.leaves_local_config_out() {
        note(
            "note: hookwright.yaml is not used, for the plugins are named; with its policies, groups and limits: --config hookwright.yaml",
        );
    }
    let config = settings.tenant()?;
    let folders: Vec<PathBuf> = if flags.is_empty() {
        config.plugins.iter().map(|p| settings.config_folder().join(p)).collect()
    } else {
        flags.iter().map(|p| settings.cwd.join(p)).collect()
    };
    if folders.is_empty() {
        return Err(CliError::usage("no plugin was named").hint(
            "name its folder (`--plugin DIR`, for check just `DIR`), or write a hookwright.yaml (docs/configuration.md)",
        ));
    }
    if flags.is_empty() {
        links::check(settings.config_folder(), &settings.config.tenants, &config)?;
    }
    let (tenant, found) = read_all(config, folders)?;
    settings.are_as_judged(&tenant.plugins)?;
    Ok((tenant, found))
}

/// Reads and checks plugins, in this order.
pub(crate) fn read_all(config: TenantConfig, folders: Vec<PathBuf>) -> CliResult<(Tenant, Vec<Diagnostic>)> {
    let (mut plugins, mut found) = (vec![], vec![]);
    for folder in folders {
        let folder = std::fs::canonicalize(&folder)
            .map_err(|e| CliError::usage(format!("the plugin's folder {} can't be used: {e}", shown(&folder))))?;
        let file = folder.join(MANIFEST_NAME);
        let bytes = read_bounded(&file, manifest::MAX_MANIFEST_BYTES).map_err(|e| {
            if file.exists() {
                e
            } else {
                e.hint("a plugin is a folder with a plugin.yaml; `hookwright new plugin NAME` makes one")
            }
        })?;
        let folder_name = folder.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
        match manifest::parse_bytes(&bytes, Source { file: &shown(&file), folder_name: &folder_name }) {
            Ok(parsed) => {
                found.extend(parsed.warnings.clone());
                plugins.push(Plugin { folder, parsed, sha256: hookwright_core::json::sha256_hex(&bytes) });
            }
            Err(faults) => found.extend(faults),
        }
    }
    let all: Vec<&Parsed> = plugins.iter().map(|p| &p.parsed).collect();
    if !found.iter().any(Diagnostic::is_error) {
        found.extend(tenant::check(&all));
        found.extend(check_secrets(&all, &config));
        found.extend(check_approvers(&all, &config));
    }
    let run_as = config.run_as.as_deref().map(|user| run_as::user(&config.id, user)).transpose()?;
    if run_as.is_some()
        && let Some(agent) =
            plugins.iter().flat_map(|p| &p.parsed.manifest.agents).find(|a| matches!(a.runs, AgentRuns::Harness(_)))
    {
        return Err(CliError::usage(format!(
            "the tenant {} has `run_as`, and its agent {} runs in a harness, which would be the node's own OS user",
            config.id, agent.id
        ))
        .hint("give that agent a model, or leave `run_as` out"));
    }
    Ok((Tenant { run_as, config, plugins, warnings: vec![] }, found))
}

impl Tenant {
    pub(crate) fn manifests(&self) -> Vec<Manifest> {
        self.plugins.iter().map(|p| p.parsed.manifest.clone()).collect()
    }

    pub(crate) fn folders(&self) -> Vec<String> {
        self.plugins.iter().map(|p| p.folder.to_string_lossy().into_owned()).collect()
    }

    /// Starts all servers, in the background.
    pub(crate) fn start(&self, env: &Environment) -> Arc<McpHost> {
        self.start_only(env, &|_| true)
    }

    /// Starts the servers of some tools; the others are as if they were not declared.
    pub(crate) fn start_only(&self, env: &Environment, wanted: &dyn Fn(&str) -> bool) -> Arc<McpHost> {
        let message_bytes = usize::try_from(self.config.limits.message_bytes).unwrap_or(usize::MAX);
        McpHost::start(self.specs(env, wanted), HostConfig { message_bytes, ..HostConfig::default() })
    }

    /// Starts the servers that all sessions share, after those of another time, whose unchanged servers go on: they are named.
    pub(crate) fn start_after(&self, env: &Environment, before: Option<&McpHost>) -> (Arc<McpHost>, Vec<String>) {
        let message_bytes = usize::try_from(self.config.limits.message_bytes).unwrap_or(usize::MAX);
        let config = HostConfig { message_bytes, ..HostConfig::default() };
        McpHost::start_after(self.specs(env, &|tool| !self.is_of_session(tool)), config, before)
    }

    /// The ids of all tools, in the tenant's order.
    pub(crate) fn tool_ids(&self) -> impl Iterator<Item = &str> {
        self.plugins.iter().flat_map(|p| p.parsed.manifest.tools.iter().map(|t| t.id.as_str()))
    }

    /// Whether each session has a server of its own for a tool (SPEC §2 `scope`).
    pub(crate) fn is_of_session(&self, tool: &str) -> bool {
        let decl = self.plugins.iter().flat_map(|p| &p.parsed.manifest.tools).find(|t| t.id == tool);
        match decl.and_then(|t| t.scope) {
            Some(scope) => scope == Scope::Session,
            None => self.config.lifecycle.servers.allows(tool) || decl.is_some_and(|t| !t.passes.is_empty()),
        }
    }

    /// What the servers of some tools are started from.
    pub(crate) fn specs(&self, env: &Environment, wanted: &dyn Fn(&str) -> bool) -> Vec<ToolSpec> {
        let secrets = self.config.secrets.clone();
        let env = env.clone();
        let lookup = move |name: &str| {
            let passed_on = PASSED_ON.contains(&name);
            if passed_on || secrets.allows(name) { env.get(name) } else { None }
        };
        self.plugins
            .iter()
            .flat_map(|p| p.parsed.manifest.tools.iter().map(move |t| (t, &p.folder)))
            .filter(|(tool, _)| wanted(&tool.id))
            .map(|(tool, folder)| {
                let spec = ToolSpec::from_decl(tool, folder, &lookup);
                match &self.run_as {
                    Some(user) => spec.run_as(user.clone()),
                    None => spec,
                }
            })
            .collect()
    }

    /// What manifests say of tools beside how they are reached.
    pub(crate) fn traits(&self) -> HashMap<String, ToolTraits> {
        let tools = self.plugins.iter().flat_map(|p| &p.parsed.manifest.tools);
        tools
            .map(|t| {
                let traits = ToolTraits {
                    idempotent: t.idempotent.clone(),
                    trust_annotations: t.trust_annotations,
                    alias: None,
                };
                (t.id.clone(), traits)
            })
            .collect()
    }

    /// The hooks that may concern an agent.
    pub(crate) fn hooks(&self, agent: &str) -> HookSet {
        HookSet::for_agent(&self.manifests(), agent, &self.config.groups)
    }

    /// Whose lifecycle hooks a session's first job asks: servers on the allowlist, in the tenant's order.
    pub(crate) fn lifecycle(&self) -> Option<LifecycleSpec> {
        let config = &self.config.lifecycle;
        let tools = self.plugins.iter().flat_map(|p| &p.parsed.manifest.tools);
        let servers: Vec<String> = tools.map(|t| t.id.clone()).filter(|id| config.servers.allows(id)).collect();
        (!servers.is_empty()).then_some(LifecycleSpec {
            servers,
            timeout_ms: config.timeout_ms,
            max_rejections: config.max_rejections,
            rejections_used: 0,
            session_start: true,
        })
    }

    /// Names on the allowlist that are no tool of these plugins, each with what to say about it.
    pub(crate) fn unknown_lifecycle_servers(&self) -> Vec<String> {
        let Servers::Named(names) = &self.config.lifecycle.servers else { return vec![] };
        let tools: Vec<&str> =
            self.plugins.iter().flat_map(|p| &p.parsed.manifest.tools).map(|t| t.id.as_str()).collect();
        let unknown = names.iter().filter(|name| !tools.contains(&name.as_str()));
        unknown
            .map(|name| {
                let shown = hookwright_core::text::shown(name, 100);
                let near =
                    nearest(name, tools.iter().copied()).map_or(String::new(), |n| format!("; did you mean {n}?"));
                format!("lifecycle hooks are allowed for {shown}, which is no tool of these plugins{near}")
            })
            .collect()
    }

    /// Functions that any hook names under `call`.
    pub(crate) fn hook_functions(&self) -> Vec<String> {
        let mut names: Vec<String> =
            self.plugins.iter().flat_map(|p| p.parsed.manifest.hooks.iter().map(|h| h.call.to_string())).collect();
        names.sort();
        names.dedup();
        names
    }

    /// The agent of that id, or the only one.
    pub(crate) fn agent(&self, id: Option<&str>) -> CliResult<(&Plugin, &AgentDecl)> {
        let all: Vec<(&Plugin, &AgentDecl)> =
            self.plugins.iter().flat_map(|p| p.parsed.manifest.agents.iter().map(move |a| (p, a))).collect();
        let names: Vec<&str> = all.iter().map(|(_, a)| a.id.as_str()).collect();
        match id {
            Some(id) => all.iter().find(|(_, a)| a.id == id).copied().ok_or_else(|| {
                let error =
                    CliError::usage(format!("no agent {:?} in these plugins", hookwright_core::text::escape(id)));
                match nearest(id, names.iter().copied()) {
                    Some(near) => error.hint(format!("did you mean {near}?")),
                    None => error.hint(format!("there are: {}", names.join(", "))),
                }
            }),
            None => match all.as_slice() {
                [one] => Ok(*one),
                [] => Err(CliError::usage("these plugins declare no agent")
                    .hint("add one under `agents:` (docs/manifest.md)")),
                _ => Err(CliError::usage("these plugins declare several agents")
                    .hint(format!("choose one with --agent: {}", names.join(", ")))),
            },
        }
    }

    /// The folder of a plugin.
    pub(crate) fn folder_of(&self, plugin: &str) -> Option<&Path> {
        self.plugins.iter().find(|p| p.parsed.manifest.id == plugin).map(|p| p.folder.as_path())
    }

    /// An agent as a job's first record holds it.
    pub(crate) fn agent_spec(&self, plugin: &Plugin, decl: &AgentDecl, blobs: &mut Vec<Blob>) -> AgentSpec {
        let (model, external) = match &decl.runs {
            AgentRuns::Model(model) => (model.clone(), None),
            // A denied output sends it back once.
            AgentRuns::Harness(harness) => {
                (format!("harness/{}", harness.harness), Some(External { makes_calls: true, holds: 1 }))
            }
        };
        let mut keep = |value: Value| {
            let (stored, blob) = Stored::new(value);
            blobs.extend(blob);
            stored
        };
        AgentSpec {
            id: decl.id.clone(),
            plugin: plugin.parsed.manifest.id.clone(),
            model,
            instructions: decl.instructions.clone().map(|t| keep(Value::String(t))),
            tools: decl.tools.clone(),
            own_tools: plugin.parsed.manifest.tools.iter().map(|t| t.id.clone()).collect(),
            input_schema: decl.input_schema.clone().map(&mut keep),
            output_schema: decl.output_schema.clone().map(&mut keep),
            max_turns: decl.max_turns.unwrap_or(self.config.limits.max_turns),
            max_tokens: decl.max_tokens,
            context_window: decl.context_window.map(u64::from),
            subagents: self.subagents(decl, &mut keep),
            external,
        }
    }

    /// The agents that one may start.
    fn subagents(&self, decl: &AgentDecl, keep: &mut dyn FnMut(Value) -> Stored) -> Vec<SubagentSpec> {
        let all = || self.plugins.iter().flat_map(|p| &p.parsed.manifest.agents);
        let named = decl.subagents.iter().filter_map(|id| all().find(|agent| agent.id == *id));
        named
            .map(|agent| SubagentSpec {
                id: agent.id.clone(),
                description: agent.description.clone(),
                input_schema: agent.input_schema.clone().map(&mut *keep),
            })
            .collect()
    }
}
