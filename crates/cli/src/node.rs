//! The local node's wiring: its tenants with their warm servers, its store, and the jobs that it goes on with.
//!
//! Invariant: a job that a living process runs is left to it; so are the jobs of agents that somebody else runs.
//! Invariant: a job that waits for people alone holds no server and no lease.

mod bridges;
mod ready;
mod report;
mod tend;
mod told;

use bridges::Bridges;
pub(crate) use ready::{place, prepare, sockets, start};
pub(crate) use report::of_store;
pub(crate) use tend::tend;

use crate::exit::CliResult;
use crate::gateway::attached;
use crate::settings::Settings;
use crate::setup;
use crate::store;
use crate::terminal::note;
use crate::work::{self, Household};
use hookwright_bridge::Sessions;
use hookwright_node::{Offer, Peer, Refused, Service};
use hookwright_runtime::ports::tools::Tools as _;
use hookwright_sqlite::SqliteStore;
use serde_json::{Map, Value};
use std::path::PathBuf;
use std::sync::Arc;
use tend::Tended;

/// What the node's doors build jobs from.
pub(crate) struct Home {
    pub(crate) settings: Settings,
    /// The configuration's, as it was at the start.
    pub(crate) config_digest: Option<String>,
    /// One for each tenant, in the configuration's order.
    pub(crate) households: Vec<Household>,
    pub(crate) store: Arc<SqliteStore>,
    /// The jobs that it goes on with by itself.
    tended: Tended,
    /// The conversations of harnesses behind bridges.
    bridges: Sessions,
    watchers: Vec<tokio::task::JoinHandle<()>>,
}

impl Home {
    /// Reads what flags and configuration say, for all tenants; nothing is started yet.
    pub(crate) fn tenants(settings: &mut Settings, plugins: &[PathBuf]) -> CliResult<Vec<setup::Tenant>> {
        let first = setup::tenant_or_empty(settings, plugins)?;
        let mut tenants = vec![first];
        if settings.global.tenant.is_none() {
            for other in settings.config.tenants.iter().skip(1) {
                let mut settings = settings.clone();
                settings.global.tenant = Some(other.id.clone());
                tenants.push(setup::tenant_or_empty(&mut settings, &[])?);
            }
        }
        Ok(tenants)
    }

    /// Opens the store and starts the servers that all sessions share.
    pub(crate) fn start(settings: Settings, tenants: Vec<setup::Tenant>) -> CliResult<Self> {
        // Whoever made the file may not have set it up yet, or have died before: then it is set up here.
        let store = store::open(&settings)?;
        let (mut households, mut watchers) = (vec![], vec![]);
        for tenant in tenants {
            settings.terminal.diagnostics(&tenant.warnings);
            for what in tenant.unknown_lifecycle_servers() {
                note(&format!("warning: {what}"));
            }
            let tenant = Arc::new(tenant);
            let host = tenant.start_only(&settings.env, &|tool| !tenant.is_of_session(tool));
            let (watched, plugins) = (host.clone(), tenant.clone());
            watchers.push(tokio::spawn(async move {
                let own = |tool: &str| !plugins.is_of_session(tool);
                work::late_faults(&watched, &plugins, &own, &|what| note(&format!("note: {what}"))).await;
            }));
            households.push(Household::new(tenant, host));
        }
        let first = households.first().map(|first| Household::new(first.tenant.clone(), first.host.clone()));
        let first = first.ok_or_else(|| crate::exit::CliError::usage("the configuration has no tenant"))?;
        let bridges = Bridges { settings: settings.clone(), household: first, store: store.clone() };
        let bridges = Sessions::new(Box::new(bridges));
        let config_digest = settings.config_digest();
        Ok(Self { settings, config_digest, households, store, tended: Tended::default(), bridges, watchers })
    }

    /// The tenant of that id, with its servers.
    pub(crate) fn household(&self, tenant: &str) -> Option<&Household> {
        self.households.iter().find(|household| household.tenant.config.id == tenant)
    }

    /// Ends the servers.
    pub(crate) async fn shutdown(&self) {
        for watcher in &self.watchers {
            watcher.abort();
        }
        futures_util::future::join_all(self.households.iter().map(|household| household.host.shutdown())).await;
    }
}

#[async_trait::async_trait]
impl Service for Home {
    async fn status(&self) -> Map<String, Value> {
        report::of_home(self).await
    }

    fn is_busy(&self) -> bool {
        self.tended.is_busy() || self.bridges.is_busy()
    }

    async fn ask(&self, _: &Peer, door: &str, ask: Value) -> Result<Value, Refused> {
        if door != bridges::DOOR {
            return Err(Refused::no_door(door));
        }
        // What stood there is not repeated: it may hold secrets.
        let request = serde_json::from_value(ask)
            .map_err(|_| Refused::new("malformed", "the bridge's question can't be read"))?;
        let reply = self.bridges.answer(request).await;
        serde_json::to_value(reply).map_err(|e| Refused::new("failed", e.to_string()))
    }

    async fn attach(&self, _: &Peer, door: &str, what: Value, offer: Offer) -> Result<(), Refused> {
        if door != attached::DOOR {
            return Err(Refused::no_door(door));
        }
        attached::attend(self, what, offer).await
    }
}
