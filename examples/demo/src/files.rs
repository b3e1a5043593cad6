//! Files of the work tree, by a path that a model wrote.
//!
//! Invariant: no path leads out of the work tree or into `.git`, also not through a symbolic link.

#[cfg(test)]
mod tests;

use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

/// Bytes of a file that is read or written.
const FILE_BYTES: u64 = 256 * 1024;
/// Parts of a path.
const DEPTH: usize = 16;

/// Why a file is not read or written; worded for the model that reads it.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// A path that leads elsewhere.
    #[error("`{0}` is not a path of a file in the repository: use a relative path without `..`, links and `.git`")]
    Path(String),
    /// A file over the limit.
    #[error("the file has more than {} KiB", FILE_BYTES / 1024)]
    TooLarge,
    /// Bytes that are no text.
    #[error("the file is not UTF-8 text")]
    NotText,
    /// The system says no.
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// Reads a text file.
pub fn read(root: &Path, path: &str) -> Result<String, FileError> {
    let full = resolve(root, path)?;
    let file = std::fs::File::open(full)?;
    if !file.metadata()?.is_file() {
        return Err(FileError::Path(shown(path)));
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_BYTES {
        return Err(FileError::TooLarge);
    }
    String::from_utf8(bytes).map_err(|_| FileError::NotText)
}

/// Writes a text file, with its folders.
pub fn write(root: &Path, path: &str, text: &str) -> Result<(), FileError> {
    let full = resolve(root, path)?;
    if text.len() as u64 > FILE_BYTES {
        return Err(FileError::TooLarge);
    }
    if let Some(folder) = full.parent() {
        std::fs::create_dir_all(folder)?;
    }
    Ok(std::fs::write(full, text)?)
}

/// The file that a path names. Every part that exists is looked at, so no link leads away.
fn resolve(root: &Path, path: &str) -> Result<PathBuf, FileError> {
    let wrong = || FileError::Path(shown(path));
    let parts: Vec<_> = Path::new(path).components().filter(|part| *part != Component::CurDir).collect();
    if parts.is_empty()
        || parts.len() > DEPTH
        || path.chars().any(|c| c.is_control() || c == '\\' || c == ':')
        || path.ends_with('/')
    {
        return Err(wrong());
    }
    let mut full = root.to_owned();
    for part in parts {
        let Component::Normal(name) = part else { return Err(wrong()) };
        if is_git_folder(&name.to_string_lossy()) {
            return Err(wrong());
        }
        full.push(name);
        match full.symlink_metadata() {
            // Neither a link nor a pipe or device, whose opening might never end.
            Ok(found) if !found.is_file() && !found.is_dir() => return Err(wrong()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(full)
}

/// Whether some file system takes this name for `.git`: by case, by dots or spaces at its end, by the short name, or as it drops
/// characters that are not seen.
fn is_git_folder(name: &str) -> bool {
    let seen: String = name.chars().filter(char::is_ascii_graphic).collect();
    let name = seen.trim_end_matches('.').to_ascii_lowercase();
    name == ".git" || name == "git~1"
}

fn shown(path: &str) -> String {
    path.chars().take(100).collect::<String>().escape_debug().to_string()
}
