//! Replays histories without holding up others.
//!
//! Invariant: a long history is replayed on a thread that may block: it takes a while, and other jobs share the workers.

use hookwright_core::history::{Head, ReplayError, replay};
use hookwright_core::job::Machine;
use std::sync::Arc;

/// Records from which on a replay is worth a thread's switch: some milliseconds of work.
const LONG: usize = 200;

/// The machine that a history leads to, and the history's head.
pub async fn replayed(texts: &Arc<Vec<String>>) -> Result<(Machine, Head), ReplayError> {
    if texts.len() < LONG {
        return replay(&**texts);
    }
    let shared = texts.clone();
    match tokio::task::spawn_blocking(move || replay(&*shared)).await {
        Ok(result) => result,
        // The runtime is being shut down and starts no such thread any more.
        Err(_) => replay(&**texts),
    }
}
