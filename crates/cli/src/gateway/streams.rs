//! Stdin and stdout without a thread between, where they are pipes or sockets, as MCP clients make them.
//!
//! Invariant: how they were is restored at the end: others may hold them too.

use rustix::fs::{FileType, OFlags, fcntl_getfl, fcntl_setfl, fstat};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as StdStream;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

/// Restores a stream's flags when it is dropped.
pub(crate) struct Restore {
    fd: OwnedFd,
    flags: OFlags,
}

impl Drop for Restore {
    fn drop(&mut self) {
        let _ = fcntl_setfl(&self.fd, self.flags);
    }
}

/// Both streams; how they were comes back when this is dropped.
pub(crate) struct Streams {
    pub(crate) reader: Box<dyn AsyncRead + Send + Unpin>,
    pub(crate) writer: Box<dyn AsyncWrite + Send + Unpin>,
    restore: Vec<Restore>,
}

/// A copy of a stream's descriptor, and what it is.
fn opened(fd: impl AsFd) -> io::Result<(OwnedFd, FileType, Restore)> {
    let copy = fd.as_fd().try_clone_to_owned()?;
    let kind = FileType::from_raw_mode(fstat(&copy)?.st_mode);
    let restore = Restore { flags: fcntl_getfl(&copy)?, fd: copy.try_clone()? };
    Ok((copy, kind, restore))
}

fn socket(fd: OwnedFd) -> io::Result<UnixStream> {
    let stream = StdStream::from(fd);
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}

fn reader() -> io::Result<(Box<dyn AsyncRead + Send + Unpin>, Restore)> {
    let (fd, kind, restore) = opened(io::stdin())?;
    Ok(match kind {
        FileType::Fifo => (Box::new(pipe::Receiver::from_owned_fd(fd)?), restore),
        FileType::Socket => (Box::new(socket(fd)?), restore),
        _ => return Err(io::ErrorKind::Unsupported.into()),
    })
}

fn writer() -> io::Result<(Box<dyn AsyncWrite + Send + Unpin>, Restore)> {
    let (fd, kind, restore) = opened(io::stdout())?;
    Ok(match kind {
        FileType::Fifo => (Box::new(pipe::Sender::from_owned_fd(fd)?), restore),
        FileType::Socket => (Box::new(socket(fd)?), restore),
        _ => return Err(io::ErrorKind::Unsupported.into()),
    })
}

impl Streams {
    /// Within a Tokio runtime.
    pub(crate) fn open() -> Self {
        let mut restore = vec![];
        let reader = match reader() {
            Ok((reader, was)) => {
                restore.push(was);
                reader
            }
            // A terminal or a file.
            Err(_) => Box::new(tokio::io::stdin()),
        };
        let writer = match writer() {
            Ok((writer, was)) => {
                restore.push(was);
                writer
            }
            Err(_) => Box::new(tokio::io::stdout()),
        };
        Self { reader, writer, restore }
    }

    /// The streams, and what restores them when it is dropped.
    pub(crate) fn split(self) -> (Box<dyn AsyncRead + Send + Unpin>, Box<dyn AsyncWrite + Send + Unpin>, Vec<Restore>) {
        (self.reader, self.writer, self.restore)
    }
}
