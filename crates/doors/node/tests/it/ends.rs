//! How a node begins and ends.

use crate::support::{PATIENCE, World, under_way};
use hookwright_node::client::{self, ClientError};
use hookwright_node::{About, Claim, Ended, Options, Sockets, claim};
use serde_json::json;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

#[tokio::test]
async fn a_second_node_finds_the_first() {
    let world = World::start(Options::default());
    let found = world.client(|place| claim(place, PATIENCE)).await.unwrap();
    assert!(matches!(found, Claim::Theirs(running) if running.pid == std::process::id()));
}

#[tokio::test]
async fn the_socket_of_a_dead_node_is_replaced_by_the_holder_of_the_lock() {
    let folder = tempfile::tempdir().unwrap();
    let place = hookwright_node::Place::of(&folder.path().join("a.db"));
    let socket = place.store().parent().unwrap().join("n.sock");
    let sockets = Sockets { named: Some(socket.clone()), ..Sockets::default() };
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    assert!(socket.exists(), "a stale one");
    let Claim::Ours(claimed) = claim(&place, PATIENCE).unwrap() else { panic!() };
    let node = claimed.listen(sockets.clone(), About::default()).unwrap();
    assert!(std::os::unix::net::UnixStream::connect(&socket).is_ok());
    drop(node);
    assert!(!socket.exists(), "it takes away what it made");
    // A file that is no socket is nobody's to remove.
    std::fs::write(&socket, "mine").unwrap();
    let Claim::Ours(claimed) = claim(&place, PATIENCE).unwrap() else { panic!() };
    assert!(claimed.listen(sockets.clone(), About::default()).is_err());
    assert_eq!(std::fs::read_to_string(&socket).unwrap(), "mine");
    std::fs::remove_file(&socket).unwrap();
    // One that answers is another node's.
    let _other = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let Claim::Ours(claimed) = claim(&place, PATIENCE).unwrap() else { panic!() };
    assert!(claimed.listen(sockets.clone(), About::default()).err().unwrap().contains("another process listens"));
    assert!(std::os::unix::net::UnixStream::connect(&socket).is_ok());
}

#[tokio::test]
async fn a_socket_that_is_cleaned_away_with_its_folder_is_made_again() {
    let world = World::start(Options::default());
    std::fs::remove_dir_all(world.socket.parent().unwrap()).unwrap();
    assert!(world.client(|place| client::hello(place, PATIENCE)).await.is_err());
    let start = Instant::now();
    while world.client(|place| client::ask(place, "echo", json!(1), PATIENCE)).await.is_err() {
        assert!(start.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // Another one's is not taken away.
    std::fs::remove_file(&world.socket).unwrap();
    let _other = std::os::unix::net::UnixListener::bind(&world.socket).unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(std::os::unix::net::UnixStream::connect(&world.socket).is_ok());
    world.told.cancel();
    assert_eq!(world.serving.await.unwrap(), Ended::Told);
    assert!(world.socket.exists(), "what is not its own stays");
}

#[tokio::test]
async fn stop_ends_the_node_and_lets_go_what_hangs() {
    let world = World::start(Options { grace: Duration::from_millis(300), ..Options::default() });
    let place = world.place.clone();
    let hanging = tokio::task::spawn_blocking(move || client::ask(&place, "echo", json!("hang"), PATIENCE));
    world.until("it is asked", |echo| under_way(echo) == 1).await;
    world.client(|place| client::stop(place, PATIENCE)).await.unwrap();
    let hung = hanging.await.unwrap();
    assert!(matches!(hung, Err(ClientError::HungUp)), "{hung:?}");
    assert_eq!(world.serving.await.unwrap(), Ended::Asked);
    assert_eq!(under_way(&world.service), 0);
    assert!(!world.socket.exists());
    let place = world.place.clone();
    let after = tokio::task::spawn_blocking(move || client::hello(&place, PATIENCE)).await.unwrap();
    assert!(matches!(&after, Err(error @ ClientError::NoNode) if error.is_unasked()), "{after:?}");
    assert!(matches!(claim(&world.place, PATIENCE).unwrap(), Claim::Ours(_)));
}

#[tokio::test]
async fn who_says_nothing_does_not_hold_the_end_up() {
    let world = World::start(Options { grace: PATIENCE, ..Options::default() });
    let mut held = vec![];
    for _ in 0..5 {
        held.push(tokio::net::UnixStream::connect(&world.socket).await.unwrap());
    }
    let start = Instant::now();
    world.told.cancel();
    assert_eq!(world.serving.await.unwrap(), Ended::Told);
    assert!(start.elapsed() < PATIENCE / 3, "{:?}", start.elapsed());
}

#[tokio::test]
async fn what_is_nearly_done_is_answered_before_the_end() {
    let world = World::start(Options::default());
    let place = world.place.clone();
    let slow = tokio::task::spawn_blocking(move || client::ask(&place, "echo", json!(400), PATIENCE));
    world.until("it is asked", |echo| under_way(echo) == 1).await;
    world.told.cancel();
    assert_eq!(slow.await.unwrap().unwrap(), json!({"echo": 400}));
    assert_eq!(world.serving.await.unwrap(), Ended::Told);
}

#[tokio::test]
async fn an_idle_node_ends_and_one_with_work_or_a_client_does_not() {
    let idle = Duration::from_millis(600);
    let world = World::start(Options { idle: Some(idle), ..Options::default() });
    let place = world.place.clone();
    let long = tokio::task::spawn_blocking(move || client::ask(&place, "echo", json!(1_500), PATIENCE));
    assert!(long.await.unwrap().is_ok(), "longer than the idle time");
    world.service.busy.store(true, Ordering::SeqCst);
    tokio::time::sleep(idle * 2).await;
    assert!(!world.serving.is_finished());
    let status = world.client(|place| client::status(place, PATIENCE)).await.unwrap();
    assert_eq!((&status["node"]["idle_ms"], &status["node"]["idle_left_ms"]), (&json!(600), &json!(null)));
    world.service.busy.store(false, Ordering::SeqCst);
    let start = Instant::now();
    // To be looked at is no work.
    let place = world.place.clone();
    let looking = tokio::task::spawn_blocking(move || {
        while client::status(&place, PATIENCE).is_ok() {
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    assert_eq!(world.serving.await.unwrap(), Ended::Idle);
    assert!(start.elapsed() >= idle / 2, "{:?}", start.elapsed());
    looking.await.unwrap();
}
