//! A project's tests as an MCP server: a function that runs them, and a lifecycle hook that objects while they fail (SPEC §9).
//!
//! Invariant: the hook never runs the tests: it answers at once, from what the last run showed.

pub mod server;
pub mod state;
pub mod suite;
