//! The lock that makes a process the node of a store.
//!
//! Invariant: the file is never deleted: whoever waits for the lock of a file that is gone would hold another one than who comes later.

use crate::place::{Listed, Place};
use std::fs::{File, TryLockError};
use std::io::{self, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// The lock, held until it is dropped or its process ends, however it ends.
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
}

impl Lock {
    /// Takes the node's lock of a store; none where another process holds it.
    pub(crate) fn of_node(place: &Place) -> io::Result<Option<Self>> {
        Self::take(&place.lock_file())
    }

    /// Takes the lock of a file, which is made where there is none.
    pub(crate) fn take(path: &Path) -> io::Result<Option<Self>> {
        let file = File::options().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self { file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(e)) => Err(e),
        }
    }

    /// Says who has it, and where it listens.
    pub(crate) fn list(&mut self, socket: Option<&Path>) -> io::Result<()> {
        let listed = Listed { pid: std::process::id(), socket: socket.map(Path::to_owned) };
        let text = serde_json::to_vec(&listed).map_err(io::Error::other)?;
        self.clear()?;
        self.file.write_all(&text)
    }

    /// Takes back what it said.
    fn clear(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.rewind()
    }
}

impl Drop for Lock {
    /// Nobody listens any more. What a killed process leaves there is no matter: its socket does not answer.
    fn drop(&mut self) {
        if let Err(error) = self.clear() {
            tracing::warn!("the node's lock can't be cleared: {error}");
        }
    }
}
