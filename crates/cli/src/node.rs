//! The local node's wiring: its tenants with their warm servers, its store, and the jobs that it goes on with.
//!
//! Invariant: a job that a living process runs is left to it; so are the jobs of agents that somebody else runs.
//! Invariant: a job that waits for people alone holds no server and no lease.
//! Invariant: a node that is bound to a tenant goes on with no other tenant's jobs, and tells of none.

mod bridges;
mod present;
mod ready;
mod reload;
mod report;
mod tend;
mod told;

use bridges::Bridges;
use present::{Now, Present};
pub(crate) use ready::{place, prepare, sockets, start};
pub(crate) use reload::Reloaded;
pub(crate) use report::of_store;
pub(crate) use tend::tend;

use crate::exit::{CliError, CliResult};
use crate::gateway::attached;
use crate::settings::Settings;
use crate::setup;
use crate::store;
use crate::terminal::note;
use crate::work::{self, Household};
use hookwright_bridge::{Request, Sessions};
use hookwright_core::diagnostic::Diagnostic;
use hookwright_core::text::shown;
use hookwright_mcp::McpHost;
use hookwright_node::{Offer, Peer, Refused, Service};
use hookwright_runtime::ports::sessions::Sessions as Stored;
use hookwright_runtime::ports::tools::Tools as _;
use hookwright_sqlite::SqliteStore;
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use tend::Tended;

/// What the node's doors build jobs from.
pub(crate) struct Home {
    pub(crate) now: Arc<Now>,
    pub(crate) store: Arc<SqliteStore>,
    /// What flags name: a reload reads them again.
    plugins: Vec<PathBuf>,
    /// The jobs that it goes on with by itself.
    tended: Tended,
    /// The conversations of harnesses behind bridges, by tenant.
    bridges: Mutex<HashMap<String, Arc<Sessions>>>,
    watchers: Mutex<Vec<tokio::task::JoinHandle<()>>>,
    /// Servers that a reload replaced, and that jobs under way may need.
    retired: Mutex<Vec<Arc<McpHost>>>,
    reloading: tokio::sync::Mutex<()>,
    reloaded: Mutex<Option<Reloaded>>,
}

impl Home {
    /// Reads what flags and configuration say, for all tenants; nothing is started yet. The error names all that is wrong.
    pub(crate) fn tenants(settings: &mut Settings, plugins: &[PathBuf]) -> CliResult<Vec<setup::Tenant>> {
        if plugins.is_empty() {
            settings.adopt_local_config()?;
        }
        let (mut tenants, mut found, mut errors): (_, Vec<Diagnostic>, Vec<CliError>) = (vec![], vec![], vec![]);
        let mut read = |settings: &mut Settings, plugins: &[PathBuf]| match setup::load_or_empty(settings, plugins) {
            Ok((tenant, diagnostics)) if diagnostics.iter().any(Diagnostic::is_error) => {
                drop(tenant);
                found.extend(diagnostics);
            }
            Ok((mut tenant, diagnostics)) => {
                tenant.warnings = diagnostics;
                tenants.push(tenant);
            }
            Err(error) => errors.push(error),
        };
        read(settings, plugins);
        if settings.global.tenant.is_none() {
            for other in settings.config.tenants.iter().skip(1) {
                let mut settings = settings.clone();
                settings.global.tenant = Some(other.id.clone());
                read(&mut settings, &[]);
            }
        }
        if !found.is_empty() {
            errors.push(crate::settings::faults(&found, settings.terminal));
        }
        match errors.len() {
            0 => Ok(tenants),
            1 => Err(errors.swap_remove(0)),
            _ => {
                let all: Vec<String> = errors.iter().map(|error| error.message.clone()).collect();
                Err(CliError::usage(all.join("\n")).kind("Manifest"))
            }
        }
    }

    /// Opens the store and starts the servers that all sessions share.
    pub(crate) fn start(settings: Settings, tenants: Vec<setup::Tenant>, plugins: &[PathBuf]) -> CliResult<Self> {
        // Whoever made the file may not have set it up yet, or have died before: then it is set up here.
        let store = store::open(&settings)?;
        let mut households = vec![];
        for tenant in tenants {
            settings.terminal.diagnostics(&tenant.warnings);
            for what in tenant.unknown_lifecycle_servers() {
                note(&format!("warning: {what}"));
            }
            let tenant = Arc::new(tenant);
            let (host, _) = tenant.start_after(&settings.env, None);
            households.push(Arc::new(Household::new(tenant, host)));
        }
        if households.is_empty() {
            return Err(CliError::usage("the configuration has no tenant"));
        }
        let home = Self {
            now: Now::new(Present::new(settings, households.clone())),
            store,
            plugins: plugins.to_vec(),
            tended: Tended::default(),
            bridges: Mutex::default(),
            watchers: Mutex::default(),
            retired: Mutex::default(),
            reloading: tokio::sync::Mutex::default(),
            reloaded: Mutex::default(),
        };
        for household in &households {
            home.watch(&household.tenant, &household.host);
        }
        home.seat_tenants(&households);
        Ok(home)
    }

