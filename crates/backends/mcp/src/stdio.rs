//! A server as a child process that speaks on its standard streams.
//!
//! Invariant: the child leads a process group of its own, and the whole group gets SIGKILL once the child is gone or given up.
//! Invariant: a group outlives this process by a second at most, however it ends ([`watchdog`]).
//! Invariant: stdout and stderr are always read, and nothing that the child does not read is waited for.

mod pipe;
mod process;
mod reader;
mod stderr;

pub(crate) use process::{Child, StdioLink};
