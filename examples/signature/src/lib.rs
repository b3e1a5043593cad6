//! A signature on every answer: a `job_end` hook that appends a signature block to the output, and its verification.
//!
//! Invariant: a block covers the output's every byte, the job and the agent; a text with a changed byte never verifies.
//! Invariant: a secret key never leaves its file but into memory; it is refused where others may read it.

pub mod block;
pub mod key;
pub mod server;
