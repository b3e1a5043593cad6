//! What clients of ill will, or broken ones, can do: nothing to others.

use crate::support::{PATIENCE, World, under_way};
use hookwright_node::client::{self, ClientError};
use hookwright_node::{LINE_BYTES, Options};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

/// The first line that comes back, as JSON; null where the connection just ends.
async fn answer(world: &World, bytes: &[u8]) -> Value {
    let mut stream = UnixStream::connect(&world.socket).await.unwrap();
    // It may be closed while this is written.
    let _ = stream.write_all(bytes).await;
    if !bytes.ends_with(b"\n") {
        let _ = stream.shutdown().await;
    }
    let mut all = vec![];
    let mut chunk = [0; 4096];
    while !all.contains(&b'\n') {
        match tokio::time::timeout(PATIENCE, stream.read(&mut chunk)).await.unwrap() {
            Ok(n) if n > 0 => all.extend_from_slice(&chunk[..n]),
            _ => return Value::Null,
        }
    }
    serde_json::from_slice(&all[..all.iter().position(|b| *b == b'\n').unwrap()]).unwrap()
}

async fn still_answers(world: &World) {
    let asked = world.client(|place| client::ask(place, "echo", json!(1), PATIENCE)).await;
    assert_eq!(asked.unwrap(), json!({"echo": 1}));
}

#[tokio::test]
async fn what_is_no_request_is_refused_and_costs_nobody_else() {
    let world = World::start(Options::default());
    for line in [
        &b"GET / HTTP/1.1\r\n"[..],
        b"\xff\xfe\n",
        b"{}\n",
        b"null\n",
        b"\n",
        b"{\"v\":1,\"id\":1,\"do\":\"\\u001b[2J\"}\n",
    ] {
        let answer = answer(&world, line).await;
        let text = answer.to_string();
        assert!(answer["error"]["type"].is_string() && !text.contains('\u{1b}') && !text.contains("\\u001b"), "{text}");
    }
    assert!(
        answer(&world, b"{\"v\":1,\"id\":1,\"do\":\"st").await.is_null(),
        "half a line, then the end, is no request"
    );
    still_answers(&world).await;
}

#[tokio::test]
async fn a_line_without_an_end_is_cut_off() {
    let world = World::start(Options::default());
    let endless = vec![b'x'; LINE_BYTES + 1024];
    let answer = answer(&world, &endless).await;
    assert!(answer.is_null() || answer["error"]["type"] == "malformed", "{answer}");
    still_answers(&world).await;
}

#[tokio::test]
async fn long_lines_that_are_not_ended_do_not_keep_short_ones_out() {
    let world = World::start(Options::default());
    let mut streams = vec![];
    for _ in 0..12 {
        let mut stream = UnixStream::connect(&world.socket).await.unwrap();
        let half = vec![b'x'; 600 * 1024];
        // More of them than there are places: some are not read on.
        let _ = tokio::time::timeout(Duration::from_millis(200), stream.write_all(&half)).await;
        streams.push(stream);
    }
    still_answers(&world).await;
}

#[tokio::test]
async fn more_clients_than_may_be_are_turned_away_and_told() {
    let world = World::start(Options { clients: 3, ..Options::default() });
    let mut held = vec![];
    for _ in 0..3 {
        held.push(UnixStream::connect(&world.socket).await.unwrap());
    }
    let refused = world.client(|place| client::ask(place, "echo", json!(1), PATIENCE)).await;
    assert!(matches!(&refused, Err(ClientError::Refused(why)) if why.kind == "busy"), "{refused:?}");
    drop(held);
    let start = std::time::Instant::now();
    while world.client(|place| client::ask(place, "echo", json!(1), PATIENCE)).await.is_err() {
        assert!(start.elapsed() < PATIENCE);
    }
}

#[tokio::test]
async fn too_much_at_once_of_one_connection_is_refused() {
    let world = World::start(Options::default());
    let mut stream = UnixStream::connect(&world.socket).await.unwrap();
    for id in 0..80 {
        let line = format!("{{\"v\":1,\"id\":{id},\"do\":\"ask\",\"door\":\"echo\",\"with\":\"hang\"}}\n");
        stream.write_all(line.as_bytes()).await.unwrap();
    }
    let mut text = vec![0; 512];
    let n = stream.read(&mut text).await.unwrap();
    assert!(String::from_utf8_lossy(&text[..n]).contains("\"busy\""));
    world.until("no more are begun", |echo| under_way(echo) == 64).await;
    drop(stream);
    world.until("all are dropped", |echo| under_way(echo) == 0).await;
}

#[tokio::test]
async fn a_fault_in_a_door_ends_its_connection_alone() {
    let world = World::start(Options::default());
    let asked = world.client(|place| client::ask(place, "echo", json!("panic"), PATIENCE)).await;
    assert!(matches!(asked, Err(ClientError::HungUp)), "{asked:?}");
    still_answers(&world).await;
}

/// Another user can't look into the socket's folder, and where the folder lets everybody in and somebody opened the socket to all, the node
/// does not answer. Only where the tests run as a user that may become another one.
#[tokio::test(flavor = "multi_thread")]
async fn another_user_is_not_answered() {
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::process::CommandExt as _;
    if !rustix::process::getuid().is_root() {
        return;
    }
    let world = World::start(Options::default());
    let script = "import socket,sys; s=socket.socket(socket.AF_UNIX); s.settimeout(30); s.connect(sys.argv[1]); \
        s.sendall(b'{\"v\":1,\"id\":1,\"do\":\"hello\"}\\n'); print(s.recv(4096))";
    let other = |uid: u32| {
        let mut command = std::process::Command::new("python3");
        command.args(["-c", script]).arg(&world.socket).uid(uid).gid(uid).current_dir("/");
        let done = command.output().unwrap();
        (done.status.success(), String::from_utf8_lossy(&done.stdout).into_owned())
    };
    assert!(other(0).1.contains("pid"));
    assert!(!other(65_534).0, "it can't even connect");
    let open =
        |path: &std::path::Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    open(&world.socket, 0o666);
    for folder in world.socket.ancestors().skip(1).take(3) {
        open(folder, 0o755);
    }
    let (connected, said) = other(65_534);
    assert!(!said.contains("pid") && (!connected || said.trim() == "b''"), "{said}");
    still_answers(&world).await;
}
