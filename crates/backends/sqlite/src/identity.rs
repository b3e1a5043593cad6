//! Who holds a lease, and whether that process still lives.
//!
//! Invariant: a process counts as dead only where that is certain: same boot, same namespaces, and no such process (or another one
//! with its number, told apart by its start time). In doubt its silence decides.

use hookwright_core::text::escape;
use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
use linux as os;
#[cfg(not(target_os = "linux"))]
mod other;
#[cfg(not(target_os = "linux"))]
use other as os;

/// How often a store says that its leases are held, in milliseconds.
pub(crate) const BEAT_MS: u64 = 3_000;

/// After which silence the lease of a process that cannot be seen from here is free, in milliseconds.
pub const EXPIRY_MS: u64 = 15_000;

/// After which silence the lease of a process that is seen to live counts as stuck, and is free, in milliseconds. Longer than
/// [`EXPIRY_MS`], so that a paused machine, a stepped clock or a long lock on the file takes no job from a process at work.
pub const STUCK_MS: u64 = 120_000;

/// A process, told apart from every other one of this boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Process {
    /// Its number.
    pub(crate) pid: u32,
    /// When it started, in clock ticks since boot.
    pub(crate) start: u64,
    /// The kernel's id of this boot.
    pub(crate) boot: String,
    /// The namespaces of its process numbers and times.
    pub(crate) pidns: String,
}

/// What is known of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seen {
    Alive,
    Dead,
    Unknown,
}

/// This store as a holder of leases.
#[derive(Debug, Clone)]
pub(crate) struct Holder {
    /// Unique: no other store, in this or another process, has or had it.
    pub(crate) key: String,
    /// The node's name.
    pub(crate) node: String,
    /// This process's number.
    pub(crate) pid: u32,
    /// This process, where the system tells.
    pub(crate) process: Option<Process>,
}

/// A lease as it stands in the file.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    pub(crate) pid: u32,
    pub(crate) process: Option<Process>,
    pub(crate) since_ms: u64,
    pub(crate) beat_ms: u64,
}

impl Holder {
    /// Describes this process; `now_ms` and a count make the key unique within it.
    pub(crate) fn this(node: &str, now_ms: u64) -> Self {
        static OPENED: AtomicU64 = AtomicU64::new(0);
        let pid = std::process::id();
        let process = os::this(pid);
        let nth = OPENED.fetch_add(1, Ordering::Relaxed);
        let key = match &process {
            Some(p) => format!("{}/{}/{pid}/{}/{nth}", p.boot, p.pidns, p.start),
            None => format!("{}/{pid}/{now_ms}/{nth}", escape(node)),
        };
        Self { key, node: node.to_owned(), pid, process }
    }

    /// Whether the lease is held by a process that lives, as far as can be told.
    pub(crate) fn is_held(&self, held: &Held, now_ms: u64) -> bool {
        self.is_held_after(held, now_ms, 0)
    }

    /// The same, where nobody could write for `waited_ms` until now.
    pub(crate) fn is_held_after(&self, held: &Held, now_ms: u64, waited_ms: u64) -> bool {
        // A stepped clock or a reboot without one must not hold a lease for ever: the difference counts in both directions.
        let silence = now_ms.abs_diff(held.beat_ms).saturating_sub(waited_ms);
        match self.look(held) {
            Seen::Dead => false,
            Seen::Alive => silence < STUCK_MS,
            Seen::Unknown => silence < EXPIRY_MS,
        }
    }

    fn look(&self, held: &Held) -> Seen {
        match (&self.process, &held.process) {
            (Some(me), Some(it)) if me == it => Seen::Alive,
            (Some(me), Some(it)) if me.boot == it.boot && me.pidns == it.pidns => os::look(it),
            _ => Seen::Unknown,
        }
    }

    /// The holder of a lease, for people.
    pub(crate) fn describe(&self, held: &Held, now_ms: u64) -> String {
        let since = i64::try_from(held.since_ms)
            .ok()
            .and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok())
            .and_then(|t| t.round(jiff::Unit::Second).ok())
            .map_or_else(|| "an unknown time".to_owned(), |t| t.to_string());
        let silence = now_ms.abs_diff(held.beat_ms) / 1_000;
        let pid = held.pid;
        if self.process.is_some() && self.process == held.process {
            return format!("this process, {pid} (running since {since})");
        }
        match self.look(held) {
            Seen::Unknown => format!(
                "process {pid} (running since {since}; it cannot be seen from here and was heard {silence} s ago: free after {} s of silence)",
                EXPIRY_MS / 1_000
            ),
            _ if silence * 1_000 > EXPIRY_MS => {
                format!("process {pid} (running since {since}; silent for {silence} s: stopped or stuck?)")
            }
            _ => format!("process {pid} (running since {since})"),
        }
    }
}

#[cfg(test)]
mod tests;
