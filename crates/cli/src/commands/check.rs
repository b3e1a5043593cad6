//! `hookwright check`: everything that can be found, running servers included.

use crate::args::{CheckArgs, Output};
use crate::exit::{self, CliResult};
use crate::settings::Settings;
use crate::setup::{self, Tenant};
use crate::terminal::{json, note};
use hookwright_core::diagnostic::{Diagnostic, Severity, render_all, summary};
use hookwright_core::lifecycle::Point;
use hookwright_core::manifest::tenant::{Listed, check_live};
use hookwright_core::manifest::{McpDecl, Parsed};
use hookwright_core::text::escape;
use hookwright_runtime::ports::tools::{ToolStatus, Tools};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// What `check --output json` prints.
#[derive(Debug, Serialize)]
struct Report {
    /// Whether there is no error.
    ok: bool,
    errors: usize,
    warnings: usize,
    diagnostics: Vec<Diagnostic>,
    lifecycle: Lifecycle,
    plugins: Vec<PluginReport>,
}

/// What stands of lifecycle hooks (SPEC §9).
#[derive(Debug, Serialize)]
struct Lifecycle {
    /// Tools whose hooks are asked, in the order in which what they say is delivered.
    servers: Vec<String>,
    /// Names on the allowlist that are no tool, in words.
    unknown: Vec<String>,
    timeout_ms: u64,
    max_rejections: u32,
}

/// A lifecycle hook that a server lists.
#[derive(Debug, Serialize)]
struct LifecycleReport {
    tool: String,
    function: &'static str,
    /// Whether it is asked.
    on: bool,
    /// Why it is not.
    why: Option<&'static str>,
}

#[derive(Debug, Serialize)]
struct PluginReport {
    id: String,
    folder: String,
    tools: Vec<ToolReport>,
    hooks: Vec<HookReport>,
    lifecycle: Vec<LifecycleReport>,
    agents: Vec<String>,
}

#[derive(Debug, Serialize)]
struct ToolReport {
    id: String,
    /// `stdio` or `http`.
    transport: &'static str,
    /// `ready`, `failed`, …
    #[serde(flatten)]
    status: Option<ToolStatus>,
    /// Bare names of the functions that it lists; none where it can't be asked.
    functions: Option<Vec<String>>,
    error: Option<String>,
}

#[derive(Debug, Serialize)]
struct HookReport {
    on: &'static str,
    call: String,
    timeout_ms: u64,
    on_timeout: hookwright_core::manifest::OnTimeout,
    #[serde(rename = "match")]
    matches: hookwright_core::manifest::Match,
    /// It stands in the manifest.
    declared: bool,
    /// Its function is there to be asked.
    loaded: bool,
}

