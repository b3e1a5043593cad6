//! The runner on a real store: what goes wrong with the store, the clock, people's decisions and other runners.

#![expect(clippy::unwrap_used, reason = "what can't be done fails its test")]

mod ends;
mod faults;
mod hooks;
mod outside;
mod rows;
mod segments;
mod support;
mod tenants;
