//! Streamable HTTP: real servers on rmcp, and hostile ones.

use crate::common::*;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use hookwright_core::manifest::{McpDecl, Secret, ToolDecl};
use hookwright_mcp::{HostConfig, McpHost, ToolSpec, Transport};
use hookwright_runtime::ports::tools::{CallOutcome, ToolState, Tools};
use hookwright_testkit::bins::bin;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A real server in a process of its own; killed when dropped.
struct Real(Child, String);

impl Real {
    fn start(args: &[&str]) -> Self {
        let mut child = Command::new(bin("rmcp-echo")).args(args).stdout(Stdio::piped()).spawn().unwrap();
        let mut address = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut address).unwrap();
        Self(child, format!("http://{}/mcp", address.trim()))
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn at(id: &str, url: &str) -> ToolSpec {
    ToolSpec::new(id, Transport::Http { url: url.to_owned(), headers: Vec::new() })
}

#[derive(Debug, Clone)]
struct Seen {
    method: Method,
    headers: HeaderMap,
    body: Value,
}

type Answer = Arc<dyn Fn(&Seen, usize) -> Response + Send + Sync>;

/// A server that we play: each request is kept, and answered by a function of it and of how many came before.
#[derive(Clone)]
struct Played {
    seen: Arc<Mutex<Vec<Seen>>>,
    answer: Answer,
    url: String,
}

impl Played {
    async fn start(answer: impl Fn(&Seen, usize) -> Response + Send + Sync + 'static) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let played = Self { seen: Arc::default(), answer: Arc::new(answer), url };
        let app = Router::new().fallback(handle).with_state(played.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        played
    }

    fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    fn count(&self, method: &str) -> usize {
        self.seen().iter().filter(|seen| seen.body["method"] == method).count()
    }

    async fn saw(&self, what: &str, fits: impl Fn(&Seen) -> bool) -> Seen {
        until(what, || self.seen().iter().any(&fits)).await;
        self.seen().into_iter().find(&fits).unwrap()
    }
}

async fn handle(State(played): State<Played>, method: Method, headers: HeaderMap, body: Bytes) -> Response {
    let seen = Seen { method, headers, body: serde_json::from_slice(&body).unwrap_or_default() };
    let before = {
        let mut all = played.seen.lock().unwrap();
        all.push(seen.clone());
        all.len() - 1
    };
    (played.answer)(&seen, before)
}

fn reply(seen: &Seen, result: &Value) -> Response {
    axum::Json(json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": result})).into_response()
}

/// What a proper server answers, but for calls.
fn proper(seen: &Seen) -> Option<Response> {
    Some(match seen.body["method"].as_str() {
        Some("initialize") => {
            let result = json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "played", "version": "1"}});
            ([("mcp-session-id", "session-1")], reply(seen, &result)).into_response()
        }
        Some("tools/list") => reply(seen, &json!({"tools": [{"name": "f"}]})),
        Some("tools/call") => return None,
        _ if seen.method == Method::POST => StatusCode::ACCEPTED.into_response(),
        _ => StatusCode::METHOD_NOT_ALLOWED.into_response(),
    })
}

fn sse(text: String) -> Response {
    ([("content-type", "text/event-stream")], text).into_response()
}

/// A stream that begins with some events and then says nothing.
fn stuck(text: &'static str) -> Response {
    use futures_util::StreamExt;
    let bytes =
        futures_util::stream::once(async move { Ok::<_, std::io::Error>(text) }).chain(futures_util::stream::pending());
    Response::builder().header("content-type", "text/event-stream").body(Body::from_stream(bytes)).unwrap()
}

/// An answer that comes after a while.
fn later(pause: Duration, text: String) -> Response {
    let bytes = futures_util::stream::once(async move {
        tokio::time::sleep(pause).await;
        Ok::<_, std::io::Error>(text)
    });
    Response::builder().header("content-type", "application/json").body(Body::from_stream(bytes)).unwrap()
}

/// A host with the played server as `a`, both ready.
async fn playing(answer: impl Fn(&Seen, usize) -> Response + Send + Sync + 'static) -> (Arc<McpHost>, Played) {
    let played = Played::start(answer).await;
    let host = with_good(at("a", &played.url)).await;
    (host, played)
}

/// A host whose played server answers calls so.
async fn answering(answer: impl Fn(&Seen) -> Response + Send + Sync + 'static) -> (Arc<McpHost>, Played) {
    playing(move |seen, _| proper(seen).unwrap_or_else(|| answer(seen))).await
}

