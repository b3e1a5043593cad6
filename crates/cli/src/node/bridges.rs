//! What the bridges' jobs are made of: a harness is an agent of the tenant that its bridge was installed for, under its own name.
//!
//! Invariant: the conversations of each tenant are its own: what a harness calls its session leads to no other tenant's job.

use super::present::Now;
use crate::work::{self, NoModel};
use hookwright_bridge::{Ask, Wiring};
use hookwright_core::job::{AgentSpec, External, JobSpec, LOGIC_VERSION};
use hookwright_core::stored::Stored;
use hookwright_runtime::job::{Deps, NewRun};
use hookwright_runtime::ports::clock::{Clock as _, SystemClock};
use hookwright_runtime::ports::sessions::Sessions;
use hookwright_runtime::ports::store::NewJob;
use serde_json::{Value, json};
use std::sync::Arc;

/// The wiring of a tenant's bridges.
pub(super) struct Bridges {
    pub(super) now: Arc<Now>,
    pub(super) tenant: String,
    /// The tenant's part of the store.
    pub(super) store: Arc<dyn Sessions>,
}

impl Wiring for Bridges {
    fn job(&self, ask: &Ask, input: Value) -> Result<(NewRun, Deps), String> {
        let present = self.now.get();
        let household = present.household(&self.tenant).ok_or_else(|| {
            format!(
                "Hookwright let nothing through: the node has no tenant {} any more.",
                hookwright_core::text::shown(&self.tenant, 100)
            )
        })?;
        let tenant = &household.tenant;
        let id = |prefix: &str| format!("{prefix}_{}", &uuid::Uuid::new_v4().simple().to_string()[..16]);
        let holds = u32::from(ask.harness.caps().holds_stop);
        let agent = AgentSpec {
            // Its own tools; functions of hooks stay hidden in any case.
            tools: Some(vec!["*".to_owned()]),
            external: Some(External { makes_calls: true, holds }),
            model: format!("harness/{}", ask.harness),
            ..AgentSpec::new(ask.harness.id(), "", "", 1)
        };
        let (input, blob) = Stored::new(input);
        let (job, session) = (id("job"), id("ses"));
        let mut origin = work::origin(&present.settings, tenant);
        origin["door"] = json!("bridge");
        origin["conversation"] = json!(hookwright_core::text::shown(&ask.session, 200));
        let spec = JobSpec {
            logic: LOGIC_VERSION,
            job: job.clone(),
            tenant: tenant.config.id.clone(),
            node: crate::store::node_name(),
            session: session.clone(),
            parent_jobs: vec![],
            continues: None,
            hooks: tenant.hooks(&agent.id),
            agent,
            input,
            hook_functions: tenant.hook_functions(),
            limits: tenant.config.limits.clone(),
            // Whoever runs the agent decides when it stops.
            lifecycle: None,
        };
        let job = NewJob {
            id: job,
            tenant: spec.tenant.clone(),
            agent: spec.agent.id.clone(),
            session,
            parent: None,
            created_ms: SystemClock.now_ms(),
            origin,
        };
        let model = Arc::new(NoModel("the job's agent is a harness behind the bridge"));
        let deps = household.deps(&present.settings.env, self.store.clone(), model);
        Ok((NewRun { job, spec, blobs: blob.into_iter().collect() }, deps))
    }
}
