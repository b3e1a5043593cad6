//! Goes on with the jobs of the store that are not over and that nobody runs: at the start, and whenever one is left or woken.
//!
//! Invariant: a job is taken up by its lease alone; what is looked at before only spares work.

use super::told::Told;
use super::{Home, bridges};
use crate::exit::{CliError, CliResult};
use crate::gateway::attached;
use crate::story::family;
use crate::terminal::note;
use crate::work::{self, Rest};
use hookwright_core::config::Config;
use hookwright_core::history::Record;
use hookwright_core::job::{Fact, Outcome};
use hookwright_runtime::job::{End, Options, RunError, Which};
use hookwright_runtime::ports::clock::{Clock as _, SystemClock};
use hookwright_runtime::ports::store::{ApprovalRow, JobRow, JobStatus, Store as _, StoreError};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How often it is looked for jobs that other processes left.
const LOOK: Duration = Duration::from_secs(3);

/// How soon after a look the next one may be.
const PAUSE: Duration = Duration::from_millis(100);

/// Jobs that are gone on with at once; others wait.
const AT_ONCE: usize = 32;

/// After how long without an event a harness counts as gone whose job nobody runs.
const HARNESS_GONE: Duration = Duration::from_hours(1);

/// How long a job that can't go on is left, at first and at most.
const AGAIN: Duration = Duration::from_secs(30);
const AGAIN_AT_MOST: Duration = Duration::from_mins(10);

/// What is known of the jobs that the node goes on with.
#[derive(Default)]
pub(super) struct Tended(Mutex<State>);

#[derive(Default)]
struct State {
    under_way: HashSet<String>,
    /// Those that could not go on.
    left: BTreeMap<String, Left>,
    /// Those that are nobody's but their door's.
    of_doors: HashSet<String>,
    /// Those that were left because only people are awaited.
    waiting: HashSet<String>,
    /// Those that wait for a place among the jobs that their tenant may have at once, the oldest first.
    queued: Vec<String>,
    /// Those of which it is known that nothing came for them, for as long as no inbox changes.
    asleep: HashSet<String>,
}

/// A job that could not go on.
#[derive(Debug, Clone)]
pub(super) struct Left {
    pub(super) why: String,
    pub(super) hint: Option<String>,
    again: Instant,
    pause: Duration,
}

impl Tended {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_busy(&self) -> bool {
        !self.state().under_way.is_empty()
    }

    /// The jobs that are under way here, those that could not go on, and those that wait for a place.
    pub(super) fn now(&self) -> (HashSet<String>, BTreeMap<String, Left>, Vec<String>) {
        let state = self.state();
        (state.under_way.clone(), state.left.clone(), state.queued.clone())
    }

    /// Jobs that could not go on are tried again at the next look.
    pub(super) fn try_again(&self) {
        self.state().left.clear();
    }
}

/// Tends the jobs of the node's store until `stop`; then they are let go, and their servers are ended.
pub(crate) async fn tend(home: Arc<Home>, stop: CancellationToken) {
    let mut inbox = home.store.inbox_changes();
    let mut jobs = JoinSet::new();
    let (mut failed, mut news) = (false, true);
    while !stop.is_cancelled() {
        if news {
            home.tended.state().asleep.clear();
        }
        match look(&home, &mut jobs, &stop).await {
            Ok(()) => (failed, news) = (false, false),
            // Said once: it is tried again all the time.
            Err(error) if !failed => {
                note(&format!("the node can't look for unfinished jobs: {}", error.message));
                failed = true;
            }
            Err(_) => {}
        }
        let pause = Instant::now() + PAUSE;
        tokio::select! {
            () = stop.cancelled() => break,
            Some(_) = jobs.join_next(), if !jobs.is_empty() => news = true,
            changed = inbox.changed() => match changed {
                Ok(()) => news = true,
                Err(_) => tokio::time::sleep(LOOK).await,
            },
            () = tokio::time::sleep(LOOK) => {}
        }
        tokio::time::sleep_until(pause).await;
    }
    while jobs.join_next().await.is_some() {}
}

