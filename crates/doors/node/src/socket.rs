//! The socket's file: put in its place whole, and taken away by who made it.

use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use tokio::net::UnixListener;

/// Bytes by which the name is longer under which a socket is made: a dot and a process's number.
pub(crate) const DRAFT_BYTES: usize = 11;

/// A socket that listens. Dropping it takes its file away.
pub(crate) struct Socket {
    pub(crate) listener: UnixListener,
    file: File,
}

/// The file of a socket.
struct File {
    path: PathBuf,
    /// Which file it is: another one that was put there since is not ours.
    inode: (u64, u64),
}

impl Socket {
    /// Listens at this path. What a dead node left there is replaced; the caller holds the lock. Within a Tokio runtime.
    pub(crate) fn bind(path: &Path) -> io::Result<Self> {
        match std::fs::symlink_metadata(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(e),
            Ok(found) if !found.file_type().is_socket() => {
                return Err(io::Error::new(
                    io::ErrorKind::AlreadyExists,
                    "there is a file of that name that is no socket",
                ));
            }
            // Another store's node, where a configuration names one socket for several.
            Ok(_) if UnixStream::connect(path).is_ok() => {
                return Err(io::Error::new(io::ErrorKind::AddrInUse, "another process listens there"));
            }
            Ok(_) => tracing::info!("the socket of a node that is gone is replaced: {}", path.display()),
        }
        let mut draft = path.as_os_str().to_owned();
        draft.push(format!(".{}", std::process::id()));
        let draft = PathBuf::from(draft);
        remove_drafts(path);
        let listener = UnixListener::bind(&draft)?;
        let placed = std::fs::set_permissions(&draft, std::fs::Permissions::from_mode(0o600))
            .and_then(|()| std::fs::symlink_metadata(&draft))
            .and_then(|made| std::fs::rename(&draft, path).map(|()| (made.dev(), made.ino())));
        match placed {
            Ok(inode) => Ok(Self { listener, file: File { path: path.to_owned(), inode } }),
            Err(e) => {
                let _ = std::fs::remove_file(&draft);
                Err(e)
            }
        }
    }

    /// Whether its file stands in its place: it may have been cleaned away, with its folder.
    pub(crate) fn is_in_place(&self) -> bool {
        self.file.is_ours()
    }

    /// Takes the file away, so that nobody new comes, and hands over who is waiting at the door.
    pub(crate) fn close(self) -> UnixListener {
        drop(self.file);
        self.listener
    }
}

/// Takes away what processes left that were killed before their socket stood in its place. The caller holds the lock, so none is at it.
fn remove_drafts(path: &Path) {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return };
    let Ok(found) = std::fs::read_dir(folder) else { return };
    for entry in found.flatten() {
        let other = entry.file_name();
        let end = other.as_encoded_bytes().strip_prefix(name.as_encoded_bytes()).and_then(|end| end.strip_prefix(b"."));
        let number = end.is_some_and(|end| !end.is_empty() && end.iter().all(u8::is_ascii_digit));
        if number && entry.file_type().is_ok_and(|kind| kind.is_socket()) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

impl File {
    fn is_ours(&self) -> bool {
        std::fs::symlink_metadata(&self.path).is_ok_and(|found| (found.dev(), found.ino()) == self.inode)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        if self.is_ours() {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
