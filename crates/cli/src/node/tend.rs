//! Goes on with the jobs of the store that are not over and that nobody runs: at the start, and whenever one is left or woken.
//!
//! Invariant: a job is taken up by its lease alone; what is looked at before only spares work.

use super::Home;
use super::told::Told;
use crate::exit::{CliError, CliResult};
use crate::story::family;
use crate::terminal::note;
use crate::work::{self, Rest};
use hookwright_core::config::Config;
use hookwright_core::history::Record;
use hookwright_core::job::{Fact, Outcome};
use hookwright_runtime::ports::clock::{Clock as _, SystemClock};
use hookwright_runtime::ports::store::{ApprovalRow, JobRow, JobStatus, Store as _};
use std::collections::{BTreeMap, HashSet};
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

    /// The jobs that are under way here, and those that could not go on.
    pub(super) fn now(&self) -> (HashSet<String>, BTreeMap<String, Left>) {
        let state = self.state();
        (state.under_way.clone(), state.left.clone())
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
    let rows = home.store.jobs(true, u32::MAX).await?;
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
    let open = home.store.approvals(true).await?;
    for row in rows.iter().rev() {
        let job = &row.job.id;
        // A job of a cluster goes on when its workflow says so.
        let of_cluster = crate::commands::jobs::of_cluster(row);
        if row.running || of_cluster || family::is_with_parent(row, &rows) || !may_go_on(home, job) {
            continue;
        }
        if waits(home, row) && !is_woken(home, row, &rows, &open).await? {
            continue;
        }
        if is_of_door(home, row).await? {
            home.tended.state().of_doors.insert(job.clone());
            continue;
        }
        if jobs.len() >= AT_ONCE {
            break;
        }
        home.tended.state().under_way.insert(job.clone());
        let (home, row, stop) = (home.clone(), row.clone(), stop.clone());
        jobs.spawn(async move {
            let under_way = UnderWay { home: &home, job: &row.job.id };
            go_on(&home, &row, stop).await;
            drop(under_way);
        });
    }
    Ok(())
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

/// Whether only the job's door can go on with it: its client brought servers, or its agent is run by somebody else.
async fn is_of_door(home: &Home, row: &JobRow) -> CliResult<bool> {
    if !crate::acp::job::client_servers(row).is_empty() {
        return Ok(true);
    }
    let records = home.store.records(&row.job.id, 0).await?;
    // One that can't be read is nobody's: taking it up says what is wrong.
    let first = records.first().and_then(|text| serde_json::from_str::<Record>(text).ok());
    Ok(matches!(first, Some(Record { fact: Fact::Started { spec }, .. }) if spec.agent.external.is_some()))
}

async fn go_on(home: &Home, row: &JobRow, stop: CancellationToken) {
    let job = &row.job.id;
    let told = Told::new(job, home.settings.next());
    let rest = resume(home, row, &told, stop).await;
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
        Ok(Rest::Elsewhere | Rest::Stopped) => {}
        Err(error) => {
            let error = error.with_next(&home.settings.next());
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
    let mut settings = home.settings.clone();
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
    let shared = home.household(&row.job.tenant);
    work::unattended(&settings, prepared, shared, ends_session, told.clone(), stop).await
}
