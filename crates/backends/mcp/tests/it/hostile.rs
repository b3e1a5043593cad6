//! Servers that misbehave harm nobody else, and their calls fail visibly.

use crate::common::*;
use hookwright_core::FunctionName;
use hookwright_core::manifest::{McpDecl, Secret, ToolDecl};
use hookwright_mcp::{HostConfig, ToolSpec};
use hookwright_runtime::ports::tools::{CallOutcome, ToolState, Tools};
use hookwright_testkit::bins::bin;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_notifications_is_held_back_and_the_answer_comes_after_all() {
    let host = with_good(tool("a", &[("flood", json!([{"flood": 5_000}, {"text": "done"}]))])).await;
    let (flood, ()) = tokio::join!(result(&host, "a.flood"), good_is_unharmed(&host));
    assert_eq!(flood["content"][0]["text"], "done");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_without_end_ends_with_the_host() {
    let files = Files::new();
    let host =
        with_good(tool("a", &[("flood", json!([{"write_pid": files.name("pid")}, {"flood": 100_000_000}]))])).await;
    let flooded = call(&host, "a.flood", json!({}), SECOND);
    let (flooded, ()) = tokio::join!(flooded, good_is_unharmed(&host));
    assert!(matches!(flooded, CallOutcome::TimedOut { .. }), "{flooded:?}");
    let pid = files.pid("pid").await;
    host.shutdown().await;
    assert!(!lives(pid));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_without_end_ends_the_connection_and_not_the_memory() {
    let limit = HostConfig { message_bytes: 100_000, ..quick() };
    let host = with_good_and(tool("a", &[("endless", json!([{"unending": 50_000_000}, {"hang": true}]))]), limit).await;
    let (why, ()) = tokio::join!(lost(&host, "a.endless"), good_is_unharmed(&host));
    assert!(why.contains("a line of more than"), "{why}");
    until_again(&host, "a", 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_answers_fail_their_call_at_once() {
    let functions = [
        ("cut", json!({"line": "{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{\"content\":[}"})),
        ("glued", json!({"line": "Loading… {\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{}}"})),
        ("neither", json!({"line": "{\"jsonrpc\":\"2.0\",\"id\":{id}}"})),
        (
            "two_results",
            json!({"line": "{\"id\":{id},\"result\":{\"decision\":\"deny\"},\"result\":{\"decision\":\"allow\"}}"}),
        ),
        ("not_utf8", json!({"hex": "7b226964223a7b69647d2c22726573756c74223a22fffe227d"})),
        ("deep", json!({"line": format!("{{\"id\":{{id}},\"result\":{}{}}}", "[".repeat(5_000), "]".repeat(5_000))})),
    ];
    let host = with_good(tool("a", &functions)).await;
    for (name, _) in &functions {
        let started = Instant::now();
        let why = lost(&host, &format!("a.{name}")).await;
        assert!(why.contains("malformed") || why.contains("can't be read"), "{name}: {why}");
        assert!(started.elapsed() < Duration::from_secs(30), "{name} is told at once");
    }
    good_is_unharmed(&host).await;
    assert_eq!(status(&host, "a").starts, 1, "the connection lives on");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_doubled_key_is_told_and_an_ordinary_result_is_not_lost() {
    let host = host(vec![tool(
        "a",
        &[(
            "f",
            json!({"line": "{\"id\":{id},\"result\":{\"content\":[],\"decision\":\"deny\",\"decision\":\"allow\"}}"}),
        )],
    )]);
    host.ready("a").await.unwrap();
    match call(&host, "a.f", json!({}), LONG).await {
        CallOutcome::Answered { result, duplicate_key: true } => {
            assert_eq!(result, json!({"content": [], "decision": "allow"}));
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(call(&host, "a.echo", json!({}), LONG).await, CallOutcome::Answered { duplicate_key: false, .. }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_answer_is_reported_as_late_and_given_to_nobody() {
    let files = Files::new();
    let mut script =
        script(&[("late", json!([{"await_cancel": true}, {"text": "too late"}])), ("next", json!({"text": "next"}))]);
    script["log"] = json!(files.name("log"));
    let host = with_good(scripted("a", &script)).await;
    let CallOutcome::TimedOut { late } = call(&host, "a.late", json!({}), Duration::from_millis(300)).await else {
        panic!()
    };
    assert_eq!(result(&host, "a.next").await["content"][0]["text"], "next");
    assert!(late.await.unwrap().after_ms >= 300);
    let asked = files.logged("log", "the call", |m| m["params"]["name"] == "late").await;
    let cancelled = files.logged("log", "its cancellation", is_cancelled).await;
    assert_eq!(cancelled["params"]["requestId"], asked["id"]);
    assert!(cancelled["params"]["reason"].as_str().unwrap().contains("within 300ms"), "{cancelled}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_goes_away_cancels_its_call() {
    let files = Files::new();
    let mut script = script(&[("hang", json!({"hang": true}))]);
    script["log"] = json!(files.name("log"));
    let host = with_good(scripted("a", &script)).await;
    let gone = tokio::time::timeout(Duration::from_millis(300), call(&host, "a.hang", json!({}), LONG)).await;
    assert!(gone.is_err());
    let asked = files.logged("log", "the call", |m| m["params"]["name"] == "hang").await;
    let cancelled = files.logged("log", "its cancellation", is_cancelled).await;
    assert_eq!(cancelled["params"]["requestId"], asked["id"]);
    assert_eq!(host.gauges("a").unwrap().in_flight, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_answer_and_answers_to_nobody_are_passed_over() {
    let answer = |id: &str, text: &str| json!({"line": format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"content\":[{{\"type\":\"text\",\"text\":\"{text}\"}}]}}}}")});
    let twice = json!([
        answer("4711", "nobody"),
        answer("\\\"x\\\"", "nobody"),
        answer("null", "nobody"),
        answer("{id}", "first"),
        answer("{id}", "second")
    ]);
    let host = with_good(tool("a", &[("twice", twice)])).await;
    for _ in 0..3 {
        assert_eq!(result(&host, "a.twice").await["content"][0]["text"], "first");
    }
    assert!(result(&host, "a.echo").await["content"].is_array());
    good_is_unharmed(&host).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_that_panics_without_answering_times_out_alone() {
    let host = with_good(rmcp("a")).await;
    let panics = call(&host, "a.panic", json!({}), SECOND);
    let works = async {
        match call(&host, "a.echo", json!({"text": "hi"}), LONG).await {
            CallOutcome::Answered { result, .. } => result["content"][0]["text"].clone(),
            other => panic!("{other:?}"),
        }
    };
    let (panics, works, ()) = tokio::join!(panics, works, good_is_unharmed(&host));
    assert!(matches!(panics, CallOutcome::TimedOut { .. }), "{panics:?}");
    assert_eq!(works, "hi");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_dies_in_the_middle_of_an_answer_fails_the_call_at_once() {
    let partial = json!([{"partial": "{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{\"content\":[{\"ty"}, {"stderr": "Traceback\n"}, {"exit": 9}]);
    let host = with_good(tool("a", &[("dies", partial)])).await;
    let (why, ()) = tokio::join!(lost(&host, "a.dies"), good_is_unharmed(&host));
    assert!(why.contains("middle of its answer") || why.contains("status 9"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_written_before_the_exit_still_counts_though_a_grandchild_holds_stdout() {
    let files = Files::new();
    let last = json!([{"grandchild": files.name("pid")}, {"text": "my last"}, {"exit": 0}]);
    let host = with_good(tool("a", &[("last", last), ("hang", json!({"hang": true}))])).await;
    let (last, hang) = tokio::join!(result(&host, "a.last"), call(&host, "a.hang", json!({}), LONG));
    assert_eq!(last["content"][0]["text"], "my last");
    assert!(matches!(hang, CallOutcome::Lost { .. } | CallOutcome::NotSent { .. }), "{hang:?}");
    let pid = files.pid("pid").await;
    until("the grandchild is gone", || !lives(pid)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_closes_its_stdin_is_started_again() {
    let host = with_good(tool("a", &[("close", json!([{"close_stdin": true}, {"text": "closed"}]))])).await;
    result(&host, "a.close").await;
    // `/dev/null` stands there now. The read that waits on the old stdin takes one more message, and then the server leaves.
    call(&host, "a.echo", json!({}), SECOND).await;
    until("it is started again", || status(&host, "a").starts == 2 && status(&host, "a").state == ToolState::Ready)
        .await;
    assert!(result(&host, "a.echo").await["content"].is_array());
    good_is_unharmed(&host).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_never_reads_again_is_started_again_after_its_limit() {
    let config = HostConfig { stall_limit: SECOND, ..quick() };
    let host =
        with_good_and(tool("a", &[("stop", json!([{"stop_reading": true}, {"text": "no more"}]))]), config).await;
    result(&host, "a.stop").await;
    let outcome = host.call(&FunctionName::new("a", "echo"), arguments(300_000), LONG).await;
    assert!(matches!(&outcome, CallOutcome::Lost { why } if why.contains("read nothing")), "{outcome:?}");
    until_again(&host, "a", 2).await;
    assert!(result(&host, "a.echo").await["content"].is_array());
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_a_server_are_refused_but_for_ping() {
    let files = Files::new();
    let ask = |id: Value, method: &str| json!({"request": {"id": id, "method": method, "params": {}}});
    let asks = json!([ask(json!(1), "ping"), ask(json!("s"), "sampling/createMessage"), ask(json!(3), "roots/list"), ask(json!(4), "elicitation/create"), {"text": "asked"}]);
    let mut script = script(&[("asks", asks)]);
    script["log"] = json!(files.name("log"));
    let host = with_good(scripted("a", &script)).await;
    result(&host, "a.asks").await;
    let reply =
        async |id: Value| files.logged("log", "a reply", move |m| m["id"] == id && m.get("method").is_none()).await;
    assert_eq!(reply(json!(1)).await["result"], json!({}));
    for id in [json!("s"), json!(3), json!(4)] {
        assert_eq!(reply(id).await["error"]["code"], -32601);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_are_told_apart_from_results() {
    let functions =
        [("rpc", json!({"error": {"code": -32000, "message": "no luck"}})), ("polite", json!({"is_error": "no luck"}))];
    let host = host(vec![tool("a", &functions), rmcp("b")]);
    host.ready("a").await.unwrap();
    host.ready("b").await.unwrap();
    let rpc = call(&host, "a.rpc", json!({}), LONG).await;
    assert!(matches!(&rpc, CallOutcome::RpcError { code: -32000, message, .. } if message == "no luck"), "{rpc:?}");
    assert_eq!(result(&host, "a.polite").await["isError"], true);
    assert!(matches!(call(&host, "b.fail", json!({}), LONG).await, CallOutcome::RpcError { code: -32603, .. }));
    assert!(matches!(call(&host, "a.unknown", json!({}), LONG).await, CallOutcome::RpcError { code: -32602, .. }));
    let nowhere = call(&host, "c.x", json!({}), LONG).await;
    assert!(matches!(&nowhere, CallOutcome::NotSent { why } if why.contains("no tool c")), "{nowhere:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_of_too_many_values_is_refused() {
    let config = HostConfig { message_values: 100_000, ..quick() };
    let many = format!("{{\"id\":{{id}},\"result\":[{}0]}}", "0,".repeat(600_000));
    let files = Files::new();
    std::fs::write(files.path("script.json"), script(&[("many", json!({"line": many}))]).to_string()).unwrap();
    let command = vec![hookwright_testkit::bins::bin("scripted-mcp").display().to_string(), files.name("script.json")];
    let host = with_good_and(stdio("a", command), config).await;
    assert!(lost(&host, "a.many").await.contains("more than 100000 JSON values"));
    assert!(result(&host, "a.echo").await["content"].is_array());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_of_answers_is_read_in_the_one_revision_that_has_batches() {
    let line = json!({"line": "[{\"method\":\"notifications/message\",\"params\":{}},{\"id\":{id},\"result\":{\"content\":[]}}]"});
    let mut old = script(&[("batch", line.clone())]);
    old["revisions"] = json!(["2025-03-26"]);
    let host = host(vec![scripted("a", &old), tool("b", &[("batch", line)])]);
    host.ready("a").await.unwrap();
    host.ready("b").await.unwrap();
    assert_eq!(result(&host, "a.batch").await, json!({"content": []}));
    assert!(lost(&host, "b.batch").await.contains("it sent a batch, which no revision but 2025-03-26 has"));
    assert!(result(&host, "b.echo").await["content"].is_array(), "the next call is none the worse");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_that_echoes_a_secret_is_told_without_it_and_a_result_is_the_servers_own_word() {
    let functions = [
        ("fail", json!({"error": {"code": -32000, "message": "bad token s3cret-value,\nask s3cret-value's owner"}})),
        ("tell", json!({"text": "the token is s3cret-value"})),
    ];
    let decl = ToolDecl {
        id: "a".into(),
        mcp: McpDecl::Stdio {
            command: vec![bin("scripted-mcp").display().to_string(), "--json".into(), script(&functions).to_string()],
            env: [("TOKEN".to_owned(), Secret::From { from: "MY_TOKEN".into() })].into(),
        },
        scope: None,
        idempotent: Vec::new(),
        trust_annotations: false,
        passes: vec![],
        start_timeout_ms: 30_000,
    };
    let node = |name: &str| (name == "MY_TOKEN").then(|| "s3cret-value".to_owned());
    let host = host(vec![ToolSpec::from_decl(&decl, &std::env::temp_dir(), &node)]);
    host.ready("a").await.unwrap();
    let failed = call(&host, "a.fail", json!({}), LONG).await;
    let expected = "bad token [MY_TOKEN],\nask [MY_TOKEN]'s owner";
    assert!(matches!(&failed, CallOutcome::RpcError { message, .. } if message == expected), "{failed:?}");
    assert_eq!(result(&host, "a.tell").await["content"][0]["text"], "the token is s3cret-value");
}
