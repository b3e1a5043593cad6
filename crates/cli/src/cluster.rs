//! The wiring of the Temporal engine: how the configuration's cluster is reached, and this node as a home of jobs.
//!
//! Invariant: a node's queue and its journal belong together: another store on the same machine is another node.

use crate::args::Output;
use crate::exit::{self, CliError, CliResult};
use crate::next::Next;
use crate::node;
use crate::people;
use crate::settings::{Settings, real, shown};
use crate::story::json::Cancelled;
use crate::terminal::{json, note};
use crate::work::{self, Household};
use hookwright_core::config::TemporalConfig;
use hookwright_core::job::Outcome;
use hookwright_core::json::sha256_hex;
use hookwright_core::text::{self, escape};
use hookwright_runtime::job::{Options, SegmentEnd};
use hookwright_runtime::observe::Observer;
use hookwright_runtime::ports::clock::{Clock as _, SystemClock};
use hookwright_runtime::ports::store::{JobRow, Store};
use hookwright_runtime::ports::tools::Tools as _;
use hookwright_sqlite::SqliteStore;
use hookwright_temporal::{Access, Cluster, ClusterError, Home, NotRun, Place, Take, Tls, Worker};
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long a command waits for the end that it asked for.
const WAIT: Duration = Duration::from_secs(3);
/// How long segments that are under way may take to be broken off.
const PATIENCE: Duration = Duration::from_secs(3);

/// How the cluster is reached; certificates and the key are read.
pub(crate) fn access(settings: &Settings, config: &TemporalConfig, folder: &Path) -> CliResult<Access> {
    let read = |path: &Option<String>| match path {
        None => Ok(None),
        Some(path) => {
            let path = folder.join(path);
            let failed = |e: std::io::Error| CliError::usage(format!("{} can't be read: {e}", shown(&path)));
            std::fs::read(&path).map(Some).map_err(failed)
        }
    };
    let tls = match &config.tls {
        None => None,
        Some(tls) => {
            Some(Tls { ca: read(&tls.ca)?, client: read(&tls.cert)?.zip(read(&tls.key)?), domain: tls.domain.clone() })
        }
    };
    let api_key = match &config.api_key {
        None => None,
        Some(variable) => Some(settings.env.get(variable).filter(|key| !key.is_empty()).ok_or_else(|| {
            CliError::usage(format!("the variable {variable} is not set: it holds the API key of the Temporal cluster"))
        })?),
    };
    let (address, namespace, queue) = (config.address.clone(), config.namespace.clone(), config.queue.clone());
    Ok(Access { address, namespace, tls, api_key, queue })
}

/// Connects to the cluster.
pub(crate) async fn connect(access: &Access) -> CliResult<Cluster> {
    Cluster::connect(access).await.map_err(failed)
}

pub(crate) fn failed(error: ClusterError) -> CliError {
    let text = error.to_string();
    match error {
        ClusterError::Unreachable { .. } => CliError::failed(text).kind("Store").hint(
            "look whether it runs and whether `engine.temporal` names its address; nothing is lost: jobs wait in their nodes' stores",
        ),
        ClusterError::NotFound(_) => CliError::failed(text).kind("NotFound"),
        ClusterError::TooLarge { .. } => {
            CliError::usage(text).hint("put what is large into a file that the agent's tools read")
        }
        ClusterError::Failed(_) => CliError::failed(text).kind("Store"),
    }
}

/// Says what a job waits for, where its home node does not go on with it, and why it failed where its history can't say that.
pub(crate) async fn say_standing(cluster: &Cluster, row: &JobRow, ends: bool, next: &Next) {
    if row.status.is_final() {
        match cluster.result(&row.job.id).await {
            Ok(Outcome::Failed { error }) if !ends => {
                note(&format!("it failed ({}): {}", escape(&error.kind), text::shown(&error.message, 2_000)));
            }
            Ok(_) => {}
            Err(error) => note(&error.to_string()),
        }
        return;
    }
    let Ok(standing) = cluster.standing(&row.job.id).await else { return };
    let node = escape(&standing.node);
    if let Some(since_ms) = standing.waits_since_ms {
        let seconds = SystemClock.now_ms().saturating_sub(since_ms) / 1_000;
        let why = standing.failure.map_or(String::new(), |why| format!(" (last: {})", text::shown(&why, 300)));
        let abandon = next.command(&format!("jobs abandon {}", row.job.id));
        note(&format!(
            "it waits for its home node {node}, for {seconds} s{why}; where that never comes back: {abandon}"
        ));
    } else {
        note(&format!("its home node is {node}"));
    }
}

/// Cancels a job of the cluster, or gives it up.
pub(crate) async fn end(
    settings: &Settings,
    job: &str,
    name: Option<&str>,
    output: Output,
    abandons: bool,
) -> CliResult {
    let view = crate::store::view(settings, false).await?;
    let row = view.store.job(job).await?;
    let job = &row.job.id;
    if row.status.is_final() {
        return Err(CliError::failed(format!("{job} is over: there is nothing to end")));
    }
    let Some(cluster) = view.cluster else { return Err(CliError::failed("no cluster is configured")) };
    let person = people::person(name);
    let sent =
        if abandons { cluster.abandon(job, &person.name).await } else { cluster.cancel(job, &person.name).await };
    sent.map_err(failed)?;
    // Its end is told where it comes at once.
    let ended = tokio::time::timeout(WAIT, cluster.result(job)).await.is_ok_and(|result| result.is_ok());
    match output {
        Output::Text if ended && abandons => note(&format!("{job} is given up")),
        Output::Text if ended => note(&format!("{job} is cancelled")),
        Output::Text => note(&format!("the home node of {job} is asked to cancel it")),
        Output::Json => json(&Cancelled { cancelled: ended, job: job.clone(), by: person.name }),
    }
    Ok(exit::OK)
}

