//! What clients of good will get.

use crate::support::{PATIENCE, World, under_way};
use hookwright_node::Options;
use hookwright_node::client::{self, ClientError, Connection};
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::sync::atomic::Ordering;
use std::time::Duration;

#[tokio::test]
async fn a_client_asks_and_gets_its_answer() {
    let world = World::start(Options::default());
    let answer = world.client(|place| client::ask(place, "echo", json!({"a": [1, "é"]}), PATIENCE)).await.unwrap();
    assert_eq!(answer, json!({"echo": {"a": [1, "é"]}}));
    let hello = world.client(|place| client::hello(place, PATIENCE)).await.unwrap();
    assert_eq!((hello.pid, &*hello.version, hello.stopping), (std::process::id(), "1.2.3", false));
    assert_eq!(hello.store, world.place.store().to_string_lossy());
    let status = world.client(|place| client::status(place, PATIENCE)).await.unwrap();
    assert_eq!((&status["more"], &status["node"]["protocol"]), (&json!(1), &json!(1)));
    let refused = world.client(|place| client::ask(place, "bridge", Value::Null, PATIENCE)).await.unwrap_err();
    assert!(matches!(&refused, ClientError::Refused(why) if why.kind == "unknown"), "{refused}");
    assert!(!refused.is_unasked());
}

#[tokio::test]
async fn the_socket_and_its_folder_are_their_owners_alone() {
    let world = World::start(Options::default());
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&world.socket), 0o600);
    assert_eq!(mode(world.socket.parent().unwrap()), 0o700);
    assert_eq!(mode(&world.place.lock_file()), 0o600);
}

#[tokio::test]
async fn several_requests_of_one_connection_are_in_work_at_once_and_answered_by_id() {
    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _};
    let world = World::start(Options::default());
    let stream = tokio::net::UnixStream::connect(&world.socket).await.unwrap();
    let (reader, mut writer) = stream.into_split();
    let slow = "{\"v\":1,\"id\":1,\"do\":\"ask\",\"door\":\"echo\",\"with\":2000}\n";
    writer.write_all(slow.as_bytes()).await.unwrap();
    writer.write_all(b"{\"v\":1,\"id\":2,\"do\":\"ask\",\"door\":\"echo\",\"with\":0}\n").await.unwrap();
    let mut lines = tokio::io::BufReader::new(reader).lines();
    let mut ids = vec![];
    for _ in 0..2 {
        let line: Value = serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap();
        assert!(line["ok"].is_object(), "{line}");
        ids.push(line["id"].as_u64().unwrap());
    }
    assert_eq!(ids, [2, 1]);
}

#[tokio::test]
async fn what_is_done_for_a_client_that_hangs_up_is_dropped() {
    let world = World::start(Options::default());
    let asked = world.client(|place| client::ask(place, "echo", json!("hang"), Duration::from_millis(300))).await;
    assert!(matches!(asked, Err(ClientError::TimedOut)), "{asked:?}");
    world.until("the service is told", |echo| echo.dropped.load(Ordering::SeqCst) == 1 && under_way(echo) == 0).await;
}

#[tokio::test]
async fn an_ask_as_long_as_a_line_may_be_gets_through_and_a_longer_one_is_not_sent() {
    let world = World::start(Options::default());
    let long = "x".repeat(31 * 1024 * 1024);
    let sent = long.clone();
    let answer = world.client(|place| client::ask(place, "echo", Value::String(sent), PATIENCE)).await.unwrap();
    assert_eq!(answer["echo"].as_str().map(str::len), Some(long.len()));
    let longer = "x".repeat(33 * 1024 * 1024);
    let refused = world.client(|place| client::ask(place, "echo", Value::String(longer), PATIENCE)).await;
    assert!(matches!(refused, Err(ClientError::TooLarge)), "{refused:?}");
}

#[tokio::test]
async fn a_door_takes_a_connection_over_with_what_was_sent_already() {
    let world = World::start(Options::default());
    let talk = |place: &hookwright_node::Place| {
        let connection = Connection::open(place, PATIENCE)?;
        let mut attached = connection.attach("echo", json!("mcp"))?;
        attached.stream.write_all(b"hello\n").unwrap();
        let mut text = attached.early.clone();
        while text.len() < 6 {
            let mut more = [0; 6];
            let n = attached.stream.read(&mut more).unwrap();
            text.extend_from_slice(&more[..n]);
        }
        Ok::<_, ClientError>((attached.words, text))
    };
    let (words, text) = world.client(talk).await.unwrap();
    assert_eq!((words, &*text), (json!({"welcome": "mcp"}), &b"HELLO\n"[..]));
    // Bytes in the same write as the request.
    let socket = world.socket.clone();
    let early = world.client(move |_| {
        let mut stream = std::os::unix::net::UnixStream::connect(socket).unwrap();
        stream.write_all(b"{\"v\":1,\"id\":1,\"do\":\"attach\",\"door\":\"echo\"}\nabc").unwrap();
        let mut all = String::new();
        while !all.ends_with("ABC") {
            let mut more = [0; 256];
            let n = stream.read(&mut more).unwrap();
            all.push_str(std::str::from_utf8(&more[..n]).unwrap());
        }
        all
    });
    assert!(early.await.contains("welcome"));
    let refused = world.client(|place| Connection::open(place, PATIENCE)?.attach("other", json!(1)).map(|_| ())).await;
    assert!(matches!(&refused, Err(ClientError::Refused(why)) if why.kind == "unknown"), "{refused:?}");
}

#[tokio::test]
async fn a_request_that_means_another_store_is_refused() {
    let world = World::start(Options::default());
    // As if the other store's lock named this node's socket.
    let other = hookwright_node::Place::of(&world.place.store().with_file_name("b.db"));
    std::fs::copy(world.place.lock_file(), other.lock_file()).unwrap();
    let asked = world.client(move |_| client::ask(&other, "echo", json!(1), PATIENCE)).await;
    assert!(matches!(&asked, Err(ClientError::Refused(why)) if why.kind == "store"), "{asked:?}");
    assert_eq!(under_way(&world.service), 0);
}
