//! The wiring of the ACP door: servers of the node and of sessions, agents, models, jobs.
//!
//! Invariant: nothing here writes to standard output: frames alone stand there.
//! Invariant: what a client says of its servers stands in no record: it often holds secrets.

mod agent;
pub(crate) mod job;
mod servers;

use crate::args::AcpArgs;
use crate::exit::{CliError, CliResult};
use crate::people::{self, Person};
use crate::settings::Settings;
use crate::setup::{self, Tenant};
use crate::terminal::note;
use crate::work;
use agent::Chosen;
use hookwright_acp::{Equipment, Mode, Order, Ready, ServerDecl, Wiring};
use hookwright_mcp::McpHost;
use hookwright_runtime::approvals::Say;
use hookwright_runtime::job::Deps;
use hookwright_runtime::lifecycle::{self, Standing};
use hookwright_runtime::observe::Observer;
use hookwright_runtime::ports::clock::{Clock, SystemClock};
use hookwright_runtime::ports::model::Model;
use hookwright_runtime::ports::sessions::Sessions;
use hookwright_runtime::ports::store::JobRow;
use hookwright_runtime::ports::tools::Tools as _;
use hookwright_runtime::session;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// A node that ACP clients talk with.
pub(crate) struct Node {
    settings: Settings,
    tenant: Arc<Tenant>,
    store: Arc<dyn Sessions>,
    /// The servers that all sessions share.
    host: Arc<McpHost>,
    agent: Chosen,
    models: Vec<String>,
    opened: HashMap<String, Arc<dyn Model>>,
    mode: Mode,
    person: Person,
    /// The patience with the servers that all sessions share.
    shared: Arc<Standing>,
    /// The patience with each session's servers.
    standing: Mutex<HashMap<String, Arc<Standing>>>,
    watcher: tokio::task::JoinHandle<()>,
}

impl Node {
    /// Reads what flags and configuration say, and starts the servers that all sessions share.
    pub(crate) fn start(mut settings: Settings, args: &AcpArgs) -> CliResult<Arc<Self>> {
        let tenant = setup::tenant_or_empty(&mut settings, &args.plugins)?;
        let agent = Chosen::of(&tenant, args.agent.as_deref())?;
        let mut models: Vec<String> = args.models.clone();
        models.extend(agent.model.clone());
        let mut seen = std::collections::HashSet::new();
        models.retain(|model| seen.insert(model.clone()));
        if models.is_empty() {
            return Err(CliError::usage("no model was named, and no plugin declares an agent with one")
                .hint("name it, e.g. --model anthropic/claude-sonnet-4-5 (docs/models.md)"));
        }
        let mut opened = HashMap::new();
        for model in &models {
            opened.insert(model.clone(), work::open_model(&settings, &tenant, model, &agent.plugin)?);
        }
        let store = crate::store::of_tenant(crate::store::open(&settings)?, &tenant.config.id);
        settings.terminal.diagnostics(&tenant.warnings);
        let host = tenant.start_only(&settings.env, &|tool| !tenant.is_of_session(tool));
        let tenant = Arc::new(tenant);
        let (watched, plugins) = (host.clone(), tenant.clone());
        let watcher = tokio::spawn(async move {
            let own = |tool: &str| !plugins.is_of_session(tool);
            work::late_faults(&watched, &plugins, &own, &|what| note(&format!("note: {what}"))).await;
        });
        Ok(Arc::new(Self {
            tenant,
            store,
            host,
            agent,
            models,
            opened,
            mode: args.mode.unwrap_or_default().into(),
            person: people::person(args.name.as_deref()),
            shared: Arc::default(),
            standing: Mutex::default(),
            watcher,
            settings,
        }))
    }

    /// Ends the shared servers.
    pub(crate) async fn shutdown(&self) {
        self.watcher.abort();
        self.host.shutdown().await;
    }

    fn standing(&self, session: &str, equipment: &Equipment) -> Arc<Standing> {
        let mut all = self.standing.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || {
            let own = equipment.own.iter().map(|server| server.tool.clone()).collect();
            Arc::new(Standing::beside(self.shared.clone(), own))
        };
        all.entry(session.to_owned()).or_insert_with(new).clone()
    }

    fn deps(&self, session: &str, equipment: &Equipment, model: &str) -> Result<Deps, String> {
        let model = self.opened.get(model).cloned().ok_or_else(|| format!("the model {model} was not opened"))?;
        Ok(Deps {
            store: self.store.clone(),
            tools: equipment.tools.clone(),
            model,
            clock: Arc::new(SystemClock),
            traits: servers::traits(&self.tenant, equipment),
            subagents: Some(work::TenantAgents::new(self.tenant.clone(), self.settings.env.clone())),
            standing: self.standing(session, equipment),
            checkpoint: work::checkpoint(&self.settings.env),
        })
    }
}

#[async_trait::async_trait]
impl Wiring for Node {
    fn store(&self) -> Arc<dyn Sessions> {
        self.store.clone()
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(SystemClock)
    }

    fn tenant(&self) -> &str {
        &self.tenant.config.id
    }

    fn agent(&self) -> &str {
        &self.agent.id
    }

    fn models(&self) -> &[String] {
        &self.models
    }

    fn mode(&self) -> Mode {
        self.mode
    }

    fn origin(&self) -> Value {
        let mut origin = work::origin(&self.settings, &self.tenant);
        origin["door"] = json!("acp");
        origin
    }

    fn say(&self, approve: bool, note: Option<String>) -> Say {
        Say { approve, by: self.person.name.clone(), verified: self.person.verified, note }
    }

    fn equip(&self, _: &str, cwd: &str, servers: Vec<ServerDecl>) -> Equipment {
        servers::equip(&self.settings.env, &self.tenant, self.host.clone(), cwd, servers)
    }

    fn job(&self, order: Order<'_>) -> Result<Ready, String> {
        let deps = self.deps(order.session, order.equipment, order.model)?;
        let run = job::make(&self.tenant, &self.agent, self.origin(), &order)?;
        Ok(Ready { deps, run })
    }

    fn can_be_resumed(&self, row: &JobRow) -> bool {
        job::client_servers(row).is_empty()
    }

    async fn end_left(&self, job: &str) -> Result<(), String> {
        let by = &self.person.name;
        let row = self.store.job(job).await.map_err(|e| e.to_string())?;
        if !row.status.is_final() {
            let asked = self.store.request_cancel(job, by, SystemClock.now_ms()).await;
            asked.map_err(|e| e.to_string())?;
            work::cancel_idle(self.store.clone(), job, by).await.map_err(|e| e.message)?;
        }
        // Nobody else would end what it had started.
        work::cancel_below(&self.store, job, by, &self.settings.next()).await.map_err(|e| e.message)
    }

    async fn session_ends(&self, session: &str, equipment: &Equipment, observer: &dyn Observer) -> Result<(), String> {
        let ended = async {
            let state = session::state(&*self.store, session).await.map_err(|e| e.to_string())?;
            let Some(last) = state.last else { return Ok(()) };
            let model = self.models.first().map_or("", String::as_str);
            let deps = self.deps(session, equipment, model)?;
            let job = last.spec().job.clone();
            lifecycle::session_end(&deps, &job, observer).await.map(drop).map_err(|e| e.to_string())
        };
        let ended = ended.await;
        self.standing.lock().unwrap_or_else(PoisonError::into_inner).remove(session);
        ended
    }
}
