//! `hookwright check`: everything that can be found, running servers included.

use crate::args::{CheckArgs, Output};
use crate::exit::{self, CliResult};
use crate::plugins::{PluginReport, plugins};
use crate::settings::Settings;
use crate::setup;
use crate::terminal::{json, note};
use hookwright_core::diagnostic::{Diagnostic, Severity, render_all, summary};
use hookwright_core::manifest::Parsed;
use hookwright_core::manifest::tenant::{Listed, check_live};
use hookwright_core::text::escape;
use hookwright_runtime::ports::tools::Tools;
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
            let state = if hook.loaded == Some(true) { "loaded" } else { "NOT LOADED" };
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
