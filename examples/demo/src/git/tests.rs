use super::*;

#[test]
fn plain_names_pass_and_all_else_is_refused() {
    for name in ["main", "feature/hello-1", "v1.2", "a_b"] {
        assert_eq!(plain_name(name).unwrap(), name);
    }
    for name in [
        "",
        "-f",
        "--force",
        "a/-b",
        "refs/heads/main",
        "HEAD",
        "HEAD:main",
        "+main",
        "a:b",
        "main^",
        "a..b",
        "../x",
        "a//b",
        "/a",
        "a/",
        ".git",
        "a.lock",
        "a.",
        "https://x.example/y",
        "ext::sh -c id",
        "a b",
        "a\nb",
        "ä",
        "main\0",
        "@{-1}",
        "~",
        "a*",
    ] {
        assert!(plain_name(name).is_err(), "{name:?}");
    }
    assert!(plain_name(&"a".repeat(101)).is_err());
}

#[tokio::test]
async fn a_folder_within_another_repository_is_not_taken_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let search_path = crate::prepare::tests::search_path();
    let outer = crate::prepare(folder.path().join("outer").as_path(), &search_path).await.unwrap();
    let inner = outer.work.join("inner");
    std::fs::create_dir(&inner).unwrap();
    let error = Repository::new(inner, search_path).run(&["status"]).await.unwrap_err();
    assert!(matches!(error, GitError::NoRepository(_)));
}

#[tokio::test]
async fn hooks_of_the_repository_are_not_run() {
    let folder = tempfile::tempdir().unwrap();
    let search_path = crate::prepare::tests::search_path();
    let made = crate::prepare(folder.path().join("demo").as_path(), &search_path).await.unwrap();
    let hooks = made.work.join(".git/hooks");
    std::fs::create_dir_all(&hooks).unwrap();
    std::fs::write(hooks.join("pre-commit"), "#!/bin/sh\nexit 1\n").unwrap();
    #[cfg(unix)]
    std::fs::set_permissions(hooks.join("pre-commit"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    Repository::new(made.work, search_path).run(&["commit", "--allow-empty", "-m", "x"]).await.unwrap();
}

#[tokio::test]
async fn output_is_bounded_and_says_so() {
    let text = read(Some(&vec![b'x'; 100_000][..])).await;
    assert!(text.len() < 33_000 && text.ends_with("[… 67232 more bytes left out]"));
}

#[tokio::test]
async fn a_missing_git_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let error = Repository::new(folder.path().to_owned(), folder.path())
        .run_outside(folder.path(), &["version"])
        .await
        .unwrap_err();
    assert!(error.to_string().contains("is it installed"), "{error}");
}
