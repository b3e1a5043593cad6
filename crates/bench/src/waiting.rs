//! The memory of jobs that wait for a person. In a process of its own, so that nothing else's memory is counted or reused.

use crate::report::{Figure, Group};
use crate::servers;
use crate::work::Work;
use anyhow::{Context as _, Result, bail};
use hookwright_core::history::Record;
use hookwright_core::job::JobSpec;
use hookwright_runtime::observe::{Event, Observer, Silent};
use hookwright_runtime::ports::clock::SystemClock;
use hookwright_runtime::ports::tools::Tools as _;
use hookwright_sqlite::{OpenOptions, SqliteStore};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// The word that makes this program the process of its own.
pub(crate) const ARGUMENT: &str = "--waiting";
/// Jobs that wait before the first look, so that what is made once is not counted.
const FIRST: u32 = 50;
/// Jobs that are counted.
const JOBS: u32 = 1_000;

/// The kibibytes of memory that this process holds, where the system tells.
fn resident_kib() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?.trim().trim_end_matches(" kB").parse().ok()
}

/// Counts approvals that wait.
#[derive(Default)]
struct Count(AtomicU32);

impl Observer for Count {
    fn event(&self, event: Event<'_>) {
        if matches!(event, Event::Waiting { .. }) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn child(&self, _: &JobSpec, _: &[Record]) -> Arc<dyn Observer> {
        Arc::new(Silent)
    }
}

/// What the process of its own does: gives the kibibytes of a job.
pub(crate) async fn measure(server: &Path, folder: &Path) -> Result<f64> {
    let host = servers::host(server).await?;
    let store = SqliteStore::open(folder.join("waiting.db"), OpenOptions::new("bench", Arc::new(SystemClock)))?;
    let work = Work {
        store: store.clone(),
        tools: host.clone(),
        hooks: 1,
        unmatched: 0,
        turns: 1,
        calls: 1,
        arguments: json!({"text": "hello", "answer": {"decision": "escalate", "reason": "a person should look"}}),
        stop: false,
    };
    let (count, cancel, mut jobs) = (Arc::new(Count::default()), CancellationToken::new(), JoinSet::new());
    let mut sizes = vec![];
    for target in [FIRST, FIRST + JOBS] {
        while jobs.len() < target as usize {
            jobs.spawn(work.clone().run(count.clone(), cancel.clone()));
        }
        while count.0.load(Ordering::Relaxed) < target {
            if let Some(ended) = jobs.try_join_next() {
                bail!("a job did not wait: {:?}", ended??);
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        sizes.push(resident_kib().context("this system does not tell a process's memory")?);
    }
    cancel.cancel();
    while jobs.join_next().await.is_some() {}
    host.shutdown().await;
    Ok((sizes[1] - sizes[0]) / f64::from(JOBS))
}

/// Starts the process of its own.
pub(crate) async fn run(folder: &Path) -> Result<Group> {
    let output = tokio::process::Command::new(std::env::current_exe()?).arg(ARGUMENT).arg(folder).output().await?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr));
    }
    let kib: f64 = String::from_utf8(output.stdout)?.trim().parse()?;
    let name = format!("a job that waits for a person, of {JOBS}");
    Ok(Group {
        title: "Memory".into(),
        figures: vec![Figure::number("waiting_kib", &name, kib, format!("{kib:.1} KiB"))],
    })
}