    /// Says what of a tenant's manifests its running servers don't bear out.
    fn watch(&self, tenant: &Arc<setup::Tenant>, host: &Arc<McpHost>) {
        let (watched, plugins) = (host.clone(), tenant.clone());
        let watcher = tokio::spawn(async move {
            let own = |tool: &str| !plugins.is_of_session(tool);
            work::late_faults(&watched, &plugins, &own, &|what| note(&format!("note: {what}"))).await;
        });
        let mut watchers = self.watchers.lock().unwrap_or_else(PoisonError::into_inner);
        watchers.retain(|watcher| !watcher.is_finished());
        watchers.push(watcher);
    }

    /// Makes place for the conversations of tenants that have none yet.
    fn seat_tenants(&self, households: &[Arc<Household>]) {
        let mut bridges = self.bridges.lock().unwrap_or_else(PoisonError::into_inner);
        for household in households {
            let id = &household.tenant.config.id;
            bridges.entry(id.clone()).or_insert_with(|| {
                let store = store::of_tenant(self.store.clone(), id);
                Arc::new(Sessions::new(Box::new(Bridges { now: self.now.clone(), tenant: id.clone(), store })))
            });
        }
    }

    /// The conversations of a tenant that is there.
    fn bridge(&self, tenant: Option<&str>) -> Result<Arc<Sessions>, Refused> {
        let present = self.now.get();
        let first = present.households.first().map(|first| first.tenant.config.id.as_str());
        let id = tenant.or(first).unwrap_or_default();
        let known = present.household(id).is_some();
        let bridges = self.bridges.lock().unwrap_or_else(PoisonError::into_inner);
        bridges.get(id).filter(|_| known).cloned().ok_or_else(|| {
            Refused::new("tenant", format!("the node has no tenant {}", shown(id, 100)))
                .hint("install the bridge anew, with the --tenant of one that `hookwright status` names")
        })
    }

    /// Forgets conversations whose jobs are over, so that they hold no servers.
    fn let_go(&self) {
        let bridges = self.bridges.lock().unwrap_or_else(PoisonError::into_inner);
        bridges.values().for_each(|sessions| sessions.let_go());
    }

    /// The store as this node sees it: all of it, or the part of the tenant that it is bound to.
    fn seen(&self) -> Arc<dyn Stored> {
        store::seen(&self.now.get().settings, &self.store)
    }

    /// Ends the servers.
    pub(crate) async fn shutdown(&self) {
        for watcher in self.watchers.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            watcher.abort();
        }
        let retired = std::mem::take(&mut *self.retired.lock().unwrap_or_else(PoisonError::into_inner));
        futures_util::future::join_all(retired.iter().map(|host| host.shutdown())).await;
        drop(retired);
        let present = self.now.get();
        futures_util::future::join_all(present.households.iter().map(|household| household.host.shutdown())).await;
    }
}

#[async_trait::async_trait]
impl Service for Home {
    async fn status(&self) -> Map<String, Value> {
        report::of_home(self).await
    }

    fn is_busy(&self) -> bool {
        let bridges = self.bridges.lock().unwrap_or_else(PoisonError::into_inner);
        self.tended.is_busy() || bridges.values().any(|sessions| sessions.is_busy())
    }

    async fn ask(&self, _: &Peer, door: &str, ask: Value) -> Result<Value, Refused> {
        let failed = |e: serde_json::Error| Refused::new("failed", e.to_string());
        match door {
            bridges::DOOR => {
                // What stood there is not repeated: it may hold secrets.
                let request: Request = serde_json::from_value(ask)
                    .map_err(|_| Refused::new("malformed", "the bridge's question can't be read"))?;
                let sessions = self.bridge(request.tenant.as_deref())?;
                serde_json::to_value(sessions.answer(request).await).map_err(failed)
            }
            "reload" => serde_json::to_value(self.reload().await).map_err(failed),
            _ => Err(Refused::no_door(door)),
        }
    }

    async fn attach(&self, _: &Peer, door: &str, what: Value, offer: Offer) -> Result<(), Refused> {
        if door != attached::DOOR {
            return Err(Refused::no_door(door));
        }
        attached::attend(self, what, offer).await
    }
}
