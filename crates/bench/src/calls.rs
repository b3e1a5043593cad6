//! What one call costs, bare and hooked: all variants in turn, round after round, so that whatever else the machine does hits all alike.

use crate::machine::Disk;
use crate::measure::{Times, ratio};
use crate::memory::MemoryStore;
use crate::report::{Aim, Figure, Group, time};
use crate::servers::{Bare, Commands, bare_calls, commands, host_calls};
use crate::work::{Work, arguments};
use anyhow::{Context as _, Result, bail};
use futures_util::future::BoxFuture;
use hookwright_mcp::McpHost;
use hookwright_runtime::ports::store::Store;
use hookwright_sqlite::SqliteStore;
use std::sync::Arc;
use std::time::Duration;

/// Calls of one job.
const CALLS: u32 = 40;

type Run = Box<dyn Fn() -> BoxFuture<'static, Result<Vec<Duration>>>>;

struct Variant {
    key: &'static str,
    name: String,
    times: Times,
    /// Commits, and calls that they were made for.
    commits: u64,
    calls: u32,
    made: u32,
    run: Run,
}

/// What they share.
pub(crate) struct Bench {
    pub(crate) bare: Bare,
    pub(crate) host: Arc<McpHost>,
    pub(crate) memory: Arc<MemoryStore>,
    pub(crate) durable: Arc<SqliteStore>,
}

impl Bench {
    fn work(&self, hooks: usize, durable: bool) -> Work {
        Work {
            store: if durable { self.durable.clone() } else { self.memory.clone() as Arc<dyn Store> },
            tools: self.host.clone(),
            hooks,
            unmatched: 0,
            turns: 1,
            calls: CALLS,
            arguments: arguments(),
            stop: false,
        }
    }

    fn variants(&self) -> Vec<Variant> {
        let mut all = Vec::new();
        let mut add = |key, name: &str, calls, run: Run| {
            all.push(Variant { key, name: name.to_owned(), times: Times::default(), commits: 0, calls, made: 0, run });
        };
        let client = self.bare.clone();
        add(
            "bare",
            "bare call: rmcp's client",
            CALLS,
            Box::new(move || Box::pin(bare_calls(client.clone(), arguments(), CALLS))),
        );
        for (key, name, asked) in [
            ("host", "the same through Hookwright's host", false),
            ("both", "the hook's function and the call, through the host alone", true),
        ] {
            let host = self.host.clone();
            add(key, name, CALLS, Box::new(move || Box::pin(host_calls(host.clone(), arguments(), asked, CALLS))));
        }
        for (key, name, stop) in [
            ("stop_0", "a last turn, no lifecycle hook", false),
            ("stop_1", "a last turn, one server's `_Stop` asked", true),
        ] {
            let work = Work { stop, ..self.work(0, false) };
            add(
                key,
                name,
                CALLS,
                Box::new(move || {
                    let work = work.clone();
                    Box::pin(work.turns(CALLS))
                }),
            );
        }
        let mut job = |key, name: &str, work: Work| {
            let calls = work.turns * work.calls;
            add(
                key,
                name,
                calls,
                Box::new(move || {
                    let work = work.clone();
                    Box::pin(async move { Ok(work.timed().await?.1) })
                }),
            );
        };
        for (key, name, hooks) in [
            ("memory_0", "in a job, no hook", 0),
            ("memory_1", "hooked by 1", 1),
            ("memory_2", "hooked by 2", 2),
            ("memory_3", "hooked by 3", 3),
            ("memory_4", "hooked by 4", 4),
            ("memory_8", "hooked by 8", 8),
        ] {
            job(key, name, self.work(hooks, false));
        }
        job("unmatched", "hooked by 1 of 1,001 declared", Work { unmatched: 1_000, ..self.work(1, false) });
        let turns = |hooks| Work { turns: CALLS, calls: 1, ..self.work(hooks, false) };
        job("turn_0", "a whole turn with one call, no hook", turns(0));
        job("turn_1", "a whole turn with one call, hooked by 1", turns(1));
        for (key, name, hooks) in
            [("durable_0", "in a job, no hook", 0), ("durable_1", "hooked by 1", 1), ("durable_3", "hooked by 3", 3)]
        {
            job(key, name, self.work(hooks, true));
        }
        for (key, name, command) in commands() {
            let tools = Arc::new(Commands { host: self.host.clone(), command });
            // Spawning is slow: fewer calls give as good a figure.
            let calls = if key == "sh" { 12 } else { 5 };
            job(key, name, Work { tools, calls, ..self.work(1, false) });
        }
        all
    }