fn text_of(outcome: CallOutcome) -> Value {
    match outcome {
        CallOutcome::Answered { result, .. } => result["content"][0]["text"].clone(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn real_servers_are_spoken_to_in_all_their_modes() {
    for mode in [&[][..], &["--stateless"], &["--stateless", "--json"]] {
        let args: Vec<&str> = ["--http", "127.0.0.1:0"].iter().chain(mode).copied().collect();
        let real = Real::start(&args);
        let host = host(vec![at("a", &real.1)]);
        let names: Vec<String> = host.functions("a").await.unwrap().into_iter().map(|f| f.name).collect();
        assert!(names.contains(&"echo".to_owned()), "{mode:?}: {names:?}");
        for n in 0..5 {
            let text = format!("n {n} ä");
            assert_eq!(text_of(call(&host, "a.echo", json!({"text": text}), LONG).await), text, "{mode:?}");
        }
        assert!(matches!(call(&host, "a.decide", json!({"event": {"event": "job_start"}}), LONG).await,
            CallOutcome::Answered { result, .. } if result["structuredContent"]["decision"] == "allow"));
        assert!(matches!(call(&host, "a.fail", json!({}), LONG).await, CallOutcome::RpcError { code: -32603, .. }));
        assert_eq!(status(&host, "a").protocol.as_deref(), Some("2025-11-25"));
        host.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_calls_at_once_all_get_their_own_answer() {
    let real = Real::start(&["--http", "127.0.0.1:0"]);
    let host = host(vec![at("a", &real.1)]);
    host.ready("a").await.unwrap();
    let calls: Vec<_> = (0..100)
        .map(|n| {
            let host = Arc::clone(&host);
            tokio::spawn(async move { text_of(call(&host, "a.echo", json!({"text": format!("{n}")}), LONG).await) })
        })
        .collect();
    for (n, call) in calls.into_iter().enumerate() {
        assert_eq!(call.await.unwrap(), format!("{n}"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn session_revision_and_manifest_headers_are_sent_and_the_session_is_ended() {
    let played = Played::start(|seen, _| proper(seen).unwrap_or_else(|| reply(seen, &json!({"content": []})))).await;
    let decl = ToolDecl {
        id: "a".into(),
        mcp: McpDecl::Http {
            url: played.url.clone(),
            headers: [("Authorization".to_owned(), Secret::From { from: "AUTH".into() })].into(),
        },
        scope: None,
        idempotent: Vec::new(),
        trust_annotations: false,
        start_timeout_ms: 30_000,
        passes: vec![],
    };
    let host = host(vec![ToolSpec::from_decl(&decl, &std::env::temp_dir(), &|name| {
        (name == "AUTH").then(|| "Bearer 123456789".into())
    })]);
    host.ready("a").await.unwrap();
    result(&host, "a.f").await;
    host.shutdown().await;
    let seen = played.seen();
    assert!(seen.iter().all(|s| s.headers["authorization"] == "Bearer 123456789"));
    assert!(
        seen[0].headers.get("mcp-session-id").is_none()
            && seen[0].headers["accept"] == "application/json, text/event-stream"
    );
    assert!(
        seen[1..]
            .iter()
            .all(|s| s.headers["mcp-session-id"] == "session-1" && s.headers["mcp-protocol-version"] == "2025-06-18")
    );
    assert_eq!(seen.last().unwrap().method, Method::DELETE);
    assert!(seen.iter().all(|s| s.headers.get("mcp-method").is_none()), "headers of the newest revision only there");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ended_session_is_opened_anew_and_the_call_made_once_more() {
    let (host, played) = playing(|seen, before| {
        if before == 2 {
            return StatusCode::NOT_FOUND.into_response();
        }
        proper(seen).unwrap_or_else(|| reply(seen, &json!({"content": [{"type": "text", "text": "made"}]})))
    })
    .await;
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    assert_eq!(text_of(call(&host, "a.f", json!({}), LONG).await), "made");
    assert_eq!((played.count("initialize"), played.count("tools/call")), (2, 2));
    assert_eq!(status(&host, "a").state, ToolState::Ready);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_ends_every_session_is_not_called_without_end() {
    let (host, played) = answering(|_| StatusCode::NOT_FOUND.into_response()).await;
    assert!(matches!(call(&host, "a.f", json!({}), LONG).await, CallOutcome::NotSent { .. }));
    assert_eq!(played.count("tools/call"), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_that_come_before_a_request_is_looked_at_mean_not_sent_and_others_lost() {
    for (code, not_sent) in
        [(401, true), (403, true), (413, true), (429, true), (400, false), (500, false), (502, false)]
    {
        let (host, _played) =
            answering(move |_| (StatusCode::from_u16(code).unwrap(), "go \u{1b}[31maway").into_response()).await;
        let why = match call(&host, "a.f", json!({}), LONG).await {
            CallOutcome::NotSent { why } if not_sent => why,
            CallOutcome::Lost { why } if !not_sent => why,
            other => panic!("{code}: {other:?}"),
        };
        assert!(why.contains(&format!("HTTP {code}: go \\u{{1b}}[31maway")), "{why}");
        good_is_unharmed(&host).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_jsonrpc_error_under_an_http_error_is_told_as_such() {
    let (host, _played) = answering(|seen| {
        let body = json!({"jsonrpc": "2.0", "id": seen.body["id"], "error": {"code": -32000, "message": "no luck"}});
        (StatusCode::BAD_REQUEST, axum::Json(body)).into_response()
    })
    .await;
    assert!(
        matches!(call(&host, "a.f", json!({}), LONG).await, CallOutcome::RpcError { code: -32000, message, .. } if message == "no luck")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_answers_fail_visibly() {
    type Case = (&'static str, fn(&Seen) -> Response, &'static str);
    let cases: [Case; 8] = [
        ("html", |_| ([("content-type", "text/html")], "<html>").into_response(), "content type text/html"),
        ("no json", |_| ([("content-type", "application/json")], "{oops").into_response(), "malformed"),
        (
            "another's",
            |_| axum::Json(json!({"jsonrpc": "2.0", "id": 4711, "result": {}})).into_response(),
            "not the answer",
        ),
        ("accepted", |_| StatusCode::ACCEPTED.into_response(), "content type none"),
        ("empty stream", |_| sse(String::new()), "broke off"),
        ("bad event", |_| sse("data: {oops\n\n".into()), "malformed"),
        (
            "huge body",
            |_| ([("content-type", "application/json")], "x".repeat(17 << 20)).into_response(),
            "over the limit of 16777216",
        ),
        ("huge event", |_| sse(format!("data: {}", "x".repeat(17 << 20))), "over the limit of 16777216"),
    ];
    for (name, answer, told) in cases {
        let (host, _played) = answering(answer).await;
        match call(&host, "a.f", json!({}), LONG).await {
            CallOutcome::Lost { why } => assert!(why.contains(told), "{name}: {why}"),
            other => panic!("{name}: {other:?}"),
        }
        good_is_unharmed(&host).await;
        assert_eq!(status(&host, "a").state, ToolState::Ready);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_in_a_stream_is_found_between_other_messages() {
    let (host, played) = answering(|seen| {
        let id = &seen.body["id"];
        sse(format!(
            ": hello\n\nevent: message\ndata: {{\"method\":\"notifications/message\",\"params\":{{}}}}\n\ndata: {{\"id\":\"p\",\"method\":\"ping\"}}\n\n\
             data: {{\"id\":\"s\",\"method\":\"sampling/createMessage\"}}\n\ndata: {{\"jsonrpc\":\"2.0\",\ndata: \"id\":{id},\"result\":{{\"content\":[],\"decision\":\"allow\"}}}}\n\n"
        ))
    })
    .await;
    assert_eq!(result(&host, "a.f").await, json!({"content": [], "decision": "allow"}));
    let pong = played.saw("a pong", |s| s.body["id"] == "p").await;
    assert_eq!(pong.body["result"], json!({}));
    let refusal = played.saw("a refusal", |s| s.body["id"] == "s").await;
    assert_eq!(refusal.body["error"]["code"], -32601);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_breaks_off_is_taken_up_again() {
    let asked: Arc<Mutex<Value>> = Arc::default();
    let (host, played) = playing(move |seen, _| {
        if seen.method == Method::GET && seen.headers.get("last-event-id").is_some_and(|id| id == "e7") {
            return sse(format!(
                "id: e8\ndata: {{\"id\":{},\"result\":{{\"content\":[]}}}}\n\n",
                asked.lock().unwrap()
            ));
        }
        proper(seen).unwrap_or_else(|| {
            *asked.lock().unwrap() = seen.body["id"].clone();
            sse("id: e7\nretry: 50\ndata:\n\n".into())
        })
    })
    .await;
    assert_eq!(result(&host, "a.f").await, json!({"content": []}));
    assert_eq!(played.count("tools/call"), 1, "the call is not made again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_never_answers_times_out_and_is_told() {
    let (host, played) = answering(|_| stuck(": nothing\n\n")).await;
    let timed_out = call(&host, "a.f", json!({}), Duration::from_millis(500));
    let (timed_out, ()) = tokio::join!(timed_out, good_is_unharmed(&host));
    assert!(matches!(timed_out, CallOutcome::TimedOut { .. }), "{timed_out:?}");
    let called = played.saw("the call", |s| s.body["method"] == "tools/call").await;
    let cancelled = played.saw("its cancellation", |s| is_cancelled(&s.body)).await;
    assert_eq!(cancelled.body["params"]["requestId"], called.body["id"]);
    let gone = tokio::time::timeout(Duration::from_millis(200), call(&host, "a.f", json!({}), LONG)).await;
    assert!(gone.is_err());
    until("going away cancels too", || played.seen().iter().filter(|s| is_cancelled(&s.body)).count() == 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_answer_over_http_is_reported() {
    let (host, _played) = answering(|seen| {
        later(Duration::from_millis(1_500), json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": {}}).to_string())
    })
    .await;
    let CallOutcome::TimedOut { late } = call(&host, "a.f", json!({}), Duration::from_millis(500)).await else {
        panic!()
    };
    assert!(late.await.unwrap().after_ms >= 1_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_goes_away_and_comes_back_is_connected_again() {
    let first = Real::start(&["--http", "127.0.0.1:0"]);
    let address = first.1.trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
    let host = with_good(at("a", &first.1)).await;
    drop(first);
    // What is sent into a connection that breaks off may have arrived; then nobody is there.
    until("the loss is noticed", || {
        status(&host, "a").state != ToolState::Ready || {
            tokio::task::block_in_place(|| {
                tokio::runtime::Handle::current().block_on(async {
                    let outcome = call(&host, "a.echo", json!({"text": "x"}), LONG).await;
                    assert!(matches!(outcome, CallOutcome::NotSent { .. } | CallOutcome::Lost { .. }), "{outcome:?}");
                });
            });
            false
        }
    })
    .await;
    assert!(matches!(call(&host, "a.echo", json!({"text": "x"}), LONG).await, CallOutcome::NotSent { .. }));
    good_is_unharmed(&host).await;
    let _second = Real::start(&["--http", &address]);
    until_state(&host, "a", ToolState::Ready).await;
    assert_eq!(text_of(call(&host, "a.echo", json!({"text": "back"}), LONG).await), "back");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_not_up_yet_is_awaited_and_one_that_refuses_us_is_not() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = closed.local_addr().unwrap().to_string();
    drop(closed);
    let refusing = Played::start(|_, _| (StatusCode::UNAUTHORIZED, "who are you?").into_response()).await;
    let host = host(vec![at("a", &format!("http://{address}/mcp")), at("b", &refusing.url), at("c", "ftp://x/mcp")]);
    let why = host.ready("a").await.unwrap_err().why;
    assert!(why.contains("can't be reached"), "{why}");
    assert!(host.ready("b").await.unwrap_err().why.contains("HTTP 401: who are you?"));
    assert!(host.ready("c").await.unwrap_err().why.contains("url"));
    assert_eq!([status(&host, "b").state, status(&host, "c").state], [ToolState::Failed, ToolState::Failed]);
    assert_ne!(status(&host, "a").state, ToolState::Failed);
    let _server = Real::start(&["--http", &address]);
    until_state(&host, "a", ToolState::Ready).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn redirects_are_followed_within_the_origin_only() {
    let other = Played::start(|seen, _| proper(seen).unwrap_or_else(|| reply(seen, &json!({})))).await;
    let elsewhere = other.url.clone();
    let redirecting =
        Played::start(move |_, _| (StatusCode::TEMPORARY_REDIRECT, [("location", elsewhere.clone())]).into_response())
            .await;
    let host = host(vec![at("a", &redirecting.url)]);
    let why = host.ready("a").await.unwrap_err().why;
    assert!(why.contains("redirects to") && why.contains(&other.url), "{why}");
    assert!(other.seen().is_empty(), "nothing, and no header, went to the other origin");

    let within = Played::start(|seen, before| match before {
        0 => (StatusCode::TEMPORARY_REDIRECT, [("location", "/mcp/")]).into_response(),
        _ => proper(seen).unwrap_or_else(|| reply(seen, &json!({}))),
    })
    .await;
    let host = self::host(vec![at("a", &within.url)]);
    host.ready("a").await.unwrap();
    assert_eq!(within.seen()[1].body["method"], "initialize");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_newest_revision_alone_is_spoken_over_http_with_its_headers() {
    let (host, played) = playing(|seen, _| match seen.body["method"].as_str() {
        Some("server/discover") => reply(seen, &json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "private"})),
        Some("tools/list") => {
            let schema = json!({"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}});
            reply(seen, &json!({"resultType": "complete", "tools": [{"name": "f", "inputSchema": schema}], "ttlMs": 0, "cacheScope": "private"}))
        }
        Some("tools/call") if seen.body["params"]["name"] == "hang" => stuck(": nothing\n\n"),
        Some("tools/call") => reply(seen, &json!({"resultType": "complete", "content": []})),
        _ => (StatusCode::BAD_REQUEST, "which revision?").into_response(),
    })
    .await;
    host.functions("a").await.unwrap();
    assert!(matches!(call(&host, "a.f", json!({"region": "eu"}), LONG).await, CallOutcome::Answered { .. }));
    let called = played.saw("the call", |s| s.body["method"] == "tools/call").await;
    for (header, value) in [
        ("mcp-method", "tools/call"),
        ("mcp-name", "f"),
        ("mcp-param-region", "eu"),
        ("mcp-protocol-version", "2026-07-28"),
    ] {
        assert_eq!(called.headers[header], value, "{header}");
    }
    assert_eq!(called.body["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
    let timed_out = call(&host, "a.hang", json!({}), Duration::from_millis(300)).await;
    assert!(matches!(timed_out, CallOutcome::TimedOut { .. }));
    host.shutdown().await;
    assert!(
        !played.seen().iter().any(|s| is_cancelled(&s.body) || s.method == Method::DELETE),
        "the end of the stream says it"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_are_heard_on_a_stream_of_their_own_and_a_list_is_kept_meanwhile() {
    let (change, changes) = tokio::sync::watch::channel(0_u32);
    let (host, played) = playing(move |seen, _| {
        if seen.body["method"] == "initialize" {
            let result = json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {"listChanged": true}}});
            return ([("mcp-session-id", "session-1")], reply(seen, &result)).into_response();
        }
        if seen.method == Method::GET {
            let changes = changes.clone();
            let bytes = futures_util::stream::unfold(changes, |mut changes| async move {
                changes.changed().await.ok()?;
                Some((Ok::<_, std::io::Error>("data: {\"method\":\"notifications/tools/list_changed\"}\n\n"), changes))
            });
            return Response::builder()
                .header("content-type", "text/event-stream")
                .body(Body::from_stream(bytes))
                .unwrap();
        }
        proper(seen).unwrap_or_else(|| reply(seen, &json!({})))
    })
    .await;
    played.saw("the stream", |s| s.method == Method::GET).await;
    // Until the stream is open, each list is read anew.
    let mut kept = false;
    for _ in 0..200 {
        let before = played.count("tools/list");
        host.functions("a").await.unwrap();
        kept = played.count("tools/list") == before;
        if kept {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(kept, "a list is kept");
    let before = played.count("tools/list");
    change.send(1).unwrap();
    let mut anew = false;
    for _ in 0..200 {
        host.functions("a").await.unwrap();
        anew = played.count("tools/list") > before;
        if anew {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(anew, "after a change it is read anew");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_http_server_that_never_answers_initialize_fails_at_its_limit() {
    let played = Played::start(|_, _| stuck(": nothing\n\n")).await;
    let mut spec = at("a", &played.url);
    spec.start_timeout = Duration::from_secs(1);
    let host = McpHost::start(vec![spec, tool("good", &[])], HostConfig::default());
    assert!(host.ready("a").await.unwrap_err().why.contains("not ready within 1s"));
    host.ready("good").await.unwrap();
    good_is_unharmed(&host).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_runs_elsewhere_is_not_killed_but_connected_anew() {
    let mut real = Real::start(&["--http", "127.0.0.1:0"]);
    let host = with_good(at("a", &real.1)).await;
    let mut changes = host.changes();
    assert!(!host.kill("a", "it was killed: it hangs").await);
    let changed = changes.recv().await.unwrap();
    assert_eq!((changed.tool.as_str(), changed.state), ("a", ToolState::Restarting));
    let why = changed.last_error.unwrap();
    assert!(why.contains("its connection was given up") && !why.contains("killed"), "{why}");
    host.ready("a").await.unwrap();
    assert_eq!(status(&host, "a").starts, 2);
    assert_eq!(real.0.try_wait().unwrap(), None, "it lives");
    good_is_unharmed(&host).await;
}
