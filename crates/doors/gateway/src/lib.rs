//! The gateway: an MCP server in front of the functions of plugins, so that any MCP client's calls are hooked.
//!
//! [`serve`] talks with one client over two byte streams, [`listen`] with many over Streamable HTTP, and [`relay`] passes a client's
//! messages to a session in another process. A client's session is a job of an
//! agent that somebody else runs; the rules of calls are the job's (`hookwright_runtime::outside`). What a session needs of the world
//! comes through [`Wiring`].
//!
//! Invariant: every call of a function goes through the session's job, and nothing of its result leaves before the job says so.
//! Invariant: what hooks don't see (resources, prompts, what servers ask) goes through only where a manifest passes it.
//! Invariant: a client can harm only itself: what it sends and leaves unread is bounded.
//! Invariant: a result reaches the client as the server gave it, unless a hook changed or withheld it.

mod approvals;
mod call;
mod desk;
mod flight;
mod gateway;
mod http;
mod job;
mod lines;
mod lists;
mod passing;
mod relay;
mod requests;
mod route;
mod session;
mod stdio;
mod telling;
mod way;
mod wire;
mod wiring;

pub use gateway::{Deciders, Options};
pub use http::{HttpOptions, listen};
pub use relay::{Attach, Link, relay};
pub use stdio::{Ended, serve};
pub use wiring::{Client, Wiring};
