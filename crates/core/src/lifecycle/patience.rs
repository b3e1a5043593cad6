//! When a server that does not answer its lifecycle hooks is killed: at the second timeout in a row (SPEC §9).

/// How often a server's lifecycle hooks timed out in a row. One for each server, shared by all that ask it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Patience {
    /// Which start of the server is counted.
    run: u32,
    timeouts: u8,
    killed: bool,
}

/// What follows from a timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strike {
    /// It is tolerated.
    Tolerated,
    /// The server is killed.
    Kill,
    /// The server was killed for an earlier one, or was started again since: nothing follows.
    Past,
}

impl Patience {
    /// A hook timed out that was sent to the `run`th start of the server.
    pub fn timed_out(&mut self, run: u32) -> Strike {
        if run < self.run {
            return Strike::Past;
        }
        if run > self.run {
            *self = Self { run, ..Self::default() };
        }
        if self.killed {
            return Strike::Past;
        }
        self.timeouts += 1;
        if self.timeouts < 2 {
            return Strike::Tolerated;
        }
        *self = Self { run, timeouts: 0, killed: true };
        Strike::Kill
    }

    /// A call of the server was completed, whatever the call was and whatever came of it.
    pub fn completed(&mut self) {
        self.timeouts = 0;
    }
}
