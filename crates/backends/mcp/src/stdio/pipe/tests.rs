use super::*;
use crate::link::Ask;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::AsyncReadExt;

fn config() -> HostConfig {
    HostConfig { stall_limit: Duration::from_hours(1), ..HostConfig::default() }
}

/// A way to a child that we play.
fn way(config: HostConfig) -> (Arc<Pipe>, pipe::Receiver) {
    let (stdin, child) = pipe::pipe().unwrap();
    let way = Pipe::new(stdin, Arc::new(config));
    tokio::spawn(Arc::clone(&way).write());
    (way, child)
}

fn call(way: &Arc<Pipe>, bytes: usize, timeout: Duration) -> tokio::task::JoinHandle<Reply> {
    let way = Arc::clone(way);
    tokio::spawn(async move { way.request(Ask::new("tools/call", timeout), &json!({"x": "x".repeat(bytes)})).await })
}

async fn lines(child: &mut pipe::Receiver, count: usize) -> Vec<Value> {
    let mut bytes = Vec::new();
    let mut got = Vec::new();
    while got.len() < count {
        assert_ne!(child.read_buf(&mut bytes).await.unwrap(), 0);
        while let Some(at) = bytes.iter().position(|b| *b == b'\n') {
            let line: Vec<u8> = bytes.drain(..=at).collect();
            got.push(serde_json::from_slice(&line).unwrap());
        }
    }
    got
}

