//! What a configuration says, with defaults filled in.

use super::Servers;
use super::limits::bounds;
use crate::Limits;
use serde::Serialize;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// The default of `lifecycle.timeout`, in milliseconds (SPEC §9).
const LIFECYCLE_TIMEOUT_MS: u64 = 2_500;
/// The default of `lifecycle.max_rejections` (SPEC §9).
const MAX_REJECTIONS: u32 = 3;

/// A node's configuration.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Config {
    /// Its tenants; never empty, with different ids.
    pub tenants: Vec<TenantConfig>,
    /// The path of the SQLite file, as it was written. Absent: the caller's default.
    pub store: Option<String>,
    /// What runs jobs durably.
    pub engine: Engine,
    /// The path of the node's Unix socket, as it was written. Absent: the caller's default.
    pub socket: Option<String>,
    /// What is logged, how and where to.
    pub log: LogConfig,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            tenants: vec![TenantConfig::default()],
            store: None,
            engine: Engine::default(),
            socket: None,
            log: LogConfig::default(),
        }
    }
}

/// A tenant.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TenantConfig {
    /// Its id.
    pub id: String,
    /// Folders of its plugins in install order, as they were written.
    pub plugins: Vec<String>,
    /// Its lifecycle hooks.
    pub lifecycle: LifecycleConfig,
    /// Which variables `from:` may name in its plugins' manifests.
    pub secrets: Secrets,
    /// People by group, for `approvers`. No list is empty.
    pub groups: BTreeMap<String, Vec<String>>,
    /// Bounds of its jobs.
    pub limits: Limits,
    /// How many of its jobs run at once; those of subagents don't count. Absent: as many as there are.
    pub jobs_at_once: Option<u32>,
    /// The OS user that its plugins' servers run as: a name, or `uid:gid`. Absent: the node's own.
    pub run_as: Option<String>,
}

impl Default for TenantConfig {
    /// The tenant of a node without a configuration: `default`, without plugins; every variable may be named.
    fn default() -> Self {
        Self {
            id: "default".to_owned(),
            plugins: Vec::new(),
            lifecycle: LifecycleConfig::default(),
            secrets: Secrets::Any,
            groups: BTreeMap::new(),
            limits: Limits::default(),
            jobs_at_once: None,
            run_as: None,
        }
    }
}

/// Which variables of the node's environment `from:` may name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Secrets {
    /// All. Only where no file declares the tenant: plugins named by flags are trusted explicitly.
    Any,
    /// These. A declared tenant without `secrets` has none.
    Named(Vec<String>),
}

impl Secrets {
    /// Whether a variable may be named.
    pub fn allows(&self, variable: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Named(names) => names.iter().any(|name| name == variable),
        }
    }
}

/// Lifecycle hooks of a tenant (SPEC §9). The variables of the environment, where set, win.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LifecycleConfig {
    /// Servers whose lifecycle hooks are asked. Default: none.
    pub servers: Servers,
    /// Milliseconds that one may take. 1–60,000, default 2,500.
    pub timeout_ms: u64,
    /// Rejections of one session that are heeded; 0 disables `_Stop`. Default 3.
    pub max_rejections: u32,
}

impl LifecycleConfig {
    /// Takes the variables of the environment, which win over what a file says (SPEC §9): `get` gives what a variable is set to.
    ///
    /// `MCP_HOOK_SERVERS` counts as soon as it is set, so that an empty one switches hooks off; the others where they are not empty.
    /// `Err` says which variable can't be meant, and what is expected.
    pub fn overrule(&mut self, get: &dyn Fn(&str) -> Option<String>) -> Result<(), String> {
        if let Some(text) = get("MCP_HOOK_SERVERS") {
            self.servers = Servers::parse(&text).map_err(|e| format!("the variable MCP_HOOK_SERVERS says {e}"))?;
        }
        let number = |names: [&str; 2], bounds: RangeInclusive<u64>, what: &str| {
            let set = names.into_iter().find_map(|name| get(name).filter(|v| !v.trim().is_empty()).map(|v| (name, v)));
            let Some((name, value)) = set else { return Ok(None) };
            match value.trim().parse::<u64>() {
                Ok(n) if bounds.contains(&n) => Ok(Some(n)),
                _ => Err(format!(
                    "the variable {name} is \"{}\": expected {what}, {} to {}",
                    crate::text::shown(&value, 100),
                    bounds.start(),
                    bounds.end()
                )),
            }
        };
        let timeout = ["HOOKWRIGHT_HOOK_TIMEOUT_MS", "SPROUT_AGENT_HOOK_TIMEOUT_MS"];
        if let Some(ms) = number(timeout, bounds::LIFECYCLE_TIMEOUT_MS, "whole milliseconds")? {
            self.timeout_ms = ms;
        }
        let rejections = ["HOOKWRIGHT_STOP_MAX_REJECTIONS", "SPROUT_AGENT_STOP_MAX_REJECTIONS"];
        if let Some(n) = number(rejections, bounds::MAX_REJECTIONS, "a whole number")? {
            self.max_rejections = u32::try_from(n).unwrap_or(u32::MAX);
        }
        Ok(())
    }
}

impl Default for LifecycleConfig {
    fn default() -> Self {
        Self { servers: Servers::None, timeout_ms: LIFECYCLE_TIMEOUT_MS, max_rejections: MAX_REJECTIONS }
    }
}

/// What runs jobs durably.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Engine {
    /// In the node itself, on one SQLite file.
    #[default]
    Embedded,
    /// On a Temporal cluster; the node's SQLite file is the journal of the jobs that are at home on it.
    Temporal(Box<TemporalConfig>),
}

/// A Temporal cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TemporalConfig {
    /// `host:port` of its frontend.
    pub address: String,
    /// The namespace. Default `default`.
    pub namespace: String,
    /// The task queue of the workflows, which all nodes share. Default `hookwright`.
    pub queue: String,
    /// This node's id; must differ from every other node's. Absent: made of the machine's name and the store's path.
    pub node: Option<String>,
    /// The variable of the node's environment that holds the API key.
    pub api_key: Option<String>,
    /// TLS. Absent: plain, or with the system's certificates where there is an API key.
    pub tls: Option<TlsConfig>,
}

/// Certificates of a connection, as paths to PEM files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct TlsConfig {
    /// Who signs the server's certificate. Absent: those that the system trusts.
    pub ca: Option<String>,
    /// The client's certificate; with `key`.
    pub cert: Option<String>,
    /// Its private key.
    pub key: Option<String>,
    /// The name in the server's certificate. Absent: the address's.
    pub domain: Option<String>,
}

/// The node's log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct LogConfig {
    /// Levels, e.g. `info`, or `info,hookwright_mcp=debug`. Absent: the caller's default.
    pub filter: Option<String>,
    /// The form of its lines.
    pub format: LogFormat,
    /// The file that it goes to, as it was written. Absent: standard error.
    pub file: Option<String>,
}

/// The form of log lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}
