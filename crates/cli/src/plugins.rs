//! What is told of plugins: their tools, hooks and agents, as declared and as their running servers list them (SPEC §2).

use crate::setup::Tenant;
use hookwright_core::lifecycle::Point;
use hookwright_core::manifest::McpDecl;
use hookwright_core::manifest::tenant::Listed;
use hookwright_runtime::ports::tools::ToolStatus;
use serde::Serialize;
use std::collections::BTreeMap;

/// A lifecycle hook that a server lists.
#[derive(Debug, Serialize)]
pub(crate) struct LifecycleReport {
    pub(crate) tool: String,
    pub(crate) function: &'static str,
    /// Whether it is asked.
    pub(crate) on: bool,
    /// Why it is not.
    pub(crate) why: Option<&'static str>,
}

#[derive(Debug, Serialize)]
pub(crate) struct PluginReport {
    pub(crate) id: String,
    pub(crate) folder: String,
    pub(crate) tools: Vec<ToolReport>,
    pub(crate) hooks: Vec<HookReport>,
    pub(crate) lifecycle: Vec<LifecycleReport>,
    pub(crate) agents: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(crate) struct ToolReport {
    pub(crate) id: String,
    /// `stdio` or `http`.
    pub(crate) transport: &'static str,
    /// `ready`, `failed`, …
    #[serde(flatten)]
    pub(crate) status: Option<ToolStatus>,
    /// Bare names of the functions that it lists; none where it can't be asked.
    pub(crate) functions: Option<Vec<String>>,
    pub(crate) error: Option<String>,
}

#[derive(Debug, Serialize)]
pub(crate) struct HookReport {
    pub(crate) on: &'static str,
    pub(crate) call: String,
    pub(crate) timeout_ms: u64,
    pub(crate) on_timeout: hookwright_core::manifest::OnTimeout,
    #[serde(rename = "match")]
    pub(crate) matches: hookwright_core::manifest::Match,
    /// It stands in the manifest.
    pub(crate) declared: bool,
    /// Its function is there to be asked; none where that shows only in a session, whose own server it is.
    pub(crate) loaded: Option<bool>,
}

/// The plugins of a tenant, by what their running servers list.
pub(crate) fn plugins(tenant: &Tenant, listed: &Listed, status: &BTreeMap<String, ToolStatus>) -> Vec<PluginReport> {
    let loaded = |call: &hookwright_core::FunctionName| match listed.get(call.tool()) {
        Some(names) => Some(names.as_ref().is_ok_and(|names| names.iter().any(|n| n == call.function()))),
        None => (!tenant.is_of_session(call.tool())).then_some(false),
    };
    tenant
        .plugins
        .iter()
        .map(|plugin| {
            let manifest = &plugin.parsed.manifest;
            PluginReport {
                id: manifest.id.clone(),
                folder: plugin.folder.to_string_lossy().into_owned(),
                tools: manifest
                    .tools
                    .iter()
                    .map(|tool| ToolReport {
                        id: tool.id.clone(),
                        transport: match tool.mcp {
                            McpDecl::Stdio { .. } => "stdio",
                            McpDecl::Http { .. } => "http",
                        },
                        status: status.get(&tool.id).cloned(),
                        functions: listed.get(&tool.id).and_then(|l| l.clone().ok()),
                        error: listed.get(&tool.id).and_then(|l| l.clone().err()),
                    })
                    .collect(),
                hooks: manifest
                    .hooks
                    .iter()
                    .map(|hook| HookReport {
                        on: hook.on.name(),
                        call: hook.call.to_string(),
                        timeout_ms: hook.timeout_ms,
                        on_timeout: hook.on_timeout,
                        matches: hook.matches.clone(),
                        declared: true,
                        loaded: loaded(&hook.call),
                    })
                    .collect(),
                lifecycle: manifest.tools.iter().flat_map(|tool| lifecycle(tenant, &tool.id, listed)).collect(),
                agents: manifest.agents.iter().map(|a| a.id.clone()).collect(),
            }
        })
        .collect()
}

/// The lifecycle hooks that a tool lists, and whether they are asked.
fn lifecycle(tenant: &Tenant, tool: &str, listed: &Listed) -> Vec<LifecycleReport> {
    let Some(Ok(functions)) = listed.get(tool) else { return vec![] };
    let config = &tenant.config.lifecycle;
    let points = Point::ALL.into_iter().filter(|point| functions.iter().any(|f| f == point.function()));
    points
        .map(|point| {
            let why = if !config.servers.allows(tool) {
                Some("the tool is not on the allowlist (MCP_HOOK_SERVERS, or lifecycle.servers)")
            } else if point == Point::Stop && config.max_rejections == 0 {
                Some("max_rejections is 0")
            } else {
                None
            };
            LifecycleReport { tool: tool.to_owned(), function: point.function(), on: why.is_none(), why }
        })
        .collect()
}
