//! The store's contract, on real files and with real processes.

mod approvals;
mod batches;
mod children;
mod files;
mod forget;
mod leases;
mod lists;
mod processes;
mod support;
