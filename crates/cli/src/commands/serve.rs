//! `hookwright serve`: the local node.

use crate::args::{Output, ServeArgs};
use crate::exit::{self, CliError, CliResult};
use crate::node::{self, Home};
use crate::settings::Settings;
use crate::signals;
use crate::terminal::{data, json_line, note};
use hookwright_core::text::escape;
use hookwright_node::{About, Claim, Claimed, Ended, Options, Running, claim, ensure};
use hookwright_runtime::ports::clock::{Clock as _, SystemClock};
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How long another process may take to start or end as the node of the same store.
const PATIENCE: Duration = Duration::from_secs(30);

/// What `serve --output json` prints, on one line, once a node listens.
#[derive(Debug, Serialize)]
struct Ready<'a> {
    /// Whether it ran already.
    already_running: bool,
    pid: u32,
    socket: &'a str,
    store: &'a str,
}

pub(crate) async fn run(mut settings: Settings, args: ServeArgs) -> CliResult {
    if args.detached {
        // Signals of the terminal, or of the group of whoever started it, are not for the node.
        let _ = rustix::process::setsid();
    }
    let tenants = Home::tenants(&mut settings, &args.plugins)?;
    let place = node::place(&settings)?;
    if args.background {
        drop(tenants);
        return background(&settings, &args).await;
    }
    node::prepare(place.store())?;
    let asked = place.clone();
    let claimed = tokio::task::spawn_blocking(move || claim(&asked, PATIENCE)).await;
    let claimed = claimed.map_err(|e| CliError::failed(format!("the node can't be started: {e}")))?;
    let silent = |e: hookwright_node::ClaimError| {
        let hint = "look at that process; SIGTERM ends it, its jobs are left to be gone on with";
        let failed = CliError::failed(escape(&e.to_string()));
        if matches!(e, hookwright_node::ClaimError::Silent { .. }) { failed.hint(hint) } else { failed }
    };
    let claimed = match claimed.map_err(silent)? {
        Claim::Theirs(running) => {
            say(args.output, true, &running.socket, &running);
            return Ok(exit::OK);
        }
        Claim::Ours(claimed) => claimed,
    };
    be_the_node(settings, tenants, claimed, &args).await
}

async fn be_the_node(
    settings: Settings,
    tenants: Vec<crate::setup::Tenant>,
    claimed: Claimed,
    args: &ServeArgs,
) -> CliResult {
    let signals = Signals::listen();
    let about = About {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        config: settings.config_file.as_ref().map(|file| crate::settings::real(file)),
        config_digest: settings.config_digest(),
        started_ms: SystemClock.now_ms(),
    };
    let sockets = node::sockets(&settings);
    let cluster = settings.own_temporal()?;
    #[cfg(feature = "temporal")]
    let of_cluster = settings.clone();
    let home = Arc::new(Home::start(settings, tenants, &args.plugins)?);
    let mut node = match claimed.listen(sockets, about) {
        Ok(node) => node,
        Err(why) => {
            home.shutdown().await;
            return Err(CliError::failed(why).hint("choose another one with `socket:` in hookwright.yaml"));
        }
    };
    // Jobs of a cluster come whenever they come: a node that serves one does not end for want of work.
    let idle = args.idle.filter(|_| cluster.is_none());
    #[cfg(feature = "temporal")]
    let share = match cluster {
        Some((config, folder)) => match crate::cluster::Share::take(&of_cluster, &config, &folder, &home).await {
            Ok(share) => Some(share),
            Err(error) => {
                home.shutdown().await;
                return Err(error);
            }
        },
        None => None,
    };
    say(args.output, false, &node.socket().to_string_lossy(), &node.running());
    let stop = CancellationToken::new();
    let tending = tokio::spawn(node::tend(home.clone(), stop.clone()));
    let reloading = tokio::spawn(reload(home.clone()));
    let options = Options { idle: idle.map(Duration::from_secs), ..Options::default() };
    let ended = tokio::select! {
        ended = node.serve(home.clone(), options, signals.told.clone()) => ended,
        () = signals.hurry.cancelled() => return Ok(signals::hurried()),
    };
    stop.cancel();
    reloading.abort();
    let _ = reloading.await;
    let leaving = async {
        let _ = tending.await;
        #[cfg(feature = "temporal")]
        if let Some(share) = share {
            share.leave().await;
        }
        home.shutdown().await;
    };
    tokio::select! {
        () = leaving => {}
        () = signals.hurry.cancelled() => return Ok(signals::hurried()),
    }
    // What waits to be written is written, and leases are given back, before another process may be the node.
    drop(home);
    drop(node);
    match ended {
        Ended::Idle => note("the node had nothing to do, and has ended"),
        Ended::Asked => note("the node was asked to end, and has ended"),
        Ended::Told => {
            note("the node has ended; its jobs are left to be gone on with");
            return Ok(exit::STOPPED);
        }
    }
    Ok(exit::OK)
}

/// Reads the configuration again whenever SIGHUP comes, and sees to what it replaced.
async fn reload(home: Arc<Home>) {
    let hangups = async {
        // Without the signal there is still `hookwright reload`.
        let Some(mut hangups) = signals::hangups() else { return std::future::pending().await };
        while hangups.recv().await.is_some() {
            home.reload().await;
        }
    };
    tokio::join!(hangups, home.retire());
}

/// Starts a node as a process of its own, if none runs.
async fn background(settings: &Settings, args: &ServeArgs) -> CliResult {
    let place = node::place(settings)?;
    let start = node::start(settings, &args.plugins, args.idle)?;
    let log = place.log_file();
    let started = tokio::task::spawn_blocking(move || {
        let before = hookwright_node::client::hello(&place, Duration::from_secs(2)).ok().map(|node| node.pid);
        ensure(&place, &start, PATIENCE).map(|running| (before == Some(running.pid), running))
    });
    let started = started.await.map_err(|e| CliError::failed(format!("the node can't be started: {e}")))?;
    let (already, running) = started.map_err(|error| {
        let code = if matches!(error, hookwright_node::EnsureError::Ended { .. }) { exit::USAGE } else { exit::FAILED };
        let hint = format!("what it says stands in {}", crate::settings::shown(&log));
        CliError { code, ..CliError::failed(error.to_string()) }.hint(hint)
    })?;
    say(args.output, already, &running.socket, &running);
    Ok(exit::OK)
}

fn say(output: Output, already_running: bool, socket: &str, node: &Running) {
    match output {
        Output::Json => json_line(&Ready { already_running, pid: node.pid, socket, store: &node.store }),
        Output::Text if already_running => {
            data(&format!("a node runs already (process {}), listening on {}", node.pid, escape(socket)));
        }
        Output::Text => data(&format!("listening on {}", escape(socket))),
    }
}

/// The signals that tell the process to end, heard from the start.
struct Signals {
    told: CancellationToken,
    /// Told a second time.
    hurry: CancellationToken,
}

impl Signals {
    fn listen() -> Self {
        let (told, hurry) = (CancellationToken::new(), CancellationToken::new());
        let (first, second) = (told.clone(), hurry.clone());
        tokio::spawn(async move {
            for token in [first, second] {
                tokio::select! {
                    // SIGHUP is for reading the configuration again.
                    () = signals::terminate() => {}
                    _ = tokio::signal::ctrl_c() => {}
                }
                token.cancel();
            }
        });
        Self { told, hurry }
    }
}
