//! The node's socket: whose it is, what is left of a dead node's, and what a hostile client gets.

use super::{serve, socket, status, stop};
use crate::support::{World, eventually};
use rustix::process::Signal;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;

fn mode(path: &std::path::Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn the_socket_of_a_killed_node_is_replaced_and_its_permissions_are_its_owners() {
    let world = World::new();
    let node = serve(&world, &[]);
    let first = socket(&world);
    assert_eq!((mode(&first), mode(first.parent().unwrap())), (0o600, 0o700));
    assert_eq!(mode(&world.path("jobs.db-node")), 0o600);
    node.signal(Signal::KILL);
    node.finish();
    assert!(first.exists(), "nobody was left to take it away");
    world.call(&["status", "--db", "jobs.db"]).code(1);
    let node = serve(&world, &[]);
    assert_eq!(socket(&world), first);
    stop(&world);
    node.finish().code(0);
    assert!(!first.exists());
}

#[test]
fn a_client_that_floods_or_says_nonsense_harms_nobody() {
    let world = World::new();
    let node = serve(&world, &[]);
    let path = socket(&world);
    let mut held = vec![];
    for bytes in [&b"\x1b[2J\n"[..], b"{\"v\":1", b"", &vec![b'['; 100_000]] {
        let mut stream = UnixStream::connect(&path).unwrap();
        let _ = stream.write_all(bytes);
        held.push(stream);
    }
    // More than may be connected: the rest is turned away.
    held.extend((0..300).map_while(|_| UnixStream::connect(&path).ok()));
    let mut refused = String::new();
    eventually("one is told no", || {
        let mut stream = UnixStream::connect(&path).unwrap();
        refused.clear();
        stream.read_to_string(&mut refused).unwrap();
        refused.contains("busy").then_some(())
    });
    drop(held);
    let pid = node.pid();
    eventually("the node answers again", || (status(&world)["node"]["pid"] == pid).then_some(()));
    stop(&world);
    let done = node.finish().code(0);
    assert!(!done.err.contains('\u{1b}'), "{done}");
}
