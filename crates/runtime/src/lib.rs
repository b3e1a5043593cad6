//! Drives a job's machine: records first, then does what the machine commands, through ports that backends implement.
//!
//! Invariant: a record that decides an effect is durable before the effect (SPEC §8).
//! Invariant: no rule lives here; rules are in `hookwright-core`.

pub mod ports;
