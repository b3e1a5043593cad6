//! The server as an agent meets it: a child process that speaks MCP and runs real suites.

#![expect(clippy::unwrap_used, reason = "what a helper cannot do fails its test")]

use rmcp::ServiceExt as _;
use rmcp::model::CallToolRequestParams;
use rmcp::service::{RoleClient, RunningService};
use rmcp::transport::TokioChildProcess;
use std::path::Path;
use std::time::{Duration, Instant};

type Client = RunningService<RoleClient, ()>;

async fn start(folder: &Path, options: &[&str], script: &str) -> Client {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_hookwright-test-runner"));
    command.arg("--folder").arg(folder).args(options).args(["--", "sh", "-c", script]);
    ().serve(TokioChildProcess::new(command).unwrap()).await.unwrap()
}

/// The text of a result, and whether it is an error.
async fn call(client: &Client, name: &'static str) -> (String, bool) {
    let result = client.call_tool(CallToolRequestParams::new(name)).await.unwrap();
    let result = serde_json::to_value(result).unwrap();
    (result["content"][0]["text"].as_str().unwrap_or_default().to_owned(), result["isError"] == true)
}

#[tokio::test]
async fn stop_objects_with_the_summary_while_the_suite_is_red() {
    let folder = tempfile::tempdir().unwrap();
    let suite = "grep -q Hello greeting || { echo 'FAIL greets'; echo '0 passed, 1 failed' >&2; exit 3; }";
    let client = start(folder.path(), &[], suite).await;
    std::fs::write(folder.path().join("greeting"), "Hullo").unwrap();
    assert_eq!(call(&client, "_Stop").await.0, "", "it says nothing of what it does not know");
    let (shown, is_error) = call(&client, "run_tests").await;
    assert!(is_error && shown.contains("exit code 3") && shown.contains("FAIL greets"), "{shown}");
    std::fs::write(folder.path().join("greeting"), "Hello").unwrap();
    let objection = call(&client, "_Stop").await.0;
    assert!(objection.contains("0 passed, 1 failed") && objection.contains("`run_tests`"), "{objection}");
    assert_eq!(call(&client, "run_tests").await, ("The tests passed.".to_owned(), false));
    assert_eq!(call(&client, "_Stop").await.0, "");
}

#[tokio::test]
async fn where_a_run_is_required_stop_asks_for_one() {
    let folder = tempfile::tempdir().unwrap();
    let client = start(folder.path(), &["--require-run"], "exit 0").await;
    assert!(call(&client, "_Stop").await.0.contains("not run yet"));
    call(&client, "run_tests").await;
    assert_eq!(call(&client, "_Stop").await.0, "");
}

#[tokio::test]
async fn a_suite_that_hangs_is_stopped_with_what_it_spawned_and_objects() {
    let folder = tempfile::tempdir().unwrap();
    let client = start(folder.path(), &["--timeout", "1"], "echo begun; sleep 1000 & echo $! > child; wait").await;
    let begun = Instant::now();
    let (shown, is_error) = call(&client, "run_tests").await;
    assert!(is_error && shown.contains("did not end within 1 s") && shown.contains("begun"), "{shown}");
    assert!(begun.elapsed() < Duration::from_mins(1));
    let child = std::fs::read_to_string(folder.path().join("child")).unwrap();
    let status = || std::fs::read_to_string(format!("/proc/{}/stat", child.trim())).unwrap_or_default();
    let deadline = Instant::now() + Duration::from_secs(20);
    while !status().is_empty() && !status().contains(") Z ") && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(status().is_empty() || status().contains(") Z "), "{}", status());
    assert!(call(&client, "_Stop").await.0.contains("did not end"));
}

#[tokio::test]
async fn stop_answers_while_a_run_is_under_way() {
    let folder = tempfile::tempdir().unwrap();
    let client = start(folder.path(), &[], "touch begun; while [ ! -e go ]; do sleep 0.05; done").await;
    let (run, ()) = tokio::join!(call(&client, "run_tests"), async {
        while !folder.path().join("begun").exists() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(call(&client, "_Stop").await.0, "");
        std::fs::write(folder.path().join("go"), "").unwrap();
    });
    assert_eq!(run.0, "The tests passed.");
}

#[tokio::test]
async fn a_flood_is_bounded_and_its_end_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let client = start(folder.path(), &[], "yes | head -c 5000000; echo; echo the end; exit 1").await;
    let (shown, _) = call(&client, "run_tests").await;
    assert!(shown.len() < 6_000 && shown.ends_with("the end"), "{} bytes", shown.len());
}

#[tokio::test]
async fn a_suite_that_cannot_be_started_did_not_pass() {
    let client = start(Path::new("/there/is/no/such/folder"), &[], "exit 0").await;
    let (shown, is_error) = call(&client, "run_tests").await;
    assert!(is_error && shown.contains("could not be started"), "{shown}");
    assert!(call(&client, "_Stop").await.0.contains("could not be started"));
}
