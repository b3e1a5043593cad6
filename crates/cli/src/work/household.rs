//! A tenant with its running servers, for the jobs that share them.

use super::TenantAgents;
use super::crash;
use crate::environment::Environment;
use crate::setup::Tenant;
use hookwright_mcp::McpHost;
use hookwright_runtime::job::Deps;
use hookwright_runtime::lifecycle::Standing;
use hookwright_runtime::ports::clock::SystemClock;
use hookwright_runtime::ports::model::Model;
use hookwright_runtime::ports::store::Store;
use std::sync::Arc;

/// A tenant, its servers, and the patience with them.
pub(crate) struct Household {
    pub(crate) tenant: Arc<Tenant>,
    pub(crate) host: Arc<McpHost>,
    pub(crate) standing: Arc<Standing>,
}

impl Household {
    pub(crate) fn new(tenant: Arc<Tenant>, host: Arc<McpHost>) -> Self {
        Self { tenant, host, standing: Arc::default() }
    }

    /// What a job of this tenant needs of the world.
    pub(crate) fn deps(&self, env: &Environment, store: Arc<dyn Store>, model: Arc<dyn Model>) -> Deps {
        Deps {
            store,
            tools: self.host.clone(),
            model,
            clock: Arc::new(SystemClock),
            traits: self.tenant.traits(),
            subagents: Some(TenantAgents::new(self.tenant.clone(), env.clone())),
            standing: self.standing.clone(),
            checkpoint: crash::checkpoint(env),
        }
    }

    /// Whether a tenant, as it was read again, is this one in all that it says.
    pub(crate) fn is_of(&self, tenant: &Tenant) -> bool {
        let manifests =
            |tenant: &Tenant| tenant.plugins.iter().map(|p| p.parsed.manifest.sha256.clone()).collect::<Vec<_>>();
        self.tenant.config == tenant.config
            && self.tenant.folders() == tenant.folders()
            && manifests(&self.tenant) == manifests(tenant)
    }

    /// Whether a job that was begun with this tenant can use these servers: they are the same, and none belongs to its session.
    pub(crate) fn serves(&self, of_job: &Tenant) -> bool {
        self.is_of(of_job) && !of_job.tool_ids().any(|tool| of_job.is_of_session(tool))
    }
}
