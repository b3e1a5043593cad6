//! The bridge door from outside: goldens of every harness, event and reply; what fails closed; configurations.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests")]

mod closed;
mod goldens;
mod install;
mod probe;
mod sessions;
