//! Harnesses that run agents of a tenant: what they are started from.
//!
//! Invariant: a secret comes from the environment, and only where the tenant allows its name.

use crate::environment::Environment;
use crate::exit::{CliError, CliResult};
use crate::setup::Tenant;
use hookwright_bridge::{Claude, Codex, Harness as Kind, Launch};
use hookwright_core::manifest::{AgentRuns, HarnessDecl, Secret};
use hookwright_mcp::PASSED_ON;
use hookwright_runtime::ports::harness::Harness;
use std::sync::Arc;

/// The harness of a tenant's agent.
pub(super) fn open(env: &Environment, tenant: &Tenant, agent: &str) -> CliResult<Arc<dyn Harness>> {
    let (_, decl) = tenant.agent(Some(agent))?;
    let AgentRuns::Harness(harness) = &decl.runs else {
        return Err(CliError::usage(format!(
            "the agent {agent} was one of a harness when its job began, and is none now"
        )));
    };
    let (kind, program) = match Kind::of(&harness.harness) {
        Some(kind @ Kind::ClaudeAgentSdk) => (kind, "claude"),
        Some(kind @ Kind::Codex) => (kind, "codex"),
        _ => {
            return Err(CliError::usage(format!(
                "the agent {agent} runs in {}, whose sessions Hookwright does not run itself",
                harness.harness
            ))
            .hint(
                "claude-agent-sdk and codex can be run; others are watched through their own hooks: hookwright install",
            ));
        }
    };
    let command = harness.command.clone().unwrap_or_else(|| vec![program.to_owned()]);
    let cwd = std::env::current_dir().map_err(|e| CliError::usage(format!("the current folder can't be used: {e}")))?;
    let launch = Launch { command, env: variables(env, tenant, agent, harness)?, cwd };
    tracing::debug!(%kind, ?launch, "a harness as an agent");
    Ok(if kind == Kind::Codex {
        let own = std::env::current_exe()
            .map_err(|e| CliError::failed(format!("our own program, which Codex's hooks run, can't be found: {e}")))?;
        Arc::new(Codex::new(launch, own))
    } else {
        Arc::new(Claude::new(launch))
    })
}

fn variables(
    env: &Environment,
    tenant: &Tenant,
    agent: &str,
    harness: &HarnessDecl,
) -> CliResult<Vec<(String, String)>> {
    let mut all: Vec<(String, String)> = PASSED_ON
        .iter()
        .filter(|name| !harness.env.contains_key(**name))
        .filter_map(|name| Some(((*name).to_owned(), env.get(name)?)))
        .collect();
    for (name, value) in &harness.env {
        let value = match value {
            Secret::Plain(value) => value.clone(),
            Secret::From { from } => {
                let value = if tenant.config.secrets.allows(from) { env.get(from) } else { None };
                value.ok_or_else(|| {
                    let what = format!(
                        "the variable {from}, which the agent {agent} takes from the environment, is not there"
                    );
                    CliError::usage(what).hint("set it, and name it under `secrets` in hookwright.yaml")
                })?
            }
        };
        all.push((name.clone(), value));
    }
    Ok(all)
}
