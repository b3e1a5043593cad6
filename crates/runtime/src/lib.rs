//! Drives a job's machine: records first, then does what the machine commands, through ports that backends implement.
//!
//! A door makes a [`job::NewRun`] (or names a job to go on with), gives [`job::Deps`] and an [`observe::Observer`], and awaits
//! [`job::run`]. [`probe::probe`] puts one event through its chain without a job.
//!
//! Invariant: a record that decides an effect is durable before the effect (SPEC §8).
//! Invariant: no rule lives here; rules are in `hookwright-core`.

pub mod approvals;
pub mod audit;
mod checked;
pub mod hook;
pub mod job;
pub mod lifecycle;
pub mod observe;
pub mod of_tenant;
pub mod outside;
pub mod ports;
pub mod probe;
pub mod replayed;
pub mod session;
pub mod toolbox;
pub mod values;
