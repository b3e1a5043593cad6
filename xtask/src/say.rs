//! The one place where xtask prints. Words go to standard error, so that they keep their order with what cargo prints.

use std::io::{self, Write};
use std::time::Duration;

/// A line of its own.
pub(crate) fn line(text: &str) {
    // Nobody is left to tell if standard error is closed.
    let _ = writeln!(io::stderr(), "{text}");
}

/// What is done next.
pub(crate) fn step(text: &str) {
    line(&format!("\nxtask: {text}"));
}

/// What went wrong.
pub(crate) fn problem(text: &str) {
    line(&format!("\nxtask: failed: {text}"));
}

/// Seconds as people read them: `0.4 s`, `12 s`, `3 min 20 s`.
pub(crate) fn duration(time: Duration) -> String {
    match time.as_secs() {
        0..10 => format!("{:.1} s", time.as_secs_f64()),
        seconds @ 10..60 => format!("{seconds} s"),
        seconds => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}
