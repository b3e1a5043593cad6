//! The allowlist of servers whose lifecycle hooks are asked (SPEC §9).

use serde::Serialize;

/// Servers whose lifecycle hooks are asked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Servers {
    /// No server.
    #[default]
    None,
    /// Every server.
    All,
    /// These, by exact name, in this order.
    Named(Vec<String>),
}

/// Why a list of servers can't be meant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`*` together with names of servers: expected either `*` for all, or names")]
pub struct ServersError;

impl Servers {
    /// Reads the form of the variable `MCP_HOOK_SERVERS`: empty = none, `*` = all, else names with commas between, trimmed.
    pub fn parse(text: &str) -> Result<Self, ServersError> {
        Self::of_names(text.split(','))
    }

    /// Of names; `*` alone is all. Empty ones are left out, further ones of the same name too.
    pub fn of_names<'n>(names: impl IntoIterator<Item = &'n str>) -> Result<Self, ServersError> {
        let mut named: Vec<String> = Vec::new();
        let mut all = false;
        for name in names.into_iter().map(str::trim).filter(|name| !name.is_empty()) {
            if name == "*" {
                all = true;
            } else if !named.iter().any(|known| known == name) {
                named.push(name.to_owned());
            }
        }
        match (all, named.is_empty()) {
            (true, true) => Ok(Self::All),
            (true, false) => Err(ServersError),
            (false, true) => Ok(Self::None),
            (false, false) => Ok(Self::Named(named)),
        }
    }

    /// Whether a server's lifecycle hooks are asked.
    pub fn allows(&self, server: &str) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::Named(names) => names.iter().any(|name| name == server),
        }
    }
}
