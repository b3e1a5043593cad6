//! The signals that tell the process to stop, so that it ends its servers before it goes.

use hookwright_mcp::McpHost;
use hookwright_runtime::ports::tools::Tools as _;
use std::future::pending;
use std::sync::Arc;
use tokio::signal::unix::{Signal, SignalKind, signal};

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
