//! The law of Hookwright, as values: manifest → hook set → chain → verdict → call → job, and the history's records.
//!
//! A machine is fed facts and says what to do next; drivers do it. Embedders start at [`job::Machine`].
//!
//! Invariant: no IO, no clock, no randomness, no async, no threads. Time and ids are arguments or derived.
//! Invariant: a value that a job carries is opaque to the machines ([`Stored`]); only pure helpers look inside one.
//! Invariant: one enum for the outcome of a chain ([`verdict::Verdict`]).

pub mod answer;
pub mod approval;
pub mod call;
pub mod chain;
pub mod compaction;
pub mod config;
pub mod diagnostic;
pub mod event;
pub mod history;
pub mod hooks;
pub mod job;
pub mod json;
pub mod lifecycle;
pub mod limits;
pub mod manifest;
mod matching;
pub mod message;
pub mod name;
mod question;
pub mod schemas;
pub mod stored;
pub mod subagent;
pub mod text;
pub mod verdict;
pub mod visible;
mod yaml;

pub use limits::Limits;
pub use name::FunctionName;
pub use stored::Stored;
