//! The `hookwright` program from outside: real processes, real servers, scripted models.
//!
//! Invariant: no test reads or writes outside its own folder below `CARGO_TARGET_TMPDIR`, and none sees the user's environment.
//! Invariant: whatever a program is fed, its standard error never holds a panic; [`support::Finished`] looks.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod acp;
mod approvals;
mod bad_input;
mod bridge;
mod commands;
mod compaction;
mod conversations;
mod crash;
mod doctor;
mod examples;
mod gateway;
mod harness;
mod hooks;
mod install;
mod lifecycle;
mod node;
mod processes;
mod provider;
mod run;
mod store;
mod subagents;
mod support;
mod templates;
mod tenants;