async fn settled(way: &Pipe, in_flight: usize) {
    for _ in 0..1_000 {
        if way.gauges().0 == in_flight {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("{:?} requests are in flight, not {in_flight}", way.gauges());
}

const LONG: Duration = Duration::from_mins(1);
const SHORT: Duration = Duration::from_millis(200);

#[tokio::test]
async fn what_was_not_begun_is_taken_back_and_what_was_begun_is_written_to_its_end() {
    let (way, mut child) = way(config());
    // The first fills the pipe and is begun; the second waits behind it.
    let begun = call(&way, 500_000, SHORT);
    settled(&way, 1).await;
    let waiting = call(&way, 10, SHORT);
    assert!(matches!(waiting.await.unwrap(), Reply::NotSent { .. }));
    assert!(matches!(begun.await.unwrap(), Reply::TimedOut { .. }));
    let third = call(&way, 10, LONG);
    settled(&way, 1).await;
    let got = lines(&mut child, 3).await;
    assert_eq!(got[0]["params"]["x"].as_str().map(str::len), Some(500_000));
    assert_eq!((&got[1]["method"], &got[1]["params"]["requestId"]), (&json!("notifications/cancelled"), &got[0]["id"]));
    assert_eq!(got[2]["params"]["x"], "x".repeat(10));
    way.deliver(got[2]["id"].as_u64().unwrap(), Reply::Result { value: json!(1), duplicate_key: false });
    assert!(matches!(third.await.unwrap(), Reply::Result { .. }));
}

#[tokio::test]
async fn a_death_tells_begun_requests_from_those_that_were_not() {
    let (way, _child) = way(config());
    let whole = call(&way, 10, LONG);
    settled(&way, 1).await;
    let begun = call(&way, 500_000, LONG);
    settled(&way, 2).await;
    let waiting = call(&way, 10, LONG);
    settled(&way, 3).await;
    way.die("it died".into());
    assert!(matches!(whole.await.unwrap(), Reply::Lost { why } if why == "it died"));
    assert!(matches!(begun.await.unwrap(), Reply::Lost { .. }));
    assert!(matches!(waiting.await.unwrap(), Reply::NotSent { why } if why == "it died"));
    assert!(matches!(call(&way, 1, LONG).await.unwrap(), Reply::NotSent { why } if why == "it died"));
    assert!(!way.was_all_read());
    assert_eq!(way.gauges(), (0, 0, 0));
}

#[tokio::test]
async fn a_closed_stdin_means_not_sent() {
    let (way, child) = way(config());
    drop(child);
    let reply = call(&way, 10, LONG);
    way.broken().cancelled().await;
    way.die(way.why());
    assert!(matches!(reply.await.unwrap(), Reply::NotSent { why } if why.contains("closed its stdin")));
}

#[tokio::test]
async fn a_full_queue_holds_callers_back_and_bytes_stay_bounded() {
    let config = HostConfig { queued_bytes: 100_000, max_in_flight: 1_000, ..config() };
    let (way, _child) = way(config);
    let calls: Vec<_> = (0..300).map(|_| call(&way, 20_000, SHORT)).collect();
    let mut most = 0;
    for _ in 0..20 {
        most = most.max(way.gauges().1);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(most > 0 && most <= 100_000 + 21_000, "{most} bytes were queued");
    for call in calls {
        assert!(matches!(call.await.unwrap(), Reply::NotSent { .. } | Reply::TimedOut { .. }));
    }
    assert!(way.gauges().1 <= 21_000, "only what was begun is left, not {:?}", way.gauges());
}

#[tokio::test]
async fn a_caller_that_goes_away_is_told_to_the_server() {
    let (way, mut child) = way(config());
    let gone = call(&way, 10, LONG);
    settled(&way, 1).await;
    gone.abort();
    let got = lines(&mut child, 2).await;
    assert_eq!((&got[1]["method"], &got[1]["params"]["requestId"]), (&json!("notifications/cancelled"), &got[0]["id"]));
    assert_eq!(way.gauges(), (0, 0, 0));
}

#[tokio::test]
async fn initialize_is_never_cancelled() {
    let (way, mut child) = way(config());
    let reply = way.request(Ask::new("initialize", SHORT), &json!({})).await;
    assert!(matches!(reply, Reply::TimedOut { .. }));
    way.control(b"{\"last\":1}".to_vec());
    assert_eq!(lines(&mut child, 2).await[1], json!({"last": 1}));
}

#[tokio::test]
async fn a_late_answer_is_told_once_and_not_waited_for_without_end() {
    let (way, mut child) = way(HostConfig { late_window: Duration::from_secs(1), ..config() });
    let answer = || Reply::Result { value: json!(1), duplicate_key: false };
    let Reply::TimedOut { late } = call(&way, 1, SHORT).await.unwrap() else { panic!() };
    let id = lines(&mut child, 1).await[0]["id"].as_u64().unwrap();
    assert_eq!(way.expects(id), Expected::Late);
    assert_eq!(way.deliver(id, answer()), Expected::Late);
    assert!(late.await.unwrap().after_ms >= 200);
    assert_eq!(way.deliver(id, answer()), Expected::Nobody);
    let Reply::TimedOut { late } = call(&way, 1, SHORT).await.unwrap() else { panic!() };
    assert!(late.await.is_err(), "after the window nobody waits");
    assert_eq!(way.gauges().2, 0);
}

#[tokio::test]
async fn a_child_that_reads_nothing_for_too_long_is_given_up() {
    let (way, _child) = way(HostConfig { stall_limit: SHORT, ..config() });
    let stuck = call(&way, 500_000, LONG);
    way.broken().cancelled().await;
    assert!(way.why().contains("read nothing"), "{}", way.why());
    way.die(way.why());
    assert!(matches!(stuck.await.unwrap(), Reply::Lost { .. }));
}

#[tokio::test]
async fn notifications_to_a_child_that_reads_nothing_are_bounded() {
    let (way, _child) = way(config());
    let _stuck = call(&way, 500_000, LONG);
    settled(&way, 1).await;
    let before = way.gauges().1;
    for _ in 0..10_000 {
        way.control(vec![b' '; 100]);
    }
    assert!(way.gauges().1 - before <= 256 * 101);
}

#[tokio::test]
async fn calls_beyond_the_limit_wait_within_their_time() {
    let (way, mut child) = way(HostConfig { max_in_flight: 1, ..config() });
    let first = call(&way, 1, LONG);
    settled(&way, 1).await;
    assert!(matches!(call(&way, 1, SHORT).await.unwrap(), Reply::NotSent { why } if why.contains("1 calls in work")));
    let second = call(&way, 1, LONG);
    let id = lines(&mut child, 1).await[0]["id"].as_u64().unwrap();
    way.deliver(id, Reply::Error { code: 1, message: String::new(), data: None });
    assert!(matches!(first.await.unwrap(), Reply::Error { .. }));
    assert_eq!(lines(&mut child, 1).await.len(), 1, "the next one goes out");
    second.abort();
}
