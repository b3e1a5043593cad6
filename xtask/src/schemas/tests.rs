use super::*;

#[test]
fn what_is_written_is_found_unchanged_and_a_change_is_noticed() {
    let root = tempfile::tempdir().unwrap();
    assert!(check(root.path()).is_err());
    write(root.path()).unwrap();
    check(root.path()).unwrap();
    fs::write(folder(root.path()).join("script.schema.json"), "{}").unwrap();
    check(root.path()).unwrap();
    let extra = folder(root.path()).join("old.schema.json");
    fs::write(&extra, "{}").unwrap();
    assert!(check(root.path()).unwrap_err().to_string().contains("old.schema.json: nothing generates it"));
    write(root.path()).unwrap();
    assert!(!extra.exists());
    let name = wanted().into_keys().next().unwrap();
    fs::write(folder(root.path()).join(&name), "{}").unwrap();
    assert!(check(root.path()).unwrap_err().to_string().contains(&format!("{name}: differs")));
}