    /// Runs all variants `rounds` times, or `only` some. Gives the figures.
    pub(crate) async fn run(&self, rounds: usize, disk: &mut Disk, only: &[String]) -> Result<Vec<Group>> {
        let mut variants = self.variants();
        if !only.is_empty() {
            variants.retain(|variant| only.iter().any(|key| key == variant.key));
            if variants.len() < only.len() {
                bail!("known are {:?}", self.variants().iter().map(|variant| variant.key).collect::<Vec<_>>());
            }
        }
        let mut appends = Times::default();
        // The first round warms up and is not counted.
        for round in 0..=rounds {
            self.memory.clear();
            let taken = disk.appends(10)?;
            if round > 0 {
                appends.extend(taken);
            }
            // Each round begins with another variant.
            let start = round % variants.len();
            variants.rotate_left(start);
            for variant in &mut variants {
                let before = self.durable.counters().commits;
                // In a task of its own, as servers run jobs: the thread that waits for everything would add its waking to each call.
                let times = tokio::spawn((variant.run)()).await?.with_context(|| variant.name.clone())?;
                if round > 0 {
                    variant.times.extend(times);
                    variant.commits += self.durable.counters().commits - before;
                    variant.made += variant.calls;
                }
            }
            variants.rotate_right(start);
        }
        if !only.is_empty() {
            let line = |variant: &Variant| Figure::of(variant.key, &variant.name, &variant.times, None);
            return Ok(vec![Group { title: "Some".into(), figures: variants.iter().map(line).collect() }]);
        }
        let bare = find(&variants, "bare").times.p50();
        let mut groups = groups(&variants, bare);
        groups[1].figures.insert(0, Figure::of("disk", "4 KiB append + fdatasync", &appends, Some(bare)));
        Ok(groups)
    }
}

fn find<'a>(variants: &'a [Variant], key: &str) -> &'a Variant {
    // The list is the one of `variants`, above.
    variants.iter().find(|variant| variant.key == key).unwrap_or(&variants[0])
}

fn groups(variants: &[Variant], bare: Duration) -> Vec<Group> {
    let p50 = |key: &str| find(variants, key).times.p50();
    let line = |key: &str| {
        let variant = find(variants, key);
        Figure::of(key, &variant.name, &variant.times, Some(bare))
    };
    let hooked = ratio(p50("memory_1"), bare);
    let added = |key: &str, hooks: u32| p50(key).saturating_sub(p50("memory_0")) / hooks;
    let growth = ratio(added("memory_8", 8), added("memory_1", 1));
    let said = [("memory_1", 1), ("memory_2", 2), ("memory_4", 4), ("memory_8", 8)]
        .map(|(key, hooks)| format!("{:.0}", added(key, hooks).as_secs_f64() * 1e6));
    let unmatched = ratio(p50("unmatched"), p50("memory_1"));
    let memory = Group {
        title: "One call to a Rust server over stdio, in memory                   p50       p99   × bare".into(),
        figures: vec![
            line("bare"),
            line("host"),
            line("both"),
            line("memory_0"),
            line("memory_1").aim(Aim::at_most(hooked, 2.2, "× bare")),
            line("memory_2"),
            line("memory_3"),
            line("memory_4"),
            line("memory_8"),
            Figure::number("linear", "each hook of 1, 2, 4 and 8 adds", growth, format!("{} µs", said.join(", ")))
                .aim(Aim::at_most(growth, 1.1, "× the first's")),
            line("unmatched").aim(Aim::at_most(unmatched, 1.05, "× one declared")),
            line("turn_0"),
            line("turn_1"),
        ],
    };
    let commits = |key: &str| {
        let variant = find(variants, key);
        f64::from(u32::try_from(variant.commits).unwrap_or(u32::MAX)) / f64::from(variant.made.max(1))
    };
    let fsyncs = |key: &str, name: &str| {
        let more = commits(key) - commits("durable_0");
        let figure = Figure::number(key, name, more, format!("{:.2} a call, {more:+.2} for hooks", commits(key)));
        if key == "durable_1" { figure.aim(Aim::at_most(more, 2.0, " more")) } else { figure }
    };
    let durable = Group {
        title: "The same, durable: SQLite, synchronous=FULL                       p50       p99   × bare".into(),
        figures: vec![
            line("durable_0"),
            line("durable_1"),
            line("durable_3"),
            fsyncs("durable_0", "fsyncs, no hook"),
            fsyncs("durable_1", "fsyncs, hooked by 1"),
            fsyncs("durable_3", "fsyncs, hooked by 3"),
        ],
    };
    let spawned: Vec<_> = ["sh", "python"].into_iter().filter(|key| variants.iter().any(|v| v.key == *key)).collect();
    let mut figures: Vec<_> = spawned.iter().map(|key| line(key)).collect();
    for key in spawned {
        let of = ratio(p50(key), p50("memory_1"));
        figures.push(Figure::number(
            &format!("{key}_of_hooked"),
            &format!("{key}, of a hooked call on a server"),
            of,
            format!("{of:.1}×"),
        ));
    }
    let commands = Group {
        title: "A hook as a command, in memory, for comparison                    p50       p99   × bare".into(),
        figures,
    };
    let gate = p50("stop_1").saturating_sub(p50("stop_0"));
    let lifecycle = Group {
        title: "A job's last turn, from its beginning to the job's end, in memory p50       p99   × bare".into(),
        figures: vec![
            line("stop_0"),
            line("stop_1"),
            Figure::number("stop_gate", "the `_Stop` gate adds", gate.as_secs_f64() * 1e6, time(gate)),
        ],
    };
    vec![memory, durable, commands, lifecycle]
}
