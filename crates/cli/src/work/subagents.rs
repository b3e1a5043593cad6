//! The agents of a tenant as others of it start them.

use crate::environment::Environment;
use crate::exit::{CliError, CliResult};
use crate::setup::Tenant;
use crate::work::harness;
use hookwright_core::job::AgentSpec;
use hookwright_model::Options;
use hookwright_runtime::ports::harness::RunBy;
use hookwright_runtime::ports::model::Model;
use hookwright_runtime::ports::subagents::{Child, Subagents};
use std::path::PathBuf;
use std::sync::Arc;

/// A tenant's agents. What a job may start is in its first record: here they are only made ready.
pub(crate) struct TenantAgents {
    tenant: Arc<Tenant>,
    env: Environment,
}

impl TenantAgents {
    pub(crate) fn new(tenant: Arc<Tenant>, env: Environment) -> Arc<Self> {
        Arc::new(Self { tenant, env })
    }
}

/// Opens what runs an agent: its model, or its harness.
pub(super) fn open_agent(env: &Environment, tenant: &Tenant, agent: &AgentSpec) -> CliResult<Arc<dyn Model>> {
    match agent.external {
        None => open_model(env, tenant, &agent.model, &agent.plugin),
        Some(_) => Ok(Arc::new(RunBy(harness::open(env, tenant, &agent.id)?))),
    }
}

/// Opens a model of an agent of that plugin.
pub(super) fn open_model(env: &Environment, tenant: &Tenant, model: &str, plugin: &str) -> CliResult<Arc<dyn Model>> {
    let env = env.clone();
    let lookup = move |name: &str| env.get(name);
    let options = Options { folder: tenant.folder_of(plugin).map(PathBuf::from), ..Options::default() };
    hookwright_model::open(model, &lookup, &options)
        .map_err(|e| CliError::usage(format!("the model can't be used: {e}")))
}

#[async_trait::async_trait]
impl Subagents for TenantAgents {
    async fn prepare(&self, agent: &str) -> Result<Child, String> {
        let words = |error: CliError| error.message;
        let (plugin, decl) = self.tenant.agent(Some(agent)).map_err(words)?;
        let mut blobs = vec![];
        let agent = self.tenant.agent_spec(plugin, decl, &mut blobs);
        let model = open_agent(&self.env, &self.tenant, &agent).map_err(words)?;
        Ok(Child {
            input_schema: decl.input_schema.clone(),
            hooks: self.tenant.hooks(&agent.id),
            hook_functions: self.tenant.hook_functions(),
            agent,
            model,
            blobs,
        })
    }

    async fn model(&self, agent: &AgentSpec) -> Result<Arc<dyn Model>, String> {
        open_agent(&self.env, &self.tenant, agent).map_err(|error| error.message)
    }
}
