//! Ends the servers of a process that was killed by SIGKILL, and so could not do it itself (docs/decisions/0077).
//!
//! One small shell for the whole process reads a pipe: which groups of processes there are. When the pipe ends, whatever ended it, it ends
//! the groups that are left.
//!
//! Invariant: it is a safety net. Where it can't be had, servers run without it.

use rustix::process::Pid;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// The groups' numbers come line by line, `+ N` and `- N`. Its own signals are ignored: it ends with its pipe. Servers that obey the end of
/// their stdin or SIGTERM get a second to do so.
const SCRIPT: &str = "\
trap '' HUP INT TERM
all=
while read -r what id; do
  rest=
  for one in $all; do [ \"$one\" = \"$id\" ] || rest=\"$rest $one\"; done
  all=$rest
  [ \"$what\" = + ] && all=\"$all $id\"
done
[ -n \"$all\" ] || exit 0
for one in $all; do kill -s TERM -- \"-$one\"; done
sleep 1
for one in $all; do kill -s KILL -- \"-$one\"; done
exit 0
";

/// The shell, as far as we know it.
enum Shell {
    /// No server was started yet.
    NotStarted,
    /// Its end of the pipe is ours.
    Runs(ChildStdin),
    /// It takes no more: somebody stopped it. It is told nothing more, but its end of the pipe stays open: it would take that for our
    /// death once it goes on, and end the servers of a living process.
    Deaf(#[expect(dead_code, reason = "held open")] ChildStdin),
    /// It can't be had, or is gone.
    Missing,
}

static SHELL: Mutex<Shell> = Mutex::new(Shell::NotStarted);

/// Starts the shell, unless it runs.
pub fn ready() {
    let mut shell = SHELL.lock().unwrap_or_else(PoisonError::into_inner);
    if matches!(*shell, Shell::NotStarted) {
        *shell = start().map_or_else(missing, Shell::Runs);
    }
}

/// From now on the group is ended where this process can't.
pub(crate) fn guard(group: Pid) {
    tell('+', group);
}

/// The group is gone; its number may come to name another one.
pub(crate) fn forget(group: Pid) {
    tell('-', group);
}

fn tell(what: char, group: Pid) {
    ready();
    let mut shell = SHELL.lock().unwrap_or_else(PoisonError::into_inner);
    let Shell::Runs(pipe) = &mut *shell else { return };
    if let Err(e) = pipe.write_all(format!("{what} {}\n", group.as_raw_nonzero()).as_bytes()) {
        let full = e.kind() == std::io::ErrorKind::WouldBlock;
        let was = std::mem::replace(&mut *shell, missing(e));
        if let (Shell::Runs(pipe), true) = (was, full) {
            *shell = Shell::Deaf(pipe);
        }
    }
}

fn missing(why: std::io::Error) -> Shell {
    tracing::debug!(error = %why, "servers run without a watchdog");
    Shell::Missing
}

fn start() -> std::io::Result<ChildStdin> {
    let mut shell = Command::new("/bin/sh")
        .args(["-c", SCRIPT, "hookwright-watchdog"])
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // What is sent to our group, such as Ctrl-C, is not meant for it.
        .process_group(0)
        .spawn()?;
    let pipe = shell.stdin.take().ok_or(std::io::ErrorKind::BrokenPipe)?;
    // A line is far below what a pipe takes at once; a shell that was stopped must not stop us.
    rustix::fs::fcntl_setfl(&pipe, rustix::fs::OFlags::NONBLOCK)?;
    Ok(pipe)
}
