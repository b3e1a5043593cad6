//! `hookwright trust`.

use crate::args::TrustArgs;
use crate::exit::{self, CliError, CliResult};
use crate::settings::{CONFIG_NAME, Settings, faults, read_config, real, shown};
use crate::setup;
use crate::terminal::note;
use crate::trust::{self, Trusted};
use hookwright_core::config::{Config, Secrets};
use hookwright_core::diagnostic::{Diagnostic, mask};
use hookwright_core::manifest::{McpDecl, Secret};
use hookwright_core::text::escape;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub(crate) fn run(settings: &Settings, args: &TrustArgs) -> CliResult {
    let file = settings.cwd.join(args.file.as_deref().unwrap_or(CONFIG_NAME.as_ref()));
    if args.remove {
        if trust::change(&settings.env, |trusted| trusted.remove(&real(&file)))?.is_none() {
            return Err(CliError::usage(format!("{} is not trusted", shown(&file))));
        }
        note(&format!("{} is trusted no longer", shown(&file)));
        return Ok(exit::OK);
    }
    let parsed = read_config(&file, settings.terminal)?;
    // What is trusted is what is shown: each manifest is read once.
    let (runs, manifests) = what_runs(settings, &parsed.config, &file)?;
    let now = Trusted::config(&file, &parsed.sha256, &manifests);
    let then = trust::change(&settings.env, |trusted| trusted.insert(real(&file), now.clone()))?;
    note(&format!("trusted: {} as it is now ({})", shown(&file), &now.digest()[..12]));
    for change in then.iter().flat_map(|then| then.changes(&now)) {
        note(&format!("  since it was trusted last: {change}"));
    }
    for line in runs {
        note(&format!("  {line}"));
    }
    note("a change of any of these files asks again; what their programs do is not covered");
    Ok(exit::OK)
}

/// What a configuration lets be started and reached, plugin by plugin. A plugin that is not there, or is wrong, can't be trusted.
fn what_runs(settings: &Settings, config: &Config, file: &Path) -> CliResult<(Vec<String>, BTreeMap<PathBuf, String>)> {
    let base = file.parent().unwrap_or(Path::new("."));
    let (mut lines, mut manifests) = (vec![], BTreeMap::new());
    for tenant in &config.tenants {
        let folders = tenant.plugins.iter().map(|plugin| base.join(plugin)).collect();
        let nothing = |error: CliError| error.hint("nothing was trusted; mend `plugins` in the configuration first");
        let (tenant, found) = setup::read_all(tenant.clone(), folders).map_err(nothing)?;
        if found.iter().any(Diagnostic::is_error) {
            return Err(nothing(faults(&found, settings.terminal)));
        }
        if let Some(names) = secrets_of(&tenant.config.secrets) {
            lines.push(format!(
                "tenant {}: its plugins may take {names} from your environment",
                escape(&tenant.config.id)
            ));
        }
        for plugin in &tenant.plugins {
            let manifest = shown(&plugin.folder.join(setup::MANIFEST_NAME));
            // Two tenants may name the same plugin.
            let before = manifests.insert(PathBuf::from(real(&plugin.folder)), plugin.sha256.clone());
            if before.is_some_and(|before| before != plugin.sha256) {
                return Err(CliError::usage(format!("{manifest} was changed while it was read"))
                    .hint("nothing was trusted; look at it, then try again"));
            }
            lines.push(format!("plugin {manifest}"));
            for tool in &plugin.parsed.manifest.tools {
                lines.push(format!("  {:<12} {}", tool.id, escape(&mask(&of_tool(&tool.mcp), 0).0)));
            }
        }
    }
    Ok((lines, manifests))
}

fn of_tool(mcp: &McpDecl) -> String {
    let taken = |values: &BTreeMap<String, Secret>| {
        let names: Vec<&str> = values
            .values()
            .filter_map(|value| if let Secret::From { from } = value { Some(from.as_str()) } else { None })
            .collect();
        if names.is_empty() { String::new() } else { format!(", gets {}", names.join(", ")) }
    };
    match mcp {
        McpDecl::Stdio { command, env } => {
            let words: Vec<String> = command.iter().map(|word| quoted(word)).collect();
            format!("runs    {}{}", words.join(" "), taken(env))
        }
        McpDecl::Http { url, headers } => format!("reaches {url}{}", taken(headers)),
    }
}

/// The variables that a tenant's plugins may take, in words.
fn secrets_of(secrets: &Secrets) -> Option<String> {
    match secrets {
        Secrets::Any => Some("any variable".to_owned()),
        Secrets::Named(names) if names.is_empty() => None,
        Secrets::Named(names) => Some(names.iter().map(|name| escape(name)).collect::<Vec<_>>().join(", ")),
    }
}

/// A word of a command, in quotes where its borders would not be seen.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./=:,@+%~".contains(c);
    if !word.is_empty() && word.chars().all(plain) { word.to_owned() } else { format!("{word:?}") }
}
