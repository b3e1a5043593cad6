//! What is known of the tests, and what `_Stop` says of it.
//!
//! Invariant: only a run that passed is silent about itself. What could not be run did not pass.

#[cfg(test)]
mod tests;

/// Bytes of a run's output that are kept: its end, where test runners put their summary.
pub const OUTPUT_BYTES: usize = 4 * 1024;

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// With this exit code. 0 is a pass.
    Exited(i32),
    /// A signal ended it.
    Killed,
    /// It took longer than allowed, in seconds, and was stopped.
    TimedOut(u64),
    /// It could not be started.
    NotStarted(String),
}

/// One run of the tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// How it ended.
    pub end: End,
    /// The end of what it printed, at most [`OUTPUT_BYTES`].
    pub output: String,
}

impl Run {
    /// Whether the tests passed.
    pub fn passed(&self) -> bool {
        self.end == End::Exited(0)
    }

    /// The run for the model.
    pub fn shown(&self) -> String {
        let how = match &self.end {
            End::Exited(0) => "The tests passed.".to_owned(),
            End::Exited(code) => format!("The tests failed with exit code {code}."),
            End::Killed => "The tests were ended by a signal.".to_owned(),
            End::TimedOut(seconds) => format!("The tests did not end within {seconds} s and were stopped."),
            End::NotStarted(why) => format!("The tests could not be started: {why}."),
        };
        if self.output.is_empty() { how } else { format!("{how} The end of their output:\n{}", self.output) }
    }
}

/// What `_Stop` says: nothing after a run that passed, and nothing before the first run unless one is required.
pub fn objection(last: Option<&Run>, run_required: bool) -> Option<String> {
    match last {
        None if run_required => Some("The tests were not run yet. Run them with `run_tests`.".to_owned()),
        None => None,
        Some(run) if run.passed() => None,
        Some(run) => Some(format!("{}\nMend what fails, and run them again with `run_tests`.", run.shown())),
    }
}

/// The end of an output, at most [`OUTPUT_BYTES`], from a line's beginning where it was cut.
pub fn tail(output: &[u8]) -> String {
    let cut = output.len().saturating_sub(OUTPUT_BYTES);
    let mut end = &output[cut..];
    if cut > 0
        && let Some(line) = end.iter().position(|b| *b == b'\n')
    {
        end = &end[line + 1..];
    }
    let text = String::from_utf8_lossy(end).trim_end().to_owned();
    // What is no UTF-8 grows as it is replaced.
    let mut from = text.len().saturating_sub(OUTPUT_BYTES);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    text[from..].to_owned()
}
