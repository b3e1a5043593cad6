use super::*;

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().mode() & 0o7777
}

#[test]
fn the_same_store_is_one_place_however_it_is_reached() {
    let folder = tempfile::tempdir().unwrap();
    let real = std::fs::canonicalize(folder.path()).unwrap();
    let (store, link) = (folder.path().join("a.db"), folder.path().join("b"));
    std::os::unix::fs::symlink(folder.path(), &link).unwrap();
    let before = Place::of(&store);
    std::fs::write(&store, "").unwrap();
    for path in [store.clone(), link.join("a.db"), folder.path().join("./b/./a.db")] {
        assert_eq!(Place::of(&path), before, "{}", path.display());
    }
    assert_eq!(before.lock_file(), real.join("a.db-node"));
}

#[test]
fn a_socket_stands_where_only_its_owner_can_look() {
    let folder = tempfile::tempdir().unwrap();
    let place = Place::of(&folder.path().join("a.db"));
    let beside = Sockets::default().choose(&place).unwrap();
    let ours = place.store().parent().unwrap().join(".hookwright/node");
    assert_eq!(beside.parent().unwrap(), ours);
    assert_eq!(mode(&ours), 0o700);
    let runtime = folder.path().join("run");
    std::fs::create_dir(&runtime).unwrap();
    let wide = runtime.join("hookwright");
    std::fs::create_dir(&wide).unwrap();
    std::fs::set_permissions(&wide, std::fs::Permissions::from_mode(0o777)).unwrap();
    let sockets = Sockets { runtime_dir: Some(runtime.clone()), ..Sockets::default() };
    assert_eq!(sockets.choose(&place).unwrap().parent().unwrap(), wide);
    assert_eq!(mode(&wide), 0o700);
    let other = sockets.choose(&Place::of(&folder.path().join("b.db"))).unwrap();
    assert_ne!(other, sockets.choose(&place).unwrap());
    // One that is not there is not made: it belongs to the system.
    let gone = Sockets { runtime_dir: Some(folder.path().join("gone")), ..Sockets::default() };
    assert_eq!(gone.choose(&place).unwrap(), beside);
}

#[test]
fn a_path_that_is_too_long_for_a_socket_gives_way_to_a_shorter_one() {
    let folder = tempfile::tempdir().unwrap();
    let deep = folder.path().join("d".repeat(90));
    std::fs::create_dir(&deep).unwrap();
    let place = Place::of(&deep.join("a.db"));
    let temporary = folder.path().join("t");
    let sockets = Sockets { temporary: Some(temporary.clone()), ..Sockets::default() };
    let socket = sockets.choose(&place).unwrap();
    assert!(socket.starts_with(&temporary), "{}", socket.display());
    assert_eq!(mode(socket.parent().unwrap()), 0o700);
    let named = Sockets { named: Some(deep.join("n.sock")), ..Sockets::default() };
    assert!(named.choose(&place).unwrap_err().to_string().contains("longer than"));
}

#[test]
fn a_named_socket_in_a_folder_that_others_may_write_to_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let place = Place::of(&folder.path().join("a.db"));
    let wide = folder.path().join("wide");
    std::fs::create_dir(&wide).unwrap();
    std::fs::set_permissions(&wide, std::fs::Permissions::from_mode(0o777)).unwrap();
    let sockets = Sockets { named: Some(wide.join("n.sock")), ..Sockets::default() };
    assert!(sockets.choose(&place).unwrap_err().to_string().contains("other users may write"));
    // As /tmp is: nobody else can take it away.
    std::fs::set_permissions(&wide, std::fs::Permissions::from_mode(0o1777)).unwrap();
    assert_eq!(sockets.choose(&place).unwrap(), wide.join("n.sock"));
    let new = Sockets { named: Some(folder.path().join("x/y/n.sock")), ..Sockets::default() };
    assert_eq!(mode(new.choose(&place).unwrap().parent().unwrap()), 0o700);
}
