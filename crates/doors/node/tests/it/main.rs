//! A node and its clients, over real sockets.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod client;
mod ends;
mod hostile;
mod support;
