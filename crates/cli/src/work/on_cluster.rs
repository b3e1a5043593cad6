//! Jobs on a Temporal cluster: one segment of one here, as its home; and a job of the command line, followed to its end.

use super::approved;
use super::door::Door;
use super::{Prepared, Style, approver, begun_job, close_session, of_origin, report};
use crate::cluster::{self, NodeHome};
use crate::exit::{self, CliError, CliResult};
use crate::settings::Settings;
use crate::story::family;
use crate::terminal::note;
use hookwright_core::approval::Approval;
use hookwright_core::config::{Config, TemporalConfig};
use hookwright_core::history::Record;
use hookwright_core::job::{Fact, Outcome};
use hookwright_runtime::approvals;
use hookwright_runtime::job::{End, NewRun, Options, SegmentEnd, Which, run_segment};
use hookwright_runtime::observe::{Event, Observer};
use hookwright_runtime::ports::clock::{Clock as _, SystemClock};
use hookwright_runtime::ports::store::{Store, StoreError};
use hookwright_runtime::values::Values;
use hookwright_sqlite::SqliteStore;
use hookwright_temporal::{Cluster, ClusterStore, Take, Worker};
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How often a job's journal is looked at by whoever follows it.
const LOOK: Duration = Duration::from_millis(50);
/// How long segments that are under way may take to be broken off at the end.
const PATIENCE: Duration = Duration::from_secs(3);

impl Prepared {
    /// A new job of a node, for the cluster.
    fn for_cluster(self, node: &str) -> CliResult<NewRun> {
        let Which::New(mut run) = self.which else {
            return Err(CliError::failed("only a new job can be begun on the cluster"));
        };
        node.clone_into(&mut run.spec.node);
        run.job.origin["engine"] = "temporal".into();
        Ok(*run)
    }
}

/// Runs a segment of a job with the plugins and the configuration that it was begun with.
pub(crate) async fn segment(
    home: &NodeHome,
    settings: &Settings,
    store: Arc<SqliteStore>,
    take: Take,
    options: Options,
    observer: Arc<dyn Observer>,
) -> CliResult<SegmentEnd> {
    let mut settings = settings.clone();
    settings.keep_db()?;
    let origin = match &take {
        Take::New(run) => run.job.origin.clone(),
        Take::GoOn { job } => store.job(job).await?.job.origin,
    };
    let own = settings.config_file.as_ref().map(|file| crate::settings::real(file));
    if own.as_deref() != origin["config"].as_str() {
        (settings.config, settings.config_file, settings.global.config) = (Config::default(), None, None);
    }
    let prepared = match take {
        Take::New(run) => {
            let (tenant, model) = of_origin(&mut settings, &run.job, &run.spec)?;
            let spec = run.spec.clone();
            let store = crate::store::of_tenant(store, &spec.tenant);
            Prepared { tenant, store, model, spec, which: Which::New(run), earlier: vec![] }
        }
        Take::GoOn { job } => begun_job(&mut settings, store, &job, true).await?,
    };
    let Prepared { tenant, store, model, spec, which, earlier } = prepared;
    let which = match which {
        Which::Resume { job, process } => Which::GoOn { job, process },
        which => which,
    };
    let was_over = earlier.iter().any(|record| matches!(record.fact, Fact::Finished { .. }));
    let (household, of_session) = home.household(tenant, &spec.job);
    if !earlier.is_empty() && !was_over {
        let now_ms = SystemClock.now_ms();
        if let Some(why) = approved::cannot_be_made(&*store, &*household.host, &spec.job, now_ms).await? {
            return Err(CliError::failed(why));
        }
    }
    let deps = household.deps(&settings.env, store, model);
    let end = Box::pin(run_segment(deps.clone(), which, options, observer.clone())).await;
    let end = end.map_err(|error| CliError::failed(error.to_string()))?;
    if let SegmentEnd::End(End::Finished(_)) = &end {
        if spec.parent_jobs.is_empty() {
            close_session(&deps, &spec.job, &*observer, was_over).await;
        }
        if let Some(key) = of_session {
            home.close(&key).await;
        }
    }
    Ok(end)
}

/// Begins a job of the command line on the cluster, with this node as its home, and follows it.
pub(crate) async fn follow(
    settings: &Settings,
    prepared: Prepared,
    style: Style,
    (config, folder): (TemporalConfig, &Path),
) -> CliResult {
    settings.terminal.diagnostics(&prepared.tenant.warnings);
    let access = cluster::access(settings, &config, folder)?;
    let place = cluster::place(settings, &config)?;
    let run = prepared.for_cluster(&place.node)?;
    let store = crate::store::open(settings)?;
    let job = run.spec.job.clone();
    let cluster = cluster::connect(&access).await?;
    let home = NodeHome::new(settings.clone(), store.clone(), place.clone(), None);
    let worker = Box::pin(Worker::start(access, home.clone())).await.map_err(cluster::failed)?;
    let begun = cluster.start(run, place, events_at_most(settings)).await.map_err(cluster::failed);
    let code = match begun {
        Ok(()) => Box::pin(watch(settings, &cluster, &store, &job, style)).await,
        Err(error) => Err(error),
    };
    worker.stop(PATIENCE).await;
    home.shutdown().await;
    code
}

