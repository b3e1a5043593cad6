//! How long an append takes: `cargo run --release -p hookwright-sqlite --example bench [FOLDER]`.
//!
//! Prints, for 1 and 64 jobs and for records of 1 KB and 16 KB: the middle and the slowest hundredth of single appends, appends in all,
//! and how many of them shared an fsync; then reading, and what it costs to watch for other processes' writes.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a measurement that cannot go on has failed; its output is text"
)]

use hookwright_runtime::ports::clock::SystemClock;
use hookwright_runtime::ports::store::{Batch, NewJob, RecordText, Store as _};
use hookwright_sqlite::{OpenOptions, SqliteStore};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn main() {
    let folder = std::env::args_os().nth(1).map_or_else(std::env::temp_dir, Into::into);
    let folder = folder.join(format!("hookwright-bench-{}", std::process::id()));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    for bytes in [1_000, 16_000] {
        for (jobs, steps) in [(1, 2_000), (64, 400)] {
            runtime.block_on(appends(&folder, jobs, steps, bytes));
        }
    }
    runtime.block_on(reading(&folder));
    watching(&folder);
    std::fs::remove_dir_all(folder).unwrap();
}

fn open(folder: &Path, name: &str) -> Arc<SqliteStore> {
    SqliteStore::open(folder.join(name), OpenOptions::new("bench", Arc::new(SystemClock))).unwrap()
}

fn job(id: String) -> NewJob {
    NewJob {
        id,
        tenant: "t".into(),
        agent: "a".into(),
        session: "s".into(),
        parent: None,
        created_ms: 0,
        origin: serde_json::Value::Null,
    }
}

async fn appends(folder: &Path, jobs: u64, steps: u64, bytes: usize) {
    let store = open(folder, &format!("append-{jobs}-{bytes}"));
    let since = Instant::now();
    let mut running = tokio::task::JoinSet::new();
    for i in 0..jobs {
        let store = store.clone();
        running.spawn(async move {
            let lease = store.create_job(job(format!("job-{i:032}")), Batch::default()).await.unwrap();
            let mut times = Vec::new();
            for seq in 0..steps {
                let records = vec![RecordText { seq, text: "x".repeat(bytes) }];
                let since = Instant::now();
                store.append(&lease, Batch { records, ..Batch::default() }).await.unwrap();
                times.push(since.elapsed());
            }
            times
        });
    }
    let mut times: Vec<Duration> = running.join_all().await.into_iter().flatten().collect();
    let all = since.elapsed();
    times.sort_unstable();
    let ms = |part: f64| {
        let at = (times.len() as f64 * part) as usize;
        times[at.min(times.len() - 1)].as_secs_f64() * 1_000.0
    };
    let counters = store.counters();
    println!(
        "append {bytes:>5} bytes, {jobs:>2} jobs: p50 {:.2} ms, p99 {:.2} ms; {:.0}/s; {:.1} batches an fsync",
        ms(0.5),
        ms(0.99),
        times.len() as f64 / all.as_secs_f64(),
        counters.batches as f64 / counters.commits as f64
    );
}

async fn reading(folder: &Path) {
    let store = open(folder, "append-64-1000");
    let since = Instant::now();
    let records = store.records(&format!("job-{:032}", 7), 0).await.unwrap().len();
    println!("read {records} records of one of 64 jobs: {:.1} ms", since.elapsed().as_secs_f64() * 1_000.0);
    let rounds = 1_000;
    let since = Instant::now();
    for _ in 0..rounds {
        store.inbox(&format!("job-{:032}", 7)).await.unwrap();
    }
    println!("look into an inbox: {:.3} ms", since.elapsed().as_secs_f64() * 1_000.0 / f64::from(rounds));
}

/// Processor time of this process, in clock ticks of 10 ms.
fn ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    stat.rsplit_once(')').unwrap().1.split_whitespace().skip(11).take(2).map(|n| n.parse::<u64>().unwrap()).sum()
}

fn watching(folder: &Path) {
    let store = open(folder, "append-1-1000");
    let changes = store.inbox_changes();
    let before = ticks();
    std::thread::sleep(Duration::from_secs(10));
    println!("watch an idle file for 10 s: {} ms of processor time", (ticks() - before) * 10);
    drop(changes);
}
