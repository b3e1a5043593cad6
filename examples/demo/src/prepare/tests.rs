use super::*;
use std::ffi::OsString;

/// Where the tests look for git.
#[expect(clippy::disallowed_methods, reason = "tests find git where their caller does")]
pub(crate) fn search_path() -> OsString {
    std::env::var_os("PATH").unwrap_or_default()
}

#[tokio::test]
async fn the_repository_has_a_history_a_remote_and_nothing_to_commit() {
    let folder = tempfile::tempdir().unwrap();
    let made = prepare(&folder.path().join("new/demo"), &search_path()).await.unwrap();
    let repository = Repository::new(made.work.clone(), search_path());
    assert_eq!(repository.run(&["status", "--short"]).await.unwrap(), "");
    let log = repository.run(&["log", "--format=%s %D"]).await.unwrap();
    assert_eq!(log, "Start a changelog HEAD -> main, origin/release, origin/main, release\nGreet the world \n");
    let secret = key::read_secret(&made.secret_key).unwrap();
    assert_eq!(key::read_public(&made.public_key).unwrap(), secret.verifying_key());
}

#[tokio::test]
async fn the_first_commits_are_the_same_everywhere() {
    let folder = tempfile::tempdir().unwrap();
    let mut ids = Vec::new();
    for name in ["a", "b"] {
        let made = prepare(&folder.path().join(name), &search_path()).await.unwrap();
        ids.push(Repository::new(made.work, search_path()).run(&["rev-parse", "HEAD"]).await.unwrap());
    }
    assert_eq!(ids[0], ids[1]);
}

#[tokio::test]
async fn a_folder_that_holds_something_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("mine"), "x").unwrap();
    assert!(matches!(prepare(folder.path(), &search_path()).await, Err(PrepareError::NotEmpty(_))));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}
