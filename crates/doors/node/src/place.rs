//! Where a node and its clients find each other: beside the store.

use crate::client::ClientError;
use crate::lock::Lock;
use hookwright_core::json::sha256_hex;
use rustix::process::getuid;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Bytes of a socket's path at most: a limit of the system (108 with the zero at its end, 104 elsewhere).
const PATH_BYTES: usize = 103;

/// A store, and what stands beside it for its node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    store: PathBuf,
}

impl Place {
    /// Of a store's file, which need not be there yet.
    pub fn of(store: &Path) -> Self {
        // The same file must give the same place, however it was reached.
        let real = std::fs::canonicalize(store).ok().or_else(|| {
            let folder = store.parent().map(|folder| if folder == Path::new("") { Path::new(".") } else { folder })?;
            Some(std::fs::canonicalize(folder).ok()?.join(store.file_name()?))
        });
        Self { store: real.or_else(|| std::path::absolute(store).ok()).unwrap_or_else(|| store.to_owned()) }
    }

    /// The store's file.
    pub fn store(&self) -> &Path {
        &self.store
    }

    /// The store's file, as it is said on the wire.
    pub(crate) fn store_text(&self) -> String {
        self.store.to_string_lossy().into_owned()
    }

    /// The file whose lock makes a node. It stays when the node ends.
    pub fn lock_file(&self) -> PathBuf {
        self.beside("-node")
    }

    /// Who starts a node locks it meanwhile, so that one of many is started.
    pub(crate) fn start_file(&self) -> PathBuf {
        self.beside("-node-start")
    }

    /// What a node that was started by a client writes to its standard error.
    pub fn log_file(&self) -> PathBuf {
        self.beside("-node.log")
    }

    fn beside(&self, end: &str) -> PathBuf {
        let mut name = OsString::from(self.store.as_os_str());
        name.push(end);
        PathBuf::from(name)
    }

    /// Whether no process is the node. To be told by the lock alone: a node that is starting or ending does not listen.
    pub fn is_free(&self) -> bool {
        // A file that can't be opened is locked by nobody that could be waited for.
        !self.lock_file().exists() || Lock::of_node(self).map_or(true, |lock| lock.is_some())
    }

    /// The process that is the node, as it wrote itself.
    pub fn holder(&self) -> Option<u32> {
        self.socket().ok().flatten().map(|listed| listed.pid)
    }

    /// Where the node that has the lock listens, as it wrote there; none where no node wrote anything, or it has ended.
    pub(crate) fn socket(&self) -> Result<Option<Listed>, ClientError> {
        use std::io::Read as _;
        let path = self.lock_file();
        let broken = |e: io::Error| ClientError::Broken(format!("{} can't be read: {e}", path.display()));
        let file = match std::fs::File::open(&path) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(broken(e)),
        };
        let owner = file.metadata().map_err(broken)?.uid();
        if owner != getuid().as_raw() {
            return Err(ClientError::Stranger(format!("{} belongs to another user ({owner})", path.display())));
        }
        let mut text = String::new();
        file.take(4_096).read_to_string(&mut text).map_err(broken)?;
        // Half written: the node is only starting.
        Ok(serde_json::from_str(&text).ok())
    }
}

/// What stands in the lock's file while a node runs.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Listed {
    pub(crate) pid: u32,
    /// None while it does not listen yet.
    pub(crate) socket: Option<PathBuf>,
}

/// Where sockets may be made.
#[derive(Debug, Clone, Default)]
pub struct Sockets {
    /// The one that the configuration names.
    pub named: Option<PathBuf>,
    /// `XDG_RUNTIME_DIR`: ours alone, and gone after the last logout.
    pub runtime_dir: Option<PathBuf>,
    /// Where temporary files are made, for where all other paths are too long.
    pub temporary: Option<PathBuf>,
}

impl Sockets {
    /// The socket of a store's node; makes its folder.
    pub(crate) fn choose(&self, place: &Place) -> io::Result<PathBuf> {
        if let Some(named) = &self.named {
            if !fits(named) {
                let why = format!("the socket's path is longer than {PATH_BYTES} bytes: {}", named.display());
                return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
            }
            let folder = named.parent().unwrap_or(Path::new("/"));
            if !folder.exists() {
                private(folder)?;
            }
            not_of_others(folder)?;
            return Ok(named.clone());
        }
        let name = format!("{}.sock", &sha256_hex(place.store.as_os_str().as_bytes())[..16]);
        let runtime = self.runtime_dir.iter().filter(|dir| dir.is_absolute() && dir.is_dir());
        let runtime = runtime.map(|dir| dir.join("hookwright"));
        let temporary = self.temporary.clone().unwrap_or_else(|| PathBuf::from("/tmp"));
        let last = temporary.join(format!("hookwright-{}", getuid().as_raw()));
        let mut why = None;
        for folder in runtime.chain([beside(place), last]) {
            let socket = folder.join(&name);
            if !fits(&socket) {
                continue;
            }
            match private(&folder) {
                Ok(()) => return Ok(socket),
                Err(error) => why = Some(error),
            }
        }
        Err(why.unwrap_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "every path for its socket is too long")))
    }
}

/// Our folder beside the store.
fn beside(place: &Place) -> PathBuf {
    let folder = place.store.parent().unwrap_or(Path::new("/"));
    let ours = folder.file_name().is_some_and(|name| name == ".hookwright");
    if ours { folder.join("node") } else { folder.join(".hookwright").join("node") }
}

fn fits(socket: &Path) -> bool {
    // Room for the name under which it is made before it is put in its place.
    socket.as_os_str().len() + crate::socket::DRAFT_BYTES <= PATH_BYTES
}

/// A folder that only its owner, we, can look into; made where there is none.
fn private(folder: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let found = std::fs::symlink_metadata(folder)?;
    if !found.is_dir() || found.uid() != getuid().as_raw() {
        let why = format!("{} is no folder of this user's", folder.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    if found.mode() & 0o077 != 0 {
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700))?;
    }
    Ok(())
}

/// A folder in which no other user could put another socket in the place of ours.
fn not_of_others(folder: &Path) -> io::Result<()> {
    let found = std::fs::metadata(folder)?;
    let sticky = found.mode() & 0o1000 != 0;
    let trusted = found.uid() == getuid().as_raw() || found.uid() == 0;
    if trusted && (found.mode() & 0o022 == 0 || sticky) {
        return Ok(());
    }
    let why = format!("other users may write to {}, the socket's folder", folder.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

#[cfg(test)]
mod tests;
