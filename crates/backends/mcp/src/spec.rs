//! What a tool is started from: a manifest's declaration with its variables resolved.
//!
//! Invariant: the value of a secret stands in no `Debug` output and in no error.

use crate::said::Secrets;
use hookwright_core::diagnostic::{mask, sounds_secret};
use hookwright_core::manifest::{McpDecl, Secret, ToolDecl};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Variables that every child gets, where the node has them (SPEC §2).
pub const PASSED_ON: [&str; 4] = ["PATH", "HOME", "LANG", "TMPDIR"];

/// A tool, ready to be started.
#[derive(Debug, Clone)]
pub struct ToolSpec {
    /// Its id.
    pub id: String,
    /// How its server is reached.
    pub transport: Transport,
    /// How long one start of the server may take.
    pub start_timeout: Duration,
    /// Why it can't be started at all, e.g. a missing variable: it is failed from the beginning.
    pub broken: Option<String>,
    /// What its server may ask for, as the capabilities of an MCP client: whoever is at the other side answers. Empty: nothing.
    pub capabilities: Map<String, Value>,
    /// The OS user that a child process runs as; none: our own.
    pub(crate) run_as: Option<RunAs>,
    pub(crate) secrets: Secrets,
}

/// An OS user that a server is started as. Needs root; the supplementary groups of our own are shed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunAs {
    /// As it was named, for people.
    pub name: String,
    /// The user's number.
    pub uid: u32,
    /// The number of the user's first group, the only one that the server has.
    pub gid: u32,
    /// The user's home, where it is known.
    pub home: Option<String>,
}

/// How a server is reached.
#[derive(Clone, PartialEq, Eq)]
pub enum Transport {
    /// A child process.
    Stdio {
        /// Program and arguments. A relative program with a slash is meant from `cwd`.
        command: Vec<String>,
        /// The folder it starts in.
        cwd: PathBuf,
        /// Its whole environment.
        env: Vec<(String, String)>,
    },
    /// Streamable HTTP.
    Http {
        /// The endpoint.
        url: String,
        /// Sent with every request.
        headers: Vec<(String, String)>,
    },
}

impl ToolSpec {
    /// A tool without secrets.
    pub fn new(id: impl Into<String>, transport: Transport) -> Self {
        Self {
            id: id.into(),
            transport,
            start_timeout: Duration::from_secs(30),
            broken: None,
            capabilities: Map::new(),
            run_as: None,
            secrets: Secrets::default(),
        }
    }

    /// Runs a child process as another OS user, in whose home it then is. Servers that are reached by HTTP are as they were.
    pub fn run_as(mut self, user: RunAs) -> Self {
        if let Transport::Stdio { env, .. } = &mut self.transport {
            env.retain(|(name, _)| name != "HOME");
            env.push(("HOME".to_owned(), user.home.clone().unwrap_or_else(|| "/".to_owned())));
            self.run_as = Some(user);
        }
        self
    }

    /// Whether a server that was started from another one need not be started again.
    pub(crate) fn is_as(&self, other: &Self) -> bool {
        self.id == other.id
            && self.transport == other.transport
            && self.start_timeout == other.start_timeout
            && self.broken == other.broken
            && self.capabilities == other.capabilities
            && self.run_as == other.run_as
    }

    /// From a manifest's declaration.
    ///
    /// `lookup` gives the node's variables: PATH, HOME, LANG and TMPDIR, and those that a manifest's `from` may name
    /// (`secrets:` in `hookwright.yaml`). A variable that it does not give makes this tool fail, with an error that names it.
    pub fn from_decl(decl: &ToolDecl, plugin_folder: &Path, lookup: &dyn Fn(&str) -> Option<String>) -> Self {
        let mut missing = Vec::new();
        let mut secrets = Secrets::default();
        let mut resolve = |values: &BTreeMap<String, Secret>| -> Vec<(String, String)> {
            let mut resolved = Vec::new();
            for (name, secret) in values {
                match secret {
                    Secret::Plain(value) => {
                        // A manifest is warned of it; what a server says of it is hidden all the same.
                        if sounds_secret(name) {
                            secrets.add(name, value);
                        }
                        resolved.push((name.clone(), value.clone()));
                    }
                    Secret::From { from } => match lookup(from) {
                        Some(value) => {
                            secrets.add(from, &value);
                            resolved.push((name.clone(), value));
                        }
                        None => missing.push(from.clone()),
                    },
                }
            }
            resolved
        };
        let transport = match &decl.mcp {
            McpDecl::Stdio { command, env } => {
                let named = resolve(env);
                let mut env: Vec<(String, String)> = PASSED_ON
                    .iter()
                    .filter(|name| !named.iter().any(|(other, _)| other == *name))
                    .filter_map(|name| Some(((*name).to_owned(), lookup(name)?)))
                    .collect();
                env.extend(named);
                Transport::Stdio { command: command.clone(), cwd: plugin_folder.to_owned(), env }
            }
            McpDecl::Http { url, headers } => Transport::Http { url: url.clone(), headers: resolve(headers) },
        };
        let broken = (!missing.is_empty()).then(|| {
            let (noun, verb) = if missing.len() == 1 { ("variable", "is") } else { ("variables", "are") };
            format!(
                "the {noun} {} that its manifest takes from the node's environment {verb} not there: set it, and name it under `secrets` in hookwright.yaml",
                missing.join(", ")
            )
        });
        Self {
            id: decl.id.clone(),
            transport,
            start_timeout: Duration::from_millis(decl.start_timeout_ms),
            broken,
            capabilities: Map::new(),
            run_as: None,
            secrets,
        }
    }
}

impl std::fmt::Debug for Transport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = |pairs: &[(String, String)]| pairs.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        match self {
            Self::Stdio { command, cwd, env } => {
                f.debug_struct("Stdio").field("command", command).field("cwd", cwd).field("env", &names(env)).finish()
            }
            Self::Http { url, headers } => {
                f.debug_struct("Http").field("url", &mask(url, 0).0).field("headers", &names(headers)).finish()
            }
        }
    }
}

#[cfg(test)]
mod tests;
