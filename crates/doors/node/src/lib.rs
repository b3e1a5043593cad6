//! The local node's door: a Unix socket that other processes of the same user reach it by, and the client that they use.
//!
//! One node runs per store. It holds the lock beside the store and says there where its socket is, so that a client needs to know the
//! store alone. [`Node`] answers; what it answers with comes from a [`Service`], which the wiring implements. [`client`] is blocking and small:
//! a bridge is started for every question that a harness asks.
//!
//! Invariant: whoever holds the lock is the node. A socket is taken away only by the holder of the lock.
//! Invariant: nobody but the node's own OS user is answered, and a client speaks with nobody else.
//! Invariant: everything that a client sends is bounded, in bytes and in time; so is what a node sends to a client.
//! Invariant: a client that goes away is noticed: what it asked for is dropped.

pub mod client;
mod ensure;
mod facts;
mod idle;
mod lines;
mod lock;
mod node;
mod place;
mod service;
mod socket;
mod talk;
mod wire;

pub use ensure::{EnsureError, IDLE, Start, ask_or_start, ensure};
pub use facts::{About, Running};
pub use node::{Claim, ClaimError, Claimed, Ended, Node, Options, claim};
pub use place::{Place, Sockets};
pub use service::{Bytes, Offer, Peer, Refused, Service};
pub use wire::{LINE_BYTES, VERSION};
