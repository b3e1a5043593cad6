//! What the bridges' jobs are made of: a harness is an agent of the node's first tenant, under its own name.

use crate::settings::Settings;
use crate::setup::Tenant;
use crate::work::{self, Household, NoModel};
use hookwright_bridge::{Ask, Wiring};
use hookwright_core::job::{AgentSpec, External, JobSpec, LOGIC_VERSION};
use hookwright_core::stored::Stored;
use hookwright_runtime::job::{Deps, NewRun};
use hookwright_runtime::ports::clock::{Clock as _, SystemClock};
use hookwright_runtime::ports::store::{JobRow, NewJob};
use hookwright_sqlite::SqliteStore;
use serde_json::{Value, json};
use std::sync::Arc;

/// The door's name, at the node and in the jobs' origin.
pub(crate) const DOOR: &str = "bridge";

/// The wiring of the bridges.
pub(super) struct Bridges {
    pub(super) settings: Settings,
    pub(super) household: Household,
    pub(super) store: Arc<SqliteStore>,
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
    fn job(&self, ask: &Ask, input: Value) -> Result<NewRun, String> {
        let tenant = &self.household.tenant;
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
        let mut origin = origin(&self.settings, tenant);
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
        Ok(NewRun { job, spec, blobs: blob.into_iter().collect() })
    }

    fn is_of(&self, row: &JobRow, ask: &Ask) -> bool {
        let mut ids = [Some(&ask.session), ask.agent.as_ref().and_then(|agent| agent.parent.as_ref())].into_iter();
        let is_its = ids.any(|id| id.is_some_and(|id| row.job.origin["conversation"] == conversation(id)));
        if !is_its || row.job.agent != ask.harness.id() {
            return false;
        }
        // Only now: the configuration is read for it.
        let own = origin(&self.settings, &self.household.tenant);
        ["door", "plugins", "config", "config_digest", "tenant"].into_iter().all(|key| row.job.origin[key] == own[key])
    }

    fn deps(&self) -> Deps {
        let model = Arc::new(NoModel("the job's agent is a harness behind the bridge"));
        self.household.deps(&self.settings.env, self.store.clone(), model)
    }
}
