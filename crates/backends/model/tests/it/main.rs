//! Models against a loopback server that plays providers: bodies, answers, failures, scripts, and the lab's scripted server.
// Helper functions of integration tests are no `#[test]`s, so clippy.toml's leave for tests does not reach them.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used)]

mod answers;
mod bodies;
mod failures;
mod lab;
mod schema;
mod script;
mod sdk;
mod support;
mod window;
