//! The server as an agent meets it: a child process that speaks MCP.

#![expect(clippy::unwrap_used, reason = "what a helper cannot do fails its test")]

use rmcp::ServiceExt as _;
use rmcp::model::CallToolRequestParams;
use rmcp::service::{RoleClient, RunningService};
use rmcp::transport::TokioChildProcess;
use serde_json::{Value, json};

async fn start() -> RunningService<RoleClient, ()> {
    let command = tokio::process::Command::new(env!("CARGO_BIN_EXE_hookwright-todo"));
    ().serve(TokioChildProcess::new(command).unwrap()).await.unwrap()
}

/// The text of a result, and whether it is an error.
async fn call(client: &RunningService<RoleClient, ()>, name: &'static str, arguments: Value) -> (String, bool) {
    let Value::Object(arguments) = arguments else { panic!("not an object") };
    let result = client.call_tool(CallToolRequestParams::new(name).with_arguments(arguments)).await.unwrap();
    let result = serde_json::to_value(result).unwrap();
    (result["content"][0]["text"].as_str().unwrap_or_default().to_owned(), result["isError"] == true)
}

#[tokio::test]
async fn stop_objects_while_items_are_open() {
    let client = start().await;
    assert_eq!(call(&client, "_Stop", json!({})).await, (String::new(), false));
    call(&client, "add", json!({"items": ["a", "b"]})).await;
    assert!(call(&client, "_Stop", json!({"rejections_left": 0})).await.0.contains("2 of 2 to-do items are open"));
    call(&client, "tick", json!({"numbers": [1]})).await;
    call(&client, "drop", json!({"numbers": [2]})).await;
    assert_eq!(call(&client, "_Stop", json!({})).await.0, "");
}

#[tokio::test]
async fn post_compact_gives_the_whole_list_back() {
    let client = start().await;
    assert_eq!(call(&client, "_PostCompact", json!({})).await.0, "");
    call(&client, "add", json!({"items": ["a", "b"]})).await;
    call(&client, "tick", json!({"numbers": [1]})).await;
    let (listed, _) = call(&client, "list", json!({})).await;
    assert_eq!(call(&client, "_PostCompact", json!({})).await, (listed.clone(), false));
    assert!(listed.contains("1. [x] a") && listed.contains("2. [ ] b"), "{listed}");
}

#[tokio::test]
async fn a_wrong_change_is_an_error_that_the_model_can_read() {
    let client = start().await;
    assert_eq!(
        call(&client, "tick", json!({"numbers": [7]})).await,
        ("there is no open item 7; `list` shows them".to_owned(), true)
    );
}

#[tokio::test]
async fn each_server_has_a_list_of_its_own() {
    let (one, other) = (start().await, start().await);
    call(&one, "add", json!({"items": ["a"]})).await;
    assert_eq!(call(&other, "_Stop", json!({})).await.0, "");
}
