//! The door with the SDK's own client, in one process.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod methods;
mod world;
