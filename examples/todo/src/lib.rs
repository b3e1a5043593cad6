//! A to-do list as an MCP server: functions that a model calls, and two lifecycle hooks that its agent calls (SPEC §9).
//!
//! Invariant: the list lives as long as the server, and a server belongs to one session.

pub mod list;
pub mod server;
