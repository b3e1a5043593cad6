//! Whole stories, and what no hostile text may do to them.

mod hostile;
mod json;
mod stories;
pub(crate) mod tale;
mod views;
