//! Chaos: many jobs with hooks, people and side effects, while whatever runs them is killed at random times.
//!
//! [`plan`] makes the jobs of a seed, [`fleet`] holds the processes that are killed, [`run()`] does it and collects what was seen, and
//! [`check`] says what of that must not be.
//!
//! Invariant: what must hold is decided by [`check::check`] alone, which runs nothing.

pub mod check;
pub mod fleet;
pub mod plan;
mod run;
mod seen;

pub use run::{Options, Report, run};
