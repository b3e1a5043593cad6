use super::*;

#[test]
fn a_file_is_written_with_its_folders_and_read_again() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "docs/a/b.txt", "hello").unwrap();
    assert_eq!(read(root.path(), "docs/a/b.txt").unwrap(), "hello");
    write(root.path(), ".gitignore", "x").unwrap();
    assert_eq!(read(root.path(), "./.gitignore").unwrap(), "x");
}

#[test]
fn no_path_leads_out_of_the_root_or_into_its_git_folder() {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join(".git")).unwrap();
    for path in [
        "",
        ".",
        "..",
        "../x",
        "a/../../x",
        "/etc/passwd",
        "//x",
        "a/../b",
        ".git/config",
        ".GIT/config",
        ".git./config",
        ".git /config",
        ".g\u{200c}it/config",
        "git~1/config",
        "a/.git/hooks/x",
        "a\0b",
        "a\nb",
        "C:\\x",
        "a\\..\\..\\x",
        "C:x",
        "a/",
    ] {
        assert!(matches!(write(root.path(), path, "x"), Err(FileError::Path(_))), "written: {path:?}");
        assert!(matches!(read(root.path(), path), Err(FileError::Path(_))), "read: {path:?}");
    }
    assert!(matches!(write(root.path(), &"a/".repeat(40), "x"), Err(FileError::Path(_))));
}

#[cfg(unix)]
#[test]
fn links_are_not_followed() {
    let root = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), "s").unwrap();
    std::os::unix::fs::symlink(outside.path(), root.path().join("folder")).unwrap();
    std::os::unix::fs::symlink(outside.path().join("secret"), root.path().join("file")).unwrap();
    std::os::unix::fs::symlink(outside.path().join("new"), root.path().join("dangling")).unwrap();
    for path in ["folder/secret", "file", "dangling"] {
        assert!(read(root.path(), path).is_err(), "{path}");
        assert!(write(root.path(), path, "x").is_err(), "{path}");
    }
    assert!(!outside.path().join("new").exists());
}

#[test]
fn large_and_binary_files_are_refused() {
    let root = tempfile::tempdir().unwrap();
    let large = "x".repeat(usize::try_from(FILE_BYTES).unwrap() + 1);
    assert!(matches!(write(root.path(), "large", &large), Err(FileError::TooLarge)));
    std::fs::write(root.path().join("large"), large).unwrap();
    assert!(matches!(read(root.path(), "large"), Err(FileError::TooLarge)));
    std::fs::write(root.path().join("binary"), [0xff]).unwrap();
    assert!(matches!(read(root.path(), "binary"), Err(FileError::NotText)));
    assert!(matches!(read(root.path(), "none"), Err(FileError::Io(_))));
}
