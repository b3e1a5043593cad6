//! Which agent a client is.

use crate::exit::CliResult;
use crate::setup::Tenant;
use hookwright_core::job::{AgentSpec, External};
use hookwright_core::name::is_tool_id;
use hookwright_gateway::Client;

/// Characters of an id.
const ID_CHARS: usize = 64;
/// The id of a client that says nothing that could be one.
const NAMELESS: &str = "client";

/// How a client becomes an agent.
pub(super) enum Who {
    /// Each is one of its own, named after it, and sees all tools.
    Named,
    /// All are this agent of the configuration.
    Declared(Box<AgentSpec>),
}

impl Who {
    pub(super) fn of(tenant: &Tenant, id: Option<&str>) -> CliResult<Self> {
        let Some(id) = id else { return Ok(Self::Named) };
        let (plugin, decl) = tenant.agent(Some(id))?;
        let manifest = &plugin.parsed.manifest;
        Ok(Self::Declared(Box::new(AgentSpec {
            tools: decl.tools.clone(),
            own_tools: manifest.tools.iter().map(|t| t.id.clone()).collect(),
            ..AgentSpec::new(&decl.id, &manifest.id, "", 1)
        })))
    }

    /// The agent that a client is.
    pub(super) fn spec(&self, client: &Client) -> AgentSpec {
        let name = id_of(&client.name);
        let agent = match self {
            // Whatever there is; functions of hooks stay hidden.
            Self::Named => AgentSpec { tools: Some(vec!["*".to_owned()]), ..AgentSpec::new(&name, "", "", 1) },
            Self::Declared(spec) => (**spec).clone(),
        };
        let external = Some(External { makes_calls: false, holds: 0 });
        AgentSpec { model: format!("client/{name}"), external, ..agent }
    }
}

/// An agent's id out of what a client calls itself.
fn id_of(name: &str) -> String {
    let mut id = String::new();
    for c in name.chars() {
        let c = if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '-' };
        let may_begin = c.is_ascii_alphanumeric();
        if (may_begin || !id.is_empty()) && id.len() < ID_CHARS && !(c == '-' && id.ends_with('-')) {
            id.push(c);
        }
    }
    let id = id.trim_end_matches(['-', '_']);
    if is_tool_id(id) { id.to_owned() } else { NAMELESS.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clients_name_becomes_an_id() {
        let long = "x".repeat(100);
        for (name, id) in [
            ("claude-code", "claude-code"),
            ("Visual Studio Code", "Visual-Studio-Code"),
            ("  @scope/client_2  ", "scope-client_2"),
            ("__", "client"),
            ("", "client"),
            ("日本", "client"),
            (long.as_str(), &long[..64]),
        ] {
            assert_eq!(id_of(name), id, "{name}");
        }
    }
}
