//! The ACP door: Hookwright's agents as an agent of the Agent Client Protocol, for editors and other clients. Home of its SDK.
//!
//! [`serve`] talks with one client over any [`Frames`] (stdin and stdout, say) until it goes away. What a session needs of the world,
//! servers and jobs, comes through [`Wiring`].
//!
//! Invariant: strict ACP, protocol version 1: nothing is sent that its schema does not have.
//! Invariant: a prompt is one durable job of its session; what this process holds of a session can be made again from the store.
//! Invariant: whoever decides an approval first counts, whichever way they came.
//! Invariant: no handler waits: the SDK dispatches one message after the other.

mod backlog;
mod close;
mod door;
mod errors;
mod frames;
mod handlers;
mod load;
mod mode;
mod open;
mod permission;
mod prompt;
mod retell;
mod session;
mod tell;
mod teller;
mod telling;
mod wire;
mod wiring;

pub use door::{Ended, serve, serve_on};
pub use frames::{FRAME_BYTES, Frames};
pub use mode::Mode;
pub use wiring::{Equipment, Order, OwnServer, Reach, Ready, ServerDecl, Wiring};

/// The other side of the protocol, for tests: the SDK that this door is built with.
pub use agent_client_protocol as sdk;
