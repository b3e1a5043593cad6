//! The wiring of the gateway: which agent a client is, its servers, its job.
//!
//! Invariant: nothing here writes to standard output: over stdio, messages alone stand there.

mod agent;
pub(crate) mod attached;
pub(crate) mod streams;

use crate::args::GatewayArgs;
use crate::exit::CliResult;
use crate::node::Home;
use crate::people;
use crate::settings::Settings;
use crate::setup::{self, Tenant};
use crate::terminal::note;
use crate::work::{self, Household};
use agent::Who;
use hookwright_core::job::{JobSpec, LOGIC_VERSION};
use hookwright_core::manifest::Pass;
use hookwright_core::stored::Stored;
use hookwright_gateway::{Client, Wiring};
use hookwright_mcp::{HostConfig, McpHost};
use hookwright_runtime::approvals::Say;
use hookwright_runtime::job::{Deps, NewRun};
use hookwright_runtime::ports::clock::{Clock, SystemClock};
use hookwright_runtime::ports::sessions::Sessions;
use hookwright_runtime::ports::store::{NewJob, Store};
use hookwright_runtime::ports::tools::{Peer, Tools};
use hookwright_runtime::toolbox::Toolbox;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Changes of state that are kept for a slow listener of a session's servers.
const CHANGES_KEPT: usize = 16;

/// A node that MCP clients talk with.
pub(crate) struct Node {
    settings: Settings,
    tenant: Arc<Tenant>,
    store: Arc<dyn Sessions>,
    /// The servers that all sessions share.
    host: Arc<McpHost>,
    who: Who,
    person: String,
    passes: Vec<(String, Vec<Pass>)>,
    /// Who looks at the servers; where they are the node's, the node does.
    watcher: Option<tokio::task::JoinHandle<()>>,
}

/// What tools pass, beside calls.
fn passes(tenant: &Tenant) -> Vec<(String, Vec<Pass>)> {
    let tools = tenant.plugins.iter().flat_map(|p| &p.parsed.manifest.tools);
    tools.filter(|t| !t.passes.is_empty()).map(|t| (t.id.clone(), t.passes.clone())).collect()
}

impl Node {
    /// Reads what flags and configuration say, and starts the servers that all sessions share.
    pub(crate) fn start(mut settings: Settings, args: &GatewayArgs) -> CliResult<Arc<Self>> {
        let tenant = setup::tenant(&mut settings, &args.plugins)?;
        let who = Who::of(&tenant, args.agent.as_deref())?;
        let store = crate::store::of_tenant(crate::store::open(&settings)?, &tenant.config.id);
        settings.terminal.diagnostics(&tenant.warnings);
        let host = tenant.start_only(&settings.env, &|tool| !tenant.is_of_session(tool));
        let tenant = Arc::new(tenant);
        let (watched, plugins) = (host.clone(), tenant.clone());
        let watcher = tokio::spawn(async move {
            let own = |tool: &str| !plugins.is_of_session(tool);
            work::late_faults(&watched, &plugins, &own, &|what| note(&format!("note: {what}"))).await;
        });
        let passes = passes(&tenant);
        let person = people::person(args.name.as_deref()).name;
        Ok(Arc::new(Self { settings, tenant, store, host, who, person, passes, watcher: Some(watcher) }))
    }

    /// One whose servers and store are the local node's.
    fn shared(
        home: &Home,
        settings: Settings,
        household: &Household,
        agent: Option<&str>,
        person: String,
    ) -> CliResult<Self> {
        let tenant = household.tenant.clone();
        let who = Who::of(&tenant, agent)?;
        let passes = passes(&tenant);
        let store = crate::store::of_tenant(home.store.clone(), &tenant.config.id);
        let host = household.host.clone();
        Ok(Self { settings, tenant, store, host, who, person, passes, watcher: None })
    }

    /// Bytes of a message.
    pub(crate) fn message_bytes(&self) -> usize {
        usize::try_from(self.tenant.config.limits.message_bytes).unwrap_or(usize::MAX)
    }

