//! Starts, restarts, ends.

use crate::common::*;
use hookwright_core::manifest::{McpDecl, Secret, ToolDecl};
use hookwright_mcp::{HostConfig, McpHost, ToolSpec};
use hookwright_runtime::ports::tools::{CallOutcome, ToolState, Tools};
use hookwright_testkit::bins::bin;
use serde_json::json;
use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

#[tokio::test(flavor = "multi_thread")]
async fn servers_start_in_parallel_and_start_returns_at_once() {
    let slow = |id: &str| scripted(id, &json!({"start": [{"sleep_ms": 1_500}], "tools": []}));
    let started = Instant::now();
    let host = host((0..8).map(|i| slow(&format!("t{i}"))).collect());
    assert!(started.elapsed() < Duration::from_secs(1));
    assert!(
        matches!(call(&host, "t0.x", json!({}), LONG).await, CallOutcome::NotSent { why } if why.contains("being started"))
    );
    for i in 0..8 {
        host.ready(&format!("t{i}")).await.unwrap();
    }
    assert!(started.elapsed() < Duration::from_secs(8), "one after the other would take 12 s: {:?}", started.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_tool_is_failed_with_its_reason_and_the_others_are_not() {
    let missing = stdio("missing", vec!["no-such-program-anywhere".into()]);
    let relative = stdio("relative", vec!["./no-such-file".into()]);
    let absolute = stdio("absolute", vec!["/no/such/file".into()]);
    let crashing =
        scripted("crashing", &json!({"start": [{"stderr": "ImportError: no module\n"}, {"exit": 7}], "tools": []}));
    let no_server = stdio("no_server", vec!["cat".into(), "/dev/null".into()]);
    let odd = scripted("odd", &json!({"initialize": [{"result": {"protocolVersion": "1999-01-01"}}], "tools": []}));
    let host = host(vec![missing, relative, absolute, crashing, no_server, odd, tool("good", &[])]);
    for (id, told) in [
        ("missing", "not on the PATH"),
        ("relative", "no such file in the plugin's folder"),
        ("absolute", "there is no such file, or what its first line"),
        ("crashing", "status 7; its last words: ImportError: no module"),
        ("no_server", "status 0"),
        ("odd", "1999-01-01"),
    ] {
        let why = host.ready(id).await.unwrap_err().why;
        assert!(why.contains(told), "{id}: {why}");
        assert_eq!(status(&host, id).state, ToolState::Failed);
        assert!(matches!(call(&host, &format!("{id}.f"), json!({}), LONG).await, CallOutcome::NotSent { .. }));
    }
    host.ready("good").await.unwrap();
    good_is_unharmed(&host).await;
    assert_eq!(status(&host, "crashing").starts, 1, "it had read nothing, so no other opening was tried");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_dies_is_started_again_after_a_pause_and_calls_meanwhile_are_not_sent() {
    let config = HostConfig { backoff_first: Duration::from_secs(1), ..HostConfig::default() };
    let host = with_good_and(tool("a", &[("die", json!({"exit": 1}))]), config).await;
    let mut changes = host.changes();
    lost(&host, "a.die").await;
    until_state(&host, "a", ToolState::Restarting).await;
    let started = Instant::now();
    let meanwhile = call(&host, "a.echo", json!({}), LONG).await;
    assert!(
        matches!(&meanwhile, CallOutcome::NotSent { why } if why.contains("started again") && why.contains("status 1")),
        "{meanwhile:?}"
    );
    assert!(started.elapsed() < Duration::from_millis(900), "calls don't wait for a start");
    host.ready("a").await.unwrap();
    assert!(result(&host, "a.echo").await["content"].is_array());
    let after = status(&host, "a");
    assert_eq!((after.state, after.starts), (ToolState::Ready, 2));
    assert!(after.last_error.unwrap().contains("status 1"));
    let mut seen = Vec::new();
    while let Ok(change) = changes.try_recv() {
        assert_eq!(change.tool, "a");
        seen.push(change.state);
    }
    seen.dedup();
    assert_eq!(seen, [ToolState::Restarting, ToolState::Ready]);
    good_is_unharmed(&host).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_dies_again_and_again_is_given_up() {
    let host = with_good(tool("a", &[("die", json!({"exit": 1}))])).await;
    for _ in 0..5 {
        host.ready("a").await.unwrap();
        lost(&host, "a.die").await;
        until("the death is noticed", || status(&host, "a").state != ToolState::Ready).await;
    }
    until_state(&host, "a", ToolState::Failed).await;
    let after = status(&host, "a");
    assert_eq!(after.starts, 5);
    assert!(after.last_error.unwrap().contains("given up after 5 deaths in a row"));
    assert!(host.ready("a").await.unwrap_err().why.contains("given up"));
    good_is_unharmed(&host).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_healthy_stretch_wipes_the_record() {
    let config = HostConfig { healthy_after: Duration::ZERO, max_deaths: 2, ..quick() };
    let host = with_good_and(tool("a", &[("die", json!({"exit": 1}))]), config).await;
    for starts in 1..6 {
        host.ready("a").await.unwrap();
        assert_eq!(status(&host, "a").starts, starts);
        lost(&host, "a.die").await;
        until("the death is noticed", || {
            status(&host, "a").starts > starts || status(&host, "a").state != ToolState::Ready
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_is_dropped_leaves_no_process() {
    let files = Files::new();
    let script = |name: &str| json!({"start": [{"grandchild": files.name(&format!("{name}-child"))}, {"write_pid": files.name(name)}], "initialize": if name == "a" { "answer" } else { "never" }, "tools": []});
    let host = host(vec![scripted("a", &script("a")), scripted("b", &script("b"))]);
    host.ready("a").await.unwrap();
    let mut pids = Vec::new();
    for name in ["a", "a-child", "b", "b-child"] {
        pids.push(files.pid(name).await);
    }
    drop(host);
    until("all are gone", || !pids.iter().any(|pid| lives(*pid))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runtime_that_ends_leaves_no_process() {
    let files = Files::new();
    let script = json!({"start": [{"grandchild": files.name("child")}], "tools": []});
    let spec = scripted("a", &script);
    let pid = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let host = host(vec![spec]);
            host.ready("a").await.unwrap();
            std::mem::forget(host);
            files.pid("child").await
        })
    })
    .await
    .unwrap();
    until("the grandchild is gone", || !lives(pid)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_ends_the_unwilling_too_and_says_so() {
    let files = Files::new();
    let mut script = script(&[("stop", json!([{"stop_reading": true}, {"text": "no more"}]))]);
    script["start"] = json!([{"write_pid": files.name("pid")}]);
    let config = HostConfig { shutdown_grace: Duration::from_millis(400), ..quick() };
    let host = with_good_and(scripted("a", &script), config).await;
    result(&host, "a.stop").await;
    let hanging = tokio::spawn({
        let host = Arc::clone(&host);
        async move { host.call(&hookwright_core::FunctionName::new("a", "echo"), arguments(300_000), LONG).await }
    });
    until("the call is in flight", || host.gauges("a").is_some_and(|g| g.in_flight == 1)).await;
    host.shutdown().await;
    assert!(matches!(hanging.await.unwrap(), CallOutcome::Lost { why } if why.contains("was ended")));
    assert!(!lives(files.pid("pid").await));
    assert!(matches!(call(&host, "a.echo", json!({}), LONG).await, CallOutcome::NotSent { .. }));
    assert!(host.status().iter().all(|s| s.state == ToolState::Failed));
    host.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_while_a_server_starts_waits_for_nothing() {
    let files = Files::new();
    let host = host(vec![scripted(
        "a",
        &json!({"start": [{"write_pid": files.name("pid")}], "initialize": "never", "tools": []}),
    )]);
    let pid = files.pid("pid").await;
    let started = Instant::now();
    host.shutdown().await;
    assert!(!lives(pid) && started.elapsed() < Duration::from_secs(5));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_gets_its_own_environment_and_folder_and_nothing_else() {
    let files = Files::new();
    std::fs::copy(bin("scripted-mcp"), files.path("server")).unwrap();
    let script = json!({"start": [{"dump_env": files.name("env")}], "tools": []});
    let decl = ToolDecl {
        id: "a".into(),
        mcp: McpDecl::Stdio {
            command: vec!["./server".into(), "--json".into(), script.to_string()],
            env: [("TOKEN".to_owned(), Secret::From { from: "GITHUB_TOKEN".into() })].into(),
        },
        scope: None,
        idempotent: Vec::new(),
        trust_annotations: false,
        start_timeout_ms: 30_000,
        passes: vec![],
    };
    let node = |name: &str| {
        [("PATH", "/bin"), ("LANG", "C"), ("GITHUB_TOKEN", "ghp_x"), ("AWS_SECRET", "no")]
            .iter()
            .find(|(n, _)| *n == name)
            .map(|(_, v)| (*v).to_owned())
    };
    let host = host(vec![ToolSpec::from_decl(&decl, files.path("").as_path(), &node)]);
    host.ready("a").await.unwrap();
    let mut lines: Vec<String> =
        std::fs::read_to_string(files.path("env")).unwrap().lines().map(str::to_owned).collect();
    lines.sort();
    let folder = std::fs::canonicalize(files.path("")).unwrap();
    assert_eq!(
        lines,
        ["LANG=C".to_owned(), "PATH=/bin".to_owned(), "TOKEN=ghp_x".to_owned(), format!("cwd={}", folder.display())]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_variable_fails_its_tool_by_name() {
    let decl = ToolDecl {
        id: "a".into(),
        mcp: McpDecl::Stdio {
            command: vec!["true".into()],
            env: [("T".to_owned(), Secret::From { from: "NOT_SET".into() })].into(),
        },
        scope: None,
        idempotent: Vec::new(),
        trust_annotations: false,
        start_timeout_ms: 30_000,
        passes: vec![],
    };
    let host = host(vec![ToolSpec::from_decl(&decl, &std::env::temp_dir(), &|_| None), tool("good", &[])]);
    assert!(host.ready("a").await.unwrap_err().why.contains("NOT_SET"));
    assert_eq!((status(&host, "a").state, status(&host, "a").starts), (ToolState::Failed, 0));
    host.ready("good").await.unwrap();
    good_is_unharmed(&host).await;
}

#[derive(Clone, Default)]
struct Captured(Arc<Mutex<Vec<u8>>>);

impl Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn stderr_goes_to_the_log_under_the_tools_name_escaped_and_without_secrets() {
    let captured = Captured::default();
    let writer = captured.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let text = format!("hello \u{1b}[31mred token s3cret-value\n{}\n", "y".repeat(100_000));
    let decl = ToolDecl {
        id: "a".into(),
        mcp: McpDecl::Stdio {
            command: vec![
                bin("scripted-mcp").display().to_string(),
                "--json".into(),
                json!({"start": [{"stderr": text}, {"exit": 1}]}).to_string(),
            ],
            env: [("TOKEN".to_owned(), Secret::From { from: "MY_TOKEN".into() })].into(),
        },
        scope: None,
        idempotent: Vec::new(),
        trust_annotations: false,
        start_timeout_ms: 30_000,
        passes: vec![],
    };
    let host = McpHost::start(
        vec![ToolSpec::from_decl(&decl, &std::env::temp_dir(), &|_| Some("s3cret-value".into()))],
        quick(),
    );
    let why = host.ready("a").await.unwrap_err().why;
    let log = String::from_utf8(captured.0.lock().unwrap().clone()).unwrap();
    assert!(log.contains("hookwright::tool") && log.contains("hello \\u{1b}[31mred token [MY_TOKEN] tool=a"), "{log}");
    assert!(!log.contains("s3cret") && !why.contains("s3cret") && why.contains("[MY_TOKEN]"), "{why}");
    assert!(log.len() < 40_000 && why.len() < 6_000, "{} {}", log.len(), why.len());
}

/// Plays two parts: by itself it is the test; as the process that it starts, the host that is killed.
#[tokio::test(flavor = "multi_thread")]
#[allow(clippy::disallowed_methods, reason = "tells the second part from the first")]
async fn the_servers_of_a_host_that_is_killed_by_force_see_their_stdin_end() {
    const PART: &str = "HOOKWRIGHT_TEST_KILLED_HOST";
    const NAME: &str = "life::the_servers_of_a_host_that_is_killed_by_force_see_their_stdin_end";
    if let Some(folder) = std::env::var_os(PART) {
        let pid = |name: &str| std::path::Path::new(&folder).join(name).display().to_string();
        let specs = ["a", "b"].map(|id| scripted(id, &json!({"start": [{"write_pid": pid(id)}], "tools": []})));
        let _host = host(specs.to_vec());
        return std::future::pending().await;
    }
    let files = Files::new();
    let exe = std::env::current_exe().unwrap();
    let mut second = std::process::Command::new(exe)
        .args(["--exact", NAME, "--nocapture"])
        .env(PART, files.path(""))
        .spawn()
        .unwrap();
    let pids = [files.pid("a").await, files.pid("b").await];
    assert!(pids.iter().all(|pid| lives(*pid)));
    second.kill().unwrap();
    second.wait().unwrap();
    until("the servers have left", || !pids.iter().any(|pid| lives(*pid))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_for_not_answering_is_gone_with_its_group_and_starts_anew() {
    let folder = tempfile::tempdir().unwrap();
    let (pid, child) = (folder.path().join("pid"), folder.path().join("child"));
    let mut script = script(&[("hang", json!({"hang": true}))]);
    script["start"] = json!([{"write_pid": pid}, {"grandchild": child}]);
    let host = with_good(scripted("a", &script)).await;
    let pids: Vec<String> = [&pid, &child].map(|file| std::fs::read_to_string(file).unwrap()).into();
    let mut changes = host.changes();
    let under_way = {
        let host = host.clone();
        tokio::spawn(async move { lost(&host, "a.hang").await })
    };
    until("the call is under way", || !under_way.is_finished()).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(host.kill("a", "it was killed: it hangs").await);
    under_way.await.unwrap();
    let changed = changes.recv().await.unwrap();
    assert_eq!((changed.tool.as_str(), changed.state), ("a", ToolState::Restarting));
    assert_eq!(changed.last_error.as_deref(), Some("it was killed: it hangs"));
    for pid in pids {
        until("it is gone", || {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.rsplit(") ").next().is_none_or(|rest| rest.is_empty() || rest.starts_with('Z'))
        })
        .await;
    }
    host.ready("a").await.unwrap();
    assert_eq!(status(&host, "a").starts, 2);
    assert!(!host.kill("nobody", "x").await, "there is no such tool");
    good_is_unharmed(&host).await;
}
