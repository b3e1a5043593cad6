//! What `hookwright demo` works on: a throw-away git repository, an MCP server that works in it, and a server of hooks that
//! watches it.
//!
//! Invariant: nothing outside the folder that [`prepare`](prepare::prepare) made is read or written, and no configuration of the user's git
//! is used; a remote is a folder beside the repository.
//! Invariant: no shell is started, and what a function returns is bounded.

pub mod files;
pub mod git;
pub mod git_server;
pub mod guard;
pub mod guard_server;
pub mod prepare;

pub use git_server::serve_git_stdio;
pub use guard_server::serve_guard_stdio;
pub use prepare::prepare;

/// The demo's manifest, as it stands in `examples/demo/plugin.yaml`.
pub const MANIFEST: &str = include_str!("../plugin.yaml");

/// The demo's scripted turns, as they stand in `examples/demo/demo.yaml`.
pub const SCRIPT: &str = include_str!("../demo.yaml");

/// A server could not start, or its connection broke.
#[derive(Debug, thiserror::Error)]
#[error("failed to serve: {0}")]
pub struct ServeError(String);
