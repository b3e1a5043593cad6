//! What hook functions in real SDKs return (docs/mcp.md): the results come raw, as `hookwright_core` reads answers from them.
//!
//! Runs where `HOOKWRIGHT_TEST_TOOLS` names a folder with `venv/` (Python, with `mcp` and `fastmcp`) and `node/` (with
//! `node_modules/@modelcontextprotocol/sdk`): `cargo xtask test` sets it up. Without it there is nothing to run, and the tests say so.

use crate::common::*;
use hookwright_mcp::{McpHost, ToolSpec};
use hookwright_runtime::ports::tools::{CallOutcome, Tools};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

#[allow(clippy::disallowed_methods, reason = "how xtask tells these tests where the SDKs are")]
fn tools() -> Option<PathBuf> {
    let folder = std::env::var_os("HOOKWRIGHT_TEST_TOOLS").map(PathBuf::from);
    if folder.is_none() {
        eprintln!("not run: HOOKWRIGHT_TEST_TOOLS names no folder with SDKs (cargo xtask test sets it)");
    }
    folder
}

fn server(name: &str) -> String {
    format!("{}/tests/servers/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn python(id: &str, name: &str) -> Option<ToolSpec> {
    let python = tools()?.join("venv/bin/python");
    Some(stdio(id, vec![python.display().to_string(), server(name)]))
}

async fn started(spec: ToolSpec) -> Arc<McpHost> {
    let host = host(vec![spec]);
    host.ready("a").await.unwrap();
    host
}

async fn asked(host: &McpHost, function: &str) -> Value {
    let event = json!({"event": {"event": "pre_tool_call", "tool": "github.merge", "arguments": {}}});
    match call(host, &format!("a.{function}"), event, LONG).await {
        CallOutcome::Answered { result, duplicate_key: false } => result,
        other => panic!("{function}: {other:?}"),
    }
}

/// The lone text block, read as JSON.
fn json_text(result: &Value) -> Value {
    let [block] = result["content"].as_array().unwrap().as_slice() else { panic!("{result}") };
    serde_json::from_str(block["text"].as_str().unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_official_python_sdk() {
    let Some(spec) = python("a", "mcp_sdk.py") else { return };
    let host = started(spec).await;
    let names: Vec<String> = host.functions("a").await.unwrap().into_iter().map(|f| f.name).collect();
    assert_eq!(names, ["bare", "keyed", "typed", "model", "optional", "text", "nothing", "raises"]);

    let bare = asked(&host, "bare").await;
    assert_eq!(json_text(&bare), json!({"decision": "allow", "event": "pre_tool_call"}));
    assert!(bare.get("structuredContent").is_none_or(Value::is_null), "text only: {bare}");
    for function in ["keyed", "typed"] {
        let result = asked(&host, function).await;
        assert_eq!(result["structuredContent"], json!({"decision": "allow"}), "{function}: {result}");
        assert_eq!(json_text(&result), json!({"decision": "allow"}));
    }
    assert_eq!(asked(&host, "model").await["structuredContent"], json!({"decision": "deny", "reason": "no"}));
    assert_eq!(asked(&host, "optional").await["structuredContent"], json!({"result": {"decision": "allow"}}));
    assert_eq!(asked(&host, "text").await["structuredContent"], json!({"result": "{\"decision\":\"allow\"}"}));
    let nothing = asked(&host, "nothing").await;
    assert_eq!(
        (&nothing["content"], &nothing["structuredContent"]),
        (&json!([]), &json!({"result": null})),
        "{nothing}"
    );
    assert_eq!(asked(&host, "raises").await["isError"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn fastmcp() {
    let Some(spec) = python("a", "fastmcp_server.py") else { return };
    let host = started(spec).await;
    for function in ["bare", "unannotated"] {
        let result = asked(&host, function).await;
        assert_eq!(result["structuredContent"]["decision"], "allow", "{function}: {result}");
        assert_eq!(json_text(&result), result["structuredContent"]);
    }
    assert_eq!(asked(&host, "optional").await["structuredContent"], json!({"result": {"decision": "allow"}}));
    assert_eq!(asked(&host, "text").await["structuredContent"], json!({"result": "{\"decision\":\"allow\"}"}));
    assert_eq!(asked(&host, "nothing").await["content"], json!([]));
    assert_eq!(asked(&host, "raises").await["isError"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_typescript_sdk() {
    let Some(tools) = tools() else { return };
    let command = vec!["node".to_owned(), server("typescript.mjs"), tools.join("node").display().to_string()];
    let host = started(stdio("a", command)).await;
    assert_eq!(json_text(&asked(&host, "text").await), json!({"decision": "allow"}));
    let structured = asked(&host, "structured").await;
    assert_eq!((&structured["content"], &structured["structuredContent"]), (&json!([]), &json!({"decision": "allow"})));
    // A client that decodes this into a type of its own loses the decision.
    let plain = asked(&host, "plain").await;
    assert_eq!(plain, json!({"content": [], "decision": "allow", "event": "pre_tool_call"}), "{plain}");
    assert_eq!(asked(&host, "raises").await["isError"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_python_server_that_is_cancelled_goes_on_answering() {
    let Some(spec) = python("a", "mcp_sdk.py") else { return };
    let host = started(spec).await;
    for _ in 0..3 {
        let short = call(&host, "a.bare", json!({"event": {"event": "x"}}), Duration::from_micros(1)).await;
        assert!(matches!(short, CallOutcome::TimedOut { .. } | CallOutcome::NotSent { .. }), "{short:?}");
    }
    assert_eq!(json_text(&asked(&host, "bare").await)["decision"], "allow");
}
