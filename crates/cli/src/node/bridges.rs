//! What the bridges' jobs are made of: a harness is an agent of the tenant that its bridge was installed for, under its own name.
//!
//! Invariant: the conversations of each tenant are its own: what a harness calls its session leads to no other tenant's job.

use super::present::{Now, Present};
use crate::settings::Settings;
use crate::setup::Tenant;
use crate::work::{self, Household, NoModel};
use hookwright_bridge::{Ask, IsOf, Wiring};
use hookwright_core::job::{AgentSpec, External, JobSpec, LOGIC_VERSION};
use hookwright_core::stored::Stored;
use hookwright_runtime::job::{Deps, NewRun};
use hookwright_runtime::ports::clock::{Clock as _, SystemClock};
use hookwright_runtime::ports::sessions::Sessions;
use hookwright_runtime::ports::store::{JobRow, NewJob};
use serde_json::{Value, json};
use std::sync::Arc;

/// The door's name, at the node and in the jobs' origin.
pub(crate) const DOOR: &str = "bridge";

/// The wiring of a tenant's bridges.
pub(super) struct Bridges {
    pub(super) now: Arc<Now>,
    pub(super) tenant: String,
    /// The tenant's part of the store.
    pub(super) store: Arc<dyn Sessions>,
}

/// What a bridge's job is of, but for its conversation.
fn origin(settings: &Settings, tenant: &Tenant) -> Value {
    let mut origin = work::origin(settings, tenant);
    origin["door"] = json!(DOOR);
    origin
}

fn conversation(id: &str) -> Value {
    json!(hookwright_core::text::shown(id, 200))
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
        let mut origin = origin(&present.settings, tenant);
        origin["conversation"] = conversation(&ask.session);
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
        let deps = self.deps_of(&present, household);
        Ok((NewRun { job, spec, blobs: blob.into_iter().collect() }, deps))
    }

    fn left(&self, ask: &Ask) -> Option<(Deps, IsOf)> {
        let present = self.now.get();
        let household = present.household(&self.tenant)?;
        let (settings, tenant) = (present.settings.clone(), household.tenant.clone());
        let ids = [Some(&ask.session), ask.agent.as_ref().and_then(|agent| agent.parent.as_ref())];
        let ids: Vec<Value> = ids.into_iter().flatten().map(|id| conversation(id)).collect();
        let agent = ask.harness.id();
        let is_of = move |row: &JobRow| {
            if row.job.agent != agent || !ids.contains(&row.job.origin["conversation"]) {
                return false;
            }
            // Only now: the configuration is read for it.
            let own = origin(&settings, &tenant);
            let mut keys = ["door", "plugins", "config", "config_digest", "tenant"].into_iter();
            keys.all(|key| row.job.origin[key] == own[key])
        };
        Some((self.deps_of(&present, household), Box::new(is_of)))
    }
}

impl Bridges {
    fn deps_of(&self, present: &Present, household: &Household) -> Deps {
        let model = Arc::new(NoModel("the job's agent is a harness behind the bridge"));
        household.deps(&present.settings.env, self.store.clone(), model)
    }
}
