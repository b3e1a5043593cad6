//! Many clients over Streamable HTTP, on loopback.
//!
//! Invariant: what a web page could send is refused: a foreign `Host` or `Origin` gets nothing.
//! Invariant: with a token set, nothing is answered without it.

pub(crate) fn placeholder() {}
