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

/// The pipe to the shell, once it was started; `None` within where it can't be had.
static PIPE: Mutex<Option<Option<ChildStdin>>> = Mutex::new(None);

/// From now on the group is ended where this process can't.
pub(super) fn guard(group: Pid) {
    tell('+', group);
}

/// The group is gone; its number may come to name another one.
pub(super) fn forget(group: Pid) {
    tell('-', group);
}

fn tell(what: char, group: Pid) {
    let mut pipe = PIPE.lock().unwrap_or_else(PoisonError::into_inner);
    let line = format!("{what} {}\n", group.as_raw_nonzero());
    // A line is far below what a pipe takes at once, and the shell reads on: this does not wait.
    let written = match pipe.get_or_insert_with(start) {
        Some(shell) => shell.write_all(line.as_bytes()),
        None => return,
    };
    if let Err(e) = written {
        tracing::debug!(error = %e, "servers run without a watchdog");
        *pipe = Some(None);
    }
}

fn start() -> Option<ChildStdin> {
    let shell = Command::new("/bin/sh")
        .args(["-c", SCRIPT, "hookwright-watchdog"])
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // What is sent to our group, such as Ctrl-C, is not meant for it.
        .process_group(0)
        .spawn();
    match shell {
        Ok(mut shell) => shell.stdin.take(),
        Err(e) => {
            tracing::debug!(error = %e, "servers run without a watchdog");
            None
        }
    }
}
