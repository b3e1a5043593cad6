//! Processes as Linux shows them in `/proc`.

use super::{Process, Seen};
use std::fs;

/// This process; none where `/proc` is missing or shows another namespace than ours.
pub(super) fn this(pid: u32) -> Option<Process> {
    let (shown, _, start) = parse_stat(&fs::read_to_string("/proc/self/stat").ok()?)?;
    if shown != pid {
        return None;
    }
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim().to_owned();
    let pidns = fs::read_link("/proc/self/ns/pid").ok()?.display().to_string();
    // Start times are shown relative to the time namespace, where there is one.
    let timens = fs::read_link("/proc/self/ns/time").map_or_else(|_| String::new(), |t| format!("+{}", t.display()));
    Some(Process { pid, start, boot, pidns: pidns + &timens })
}

/// Looks for a process of this boot and namespace.
pub(super) fn look(process: &Process) -> Seen {
    let Some(pid) = i32::try_from(process.pid).ok().and_then(rustix::process::Pid::from_raw) else {
        return Seen::Unknown;
    };
    // The kernel is asked first: `/proc` may hide other users' processes (hidepid), which would look like death.
    if rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::SRCH) {
        return Seen::Dead;
    }
    match fs::read_to_string(format!("/proc/{}/stat", process.pid)).ok().as_deref().and_then(parse_stat) {
        None => Seen::Unknown,
        Some((_, _, start)) if start != process.start => Seen::Dead,
        // A zombie runs nothing any more; what its last threads still write, they write under the file's lock and with a lost epoch.
        Some((_, 'Z' | 'X', _)) => Seen::Dead,
        Some(_) => Seen::Alive,
    }
}

/// Number, state and start time of a `/proc/PID/stat`. The name in it may hold anything, also parentheses and spaces.
pub(super) fn parse_stat(stat: &str) -> Option<(u32, char, u64)> {
    let pid = stat.split_once(' ')?.0.parse().ok()?;
    let mut after_name = stat.rsplit_once(')')?.1.split_whitespace();
    let state = after_name.next()?.chars().next()?;
    // `starttime` is the 22nd field; the state is the 3rd.
    let start = after_name.nth(18)?.parse().ok()?;
    Some((pid, state, start))
}
