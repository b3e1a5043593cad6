//! The second engine: jobs as workflows on a Temporal cluster (SPEC §8). Home of the Temporal SDK.
//!
//! A workflow holds the same machine as the embedded engine, by replaying records. What happens – asks, calls, model turns – happens in
//! *segments*: each is one activity on the queue of the job's home node, which runs the job over the node's own journal up to the next
//! boundary, and returns the new records. They stand in the workflow's history from then on.
//!
//! Invariant: no rule lives here. What comes next, what an approval is bound to, how a crash is settled: all that is the core's and the
//! runtime's.
//! Invariant: the home node's journal is part of the history until the workflow has acknowledged it. An activity is never simply run
//! again: a second attempt joins the first one, or takes the journal's lease and goes on from what stands there.
//! Invariant: workflow code knows no clock, no randomness, and no order but that of the workflow's own history.

// The SDK's macros name it so.
#[cfg(feature = "sdk")]
extern crate futures_util as futures;

#[cfg(feature = "sdk")]
mod activities;
#[cfg(feature = "sdk")]
mod book;
#[cfg(feature = "sdk")]
mod cluster;
#[cfg(feature = "sdk")]
mod home;
#[cfg(feature = "sdk")]
mod past;
#[cfg(feature = "sdk")]
mod rows;
#[cfg(feature = "sdk")]
mod view;
#[cfg(feature = "sdk")]
mod wire;
#[cfg(feature = "sdk")]
mod worker;
#[cfg(feature = "sdk")]
mod workflow;

#[cfg(feature = "sdk")]
pub use cluster::{Access, Cluster, ClusterError, Standing, Tls};
#[cfg(feature = "sdk")]
pub use home::{Home, NotRun, Take};
#[cfg(feature = "sdk")]
pub use view::ClusterStore;
#[cfg(feature = "sdk")]
pub use wire::Place;
#[cfg(feature = "sdk")]
pub use worker::Worker;
#[cfg(feature = "sdk")]
pub use workflow::replay_workflow;
