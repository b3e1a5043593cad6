//! The twelve traps of rmcp's client (docs/decisions/0020): each was seen with it, and none is here.

use crate::common::*;
use hookwright_core::FunctionName;
use hookwright_mcp::HostConfig;
use hookwright_runtime::ports::tools::{CallOutcome, ToolState, Tools};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

#[tokio::test(flavor = "multi_thread")]
async fn trap_01_initialize_asks_for_the_newest_revision_that_has_it() {
    let files = Files::new();
    let host = host(vec![scripted("a", &json!({"log": files.name("log"), "tools": []}))]);
    host.ready("a").await.unwrap();
    let first = &files.log("log")[0];
    assert_eq!((&first["method"], &first["params"]["protocolVersion"]), (&json!("initialize"), &json!("2025-11-25")));
    assert_eq!(status(&host, "a").protocol.as_deref(), Some("2025-11-25"));
}

#[tokio::test(flavor = "multi_thread")]
async fn trap_02_an_old_server_that_exits_on_discover_is_connected_at_once() {
    let started = Instant::now();
    let host = host(vec![scripted("a", &json!({"discover": "exit", "tools": []}))]);
    host.ready("a").await.unwrap();
    assert_eq!(status(&host, "a").starts, 1);
    assert!(started.elapsed() < Duration::from_secs(10), "no silence is waited out");
}

#[tokio::test(flavor = "multi_thread")]
async fn trap_03_a_child_that_stops_reading_defeats_neither_timeout_nor_cancel() {
    let host = with_good(tool("a", &[("stop", json!([{"stop_reading": true}, {"text": "no more"}]))])).await;
    result(&host, "a.stop").await;
    let started = Instant::now();
    let echo = FunctionName::new("a", "echo");
    // The first is begun, the others are not; all end at their own time.
    let begun = host.call(&echo, arguments(300_000), Duration::from_secs(1));
    let others = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let first = host.call(&echo, arguments(10), Duration::from_secs(1));
        let second = host.call(&echo, arguments(300_000), Duration::from_secs(1));
        tokio::join!(first, second)
    };
    let (begun, (first, second), ()) = tokio::join!(begun, others, good_is_unharmed(&host));
    assert!(matches!(begun, CallOutcome::TimedOut { .. }), "{begun:?}");
    assert!(matches!(&first, CallOutcome::NotSent { why } if why.contains("does not read")), "{first:?}");
    assert!(matches!(second, CallOutcome::NotSent { .. }), "{second:?}");
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    // Going away does not wait either.
    let gone = tokio::time::timeout(Duration::from_millis(100), host.call(&echo, arguments(300_000), LONG)).await;
    assert!(gone.is_err());
    good_is_unharmed(&host).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn trap_04_a_server_that_never_answers_initialize_fails_at_its_start_limit() {
    let mut spec =
        scripted("a", &json!({"initialize": "never", "start": [{"stderr": "waiting for a licence\n"}], "tools": []}));
    spec.start_timeout = Duration::from_secs(1);
    let host = host(vec![spec, tool("good", &[])]);
    good_is_ready_meanwhile(&host).await;
    let down = host.ready("a").await.unwrap_err();
    assert!(down.why.contains("not ready within 1s") && down.why.contains("waiting for a licence"), "{}", down.why);
    assert_eq!(status(&host, "a").state, ToolState::Failed);
}

