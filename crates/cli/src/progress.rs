//! Says that something is waited for, once it takes over a second, to people on a terminal.

use crate::terminal::{Terminal, note};
use std::time::Duration;

/// Ends the message when dropped.
pub(crate) struct Waiting(Option<tokio::task::JoinHandle<()>>);

/// Begins to say it.
pub(crate) fn waiting(terminal: Terminal, what: String) -> Waiting {
    // Where nobody watches, a line in a log would only be noise.
    Waiting(terminal.interactive.then(|| {
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            note(&format!("{what} …"));
            let mut seconds = 1;
            loop {
                tokio::time::sleep(Duration::from_secs(5)).await;
                seconds += 5;
                note(&format!("{what} … {seconds} s"));
            }
        })
    }))
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(task) = self.0.take() {
            task.abort();
        }
    }
}
