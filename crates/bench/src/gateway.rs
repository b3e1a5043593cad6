//! `hookwright gateway` as a client has it: a call through it, with and without a hook, beside the same call made directly.
//!
//! One client, rmcp's, makes all calls; the store is on the disk, and once more where there is none (`/dev/shm`), since most of a durable
//! call is the disk.

use crate::measure::{Times, median, ratio};
use crate::report::{Aim, Figure, Group};
use crate::servers::{Bare, bare_calls_to};
use crate::work::arguments;
use anyhow::{Context as _, Result};
use rmcp::ServiceExt as _;
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Instant;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinSet;

/// Calls of one round, one after the other.
const CALLS: u32 = 40;
/// Calls at once, and how many each of them makes.
const AT_ONCE: u32 = 32;
const EACH: u32 = 20;

/// One way to the function.
struct Way {
    key: &'static str,
    name: String,
    function: &'static str,
    /// The key of the direct call that it is compared with.
    of: &'static str,
    client: Bare,
    times: Times,
    rates: Vec<f64>,
    /// Processes that end with it.
    _children: Vec<Child>,
}

/// A program that says where it listens.
async fn listening(mut command: Command, on_stderr: bool) -> Result<(Child, String)> {
    command.stdin(Stdio::null()).kill_on_drop(true);
    let mut child = if on_stderr {
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?
    } else {
        command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?
    };
    let line = if on_stderr {
        let mut lines = BufReader::new(child.stderr.take().context("a stderr")?).lines();
        let line = lines.next_line().await?;
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        line
    } else {
        BufReader::new(child.stdout.take().context("a stdout")?).lines().next_line().await?
    };
    Ok((child, line.context("it said nothing")?))
}

async fn over_http(url: String) -> Result<Bare> {
    Ok(Arc::new(().serve(StreamableHttpClientTransport::from_uri(url)).await.context("connect over HTTP")?))
}

/// A plugin whose server is called and whose hook, if there is one, watches it.
fn plugin(folder: &Path, server: &Path, hooked: bool) -> Result<PathBuf> {
    let name = if hooked { "hooked" } else { "plain" };
    let tool = |id: &str| json!({"id": id, "mcp": [server]});
    let mut manifest = json!({"id": name, "tools": [tool("work"), tool("policy")]});
    if hooked {
        manifest["hooks"] = json!([{"on": "pre_tool_call", "call": "policy.decide"}]);
    }
    let plugin = folder.join(name);
    std::fs::create_dir_all(&plugin)?;
    std::fs::write(plugin.join("plugin.yaml"), manifest.to_string())?;
    Ok(plugin)
}

/// Where a store costs no disk.
fn no_disk() -> Option<tempfile::TempDir> {
    tempfile::Builder::new().prefix("hookwright-bench-").tempdir_in("/dev/shm").ok()
}

/// Ends the node that a session's relay has started.
async fn end_node(hookwright: &Path, db: &Path) -> Result<()> {
    let ended = Command::new(hookwright).arg("stop").arg("--db").arg(db).stdout(Stdio::null()).status().await?;
    anyhow::ensure!(ended.success(), "the node of {} did not end", db.display());
    Ok(())
}

/// Takes the figures.
pub(crate) async fn run(hookwright: &Path, server: &Path, folder: &Path, rounds: usize) -> Result<Group> {
    let attached = folder.join("gateway-a.db");
    let measured = measure(hookwright, server, folder, &attached, rounds).await;
    end_node(hookwright, &attached).await?;
    measured
}

