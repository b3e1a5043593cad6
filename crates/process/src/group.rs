//! The process group of a child.

use crate::watchdog;
use rustix::process::{Pid, Signal, kill_process_group};
use std::sync::{Mutex, PoisonError};

/// A child's process group; killed when this is dropped.
///
/// A group's number stays taken while any process is in it. Between the reaping of the last one and [`Group::end`] lie microseconds
/// in which the number could be given out anew; a signal to a wrong group would need the whole range of numbers to pass in them.
#[derive(Debug)]
pub struct Group(Mutex<Option<Pid>>);

impl Group {
    /// Of a child that leads a group of its own, by its process id.
    pub fn new(leader: Option<u32>) -> Self {
        let leader = leader.and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        if let Some(leader) = leader {
            watchdog::guard(leader);
        }
        Self(Mutex::new(leader))
    }

    /// Asks all its processes to end.
    pub fn terminate(&self) {
        if let Some(leader) = *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = kill_process_group(leader, Signal::TERM);
        }
    }

    /// Kills all its processes. Later calls do nothing.
    pub fn end(&self) {
        if let Some(leader) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // It fails only where nobody is left.
            let _ = kill_process_group(leader, Signal::KILL);
            watchdog::forget(leader);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.end();
    }
}
