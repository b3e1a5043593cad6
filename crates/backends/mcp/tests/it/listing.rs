//! What servers list.

use crate::common::*;
use hookwright_runtime::ports::tools::Tools;
use serde_json::{Value, json};
use std::time::Duration;

fn many(count: usize) -> Vec<Value> {
    (0..count).map(|i| json!({"name": format!("f{i}"), "inputSchema": {"type": "object"}})).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn all_pages_are_read_in_order() {
    let host = host(vec![scripted("a", &json!({"list": {"page_size": 7}, "tools": many(50)}))]);
    let names: Vec<String> = host.functions("a").await.unwrap().into_iter().map(|f| f.name).collect();
    assert_eq!(names, (0..50).map(|i| format!("f{i}")).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_without_end_ends_at_the_limit_of_pages() {
    let host = host(vec![scripted("a", &json!({"list": {"cursor": "endless"}, "tools": []})), tool("good", &[])]);
    host.ready("good").await.unwrap();
    let (listed, ()) = tokio::join!(host.functions("a"), good_is_unharmed(&host));
    assert_eq!(listed.unwrap().len(), 1_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_functions_are_the_limit() {
    let files = Files::new();
    std::fs::write(files.path("s.json"), json!({"list": {"page_size": 4_000}, "tools": many(13_000)}).to_string())
        .unwrap();
    let command = vec![hookwright_testkit::bins::bin("scripted-mcp").display().to_string(), files.name("s.json")];
    let host = host(vec![stdio("a", command)]);
    assert_eq!(host.functions("a").await.unwrap().len(), 10_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_is_kept_until_the_server_tells_of_a_change() {
    let files = Files::new();
    let mut script = script(&[(
        "grow",
        json!([{"add_tool": {"name": "new", "inputSchema": {"type": "object"}}}, {"text": "grown"}]),
    )]);
    script["log"] = json!(files.name("log"));
    script["list_changed"] = json!(true);
    let host = host(vec![scripted("a", &script)]);
    let lists = || files.log("log").iter().filter(|m| m["method"] == "tools/list").count();
    for _ in 0..3 {
        assert_eq!(host.functions("a").await.unwrap().len(), 2);
    }
    assert_eq!(lists(), 1);
    result(&host, "a.grow").await;
    let names: Vec<String> = host.functions("a").await.unwrap().into_iter().map(|f| f.name).collect();
    assert_eq!(names, ["echo", "grow", "new"]);
    assert_eq!(lists(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_a_server_that_tells_of_no_changes_is_always_read_anew() {
    let script = script(&[("grow", json!([{"add_tool": {"name": "new"}}, {"text": "grown"}]))]);
    let host = host(vec![scripted("a", &script)]);
    assert_eq!(host.functions("a").await.unwrap().len(), 2);
    result(&host, "a.grow").await;
    assert_eq!(host.functions("a").await.unwrap().len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_never_comes_fails_at_the_start_limit() {
    let mut spec = scripted("a", &json!({"list": {"before": [{"hang": true}]}, "tools": []}));
    spec.start_timeout = Duration::from_secs(2);
    let host = with_good(spec).await;
    let (listed, ()) = tokio::join!(host.functions("a"), good_is_unharmed(&host));
    assert!(listed.unwrap_err().why.contains("did not answer tools/list in time"));
}

#[tokio::test(flavor = "multi_thread")]
async fn hints_and_descriptions_are_read_and_real_servers_listed() {
    let host = host(vec![rmcp("a")]);
    let listed = host.functions("a").await.unwrap();
    let echo = listed.iter().find(|f| f.name == "echo").unwrap();
    assert_eq!((echo.read_only_hint, echo.idempotent_hint), (true, true));
    assert_eq!(echo.description.as_deref(), Some("Gives the text back."));
    assert_eq!(echo.input_schema["properties"]["text"]["type"], "string");
    assert!(!listed.iter().find(|f| f.name == "panic").unwrap().read_only_hint);
}
