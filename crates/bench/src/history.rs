//! Replay of a real history.

use crate::calls::Bench;
use crate::measure::median;
use crate::report::{Figure, Group};
use crate::work::{Work, arguments};
use anyhow::{Result, bail};
use hookwright_core::history::replay;
use hookwright_runtime::ports::store::Store as _;
use std::time::Instant;

/// Turns of the job, with four calls each: 18 records a turn.
const TURNS: u32 = 560;
/// The least that counts as a long history.
const RECORDS: u64 = 10_000;

/// Records a second, read from the store and checked as `hookwright replay` does.
pub(crate) async fn run(bench: &Bench, rounds: usize) -> Result<Group> {
    let work = Work {
        store: bench.durable.clone(),
        tools: bench.host.clone(),
        hooks: 1,
        unmatched: 0,
        turns: TURNS,
        calls: 4,
        arguments: arguments(),
        stop: false,
    };
    let (job, _) = work.timed().await?;
    let (mut rates, mut records) = (vec![], 0);
    for _ in 0..rounds.max(1) {
        let since = Instant::now();
        let texts = bench.durable.records(&job, 0).await?;
        let (machine, head) = replay(&texts)?;
        if machine.outcome().is_none() || head.records < RECORDS {
            bail!("a history of {} records, which should be over and have {RECORDS}", head.records);
        }
        records = head.records;
        #[expect(clippy::cast_precision_loss, reason = "thousands")]
        rates.push(records as f64 / since.elapsed().as_secs_f64());
    }
    let rate = median(rates);
    let name = format!("a history of {records} records: read, checked, replayed");
    Ok(Group {
        title: "Replay".into(),
        figures: vec![Figure::number("replay", &name, rate, format!("{rate:.0} records/s"))],
    })
}
