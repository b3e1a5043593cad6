//! What tests share: scripted servers, the engines' conformance suite, and chaos. Dev only.
//!
//! - `scripted-mcp` plays a script and may be hostile; `rmcp-echo` is a real server on rmcp.
//! - [`chaos`] runs many jobs while what runs them is killed, and checks what must hold all the same.
//! - [`engine`] is one suite of cases that is mounted on each engine; [`history`] makes the histories of two engines comparable.
//!
//! Invariant: `scripted-mcp` speaks raw JSON-RPC and uses no MCP library, so that it can break every rule of one.

pub mod bins;
pub mod chaos;
pub mod engine;
pub mod history;
pub mod plugin;
pub mod process;
pub mod script;
