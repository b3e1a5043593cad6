//! The bridge door: other vendors' coding agents ("harnesses") ask Hookwright's hooks through hooks of their own.
//!
//! A harness starts `hookwright bridge HARNESS EVENT` for each of its hook events. That process reads one payload, turns it into a neutral
//! [`Ask`], puts it to a node, and prints the [`Reply`] in the harness's own dialect ([`dialects`]). [`install`] writes the
//! harness's configuration.
//!
//! Invariant: whatever goes wrong is printed as the harness's own deny; nothing is let through because something failed.
//! Invariant: exactly one JSON object goes to standard output.
//! Invariant: foreign shapes stay in [`dialects`]; nobody else reads a harness's payload.

mod ask;
mod desk;
pub mod dialects;
mod door;
mod fields;
mod harness;
pub mod install;
mod probe;
mod session;
mod sessions;
mod socket;
mod taken_up;
mod transcript;

pub use ask::{Agent, Ask, Call, Escalate, Reply, Request, What};
pub use desk::Desk;
pub use door::{Asked, Door, MAX_PAYLOAD_BYTES, Printed, Trouble};
pub use harness::{Caps, Harness, Moment, Output};
pub use probe::{PROBE_TOOL, denies, probe_payload};
pub use session::{Claude, Codex, Launch};
pub use sessions::{IsOf, Sessions, Wiring};
pub use socket::exchange;
pub use transcript::{TAIL_BYTES, last_words};
