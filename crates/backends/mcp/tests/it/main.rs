//! The host against scripted, hostile and real servers.

#![allow(
    clippy::panic,
    clippy::unwrap_used,
    clippy::print_stderr,
    missing_docs,
    unreachable_pub,
    clippy::wildcard_imports,
    reason = "tests"
)]

mod common;
mod hostile;
mod http;
mod life;
mod listing;
mod revisions;
mod sdks;
mod traps;
