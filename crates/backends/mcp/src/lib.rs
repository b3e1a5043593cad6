//! The MCP servers of a tenant's plugins: started, watched, called, restarted, ended. The home of rmcp's client side.
//!
//! Protocol names and revisions come from `rmcp::model`; the client itself is ours, because the law needs what rmcp's does not give:
//! raw results, knowledge whether a request was written, bounded memory and times (docs/decisions/0020).
//!
//! Invariant: a server can harm only its own calls: no wait on it is without a limit, and no buffer for it either.
//! Invariant: once a byte of a request may have left, its call is never reported as not sent.
//! Invariant: what a server says reaches people only escaped, cut and without the values of secrets.
//! Invariant: no process of a server's group outlives its host, unless the host itself is killed by force (docs/mcp.md).

mod config;
mod handshake;
mod heard;
mod host;
mod http;
mod lines;
mod link;
mod listing;
mod said;
mod spec;
mod stdio;
mod tool;
mod unasked;
mod wire;

pub use config::HostConfig;
pub use host::{Gauges, McpHost};
pub use spec::{PASSED_ON, RunAs, ToolSpec, Transport};
