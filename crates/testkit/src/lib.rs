//! Servers that tests need: `scripted-mcp`, which plays a script and may be hostile, and `rmcp-echo`, a real one on rmcp. Dev only.
//!
//! Invariant: `scripted-mcp` speaks raw JSON-RPC and uses no MCP library, so that it can break every rule of one.

pub mod bins;
pub mod script;
