//! Protocol revisions 2024-11-05 to 2026-07-28.

use crate::common::*;
use hookwright_runtime::ports::tools::{CallOutcome, ToolState, Tools};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn every_revision_that_has_initialize_is_spoken() {
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let files = Files::new();
        let host = host(vec![scripted(
            "a",
            &json!({"revisions": [revision], "log": files.name("log"), "tools": [{"name": "echo"}]}),
        )]);
        assert_eq!(host.functions("a").await.unwrap().len(), 1, "{revision}");
        assert!(result(&host, "a.echo").await["content"].is_array());
        assert_eq!(status(&host, "a").protocol.as_deref(), Some(revision));
        assert_eq!(status(&host, "a").server.as_deref(), Some("scripted 1"));
        let seen = files.log("log");
        assert_eq!(seen[1]["method"], "notifications/initialized", "{revision}");
        assert!(seen.iter().all(|m| m["params"].get("_meta").is_none()), "{revision} needs no _meta");
    }
}

/// A server of the newest revision alone, however it turns `initialize` down.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_the_newest_revision_alone_is_found_out_and_spoken_to() {
    for (initialize, starts) in
        [(json!("answer"), 1), (json!("exit"), 2), (json!([{"error": {"code": -32022, "message": "unsupported"}}]), 1)]
    {
        let files = Files::new();
        let script = json!({"modern": "only", "initialize": initialize, "log": files.name("log"),
            "tools": [{"name": "echo"}, {"name": "die", "behaviour": {"exit": 1}}]});
        let host = host(vec![scripted("a", &script)]);
        assert_eq!(host.functions("a").await.unwrap().len(), 2, "{initialize}");
        assert!(result(&host, "a.echo").await["content"].is_array());
        let now = status(&host, "a");
        assert_eq!((now.protocol.as_deref(), now.starts), (Some("2026-07-28"), starts));
        assert_eq!(now.server.as_deref(), Some("scripted 1"));
        let seen = files.log("log");
        let called = seen.iter().find(|m| m["method"] == "tools/call").unwrap();
        let meta = &called["params"]["_meta"];
        assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
        assert_eq!(meta["io.modelcontextprotocol/clientCapabilities"], json!({}));
        assert!(!seen.iter().any(|m| m["method"] == "notifications/initialized"));
        // A restart begins with what worked.
        lost(&host, "a.die").await;
        until("it is ready again", || {
            status(&host, "a").starts == starts + 1 && status(&host, "a").state == ToolState::Ready
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_speaks_neither_is_failed_with_both_reasons() {
    let host = host(vec![scripted("a", &json!({"initialize": "error", "discover": "error", "tools": []}))]);
    let why = host.ready("a").await.unwrap_err().why;
    assert!(why.contains("initialize") && why.contains("server/discover") && why.contains("-32601"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_asks_for_input_is_an_error_since_none_was_offered() {
    let asks = json!([{"result": {"resultType": "input_required", "inputRequests": {}, "requestState": "x"}}]);
    let host = host(vec![scripted("a", &json!({"modern": "only", "tools": [{"name": "f", "behaviour": asks}]}))]);
    host.ready("a").await.unwrap();
    assert!(
        matches!(call(&host, "a.f", json!({}), LONG).await, CallOutcome::RpcError { message, .. } if message.contains("input"))
    );
}
