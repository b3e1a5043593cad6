//! Runs the tests: one program in one folder, with bounded time and output.
//!
//! Invariant: whatever the tests spawned in their process group is gone when a run has ended, however it ended.

use crate::state::{End, OUTPUT_BYTES, Run, tail};
use rustix::process::{Pid, Signal, kill_process_group};
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::Command;
use tokio::time::timeout;

/// How long what the tests left behind may hold their output open after they ended.
const REST: Duration = Duration::from_secs(1);

/// The tests of a project.
#[derive(Debug, Clone)]
pub struct Suite {
    /// The program and its arguments; never empty.
    pub command: Vec<String>,
    /// Where it runs.
    pub folder: PathBuf,
    /// Seconds that a run may take.
    pub seconds: u64,
}

/// Kills the group when it goes out of scope: also where a run is cancelled.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // It is gone already where every process of it has ended.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

impl Suite {
    /// Runs them to their end.
    pub async fn run(&self) -> Run {
        let not_started = |why: String| Run { end: End::NotStarted(why), output: String::new() };
        let Some((program, arguments)) = self.command.split_first() else {
            return not_started("no command was given".to_owned());
        };
        let spawned = Command::new(program)
            .args(arguments)
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn();
        let mut child = match spawned {
            Ok(child) => child,
            Err(error) => return not_started(format!("{program}: {error}")),
        };
        let group = Group(child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw));
        let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
            return not_started("it has no output".to_owned());
        };
        // Tasks of their own, so that what was printed before a timeout is still shown.
        let streams = [tokio::spawn(last_bytes(stdout)), tokio::spawn(last_bytes(stderr))];
        let end = match timeout(Duration::from_secs(self.seconds), child.wait()).await {
            Ok(Ok(status)) => ended(status),
            Ok(Err(error)) => End::NotStarted(error.to_string()),
            Err(_) => End::TimedOut(self.seconds),
        };
        drop(group);
        let mut output = Vec::new();
        for stream in streams {
            let abort = stream.abort_handle();
            match timeout(REST, stream).await {
                Ok(Ok(bytes)) => output.extend(bytes),
                Ok(Err(_)) => {}
                // Something outside of the group holds it open.
                Err(_) => abort.abort(),
            }
        }
        Run { end, output: tail(&output) }
    }
}

fn ended(status: ExitStatus) -> End {
    status.code().map_or(End::Killed, End::Exited)
}

/// The last bytes of a stream, read to its end so that its writer never blocks.
async fn last_bytes(mut stream: impl AsyncRead + Unpin) -> Vec<u8> {
    let mut kept = Vec::new();
    let mut piece = [0; 8 * 1024];
    while let Ok(read @ 1..) = stream.read(&mut piece).await {
        kept.extend_from_slice(&piece[..read]);
        if kept.len() > 4 * OUTPUT_BYTES {
            kept.drain(..kept.len() - OUTPUT_BYTES);
        }
    }
    kept
}