/// Takes up what can go on.
async fn look(home: &Arc<Home>, jobs: &mut JoinSet<()>, stop: &CancellationToken) -> CliResult<()> {
    let seen = home.seen();
    let rows = seen.jobs(true, u32::MAX).await?;
    let known: HashSet<&str> = rows.iter().map(|row| row.job.id.as_str()).collect();
    {
        // What is over needs no memory.
        let mut state = home.tended.state();
        state.left.retain(|job, _| known.contains(job.as_str()));
        state.of_doors.retain(|job| known.contains(job.as_str()));
        state.waiting.retain(|job| known.contains(job.as_str()));
        // What came for one that another process runs is that process's to read, until it leaves it.
        state.asleep.retain(|job| known.contains(job.as_str()));
        for row in rows.iter().filter(|row| row.running) {
            state.asleep.remove(&row.job.id);
        }
    }
    let open = seen.approvals(true).await?;
    let mut places = Places::of(home, &rows);
    let mut queued = vec![];
    for row in rows.iter().rev() {
        let job = &row.job.id;
        // A job of a cluster goes on when its workflow says so.
        let of_cluster = crate::commands::jobs::of_cluster(row);
        if row.running || of_cluster || family::is_with_parent(row, &rows) || !may_go_on(home, job) {
            continue;
        }
        // Whoever is gone is not awaited by people either.
        let is_outside = matches!(family::door(row), Some(attached::DOOR | bridges::DOOR));
        if !is_outside && waits(home, row) && !is_woken(home, row, &rows, &open).await? {
            continue;
        }
        let whose = whose(home, row).await?;
        match whose {
            Whose::Door => {
                home.tended.state().of_doors.insert(job.clone());
                continue;
            }
            // An approval that somebody decides meanwhile changes nothing for who is gone.
            Whose::Gone { after } if !is_quiet(row, after, SystemClock.now_ms()) => continue,
            Whose::Gone { .. } | Whose::Nobody => {}
        }
        if jobs.len() >= AT_ONCE {
            break;
        }
        if !places.take(&row.job.tenant) {
            queued.push(job.clone());
            continue;
        }
        home.tended.state().under_way.insert(job.clone());
        let (home, row, stop) = (home.clone(), row.clone(), stop.clone());
        jobs.spawn(async move {
            let under_way = UnderWay { home: &home, job: &row.job.id };
            go_on(&home, &row, &whose, stop).await;
            drop(under_way);
        });
    }
    home.tended.state().queued = queued;
    Ok(())
}

/// Places that tenants have left for jobs. The store counts again, in the transaction that takes a place: this only keeps the order.
struct Places {
    left: HashMap<String, u64>,
}

impl Places {
    fn of(home: &Home, rows: &[JobRow]) -> Self {
        let present = home.now.get();
        let under_way = home.tended.state().under_way.clone();
        let limits = present.settings.config.tenants.iter();
        let limits = limits.filter_map(|tenant| Some((tenant.id.clone(), u64::from(tenant.jobs_at_once?))));
        let mut left: HashMap<String, u64> = limits.collect();
        for row in rows.iter().filter(|row| row.job.parent.is_none()) {
            if let Some(left) = left.get_mut(&row.job.tenant)
                && (row.running || under_way.contains(&row.job.id))
            {
                *left = left.saturating_sub(1);
            }
        }
        Self { left }
    }

    /// Whether the tenant has one more place, which is taken.
    fn take(&mut self, tenant: &str) -> bool {
        match self.left.get_mut(tenant) {
            None => true,
            Some(0) => false,
            Some(left) => {
                *left -= 1;
                true
            }
        }
    }
}

/// Takes a job off the list of those under way, however that ends.
struct UnderWay<'a> {
    home: &'a Home,
    job: &'a str,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.home.tended.state().under_way.remove(self.job);
    }
}

/// Whether it is neither under way here, nor a door's, nor left for now.
fn may_go_on(home: &Home, job: &str) -> bool {
    let state = home.tended.state();
    let left = state.left.get(job).is_some_and(|left| left.again > Instant::now());
    !left && !state.under_way.contains(job) && !state.of_doors.contains(job)
}

/// Whether, by what is known, only people are awaited.
fn waits(home: &Home, row: &JobRow) -> bool {
    row.status == JobStatus::Waiting || home.tended.state().waiting.contains(&row.job.id)
}

/// Whether a job that waited for people can go on: something came for it or for a job below it, or an approval's time is over.
async fn is_woken(home: &Home, row: &JobRow, rows: &[JobRow], open: &[ApprovalRow]) -> CliResult<bool> {
    let job = &row.job.id;
    let now_ms = SystemClock.now_ms();
    let waits: Vec<&ApprovalRow> = open.iter().filter(|approval| family::concerns(approval, job)).collect();
    // Where nothing is open, it is only looked at to find that out.
    if waits.is_empty() || waits.iter().any(|approval| approval.expires_ms <= now_ms) {
        return Ok(true);
    }
    if home.tended.state().asleep.contains(job) {
        return Ok(false);
    }
    let family: Vec<&str> =
        std::iter::once(row).chain(family::below(job, rows)).map(|row| row.job.id.as_str()).collect();
    for one in family {
        if !home.store.inbox(one).await?.is_empty() {
            return Ok(true);
        }
    }
    home.tended.state().asleep.insert(job.clone());
    Ok(false)
}

/// Who can go on with a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// Whoever has its plugins.
    Nobody,
    /// Its door alone.
    Door,
    /// Its agent, which was run by somebody else, and is gone if it says nothing for so long.
    Gone { after: Duration },
}

/// Whether only the job's door can go on with it: its client brought servers, or its agent is run by somebody else.
async fn whose(home: &Home, row: &JobRow) -> CliResult<Whose> {
    if !crate::acp::job::client_servers(row).is_empty() {
        return Ok(Whose::Door);
    }
    let records = home.store.records(&row.job.id, 0).await?;
    // One that can't be read is nobody's: taking it up says what is wrong.
    let first = records.first().and_then(|text| serde_json::from_str::<Record>(text).ok());
    let is_external =
        matches!(first, Some(Record { fact: Fact::Started { spec }, .. }) if spec.agent.external.is_some());
    Ok(match family::door(row) {
        _ if !is_external => Whose::Nobody,
        // Its client spoke with the process that ran it, and with no other one.
        Some(attached::DOOR) => Whose::Gone { after: Duration::ZERO },
        Some(bridges::DOOR) => Whose::Gone { after: HARNESS_GONE },
        Some(_) | None => Whose::Door,
    })
}

