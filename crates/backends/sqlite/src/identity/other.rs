//! Systems that do not tell enough about processes: leases end by silence alone.

use super::{Process, Seen};

pub(super) fn this(_pid: u32) -> Option<Process> {
    None
}

pub(super) fn look(_process: &Process) -> Seen {
    Seen::Unknown
}
