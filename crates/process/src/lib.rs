//! Children that leave nothing behind: each in a process group of its own, killed with everything that it spawned, even where we are killed.
//!
//! Invariant: no process of a group outlives its [`Group`], unless we are killed by force; then the watchdog ends it.

mod group;
mod watchdog;

pub use group::Group;
pub use watchdog::ready;
