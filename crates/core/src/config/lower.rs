//! The tree → a configuration.

use super::engine::engine;
use super::limits::{bounds, count, limits};
use super::{Config, Engine, LifecycleConfig, LogConfig, LogFormat, Secrets, Servers, TenantConfig};
use crate::Limits;
use crate::diagnostic::{Code, shown};
use crate::yaml::{Kind, Node, Reader, Sink};
use std::collections::{BTreeMap, HashMap};

/// `None`: an error was said.
pub(super) fn config(root: &Node, sink: &mut Sink<'_>) -> Option<Config> {
    let read = &mut Reader { sink };
    let fields = read.fields(root, "the configuration", &["tenants", "store", "engine", "socket", "log"])?;
    let tenants = match fields.get("tenants") {
        Some(node) => tenants(read, node),
        None => Some(vec![TenantConfig::default()]),
    };
    let store = optional(fields.get("store"), |node| path(read, node, "`store`"));
    let engine = match fields.get("engine") {
        Some(node) => engine(read, node),
        None => Some(Engine::default()),
    };
    let socket = optional(fields.get("socket"), |node| path(read, node, "`socket`"));
    let log = match fields.get("log") {
        Some(node) => log(read, node),
        None => Some(LogConfig::default()),
    };
    Some(Config { tenants: tenants?, store: store?, engine: engine?, socket: socket?, log: log? })
}

/// An absent value is no fault.
#[allow(clippy::option_option, reason = "the outer `None` means that an error was said, as everywhere here")]
pub(super) fn optional<T>(node: Option<&Node>, read: impl FnOnce(&Node) -> Option<T>) -> Option<Option<T>> {
    match node {
        Some(node) => read(node).map(Some),
        None => Some(None),
    }
}

pub(super) fn path(read: &mut Reader<'_, '_>, node: &Node, what: &str) -> Option<String> {
    let text = read.filled(node, what, false)?;
    if text.starts_with('~') {
        read.error(node.place, Code::InvalidPath, format!("{what} is `{}`: `~` is not replaced", shown(text)))
            .hint("write the whole path, or one relative to the folder of this file (./~… for a name with ~)");
        return None;
    }
    Some(text.to_owned())
}

fn tenants(read: &mut Reader<'_, '_>, node: &Node) -> Option<Vec<TenantConfig>> {
    let items = read.list(node, "`tenants`")?;
    if items.is_empty() {
        read.error(node.place, Code::EmptyList, "`tenants` is an empty list")
            .hint("leave the key out for one tenant `default`");
        return None;
    }
    let mut first: HashMap<String, u32> = HashMap::new();
    let read_all: Vec<Option<TenantConfig>> = items.iter().map(|item| tenant(read, item, &mut first)).collect();
    read_all.into_iter().collect()
}

fn tenant(read: &mut Reader<'_, '_>, node: &Node, first: &mut HashMap<String, u32>) -> Option<TenantConfig> {
    let keys = ["id", "plugins", "lifecycle", "secrets", "groups", "limits", "run_as"];
    let fields = read.fields(node, "a tenant", &keys)?;
    let id = read.required(&fields, "id", "a tenant", "e.g. `id: default`").and_then(|node| {
        let id = read.id(node, "a tenant's `id`")?;
        if let Some(line) = first.get(id) {
            read.error(
                node.place,
                Code::DuplicateId,
                format!("a second tenant with the id `{id}`; the first is on line {line}"),
            );
            return None;
        }
        first.insert(id.to_owned(), node.place.line);
        Some(id.to_owned())
    });
    let plugins = read
        .required(&fields, "plugins", "a tenant", "folders in install order, e.g. [plugins/release]; [] for none")
        .and_then(|node| plugins(read, node));
    let lifecycle = match fields.get("lifecycle") {
        Some(node) => lifecycle(read, node),
        None => Some(LifecycleConfig::default()),
    };
    let secrets = match fields.get("secrets") {
        Some(node) => secrets(read, node),
        None => Some(Vec::new()),
    };
    let groups = match fields.get("groups") {
        Some(node) => groups(read, node),
        None => Some(BTreeMap::new()),
    };
    let limits = match fields.get("limits") {
        Some(node) => limits(read, node),
        None => Some((Limits::default(), None)),
    };
    let run_as = optional(fields.get("run_as"), |node| run_as(read, node));
    let (limits, jobs_at_once) = limits?;
    Some(TenantConfig {
        id: id?,
        plugins: plugins?,
        lifecycle: lifecycle?,
        secrets: Secrets::Named(secrets?),
        groups: groups?,
        limits,
        jobs_at_once,
        run_as: run_as?,
    })
}

