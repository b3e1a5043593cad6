//! Reading files that people name.
//!
//! Invariant: nothing but a file, or what the caller was started with (`/dev/stdin`, `/dev/fd/…`), is waited for: a pipe or a device under
//! the name of a file would hold a command up forever.

use std::fs::{File, FileType, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Opens a file for reading; what is no file is an error of the kind `InvalidInput` that says what it is.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    if is_handed_over(path) {
        return File::open(path);
    }
    refuse(&std::fs::metadata(path)?)?;
    // Between the look and the opening it may have become a pipe: then this does not wait for a writer.
    let flags = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or(0);
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    refuse(&file.metadata()?)?;
    Ok(file)
}

/// As [`open`], for files that somebody else reads.
pub(crate) fn check(path: &Path) -> io::Result<()> {
    if is_handed_over(path) { Ok(()) } else { refuse(&std::fs::metadata(path)?) }
}

/// Opens a file to write at its end, and makes it where there is none. A device may be meant (`/dev/stderr`); a named pipe would be waited for.
pub(crate) fn append(path: &Path) -> io::Result<File> {
    if std::fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo()) && !is_handed_over(path) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a named pipe, not a file"));
    }
    File::options().create(true).append(true).open(path)
}

/// Whether the path names a stream that the process was given: `--event /dev/stdin`, or a shell's `<(…)`.
fn is_handed_over(path: &Path) -> bool {
    path == Path::new("/dev/stdin") || path.starts_with("/dev/fd") || path.starts_with("/proc/self/fd")
}

fn refuse(found: &Metadata) -> io::Result<()> {
    match what(found.file_type()) {
        None => Ok(()),
        Some(what) => Err(io::Error::new(io::ErrorKind::InvalidInput, format!("it is {what}, not a file"))),
    }
}

/// What a thing is that is no file.
fn what(kind: FileType) -> Option<&'static str> {
    if kind.is_file() {
        return None;
    }
    Some(match kind {
        kind if kind.is_dir() => "a folder",
        kind if kind.is_fifo() => "a named pipe",
        kind if kind.is_socket() => "a socket",
        kind if kind.is_char_device() || kind.is_block_device() => "a device",
        _ => "something else",
    })
}
