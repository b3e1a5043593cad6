//! A plugin's manifest: YAML text → [`Manifest`], with all faults of a file at once (SPEC §2).
//!
//! Invariant: nothing here reads a file or the environment; the caller hands over the text and its name.

pub mod types;

pub use types::*;
