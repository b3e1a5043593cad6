//! The signals that tell the process to stop, so that it ends its servers before it goes.

use crate::exit;
use crate::terminal::note;
use hookwright_mcp::McpHost;
use hookwright_runtime::ports::tools::Tools as _;
use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Ends when the process is told to stop: by SIGTERM, or by SIGHUP, which comes when its terminal is closed.
pub(crate) async fn stop() {
    let term = signal(SignalKind::terminate()).ok();
    // Whoever starts it with SIGHUP ignored (nohup) wants it to go on.
    let hup = if hangup_is_ignored() { None } else { signal(SignalKind::hangup()).ok() };
    tokio::select! {
        () = came(term) => {}
        () = came(hup) => {}
    }
}

/// Ends at SIGTERM alone.
pub(crate) async fn terminate() {
    came(signal(SignalKind::terminate()).ok()).await;
}

/// SIGHUPs as they come, for what reads its configuration again then.
pub(crate) fn hangups() -> Option<Signal> {
    signal(SignalKind::hangup()).ok()
}

/// Ends at any signal that tells the process to stop, Ctrl-C among them.
async fn any() {
    tokio::select! {
        () = stop() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}

/// Attends a door's talk to its end, and then its leaving. The first signal cancels `stops`; after another one nothing is waited for, and
/// there is no end. The flag says whether a signal came.
pub(crate) async fn attend<T>(
    talk: impl Future<Output = T>,
    stops: &CancellationToken,
    leave: impl Future<Output = ()>,
) -> Option<(T, bool)> {
    let mut talk = pin!(talk);
    let mut told = false;
    let ended = loop {
        tokio::select! {
            ended = &mut talk => break ended,
            () = any() => {
                if told {
                    return None;
                }
                told = true;
                stops.cancel();
            }
        }
    };
    tokio::select! {
        () = leave => Some((ended, told)),
        () = any() => None,
    }
}

/// Nothing is waited for any more: what is left of the servers is killed where their hosts are dropped, and by the watchdog.
pub(crate) fn hurried() -> u8 {
    note("note: told to stop twice: servers are not waited for");
    exit::STOPPED
}

/// Lets the servers leave; Ctrl-C kills them at once.
pub(crate) async fn end(host: Arc<McpHost>) {
    tokio::select! {
        () = host.shutdown() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
    // What is left of them is killed where the host is dropped, which is here.
    drop(host);
}

async fn came(signal: Option<Signal>) {
    match signal {
        Some(mut signal) => {
            signal.recv().await;
        }
        None => pending().await,
    }
}

/// Whether SIGHUP was ignored from the start; where the system does not tell, it counts as ignored.
fn hangup_is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    ignores_hangup(&status).unwrap_or(true)
}

/// Reads the mask of ignored signals out of `/proc/self/status`; SIGHUP is the first.
fn ignores_hangup(status: &str) -> Option<bool> {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(mask.trim(), 16).ok().map(|mask| mask & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_of_ignored_signals_is_read() {
        for (status, expected) in [
            ("Name:\tx\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001000\n", Some(false)),
            ("SigIgn:\t0000000000001001\n", Some(true)),
            ("SigIgn:\tx\n", None),
            ("", None),
        ] {
            assert_eq!(ignores_hangup(status), expected, "{status}");
        }
    }
}