fn plugins(read: &mut Reader<'_, '_>, node: &Node) -> Option<Vec<String>> {
    let items = read.list(node, "`plugins`")?;
    let mut seen: HashMap<String, u32> = HashMap::new();
    let mut one = |item: &std::rc::Rc<Node>| {
        let folder = path(read, item, "an entry of `plugins`")?;
        // The same folder in other words: its tools would stand twice in the tenant.
        let same = folder.split('/').filter(|part| !matches!(*part, "" | ".")).collect::<Vec<_>>().join("/");
        let same = if folder.starts_with('/') { format!("/{same}") } else { same };
        if let Some(line) = seen.get(&same) {
            read.error(
                item.place,
                Code::DuplicateId,
                format!("the plugin `{}` stands twice; first on line {line}", shown(&folder)),
            );
            return None;
        }
        seen.insert(same, item.place.line);
        Some(folder)
    };
    let found: Vec<Option<String>> = items.iter().map(&mut one).collect();
    found.into_iter().collect()
}

fn lifecycle(read: &mut Reader<'_, '_>, node: &Node) -> Option<LifecycleConfig> {
    let default = LifecycleConfig::default();
    let fields = read.fields(node, "`lifecycle`", &["servers", "timeout", "max_rejections"])?;
    let servers = match fields.get("servers") {
        Some(node) => servers(read, node),
        None => Some(default.servers),
    };
    let timeout_ms = match fields.get("timeout") {
        Some(node) => read.duration(node, "`lifecycle.timeout`", bounds::LIFECYCLE_TIMEOUT_MS),
        None => Some(default.timeout_ms),
    };
    let max_rejections =
        count(read, fields.get("max_rejections"), "`max_rejections`", bounds::MAX_REJECTIONS, default.max_rejections);
    Some(LifecycleConfig { servers: servers?, timeout_ms: timeout_ms?, max_rejections: max_rejections? })
}

fn servers(read: &mut Reader<'_, '_>, node: &Node) -> Option<Servers> {
    let parsed = match &node.kind {
        Kind::Text(text) => Servers::parse(text),
        Kind::List(_) => {
            let names = read.texts(node, "`servers`", true)?;
            Servers::of_names(names.iter().map(|(name, _)| name.as_str()))
        }
        _ => {
            read.wrong_type(node, "`servers`", "\"*\", or a list of tool ids");
            return None;
        }
    };
    match parsed {
        Ok(servers) => Some(servers),
        Err(error) => {
            read.error(node.place, Code::InvalidServers, error.to_string());
            None
        }
    }
}

fn secrets(read: &mut Reader<'_, '_>, node: &Node) -> Option<Vec<String>> {
    let mut good = true;
    let mut names = Vec::new();
    for (name, place) in read.texts(node, "`secrets`", true)? {
        if crate::manifest::is_variable(&name) {
            names.push(name);
            continue;
        }
        good = false;
        if let Some(kind) = crate::diagnostic::secret_kind(&name) {
            read.error(place, Code::SecretInManifest, format!("an entry of `secrets` looks like {kind} itself"))
                .hint("name the variable that holds it; if this one is real, revoke it");
        } else {
            read.error(place, Code::InvalidName, format!("`{}` can't name a variable", shown(&name)))
                .hint("`secrets` names variables of the node's environment, without patterns");
        }
    }
    good.then_some(names)
}