    /// Ends the shared servers.
    pub(crate) async fn shutdown(&self) {
        if let Some(watcher) = &self.watcher {
            watcher.abort();
        }
        self.host.shutdown().await;
    }
}

/// What a server may ask of a client: what the client can do, as far as the manifest passes it.
fn passed_on(capabilities: &Map<String, Value>, passes: &[Pass]) -> Map<String, Value> {
    let kinds = [("sampling", Pass::Sampling), ("elicitation", Pass::Elicitation), ("roots", Pass::Roots)];
    let passed = kinds.into_iter().filter(|(_, pass)| passes.contains(pass));
    passed.filter_map(|(key, _)| Some((key.to_owned(), capabilities.get(key)?.clone()))).collect()
}

impl Wiring for Node {
    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(SystemClock)
    }

    fn passes(&self) -> &[(String, Vec<Pass>)] {
        &self.passes
    }

    fn equip(&self, _: &Client, capabilities: &Map<String, Value>, peer: Arc<dyn Peer>) -> Arc<dyn Tools> {
        let mut specs = self.tenant.specs(&self.settings.env, &|tool| self.tenant.is_of_session(tool));
        for spec in &mut specs {
            if let Some((_, passes)) = self.passes.iter().find(|(tool, _)| *tool == spec.id) {
                spec.capabilities = passed_on(capabilities, passes);
            }
        }
        let own = (!specs.is_empty()).then(|| {
            let config =
                HostConfig { message_bytes: self.message_bytes(), changes_kept: CHANGES_KEPT, ..HostConfig::default() };
            McpHost::start_between(specs, config, Some(peer)) as Arc<dyn Tools>
        });
        Toolbox::new(self.host.clone(), own)
    }

    fn job(&self, client: &Client) -> Result<NewRun, String> {
        let id = |prefix: &str| format!("{prefix}_{}", &uuid::Uuid::new_v4().simple().to_string()[..16]);
        let agent = self.who.spec(client);
        let about = format!("the MCP client {} {}", client.name, client.version);
        let (input, blob) = Stored::new(Value::String(hookwright_core::text::shown(about.trim(), 500)));
        let (job, session) = (id("job"), id("ses"));
        let mut origin = work::origin(&self.settings, &self.tenant);
        origin["door"] = json!("gateway");
        let spec = JobSpec {
            logic: LOGIC_VERSION,
            job: job.clone(),
            tenant: self.tenant.config.id.clone(),
            node: crate::store::node_name(),
            session: session.clone(),
            parent_jobs: vec![],
            continues: None,
            hooks: self.tenant.hooks(&agent.id),
            agent,
            input,
            hook_functions: self.tenant.hook_functions(),
            limits: self.tenant.config.limits.clone(),
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

    fn deps(&self, tools: Arc<dyn Tools>) -> Deps {
        Deps {
            store: self.store.clone(),
            tools,
            model: Arc::new(work::NoModel("the job's agent is a client of the gateway")),
            clock: Arc::new(SystemClock),
            traits: self.tenant.traits(),
            subagents: None,
            standing: Arc::default(),
            checkpoint: work::checkpoint(&self.settings.env),
        }
    }

    /// A claim, whatever the name: the client may have answered by itself.
    fn say(&self, approve: bool) -> Say {
        Say { approve, by: self.person.clone(), verified: false, note: None }
    }

    fn show_command(&self, approval: &str) -> String {
        self.settings.next().command(&format!("approvals show {approval}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_may_ask_for_what_the_manifest_passes_and_the_client_can() {
        let client = json!({"sampling": {}, "elicitation": {"form": {}}, "experimental": {"x": {}}});
        let client = client.as_object().unwrap();
        let of = |passes: &[Pass]| Value::Object(passed_on(client, passes));
        assert_eq!(of(&[]), json!({}));
        assert_eq!(of(&[Pass::Elicitation, Pass::Roots, Pass::Resources]), json!({"elicitation": {"form": {}}}));
    }
}