/// Whether nothing has happened in a job for so long.
fn is_quiet(row: &JobRow, after: Duration, now_ms: u64) -> bool {
    u128::from(now_ms.saturating_sub(row.updated_ms)) >= after.as_millis()
}

async fn go_on(home: &Home, row: &JobRow, whose: &Whose, stop: CancellationToken) {
    let job = &row.job.id;
    let told = Told::new(job, home.now.get().settings.next());
    let rest = match whose {
        Whose::Gone { .. } => end(home, row, &told).await,
        Whose::Nobody | Whose::Door => resume(home, row, &told, stop).await,
    };
    let mut state = home.tended.state();
    state.waiting.remove(job);
    let pause = state.left.remove(job).map_or(AGAIN, |left| (left.pause * 2).min(AGAIN_AT_MOST));
    match rest {
        Ok(Rest::Over(outcome)) => told.say(match outcome {
            Outcome::Completed { .. } => "completed",
            Outcome::Failed { .. } => "failed",
            Outcome::Cancelled { .. } => "cancelled",
        }),
        Ok(Rest::Waits) => {
            state.waiting.insert(job.clone());
        }
        // One that has no place yet is looked at again, before younger ones.
        Ok(Rest::Elsewhere | Rest::NoPlace | Rest::Stopped) => {}
        Err(error) => {
            let error = error.with_next(&home.now.get().settings.next());
            let CliError { message, hint, .. } = error;
            told.say(&format!("it can't go on: {message}"));
            if let Some(hint) = &hint {
                told.say(&format!("next: {hint}"));
            }
            state.left.insert(job.clone(), Left { why: message, hint, again: Instant::now() + pause, pause });
        }
    }
}

/// Goes on with a job, with the plugins and the configuration that it was begun with.
async fn resume(home: &Home, row: &JobRow, told: &Arc<Told>, stop: CancellationToken) -> CliResult<Rest> {
    let present = home.now.get();
    let mut settings = present.settings.clone();
    let origin = row.job.origin["config"].as_str();
    let own = settings.config_file.as_ref().is_some_and(|file| Some(&*crate::settings::real(file)) == origin);
    if !own {
        settings.keep_db()?;
        (settings.config, settings.config_file) = (Config::default(), None);
        settings.global.config = None;
    }
    let prepared = work::begun_job(&mut settings, home.store.clone(), &row.job.id, false).await?;
    told.say("goes on");
    let ends_session = family::door(row).is_none();
    let shared = present.household(&row.job.tenant).cloned();
    drop(present);
    work::unattended(&settings, prepared, shared.as_deref(), ends_session, told.clone(), stop).await
}

/// Ends a job whose agent is gone. Nothing of its plugins is needed for it.
async fn end(home: &Home, row: &JobRow, told: &Arc<Told>) -> CliResult<Rest> {
    let present = home.now.get();
    let Some(household) = present.household(&row.job.tenant).or(present.households.first()) else {
        return Ok(Rest::Elsewhere);
    };
    let model = Arc::new(work::NoModel("the job's agent was run by somebody else"));
    let store = crate::store::of_tenant(home.store.clone(), &row.job.tenant);
    let deps = household.deps(&present.settings.env, store, model);
    let which = Which::Resume { job: row.job.id.clone(), process: format!("process {}", std::process::id()) };
    let options = Options { detach: true, cancel: CancellationToken::new(), cancelled_by: String::new() };
    match hookwright_runtime::job::run(deps, which, options, told.clone()).await {
        Ok(End::Finished(outcome)) => Ok(Rest::Over(outcome)),
        Ok(End::Detached) => Ok(Rest::Waits),
        Err(RunError::Store(StoreError::Leased { .. } | StoreError::LeaseLost { .. })) => Ok(Rest::Elsewhere),
        Err(error) => Err(CliError::failed(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hookwright_runtime::ports::store::NewJob;
    use serde_json::json;

    #[test]
    fn a_harness_that_says_nothing_for_an_hour_is_gone() {
        let (job, tenant, agent, session) = ("j".into(), "t".into(), "a".into(), "s".into());
        let job = NewJob { id: job, tenant, agent, session, parent: None, created_ms: 0, origin: json!({}) };
        let row = JobRow { job, status: JobStatus::Running, updated_ms: 1_000, records: 3, running: false };
        for (now_ms, quiet) in [(0, false), (1_000, false), (3_600_999, false), (3_601_000, true)] {
            assert_eq!(is_quiet(&row, HARNESS_GONE, now_ms), quiet, "{now_ms}");
        }
        assert!(is_quiet(&row, Duration::ZERO, 1_000));
    }
}
