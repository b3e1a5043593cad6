//! Hookwright's durable store in one SQLite file: jobs, histories, values, approvals, leases. Home of SQL.
//!
//! [`SqliteStore`] implements the port [`hookwright_runtime::ports::store::Store`]. Operators find the file, its tables, backups and
//! limits described in `docs/store.md`.
//!
//! Invariant: what a write call returned `Ok` for is on the disk (write-ahead log, `synchronous=FULL`); what it returned `Err` for is
//! either not there at all or, after a failed fsync and a crash, there as a whole.
//! Invariant: one thread of a process writes; concurrent batches share one transaction and its fsync, and one that fails takes no
//! other with it.
//! Invariant: a batch under a lease that somebody else has taken since is refused, whichever process wrote it and however late.
//! Invariant: time comes from the `Clock` port; no caller's thread blocks on the disk.

mod error;
mod file;
mod identity;
mod inbox;
mod ops;
mod options;
mod reader;
mod rows;
mod schema;
mod store;
mod strip;
mod writer;

pub use identity::{EXPIRY_MS, STUCK_MS};
pub use ops::forget::Forgotten;
pub use options::{OpenOptions, Probe, ProbePoint};
pub use schema::{APPLICATION_ID, VERSION};
pub use store::SqliteStore;
