//! Tidy: rules of the house that no compiler holds.
//!
//! Invariant: every rule is also shown to notice what it forbids.

#![expect(clippy::unwrap_used, reason = "what a helper cannot read fails its test")]

mod arrows;
mod conformance;
mod documents;
mod examples;
mod files;
mod paths;
mod pins;
mod repository;
