use super::*;

fn pair(folder: &Path) -> (PathBuf, PathBuf) {
    (folder.join("secret.key"), folder.join("public.key"))
}

#[test]
fn a_written_key_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let (secret, public) = pair(folder.path());
    let key = generate().unwrap();
    write(&key, &secret, &public).unwrap();
    assert_eq!(read_secret(&secret).unwrap().as_bytes(), key.as_bytes());
    assert_eq!(read_public(&public).unwrap(), key.verifying_key());
    assert_ne!(generate().unwrap().as_bytes(), key.as_bytes());
}

#[test]
fn no_file_is_overwritten_and_no_half_pair_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let (secret, public) = pair(folder.path());
    std::fs::write(&public, "mine").unwrap();
    assert!(write(&generate().unwrap(), &secret, &public).is_err());
    assert!(!secret.exists());
    assert_eq!(std::fs::read_to_string(&public).unwrap(), "mine");
    std::fs::remove_file(&public).unwrap();
    std::fs::write(&secret, "mine too").unwrap();
    let error = write(&generate().unwrap(), &secret, &public).unwrap_err().to_string();
    assert!(error.contains("is there already") && error.contains("name another file"), "{error}");
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "mine too");
    assert!(!public.exists());
}

#[cfg(unix)]
#[test]
fn a_secret_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let (secret, public) = pair(folder.path());
    write(&generate().unwrap(), &secret, &public).unwrap();
    assert_eq!(std::fs::metadata(&secret).unwrap().permissions().mode() & 0o777, 0o600);
    for mode in [0o640, 0o604, 0o660] {
        std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(mode)).unwrap();
        assert!(matches!(read_secret(&secret), Err(KeyError::Exposed { .. })), "{mode:o}");
    }
}

#[test]
fn a_file_of_another_kind_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let (secret, public) = pair(folder.path());
    write(&generate().unwrap(), &secret, &public).unwrap();
    let message = read_public(&secret).unwrap_err().to_string();
    assert!(message.contains("secret.key") && message.contains(PUBLIC), "{message}");
    for text in ["", PUBLIC, "hookwright-ed25519-public-v1\nabc", &format!("{PUBLIC}\n{}", "00".repeat(33))] {
        std::fs::write(&public, text).unwrap();
        assert!(matches!(read_public(&public), Err(KeyError::Kind { .. })), "{text:?}");
    }
    std::fs::write(&public, [0xff, 0xfe]).unwrap();
    assert!(matches!(read_public(&public), Err(KeyError::Kind { .. })));
    assert!(matches!(read_public(&folder.path().join("none")), Err(KeyError::Io { .. })));
}

#[test]
fn the_key_of_small_order_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("public.key");
    std::fs::write(&path, format!("{PUBLIC}\n01{}\n", "00".repeat(31))).unwrap();
    assert!(matches!(read_public(&path), Err(KeyError::Kind { .. })));
}
