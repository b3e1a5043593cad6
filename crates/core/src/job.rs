//! The job's machine: facts in, commands out (SPEC §8).
//!
//! Feed it every record of a history and it stands where the job stood; [`Machine::pending`] then says what is left to do.
//! Each [`Command`] is one effect (in a cluster, one activity) and each [`Fact`] its result. Effects have ids that are derived
//! from the place in the job (`t2.c0.pre.h1`: turn 2, call 0, hook 1 before it), so the order of completion does not matter.
//!
//! Invariant: a call is never commanded before its chain, and a person where one was asked for, has allowed it.
//! Invariant: no command carries the conversation; a driver asks [`Machine::conversation`] for it.

mod command;
mod fact;
mod machine;
mod spec;

pub use command::{CallReply, Command, Settlement, settle};
pub use fact::{AsksThere, Fact, ModelFault, RequestedCall, Sent, ToolOutcome};
#[cfg(test)]
pub(crate) use machine::tests::spec as tests_spec;
pub use machine::{Machine, Mismatch};
pub use spec::{AgentSpec, Continues, External, FirstPrompt, JobError, JobSpec, LOGIC_VERSION, Outcome};
