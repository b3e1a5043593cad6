//! Many jobs at once: how many calls a second, and how they share fsyncs.

use crate::calls::Bench;
use crate::measure::median;
use crate::report::{Figure, Group};
use crate::servers::bare_calls;
use crate::work::{Work, arguments};
use anyhow::Result;
use hookwright_runtime::ports::store::Store as _;
use std::time::Instant;
use tokio::task::JoinSet;

/// Jobs at once.
const JOBS: u32 = 64;
/// Calls of each.
const CALLS: u32 = 20;

/// Calls a second, bare and hooked.
pub(crate) async fn run(bench: &Bench, rounds: usize) -> Result<Group> {
    let (mut bare, mut hooked, mut shared) = (vec![], vec![], vec![]);
    for round in 0..=rounds {
        let since = Instant::now();
        let mut all = JoinSet::new();
        for _ in 0..JOBS {
            all.spawn(bare_calls(bench.bare.clone(), arguments(), CALLS));
        }
        while let Some(done) = all.join_next().await {
            done??;
        }
        let bare_rate = f64::from(JOBS * CALLS) / since.elapsed().as_secs_f64();

        let (since, before) = (Instant::now(), bench.durable.counters());
        let mut all = JoinSet::new();
        for _ in 0..JOBS {
            let work = Work {
                store: bench.durable.clone(),
                tools: bench.host.clone(),
                hooks: 1,
                unmatched: 0,
                turns: 1,
                calls: CALLS,
                arguments: arguments(),
                stop: false,
            };
            all.spawn(work.timed());
        }
        while let Some(done) = all.join_next().await {
            done??;
        }
        if round > 0 {
            let after = bench.durable.counters();
            let commits = u32::try_from(after.commits - before.commits).unwrap_or(u32::MAX);
            bare.push(bare_rate);
            hooked.push(f64::from(JOBS * CALLS) / since.elapsed().as_secs_f64());
            shared.push(f64::from(commits) / f64::from(JOBS * CALLS));
        }
    }
    let (bare, hooked, shared) = (median(bare), median(hooked), median(shared));
    let rate = |key, name, value: f64| Figure::number(key, name, value, format!("{value:.0} calls/s"));
    Ok(Group {
        title: format!("{JOBS} at once"),
        figures: vec![
            rate("many_bare", "bare calls: rmcp's client", bare),
            rate("many_durable", "jobs, durable, each call hooked by 1", hooked),
            Figure::number(
                "many_of_bare",
                "time of such a call, in bare calls",
                bare / hooked,
                format!("{:.2}×", bare / hooked),
            ),
            Figure::number("many_fsyncs", "fsyncs, shared", shared, format!("{shared:.2} a call")),
        ],
    })
}