pub(crate) async fn run(mut settings: Settings, args: CheckArgs) -> CliResult {
    let (tenant, mut found) = setup::load(&mut settings, &args.plugins)?;
    let mut listed = Listed::new();
    let mut status = BTreeMap::new();
    if !found.iter().any(Diagnostic::is_error) {
        let host = tenant.start(&settings.env);
        let tools: Vec<&str> =
            tenant.plugins.iter().flat_map(|p| p.parsed.manifest.tools.iter().map(|t| t.id.as_str())).collect();
        let progress = crate::progress::waiting(settings.terminal, format!("starting {} servers", tools.len()));
        let answers = tokio::select! {
            answers = futures_util::future::join_all(tools.iter().map(|tool| host.functions(tool))) => answers,
            _ = tokio::signal::ctrl_c() => {
                crate::signals::end(host).await;
                return Ok(exit::CANCELLED);
            }
            () = crate::signals::stop() => {
                crate::signals::end(host).await;
                return Ok(exit::STOPPED);
            }
        };
        drop(progress);
        for (tool, answer) in tools.iter().zip(answers) {
            let names = answer.map(|fs| fs.into_iter().map(|f| f.name).collect()).map_err(|e| e.why);
            listed.insert((*tool).to_owned(), names);
        }
        status = host.status().into_iter().map(|s| (s.tool.clone(), s)).collect();
        crate::signals::end(host).await;
        let all: Vec<&Parsed> = tenant.plugins.iter().map(|p| &p.parsed).collect();
        found.extend(check_live(&all, &listed));
    }
    let count = |severity| found.iter().filter(|d| d.severity == severity).count();
    let report = Report {
        ok: count(Severity::Error) == 0,
        errors: count(Severity::Error),
        warnings: count(Severity::Warning),
        lifecycle: Lifecycle {
            servers: tenant.lifecycle().map(|l| l.servers).unwrap_or_default(),
            unknown: tenant.unknown_lifecycle_servers(),
            timeout_ms: tenant.config.lifecycle.timeout_ms,
            max_rejections: tenant.config.lifecycle.max_rejections,
        },
        plugins: plugins(&tenant, &listed, &status),
        diagnostics: found,
    };
    match args.output {
        Output::Json => json(&report),
        Output::Text => {
            if !report.diagnostics.is_empty() {
                note(render_all(&report.diagnostics, &settings.terminal.palette()).trim_end());
            }
            for what in &report.lifecycle.unknown {
                note(&format!("warning: {what}"));
            }
            crate::terminal::data(&text(&report));
            if summary(&report.diagnostics).is_none() && report.lifecycle.unknown.is_empty() {
                note("no errors, no warnings");
            }
        }
    }
    Ok(if report.ok { exit::OK } else { exit::USAGE })
}

fn plugins(tenant: &Tenant, listed: &Listed, status: &BTreeMap<String, ToolStatus>) -> Vec<PluginReport> {
    let loaded = |call: &hookwright_core::FunctionName| {
        listed
            .get(call.tool())
            .is_some_and(|l| l.as_ref().is_ok_and(|names| names.iter().any(|n| n == call.function())))
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

fn text(report: &Report) -> String {
    let mut out = String::new();
    for plugin in &report.plugins {
        let _ = writeln!(out, "plugin {}", plugin.id);
        let calls = plugin.hooks.iter().map(|hook| escape(&hook.call));
        let names = calls.chain(plugin.lifecycle.iter().map(|hook| format!("{}.{}", hook.tool, hook.function)));
        let wide = names.map(|name| name.chars().count()).max().unwrap_or(0).clamp(20, 60);
        let ids = plugin.tools.iter().map(|tool| tool.id.len()).max().unwrap_or(0).max(14);
        for tool in &plugin.tools {
            let server = tool
                .status
                .as_ref()
                .and_then(|s| s.server.clone())
                .map_or(String::new(), |s| format!(", {}", escape(&s)));
            let protocol = tool
                .status
                .as_ref()
                .and_then(|s| s.protocol.clone())
                .map_or(String::new(), |p| format!(", MCP {}", escape(&p)));
            let state = match (&tool.functions, &tool.error) {
                (Some(functions), _) => format!(
                    "{} function{}{server}{protocol}",
                    functions.len(),
                    if functions.len() == 1 { "" } else { "s" }
                ),
                (None, Some(_)) => "can't be asked".to_owned(),
                (None, None) => "not started".to_owned(),
            };
            let _ = writeln!(out, "  tool   {:<ids$} {} {state}", tool.id, tool.transport);
        }
        for hook in &plugin.hooks {
            let state = if hook.loaded { "loaded" } else { "NOT LOADED" };
            let _ = writeln!(out, "  hook   {:<14} {:<wide$} {state}", hook.on, escape(&hook.call));
        }
        for hook in &plugin.lifecycle {
            let name = format!("{}.{}", hook.tool, hook.function);
            let state = hook.why.map_or_else(|| "on".to_owned(), |why| format!("off: {why}"));
            let _ = writeln!(out, "  hook   {:<14} {name:<wide$} {state}", "lifecycle");
        }
        for agent in &plugin.agents {
            let _ = writeln!(out, "  agent  {agent}");
        }
    }
    out.trim_end().to_owned()
}
