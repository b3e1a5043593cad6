//! Clients that break the rules harm nobody but themselves.

use super::client::Client;
use super::{allowed, echo};
use crate::support::{eventually, function};
use serde_json::json;

#[test]
fn what_is_no_message_is_answered_with_an_error_and_the_next_one_is_read() {
    let world = allowed(echo());
    let mut client = Client::start(&world, &[]);
    for bad in [
        &b"{"[..],
        b"not json",
        b"[]",
        b"\xff\xfe",
        b"{\"jsonrpc\":\"2.0\"}",
        b"{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"ping\"}",
        b"{\"jsonrpc\":\"1.0\",\"id\":901,\"method\":\"ping\"}",
        b"null",
        b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]",
    ] {
        client.raw(bad);
        client.raw(b"\n");
        let answer = client.until("an error", |m| m.get("error").is_some());
        assert!(answer["error"]["code"].as_i64().unwrap() <= -32_600, "{answer}");
    }
    client.hello("2025-06-18", json!({}));
    assert_eq!(client.call("work.echo", json!({"a": 1}))["structuredContent"], json!({"a": 1}));
    assert_eq!(client.error("initialize", json!({"protocolVersion": "2025-06-18"})).0, -32_600);
    for params in [json!([1]), json!({"name": 7}), json!({}), json!("x")] {
        assert_eq!(client.error("tools/call", params).0, -32_602);
    }
    assert_eq!(client.error("tools/list", json!({"cursor": "nonsense"})).0, -32_602);
    // Answers to nothing, and cancels of nothing.
    client.message(&json!({"jsonrpc": "2.0", "id": 99, "result": {}}));
    client.notify("notifications/cancelled", json!({"requestId": 4242}));
    client.notify("notifications/cancelled", json!({}));
    client.notify("notifications/invented", json!({}));
    client.request("ping", json!({}));
    client.close().code(0);
}

#[test]
fn a_message_over_the_limit_is_passed_over_and_a_large_one_is_taken() {
    let world = allowed(json!([function("size", json!({"text": "taken"}))]));
    let mut client = Client::new(&world, &[]);
    let large = "x".repeat(900_000);
    assert_eq!(client.call("work.size", json!({ "a": large }))["content"][0]["text"], "taken");
    client.raw(
        format!("{{\"jsonrpc\":\"2.0\",\"id\":500,\"method\":\"ping\",\"x\":\"{}\"}}\n", "y".repeat(17 << 20))
            .as_bytes(),
    );
    let answer = client.until("the error", |m| m.get("error").is_some());
    assert!(answer["error"]["message"].as_str().unwrap().contains("over the limit"), "{answer}");
    assert_eq!(client.call("work.size", json!({}))["content"][0]["text"], "taken");
}

#[test]
fn arguments_that_are_too_large_for_an_event_are_not_let_through_unseen() {
    let world = allowed(echo());
    let mut client = Client::new(&world, &[]);
    let result = client.call("work.echo", json!({ "a": "x".repeat(1 << 20) }));
    assert!(result["content"][0]["text"].as_str().unwrap().contains("event too large"), "{result}");
    assert!(world.calls("work").is_empty());
}

#[test]
fn a_request_under_an_id_that_is_under_way_is_refused() {
    let world = allowed(json!([function("slow", json!([{"await_cancel": true}, {"text": "x"}]))]));
    let mut client = Client::new(&world, &[]);
    let call = json!({"jsonrpc": "2.0", "id": 300, "method": "tools/call", "params": {"name": "work.slow"}});
    client.message(&call);
    eventually("the call is made", || (!world.calls("work").is_empty()).then_some(()));
    client.message(&call);
    let answer = client.answer(300);
    assert_eq!(answer["error"]["code"], -32_600, "{answer}");
    assert_eq!(world.calls("work").len(), 1);
}

#[test]
fn a_flood_is_answered_in_bounded_memory_and_others_go_on() {
    let world = allowed(json!([function("slow", json!([{"sleep_ms": 500}, {"text": "x"}]))]));
    let mut client = Client::new(&world, &[]);
    for _ in 0..2_000 {
        client.begin("work.slow", json!({}));
    }
    let ids: Vec<i64> = (0..2_000).map(|n| n + 2).collect();
    let mut refused = 0;
    for id in ids {
        let answer = client.answer(id);
        refused += usize::from(answer.get("error").is_some() || answer["result"]["isError"] == true);
    }
    assert!(refused > 1_000, "{refused}");
    assert_eq!(client.call("work.slow", json!({}))["content"][0]["text"], "x");
}

#[test]
fn a_client_that_reads_nothing_is_not_read_on_and_its_going_ends_the_gateway() {
    use std::io::Write as _;
    use std::process::Stdio;
    let world = allowed(echo());
    let mut command = world.hookwright(&["gateway", "--db", "jobs.db", "--plugin", "p"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || {
        let ping = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n".repeat(100);
        // Until the gateway reads no more, or is gone.
        (0..20_000).take_while(|_| stdin.write_all(&ping).is_ok()).count()
    });
    std::thread::sleep(std::time::Duration::from_secs(3));
    assert!(!writer.is_finished(), "it read on although nothing was taken from it");
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let kib: u64 =
        status.lines().find_map(|l| l.strip_prefix("VmRSS:")).unwrap().trim().trim_end_matches(" kB").parse().unwrap();
    assert!(kib < 200 * 1_024, "{kib} KiB");
    drop(child.stdout.take());
    eventually("it ends", || child.try_wait().unwrap());
    writer.join().unwrap();
}