async fn good_is_ready_meanwhile(host: &hookwright_mcp::McpHost) {
    host.ready("good").await.unwrap();
    good_is_unharmed(host).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn trap_05_grandchildren_end_with_their_server() {
    let files = Files::new();
    let script =
        json!({"start": [{"grandchild": files.name("child")}, {"write_pid": files.name("server")}], "tools": []});
    let host = host(vec![scripted("a", &script)]);
    host.ready("a").await.unwrap();
    let (server, grandchild) = (files.pid("server").await, files.pid("child").await);
    assert!(lives(server) && lives(grandchild));
    host.shutdown().await;
    assert!(!lives(server), "the server is gone when shutdown returns");
    until("the grandchild is gone", || !lives(grandchild)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn trap_06_calls_in_flight_fail_at_once_when_the_server_dies() {
    for (end, told) in [
        (json!({"exit": 3}), "exited with status 3"),
        (json!({"abort": true}), "killed by signal 6"),
        (json!({"close_stdout": true}), "closed its stdout"),
    ] {
        let host = with_good(tool(
            "a",
            &[("hang", json!({"hang": true})), ("end", json!([{"stderr": "out of luck\n"}, end]))],
        ))
        .await;
        let hanging = async {
            let why = lost(&host, "a.hang").await;
            (why, Instant::now())
        };
        let ending = async {
            until("the call is in flight", || host.gauges("a").is_some_and(|g| g.in_flight == 1)).await;
            let started = Instant::now();
            lost(&host, "a.end").await;
            started
        };
        let ((why, failed), ended) = tokio::join!(hanging, ending);
        assert!(why.contains(told) && why.contains("out of luck"), "{why}");
        assert!(failed.saturating_duration_since(ended) < Duration::from_secs(3));
        until_again(&host, "a", 2).await;
        good_is_unharmed(&host).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn trap_06_shutdown_of_a_willing_server_does_not_wait_for_limits() {
    let host = host(vec![rmcp("a"), tool("b", &[])]);
    host.ready("a").await.unwrap();
    host.ready("b").await.unwrap();
    let started = Instant::now();
    host.shutdown().await;
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn trap_07_a_flood_on_stderr_hangs_nothing() {
    let host = with_good(tool("a", &[("loud", json!([{"stderr_flood": 5_000_000}, {"text": "done"}]))])).await;
    let (loud, ()) = tokio::join!(result(&host, "a.loud"), good_is_unharmed(&host));
    assert_eq!(loud["content"][0]["text"], "done");
}

#[tokio::test(flavor = "multi_thread")]
async fn trap_08_a_line_over_the_limit_fails_its_call_visibly_and_the_next_one_works() {
    let limit = HostConfig { message_bytes: 1_000_000, ..quick() };
    let functions = [
        ("big", json!({"big_text": 1_100_000})),
        ("fits", json!({"big_text": 900_000})),
        ("hang", json!({"hang": true})),
    ];
    let host = with_good_and(tool("a", &functions), limit).await;
    assert_eq!(result(&host, "a.fits").await["content"][0]["text"].as_str().map(str::len), Some(900_000));
    let hanging = call(&host, "a.hang", json!({}), Duration::from_secs(5));
    let big = async { lost(&host, "a.big").await };
    let (hanging, why, ()) = tokio::join!(hanging, big, good_is_unharmed(&host));
    assert!(why.contains("over the limit of 1000000"), "{why}");
    assert!(matches!(hanging, CallOutcome::TimedOut { .. }), "only the call whose answer it was fails: {hanging:?}");
    assert!(result(&host, "a.echo").await["content"].is_array());
    assert_eq!(status(&host, "a").starts, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn trap_08_16_mib_pass_and_50_mb_do_not() {
    let host =
        with_good(tool("a", &[("big", json!({"big_text": 50_000_000})), ("fits", json!({"big_text": 16_000_000}))]))
            .await;
    assert_eq!(result(&host, "a.fits").await["content"][0]["text"].as_str().map(str::len), Some(16_000_000));
    let (why, ()) = tokio::join!(lost(&host, "a.big"), good_is_unharmed(&host));
    assert!(why.contains("over the limit of 16777216"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn trap_09_lines_that_are_no_json_are_passed_over() {
    let mut script = script(&[("noisy", json!([{"noise": 20}, {"line": ""}, {"text": "done"}, {"noise": 20}]))]);
    script["start"] = json!([{"line": "Starting the server…"}]);
    let host = with_good(scripted("a", &script)).await;
    assert_eq!(result(&host, "a.noisy").await["content"][0]["text"], "done");
    good_is_unharmed(&host).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn trap_10_stuck_calls_are_held_back_in_bounded_memory() {
    let host = with_good(tool("a", &[("stop", json!([{"stop_reading": true}, {"text": "no more"}]))])).await;
    result(&host, "a.stop").await;
    let calls: Vec<_> = (0..5_000)
        .map(|_| {
            let host = std::sync::Arc::clone(&host);
            tokio::spawn(async move {
                host.call(&FunctionName::new("a", "echo"), arguments(20_000), Duration::from_secs(2)).await
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let config = HostConfig::default();
    let gauges = host.gauges("a").unwrap();
    assert!(
        gauges.in_flight <= config.max_in_flight && gauges.queued_bytes <= config.queued_bytes + 32_768,
        "{gauges:?}"
    );
    good_is_unharmed(&host).await;
    let mut not_sent = 0;
    for call in calls {
        match call.await.unwrap() {
            CallOutcome::NotSent { .. } => not_sent += 1,
            CallOutcome::TimedOut { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(not_sent > 4_900, "what can't have left is known: {not_sent}");
}

#[tokio::test(flavor = "multi_thread")]
async fn trap_11_results_come_raw_and_complete() {
    let results = [
        json!({"content": [], "decision": "allow"}),
        json!({"messages": [], "valid": false}),
        json!({"content": [{"type": "a-new-one", "x": [1, 2]}], "structuredContent": [1, "two", null], "_meta": {"k": 1}, "later": 1.5}),
        json!({"content": [], "structuredContent": "text"}),
        json!({"structuredContent": {"result": null}}),
        json!("just text"),
        json!(null),
        json!([]),
    ];
    let names: Vec<String> = (0..results.len()).map(|i| format!("f{i}")).collect();
    let functions: Vec<(&str, Value)> =
        names.iter().zip(&results).map(|(name, result)| (name.as_str(), json!([{"result": result}]))).collect();
    let host = host(vec![tool("a", &functions)]);
    host.ready("a").await.unwrap();
    for (name, expected) in names.iter().zip(&results) {
        assert_eq!(result(&host, &format!("a.{name}")).await, *expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn trap_11_one_odd_function_does_not_fail_the_list_and_a_repeating_cursor_ends_it() {
    let tools = json!([{"name": "good", "inputSchema": {"type": "object"}}, {"name": "no_schema"}, {"name": "odd", "inputSchema": "x"}, {"title": "no name"}]);
    let host = host(vec![scripted("a", &json!({"list": {"cursor": "repeat"}, "tools": tools}))]);
    let names: Vec<String> = host.functions("a").await.unwrap().into_iter().map(|f| f.name).collect();
    assert_eq!(names, ["good", "no_schema", "odd"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn trap_12_a_list_is_not_kept_for_as_long_as_the_server_says() {
    let files = Files::new();
    // This server says that its list may be kept for an hour.
    let host =
        host(vec![scripted("a", &json!({"modern": "only", "log": files.name("log"), "tools": [{"name": "f"}]}))]);
    for _ in 0..2 {
        assert_eq!(host.functions("a").await.unwrap().len(), 1);
    }
    assert_eq!(files.log("log").iter().filter(|m| m["method"] == "tools/list").count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_of_initialize_is_told_soon_where_discover_is_never_answered() {
    let host = host(vec![scripted("a", &json!({"initialize": "error", "discover": "never"}))]);
    let since = Instant::now();
    let why = host.ready("a").await.unwrap_err().why;
    assert!(since.elapsed() < Duration::from_secs(15), "{:?}", since.elapsed());
    assert!(why.contains("it refused initialize: ") && why.contains("did not answer server/discover in time"), "{why}");
}
