//! A prompt becomes a job of its session.

use super::agent::Chosen;
use crate::setup::Tenant;
use hookwright_acp::{Order, OwnServer};
use hookwright_core::job::{JobSpec, LOGIC_VERSION};
use hookwright_core::lifecycle::LifecycleSpec;
use hookwright_core::stored::Stored;
use hookwright_runtime::job::NewRun;
use hookwright_runtime::ports::clock::{Clock as _, SystemClock};
use hookwright_runtime::ports::store::{JobRow, NewJob};
use serde_json::{Value, json};

/// The key of a job's origin that names the servers which its client brought.
const CLIENT_SERVERS: &str = "client_servers";

/// The servers of a job that only its client can start.
pub(crate) fn client_servers(row: &JobRow) -> Vec<&str> {
    // A subagent has those of the plugins alone.
    let origin = Some(&row.job.origin).filter(|_| row.job.parent.is_none());
    let names = origin.and_then(|origin| origin[CLIENT_SERVERS].as_array());
    names.into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Makes the next job of a session.
pub(super) fn make(tenant: &Tenant, agent: &Chosen, mut origin: Value, order: &Order<'_>) -> Result<NewRun, String> {
    let input = agent.input(order.text)?;
    let from_client: Vec<&str> = order.equipment.own.iter().filter(|s| s.from_client).map(|s| &*s.tool).collect();
    if !from_client.is_empty() {
        // By name: how they are reached is the client's, and often secret.
        origin[CLIENT_SERVERS] = json!(from_client);
    }
    let (agent_spec, mut blobs) = agent.spec(order.model, order.cwd, &from_client);
    let (input, blob) = Stored::new(input);
    blobs.extend(blob);
    let job = format!("job_{}", &uuid::Uuid::new_v4().simple().to_string()[..16]);
    let spec = JobSpec {
        logic: LOGIC_VERSION,
        job: job.clone(),
        tenant: tenant.config.id.clone(),
        node: crate::store::node_name(),
        session: order.session.to_owned(),
        parent_jobs: vec![],
        continues: order.state.continues.clone(),
        hooks: tenant.hooks(&agent_spec.id),
        agent: agent_spec,
        input,
        hook_functions: tenant.hook_functions(),
        limits: tenant.config.limits.clone(),
        lifecycle: lifecycle(tenant, order),
    };
    let job = NewJob {
        id: job,
        tenant: spec.tenant.clone(),
        agent: spec.agent.id.clone(),
        session: spec.session.clone(),
        parent: None,
        created_ms: SystemClock.now_ms(),
        origin,
    };
    Ok(NewRun { job, spec, blobs })
}

/// Whose lifecycle hooks are asked: the plugins' servers on the allowlist, then the client's, each in its order.
fn lifecycle(tenant: &Tenant, order: &Order<'_>) -> Option<LifecycleSpec> {
    let config = &tenant.config.lifecycle;
    let allowed = |server: &&OwnServer| config.servers.allows(&server.name) || config.servers.allows(&server.tool);
    let mut servers = tenant.lifecycle().map(|l| l.servers).unwrap_or_default();
    servers.extend(order.equipment.own.iter().filter(|s| s.from_client).filter(allowed).map(|s| s.tool.clone()));
    (!servers.is_empty()).then(|| LifecycleSpec {
        servers,
        timeout_ms: config.timeout_ms,
        max_rejections: config.max_rejections,
        rejections_used: order.state.last.as_ref().map_or(0, hookwright_core::job::Machine::rejections_used),
        session_start: order.state.continues.is_none(),
    })
}
