//! What the runtime needs of the world. Backends implement these traits; doors and tests bring them together.

pub mod clock;
pub mod harness;
pub mod model;
pub mod sessions;
pub mod store;
pub mod subagents;
pub mod tools;