/// The name of an OS user, or `uid:gid` where the machine has no name for it.
fn run_as(read: &mut Reader<'_, '_>, node: &Node) -> Option<String> {
    let text = read.filled(node, "`run_as`", false)?;
    let part = |part: &str| {
        let begins = part.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        begins && part.len() <= 64 && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'))
    };
    let numbers = text.split_once(':').map(|(uid, gid)| [uid, gid].iter().all(|n| n.parse::<u32>().is_ok()));
    if numbers.unwrap_or_else(|| part(text)) {
        return Some(text.to_owned());
    }
    read.error(node.place, Code::InvalidName, format!("`run_as` is `{}`, which can't name an OS user", shown(text)))
        .hint("write the user's name, e.g. run_as: team-a; or its numbers, run_as: \"1001:1001\"");
    None
}

fn groups(read: &mut Reader<'_, '_>, node: &Node) -> Option<BTreeMap<String, Vec<String>>> {
    let entries = read.entries(node, "`groups`", "a mapping of groups to lists of people")?;
    let mut found = BTreeMap::new();
    let mut good = true;
    for entry in entries {
        if !crate::name::is_tool_id(&entry.key) {
            read.error(entry.key_place, Code::InvalidName, format!("`{}` can't name a group", shown(&entry.key)))
                .hint(crate::yaml::ID_RULE);
            good = false;
        }
        match read.texts(&entry.value, &format!("the group `{}`", shown(&entry.key)), false) {
            Some(people) => {
                found.insert(entry.key.clone(), people.into_iter().map(|(name, _)| name).collect());
            }
            None => good = false,
        }
    }
    good.then_some(found)
}

fn log(read: &mut Reader<'_, '_>, node: &Node) -> Option<LogConfig> {
    if let Kind::Text(_) = &node.kind {
        return Some(LogConfig { filter: Some(filter(read, node, "`log`")?), ..LogConfig::default() });
    }
    if !matches!(node.kind, Kind::Map(_)) {
        read.wrong_type(node, "`log`", "a level such as info, or a mapping with the keys filter, format, file");
        return None;
    }
    let fields = read.fields(node, "`log`", &["filter", "format", "file"])?;
    let level = optional(fields.get("filter"), |node| filter(read, node, "`log.filter`"));
    let format = match fields.get("format") {
        Some(node) => read.choice(node, "`log.format`", &[("text", LogFormat::Text), ("json", LogFormat::Json)]),
        None => Some(LogFormat::default()),
    };
    let file = optional(fields.get("file"), |node| path(read, node, "`log.file`"));
    Some(LogConfig { filter: level?, format: format?, file: file? })
}

/// Levels, perhaps by target: `info`, `warn,hookwright_mcp=debug`.
fn filter(read: &mut Reader<'_, '_>, node: &Node, what: &str) -> Option<String> {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    let text = read.filled(node, what, false)?;
    for part in text.split(',').map(str::trim) {
        let (target, level) = part.split_once('=').map_or((None, part), |(target, level)| (Some(target), level));
        let target_good = target
            .is_none_or(|t| !t.is_empty() && t.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | ':')));
        if !LEVELS.contains(&level) || !target_good {
            let near = crate::diagnostic::nearest(level, LEVELS).map(|near| format!("did you mean `{near}`?"));
            read.error(
                node.place,
                Code::UnknownValue,
                format!("{what} holds `{}`: expected one of {}", shown(part), LEVELS.join(", ")),
            )
            .hint("e.g. info, or warn,hookwright_mcp=debug")
            .maybe_hint(near);
            return None;
        }
    }
    Some(text.to_owned())
}