async fn measure(hookwright: &Path, server: &Path, folder: &Path, attached: &Path, rounds: usize) -> Result<Group> {
    let memory = no_disk();
    let mut ways = vec![];
    let mut add = |key, name: &str, function, of, client, children| {
        let (times, rates) = (Times::default(), vec![]);
        ways.push(Way { key, name: name.to_owned(), function, of, client, times, rates, _children: children });
    };
    add("gateway_direct", "directly, over stdio", "echo", "", crate::servers::bare(server).await?, vec![]);
    let mut http = Command::new(server);
    http.args(["--http", "127.0.0.1:0"]);
    let (child, address) = listening(http, false).await?;
    add(
        "gateway_http_direct",
        "directly, over HTTP",
        "echo",
        "",
        over_http(format!("http://{address}/mcp")).await?,
        vec![child],
    );
    let gateway = |plugin: &Path, db: &Path, more: &[&str]| {
        let mut command = Command::new(hookwright);
        command.current_dir(folder).arg("gateway").arg("--plugin").arg(plugin).arg("--db").arg(db).args(more);
        command
    };
    let (plain, hooked) = (plugin(folder, server, false)?, plugin(folder, server, true)?);
    let (own, attach) = (&[][..], &["--attach"][..]);
    let stdio = [
        ("gateway_0", "through the gateway, no hook", &plain, Some(folder.join("gateway-0.db")), own),
        ("gateway_1", "through the gateway, hooked by 1", &hooked, Some(folder.join("gateway-1.db")), own),
        ("gateway_attach", "the same, the session in the node (--attach)", &hooked, Some(attached.to_owned()), attach),
        (
            "gateway_1_memory",
            "hooked by 1, the store not on a disk",
            &hooked,
            memory.as_ref().map(|m| m.path().join("1.db")),
            own,
        ),
    ];
    for (key, name, plugin, db, more) in stdio {
        let Some(db) = db else { continue };
        let (child, _) = TokioChildProcess::builder(gateway(plugin, &db, more)).stderr(Stdio::null()).spawn()?;
        let client = Arc::new(().serve(child).await.context("connect to the gateway")?);
        add(key, name, "work.echo", "gateway_direct", client, vec![]);
    }
    let http = [
        ("gateway_http_1", "through the gateway over HTTP, hooked by 1", Some(folder.join("gateway-h.db"))),
        ("gateway_http_1_memory", "the same, the store not on a disk", memory.as_ref().map(|m| m.path().join("h.db"))),
    ];
    for (key, name, db) in http {
        let Some(db) = db else { continue };
        let (child, line) = listening(gateway(&hooked, &db, &["--http", "0"]), true).await?;
        let url = line.split_whitespace().last().unwrap_or_default().to_owned();
        add(key, name, "work.echo", "gateway_http_direct", over_http(url).await?, vec![child]);
    }
    for round in 0..=rounds {
        for way in &mut ways {
            let calls = bare_calls_to(way.client.clone(), way.function, arguments(), CALLS);
            let times = tokio::spawn(calls).await?.with_context(|| way.name.clone())?;
            let since = Instant::now();
            let mut all = JoinSet::new();
            for _ in 0..AT_ONCE {
                all.spawn(bare_calls_to(way.client.clone(), way.function, arguments(), EACH));
            }
            while let Some(done) = all.join_next().await {
                done??;
            }
            if round > 0 {
                way.times.extend(times);
                way.rates.push(f64::from(AT_ONCE * EACH) / since.elapsed().as_secs_f64());
            }
        }
    }
    Ok(Group {
        title: "One call through `hookwright gateway`                             p50       p99  × direct".into(),
        figures: figures(&ways),
    })
}

fn figures(ways: &[Way]) -> Vec<Figure> {
    let mut figures = vec![];
    for way in ways {
        let direct = ways.iter().find(|other| other.key == way.of);
        let mut figure = Figure::of(way.key, &way.name, &way.times, direct.map(|direct| direct.times.p50()));
        if let Some(direct) = direct.filter(|_| way.key.contains("_1")) {
            figure = figure.aim(Aim::at_most(ratio(way.times.p50(), direct.times.p50()), 4.0, "× direct"));
        }
        figures.push(figure);
    }
    for way in ways {
        let rate = median(way.rates.clone());
        let name = format!("{}, {AT_ONCE} at once", way.name);
        figures.push(Figure::number(&format!("{}_rate", way.key), &name, rate, format!("{rate:.0} calls/s")));
    }
    figures
}
