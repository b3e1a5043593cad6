//! What people and scripts read: turns records, approvals and rows into text and JSON.
//!
//! Pure but for [`printer`], which writes. Text is told in lines of a fixed shape: the place in the job, a mark, what happened.
//!
//! Invariant: no control or format character of a model, hook, tool or person reaches a terminal; [`line::Line`] and
//! [`flow::Flow`] are the only ways in, and both escape.
//! Invariant: untrusted text of more than a line stands behind a bar (`│`) on every row, so that it can't pose as ours.
//! Invariant: what is left out is said, with its size.

mod advice;
mod compaction;
pub(crate) mod diff;
pub(crate) mod expect;
pub(crate) mod family;
pub(crate) mod flow;
pub(crate) mod history;
pub(crate) mod json;
pub(crate) mod line;
pub(crate) mod lists;
pub(crate) mod look;
pub(crate) mod output;
pub(crate) mod printer;
pub(crate) mod prompt;
pub(crate) mod replay;
pub(crate) mod standing;
pub(crate) mod tally;
pub(crate) mod teller;
pub(crate) mod units;
pub(crate) mod values;

pub(crate) use look::{Color, Look, Surroundings};
pub(crate) use printer::Printer;
pub(crate) use prompt::Prompt;

#[cfg(test)]
pub(crate) mod tests;