/// For tests: events after which a workflow continues as new.
#[cfg(debug_assertions)]
fn events_at_most(settings: &Settings) -> Option<u32> {
    settings.env.get("HOOKWRIGHT_TEST_EVENTS_AT_MOST")?.parse().ok()
}

#[cfg(not(debug_assertions))]
fn events_at_most(_: &Settings) -> Option<u32> {
    None
}

async fn watch(settings: &Settings, cluster: &Cluster, local: &Arc<SqliteStore>, job: &str, style: Style) -> CliResult {
    let view: Arc<dyn Store> = Arc::new(ClusterStore::new(cluster.clone(), Some(local.clone())));
    let (door, asks) = Door::new(settings, vec![], style.output, style.approve)?;
    let door = Arc::new(door);
    let approver = tokio::spawn(approver::run(asks, view.clone(), door.clone(), style.clone(), settings.look()));
    let mut seen = Seen { job, local, view: &view, door: &door, records: 0, asked: HashSet::new() };
    let mut result = std::pin::pin!(cluster.result(job));
    let mut terminate = std::pin::pin!(crate::signals::stop());
    let mut cancelled = false;
    let ended = loop {
        tokio::select! {
            ended = &mut result => break Ok(ended),
            _ = tokio::signal::ctrl_c() => {
                if cancelled {
                    break Err(exit::CANCELLED);
                }
                note("\ncancelling the job (Ctrl-C again to leave at once)");
                cancelled = true;
                if let Err(error) = cluster.cancel(job, &style.person.name).await {
                    door.notice(&error.to_string());
                }
            }
            () = &mut terminate => break Err(exit::STOPPED),
            () = tokio::time::sleep(LOOK) => {
                let waits = seen.look().await?;
                if waits && style.detach {
                    break Err(exit::WAITING);
                }
            }
        }
    };
    seen.look().await?;
    approver.abort();
    let _ = approver.await;
    door.finish();
    match ended {
        Ok(Ok(outcome)) => {
            // The journal's record has the output itself; none where the journal is lost or the job was given up.
            let told = door.records().into_iter().find_map(|record| match record.fact {
                Fact::Finished { outcome } => Some(outcome),
                _ => None,
            });
            if let (None, Outcome::Failed { error }) = (&told, &outcome) {
                note(&format!(
                    "{job} failed ({}): {}",
                    error.kind,
                    hookwright_core::text::shown(&error.message, 2_000)
                ));
            }
            let outcome = told.unwrap_or(outcome);
            report(local.clone(), (job, job), Ok(End::Finished(outcome)), &style, &door).await
        }
        Ok(Err(error)) => Err(cluster::failed(error)),
        Err(exit::WAITING) => report(local.clone(), (job, job), Ok(End::Detached), &style, &door).await,
        Err(code) => {
            let node = settings.next().command("serve");
            note(&format!("stopped; the job is not over: it goes on as soon as its node runs again: {node}"));
            Ok(code)
        }
    }
}

/// What was told of a job.
struct Seen<'a> {
    job: &'a str,
    local: &'a Arc<SqliteStore>,
    view: &'a Arc<dyn Store>,
    door: &'a Arc<Door>,
    records: u64,
    asked: HashSet<String>,
}

impl Seen<'_> {
    /// Tells what is new; whether only people are awaited.
    async fn look(&mut self) -> CliResult<bool> {
        let texts = match self.local.records(self.job, self.records).await {
            Ok(texts) => texts,
            // It is not begun yet.
            Err(StoreError::NotFound { .. }) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        for record in texts.iter().filter_map(|text| serde_json::from_str::<Record>(text).ok()) {
            self.records = record.seq + 1;
            self.door.event(Event::Recorded(&record));
        }
        let mut waits = false;
        for row in self.local.approvals(true).await? {
            if !family::concerns(&row, self.job) {
                continue;
            }
            if self.asked.contains(&row.id) {
                waits = true;
                continue;
            }
            // A person is asked once the cluster knows what: else nobody could answer.
            let known = self.view.approval(&row.id).await;
            let Ok(mut approval) = serde_json::from_value::<Approval>(row.approval.clone()) else { continue };
            if known.is_ok() {
                waits = true;
                self.asked.insert(row.id.clone());
                let _ = approvals::load(&Values::new(self.local.clone()), &mut approval).await;
                self.door.event(Event::Waiting { approval: &approval, expires_ms: row.expires_ms });
            }
        }
        let row = self.local.job(self.job).await?;
        Ok(waits && row.status == hookwright_runtime::ports::store::JobStatus::Waiting && !row.running)
    }
}
