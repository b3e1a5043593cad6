//! `cargo xtask bench`: what Hookwright costs on this machine, in bare MCP calls of the same run (docs/performance.md).
//!
//! Invariant: nothing fails for being slow; aims are printed with whether they are met.
//! Invariant: all that it writes is in a folder beside its program, gone at the end.

mod acp;
mod bridge;
mod calls;
mod gateway;
mod history;
mod machine;
mod many;
mod measure;
mod memory;
mod report;
mod servers;
mod start;
mod waiting;
mod work;

use anyhow::{Context as _, Result, bail};
use calls::Bench;
use hookwright_runtime::ports::clock::SystemClock;
use hookwright_runtime::ports::tools::Tools as _;
use hookwright_sqlite::{OpenOptions, SqliteStore};
use machine::{Disk, Machine};
use memory::MemoryStore;
use report::{Group, Report};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// Rounds of single calls, unless told otherwise.
const ROUNDS: usize = 40;
/// Names the group of the ACP door's figures.
const ACP: &str = "acp";
/// The same of the gateway.
const GATEWAY: &str = "gateway";
/// Names the bridge's figures.
const BRIDGE: &str = "bridge";

struct Options {
    json: Option<PathBuf>,
    rounds: usize,
    /// Only these variants of single calls; `acp` and `gateway` are the groups of those names.
    only: Vec<String>,
    /// Print tables in Markdown.
    markdown: bool,
}

fn options(mut arguments: impl Iterator<Item = String>) -> Result<Options> {
    let mut options = Options { json: None, rounds: ROUNDS, only: vec![], markdown: false };
    while let Some(argument) = arguments.next() {
        if argument == "--markdown" {
            options.markdown = true;
            continue;
        }
        let value = arguments.next().with_context(|| format!("{argument} needs a value"));
        match argument.as_str() {
            "--json" => options.json = Some(value?.into()),
            "--rounds" => options.rounds = value?.parse::<usize>().context("--rounds takes a number")?.max(1),
            "--only" => options.only = value?.split(',').map(str::to_owned).collect(),
            _ => bail!("unknown argument {argument:?}; known are --json FILE, --rounds N, --only KEY,… and --markdown"),
        }
    }
    Ok(options)
}

fn say(text: &str) {
    // Nobody is left to tell if standard output is closed.
    let _ = writeln!(std::io::stdout(), "{text}");
}

fn main() -> ExitCode {
    let run = || {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let done = runtime.block_on(run());
        runtime.shutdown_background();
        done
    };
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// A program that was built beside this one.
fn beside(name: &str) -> Result<PathBuf> {
    let path = std::env::current_exe()?.with_file_name(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    if !path.is_file() {
        bail!("there is no {}: run `cargo xtask bench`, which builds it", path.display());
    }
    Ok(path)
}

async fn run() -> Result<()> {
    let server = beside("rmcp-echo")?;
    let mut arguments = std::env::args().skip(1).peekable();
    if arguments.next_if(|argument| argument == waiting::ARGUMENT).is_some() {
        let folder = arguments.next().context("the folder")?;
        say(&waiting::measure(&server, Path::new(&folder)).await?.to_string());
        return Ok(());
    }
    let options = options(arguments)?;
    let hookwright = beside("hookwright")?;
    let here = std::env::current_exe()?;
    let folder = tempfile::Builder::new().prefix("bench-").tempdir_in(here.parent().unwrap_or(Path::new(".")))?;
    let mut report = Report { machine: Machine::this(), groups: vec![] };
    say(&report.machine.text());

    let bench = Bench {
        bare: servers::bare(&server).await?,
        host: servers::host(&server).await?,
        memory: Arc::new(MemoryStore::new()),
        durable: SqliteStore::open(folder.path().join("bench.db"), OpenOptions::new("bench", Arc::new(SystemClock)))?,
    };
    let mut show = |group: Group| {
        let text = if options.markdown { group.markdown() } else { group.text() };
        let _ = write!(std::io::stdout(), "{text}");
        report.groups.push(group);
    };
    let mut disk = Disk::new(folder.path())?;
    let only: Vec<String> =
        options.only.iter().filter(|key| *key != ACP && *key != GATEWAY && *key != BRIDGE).cloned().collect();
    let all = options.only.is_empty();
    if all || !only.is_empty() {
        bench.run(options.rounds, &mut disk, &only).await?.into_iter().for_each(&mut show);
    }
    if all {
        let few = options.rounds.div_ceil(8);
        show(many::run(&bench, few).await?);
        show(history::run(&bench, few).await?);
        show(waiting::run(folder.path()).await?);
        show(start::run(&hookwright, folder.path(), options.rounds.div_ceil(2)).await?);
    }
    let named = |group: &str| all || options.only.iter().any(|key| key == group);
    if named(GATEWAY) {
        show(gateway::run(&hookwright, &server, folder.path(), options.rounds.div_ceil(4)).await?);
    }
    if named(BRIDGE) {
        show(bridge::run(&hookwright, &server, folder.path(), options.rounds).await?);
    }
    if named(ACP) {
        show(acp::run(&hookwright, &beside("scripted-mcp")?, folder.path(), options.rounds.div_ceil(8)).await?);
    }
    bench.host.shutdown().await;

    if let Some(file) = options.json {
        let text = serde_json::to_string_pretty(&report)?;
        std::fs::write(&file, text + "\n").with_context(|| file.display().to_string())?;
    }
    Ok(())
}
