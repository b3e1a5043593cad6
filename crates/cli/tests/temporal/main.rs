//! The Temporal engine against a real server: the binary, real plugins, processes that are killed.
//!
//! `cargo xtask test --temporal` runs it; it needs the feature `temporal` and the server's program.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "what can't be done fails its test")]

mod approvals;
mod cluster;
mod crashes;
mod jobs;
#[path = "../it/support.rs"]
#[allow(dead_code, unused_imports, reason = "shared with the tests of the embedded engine")]
mod support;
