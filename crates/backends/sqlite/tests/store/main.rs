//! The store's contract, on real files and with real processes.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod approvals;
mod batches;
mod children;
mod files;
mod forget;
mod leases;
mod lists;
mod processes;
mod sessions;
mod support;