/// Where this node is.
pub(crate) fn place(settings: &Settings, config: &TemporalConfig) -> CliResult<Place> {
    let db = settings.db()?;
    let node = config
        .node
        .clone()
        .unwrap_or_else(|| format!("{}-{}", crate::store::node_name(), &sha256_hex(real(&db).as_bytes())[..8]));
    let queue = format!("{}-node-{node}", config.queue);
    Ok(Place { node, queue, store: identity(&db) })
}

/// What tells a store's file from every other one that may stand in its place; none where the system can't tell.
fn identity(db: &Path) -> Option<String> {
    use std::os::unix::fs::MetadataExt as _;
    let found = std::fs::metadata(db).ok()?;
    let born = found.created().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
    let of = format!("{} {} {}", found.dev(), found.ino(), born.as_nanos());
    Some(sha256_hex(of.as_bytes())[..32].to_owned())
}

/// A node's share of the cluster's work.
pub(crate) struct Share {
    worker: Worker,
    home: Arc<NodeHome>,
}

impl Share {
    /// Begins to take it.
    pub(crate) async fn take(
        settings: &Settings,
        config: &TemporalConfig,
        folder: &Path,
        node: &Arc<node::Home>,
    ) -> CliResult<Self> {
        let access = access(settings, config, folder)?;
        let place = place(settings, config)?;
        note(&format!("home {} of jobs on {}, namespace {}", place.node, escape(&config.address), config.namespace));
        let home = NodeHome::new(settings.clone(), node.store.clone(), place, Some(node.clone()));
        let worker = Worker::start(access, home.clone()).await.map_err(failed)?;
        Ok(Self { worker, home })
    }

    /// Leaves it: what is under way is broken off, and goes on when the node is back.
    pub(crate) async fn leave(self) {
        self.worker.stop(PATIENCE).await;
        self.home.shutdown().await;
    }
}

/// This node as a home of jobs.
pub(crate) struct NodeHome {
    settings: Settings,
    store: Arc<SqliteStore>,
    place: Place,
    /// The node's warm servers, where it is one.
    node: Option<Arc<node::Home>>,
    /// Those that were started for jobs of other plugins, or of one session.
    own: Mutex<HashMap<String, Arc<Household>>>,
}

impl NodeHome {
    pub(crate) fn new(
        settings: Settings,
        store: Arc<SqliteStore>,
        place: Place,
        node: Option<Arc<node::Home>>,
    ) -> Arc<Self> {
        Arc::new(Self { settings, store, place, node, own: Mutex::default() })
    }

    /// The servers for a job of a tenant; those of a session are its job's alone.
    pub(crate) fn household(&self, tenant: crate::setup::Tenant, job: &str) -> (Arc<Household>, Option<String>) {
        let warm = self.node.as_ref().and_then(|node| node.now.get().household(&tenant.config.id).cloned());
        if let Some(warm) = warm.filter(|warm| warm.serves(&tenant)) {
            return (warm, None);
        }
        let of_session = tenant.tool_ids().any(|tool| tenant.is_of_session(tool));
        let manifests = tenant.plugins.iter().map(|p| p.parsed.manifest.sha256.as_str());
        let mut key = manifests.fold(tenant.config.id.clone(), |key, sha256| format!("{key} {sha256}"));
        for folder in tenant.folders() {
            key = format!("{key} {folder:?}");
        }
        if of_session {
            key = format!("{key} {job}");
        }
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        let household = own.entry(key.clone()).or_insert_with(|| {
            let tenant = Arc::new(tenant);
            let host = tenant.start(&self.settings.env);
            Arc::new(Household::new(tenant, host))
        });
        (household.clone(), of_session.then_some(key))
    }

    /// A session is over: its servers are ended.
    pub(crate) async fn close(&self, key: &str) {
        let household = self.own.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
        if let Some(household) = household {
            household.host.shutdown().await;
        }
    }

    /// Ends what was started.
    pub(crate) async fn shutdown(&self) {
        let own = std::mem::take(&mut *self.own.lock().unwrap_or_else(PoisonError::into_inner));
        futures_util::future::join_all(own.values().map(|household| household.host.shutdown())).await;
    }
}

#[async_trait::async_trait]
impl Home for NodeHome {
    fn place(&self) -> Place {
        self.place.clone()
    }

    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    async fn run(&self, take: Take, options: Options, observer: Arc<dyn Observer>) -> Result<SegmentEnd, NotRun> {
        let ran = work::segment(self, &self.settings, self.store.clone(), take, options, observer);
        Box::pin(ran).await.map_err(|error| NotRun(error.message))
    }
}
