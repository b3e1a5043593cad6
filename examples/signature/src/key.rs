//! Keys and their files: one line that says what it is, one line of 64 hex digits.
//!
//! Invariant: a secret key's file is created for its owner alone, never overwritten, and refused where others may read it.

#[cfg(test)]
mod tests;

use ed25519_dalek::{SigningKey, VerifyingKey};
use rand::TryRng;
use sha2::{Digest, Sha256};
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

const SECRET: &str = "hookwright-ed25519-secret-v1";
const PUBLIC: &str = "hookwright-ed25519-public-v1";

/// Why a key can't be made, read or written.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file can't be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The file is there already.
    #[error("{} is there already, and a key is never overwritten: name another file, or move this one away", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The file holds something else.
    #[error("{}: not a file of the kind {expected}", path.display())]
    Kind {
        /// The file.
        path: PathBuf,
        /// The first line that was expected.
        expected: &'static str,
    },
    /// Others may read the secret.
    #[error("{}: others may read this secret key (mode {mode:o}); `chmod 600` it, and make a new one if they did", path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The system gives no randomness.
    #[error("the system gives no randomness: {0}")]
    Randomness(String),
}

/// A key's id: the first 16 bytes of the public key's SHA-256, as 32 hex digits.
pub fn id(public: &VerifyingKey) -> String {
    hex::encode(&Sha256::digest(public.as_bytes())[..16])
}

/// A new secret key, from the system's randomness.
pub fn generate() -> Result<SigningKey, KeyError> {
    let mut seed = [0; 32];
    rand::rngs::SysRng.try_fill_bytes(&mut seed).map_err(|e| KeyError::Randomness(e.to_string()))?;
    Ok(SigningKey::from_bytes(&seed))
}

/// Writes both halves of a key to new files; an existing file is never overwritten.
pub fn write(key: &SigningKey, secret: &Path, public: &Path) -> Result<(), KeyError> {
    create(secret, 0o600, SECRET, key.as_bytes())?;
    create(public, 0o644, PUBLIC, key.verifying_key().as_bytes()).inspect_err(|_| {
        // Half a key pair helps nobody, and it was made a moment ago.
        let _ = std::fs::remove_file(secret);
    })
}

fn create(path: &Path, mode: u32, kind: &str, key: &[u8; 32]) -> Result<(), KeyError> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode);
    #[cfg(not(unix))]
    let _ = mode;
    let written = options.open(path).and_then(|mut file| {
        writeln!(file, "{kind}\n{}", hex::encode(key))?;
        file.sync_all()
    });
    written.map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => KeyError::Exists { path: path.to_owned() },
        _ => KeyError::Io { path: path.to_owned(), source },
    })
}

/// Reads a secret key.
pub fn read_secret(path: &Path) -> Result<SigningKey, KeyError> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let found = std::fs::metadata(path).map_err(|source| KeyError::Io { path: path.to_owned(), source })?;
        let mode = found.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(KeyError::Exposed { path: path.to_owned(), mode });
        }
    }
    Ok(SigningKey::from_bytes(&read(path, SECRET)?))
}

/// Reads a public key.
pub fn read_public(path: &Path) -> Result<VerifyingKey, KeyError> {
    let key = VerifyingKey::from_bytes(&read(path, PUBLIC)?).ok().filter(|key| !key.is_weak());
    key.ok_or_else(|| KeyError::Kind { path: path.to_owned(), expected: PUBLIC })
}

fn read(path: &Path, kind: &'static str) -> Result<[u8; 32], KeyError> {
    let text = std::fs::read(path).map_err(|source| KeyError::Io { path: path.to_owned(), source })?;
    let wrong = || KeyError::Kind { path: path.to_owned(), expected: kind };
    let text = String::from_utf8(text).map_err(|_| wrong())?;
    let digits = text.trim_end().strip_prefix(kind).and_then(|rest| rest.strip_prefix('\n')).ok_or_else(wrong)?;
    let mut key = [0; 32];
    hex::decode_to_slice(digits, &mut key).map_err(|_| wrong())?;
    Ok(key)
}
