//! The gateway over Streamable HTTP.

use super::{allowed, echo, text, watched};
use crate::support::{Plugin, World, eventually, function, says};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::Duration;

/// A gateway that listens. Dropped, it is killed.
pub(super) struct Gateway {
    child: Child,
    port: u16,
}

/// An answer: status, headers in lower case, and messages of its body.
#[derive(Debug)]
struct Answer {
    status: u16,
    headers: String,
    messages: Vec<Value>,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")))
    }

    #[track_caller]
    fn result(&self) -> &Value {
        let last = self.messages.last().unwrap_or_else(|| panic!("{self:?}"));
        assert!(last.get("result").is_some(), "{self:?}");
        &last["result"]
    }

    fn code(&self) -> Option<i64> {
        self.messages.last()?["error"]["code"].as_i64()
    }
}

impl Gateway {
    pub(super) fn start(world: &World, args: &[&str], env: &[(&str, &str)]) -> Self {
        let mut command = world.hookwright(&[&["gateway", "--db", "jobs.db", "--http", "0"], args].concat());
        for plugin in world.plugins() {
            command.args(["--plugin", &plugin]);
        }
        let mut child =
            command.envs(env.iter().copied()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.starts_with("listening on ") {
            line.clear();
            assert!(errors.read_line(&mut line).unwrap() > 0, "it did not listen");
        }
        std::thread::spawn(move || std::io::copy(&mut errors, &mut std::io::sink()));
        let port = line.trim().trim_end_matches("/mcp").rsplit(':').next().unwrap().parse().unwrap();
        Self { child, port }
    }

    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port)
    }

    fn send(&self, method: &str, headers: &[(&str, &str)], body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
        let mut text = format!("{method} /mcp HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
        let usual = [
            ("host", "localhost"),
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
        ];
        for (name, value) in usual
            .iter()
            .filter(|(name, _)| !headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name)))
            .chain(headers)
        {
            if !value.is_empty() {
                write!(text, "{name}: {value}\r\n").unwrap();
            }
        }
        stream.write_all(format!("{text}\r\n{body}").as_bytes()).unwrap();
        stream
    }

    fn request(&self, method: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut bytes = vec![];
        self.send(method, headers, body).read_to_end(&mut bytes).unwrap();
        let all = String::from_utf8_lossy(&bytes).into_owned();
        let (head, body) = all.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{all}"));
        let headers = head.to_ascii_lowercase().replace('\r', "");
        let read = |text: &str| serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"));
        let messages = if headers.contains("content-type: text/event-stream") {
            body.lines().filter_map(|line| line.strip_prefix("data: ")).map(read).collect()
        } else if body.trim().is_empty() {
            vec![]
        } else {
            vec![read(body)]
        };
        Answer { status: head.split(' ').nth(1).unwrap().parse().unwrap(), headers, messages }
    }

    fn post(&self, headers: &[(&str, &str)], body: &Value) -> Answer {
        self.request("POST", headers, &body.to_string())
    }

    fn hello(&self, headers: &[(&str, &str)]) -> String {
        let answer = self.post(headers, &message(0, "initialize", json!({
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "web client", "version": "1"},
        })));
        assert_eq!((answer.status, &answer.result()["protocolVersion"]), (200, &json!("2025-11-25")));
        answer.header("mcp-session-id").unwrap().to_owned()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn message(id: i64, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn call(id: i64, tool: &str, arguments: Value) -> Value {
    message(id, "tools/call", json!({"name": tool, "arguments": arguments, "_meta": {"progressToken": id}}))
}

fn modern(mut message: Value) -> Value {
    message["params"]["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "new client", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    message
}

const NEW: (&str, &str) = ("mcp-protocol-version", "2026-07-28");

#[test]
fn a_session_lists_calls_and_ends() {
    let check = json!({"cases": [
        {"when": {"/event/arguments/a": 1}, "then": [says("deny", json!({"reason": "no ones"}))]},
        {"when": {}, "then": [says("allow", json!({}))]},
    ]});
    let world = watched(echo(), check);
    let gateway = Gateway::start(&world, &[], &[]);
    let session = gateway.hello(&[]);
    let of = [("mcp-session-id", session.as_str())];
    assert_eq!(gateway.post(&of, &json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).status, 202);
    assert_eq!(gateway.post(&of, &message(1, "tools/list", json!({}))).result()["tools"][0]["name"], "work.echo");
    assert_eq!(
        gateway.post(&of, &call(2, "work.echo", json!({"a": 0}))).result()["structuredContent"],
        json!({"a": 0})
    );
    let denied = gateway.post(&of, &call(3, "work.echo", json!({"a": 1})));
    assert_eq!(text(denied.result()), "The call to work.echo was not made: hook policy.check denied it: no ones.");
    assert_eq!(gateway.request("DELETE", &of, "").status, 204);
    assert_eq!(gateway.post(&of, &message(4, "ping", json!({}))).status, 404);
    let jobs = world.call(&["jobs", "list", "--db", "jobs.db", "--output", "json"]).json();
    assert_eq!((&jobs["jobs"][0]["agent"], &jobs["jobs"][0]["status"]), (&json!("web-client"), &json!("completed")));
}

#[test]
fn progress_comes_on_the_calls_own_stream_before_its_result() {
    let line = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":{token},"progress":1,"message":"half"}}"#;
    let world = allowed(json!([function("tell", json!([{"line": line}, {"text": "done"}]))]));
    let gateway = Gateway::start(&world, &[], &[]);
    let session = gateway.hello(&[]);
    let answer = gateway.post(&[("mcp-session-id", &session)], &call(7, "work.tell", json!({})));
    assert_eq!(answer.messages[0]["params"], json!({"progressToken": 7, "progress": 1, "message": "half"}));
    assert_eq!(text(answer.result()), "done");
}

#[test]
fn what_a_web_page_could_send_is_refused() {
    let world = allowed(echo());
    let gateway = Gateway::start(&world, &[], &[]);
    let hello = message(0, "initialize", json!({"protocolVersion": "2025-11-25", "capabilities": {}}));
    for headers in [
        &[("host", "evil.example")][..],
        &[("host", "localhost.evil.example:80")],
        &[("host", "")],
        &[("origin", "http://evil.example")],
        &[("origin", "null")],
    ] {
        let answer = gateway.post(headers, &hello);
        assert!(
            matches!(answer.status, 400 | 403) && answer.header("mcp-session-id").is_none(),
            "{headers:?} {answer:?}"
        );
    }
    assert_eq!(gateway.post(&[("origin", "http://localhost:6274")], &hello).status, 200);
    assert_eq!(gateway.post(&[("content-type", "text/plain")], &hello).status, 415);
    assert_eq!(gateway.post(&[("accept", "application/json")], &hello).status, 406);
    assert_eq!(gateway.request("PUT", &[], "").status, 405);
    assert_eq!(gateway.request("POST", &[], "{").status, 400);
    assert_eq!(gateway.request("POST", &[], &format!("\"{}\"", "x".repeat(17 << 20))).status, 413);
    assert_eq!(gateway.post(&[], &message(1, "tools/list", json!({}))).status, 400);
    assert_eq!(gateway.post(&[("mcp-session-id", "guess")], &message(1, "tools/list", json!({}))).status, 404);
    let session = gateway.hello(&[]);
    let wrong = [("mcp-session-id", session.as_str()), ("mcp-protocol-version", "1999-01-01")];
    assert_eq!(gateway.post(&wrong, &message(1, "tools/list", json!({}))).status, 400);
}

#[test]
fn with_a_token_nothing_is_answered_without_it() {
    let world = allowed(echo());
    let gateway = Gateway::start(&world, &["--token-from", "GATEWAY_TOKEN"], &[("GATEWAY_TOKEN", "t0ken-value")]);
    let hello = message(0, "initialize", json!({"protocolVersion": "2025-11-25", "capabilities": {}}));
    for headers in [&[][..], &[("authorization", "Bearer t0ken-valu")], &[("authorization", "Basic t0ken-value")]] {
        for method in ["POST", "GET", "DELETE"] {
            let answer = gateway.request(method, headers, &hello.to_string());
            assert_eq!((answer.status, answer.header("www-authenticate")), (401, Some("bearer")), "{headers:?}");
        }
    }
    gateway.hello(&[("authorization", "Bearer t0ken-value")]);
    let unset = world.call(&["gateway", "--plugin", "p", "--http", "0", "--token-from", "NOPE"]).code(2);
    assert!(unset.err.contains("NOPE"), "{unset}");
    world.call(&["gateway", "--plugin", "p", "--http", "0.0.0.0:0"]).code(2);
}

#[test]
fn requests_that_stand_for_themselves_are_one_clients_session() {
    let world = watched(echo(), says("escalate", json!({"reason": "a look"})));
    let gateway = Gateway::start(&world, &["--wait", "1"], &[]);
    let found =
        gateway.post(&[NEW, ("mcp-method", "server/discover")], &modern(message(1, "server/discover", json!({}))));
    assert_eq!(found.result()["resultType"], "complete");
    let call = |arguments: Value| {
        let headers = [NEW, ("mcp-method", "tools/call"), ("mcp-name", "work.echo")];
        gateway.post(&headers, &modern(message(1, "tools/call", json!({"name": "work.echo", "arguments": arguments}))))
    };
    let left = call(json!({"a": 1}));
    assert!(text(left.result()).contains("Nobody has decided"), "{left:?}");
    world.call(&["approvals", "approve", &world.open_approval(), "--db", "jobs.db"]).code(0);
    eventually("the yes is heard", || {
        (call(json!({"a": 1})).result()["structuredContent"] == json!({"a": 1})).then_some(())
    });
    assert_eq!(world.calls("work").len(), 1);
}

#[test]
fn headers_that_do_not_say_what_the_body_says_are_refused() {
    let world = allowed(echo());
    let gateway = Gateway::start(&world, &[], &[]);
    let call = modern(message(1, "tools/call", json!({"name": "work.echo", "arguments": {}})));
    let (method, name) = (("mcp-method", "tools/call"), ("mcp-name", "work.echo"));
    assert_eq!(gateway.post(&[NEW, method, name], &call).status, 200);
    assert_eq!(gateway.post(&[NEW, method, ("mcp-name", "=?base64?d29yay5lY2hv?=")], &call).status, 200);
    for headers in [
        &[method, name][..],
        &[NEW, name],
        &[NEW, method],
        &[NEW, ("mcp-method", "tools/list"), name],
        &[NEW, method, ("mcp-name", "work.other")],
        &[NEW, method, name, ("mcp-name", "work.other")],
    ] {
        let answer = gateway.post(headers, &call);
        assert_eq!((answer.status, answer.code()), (400, Some(-32_020)), "{headers:?}");
    }
    let mut bare = call.clone();
    bare["params"]["_meta"] = json!({});
    assert_eq!(gateway.post(&[NEW, method, name], &bare).code(), Some(-32_602));
    let unknown = gateway.post(&[NEW, ("mcp-method", "ping")], &modern(message(1, "ping", json!({}))));
    assert_eq!((unknown.status, unknown.code()), (404, Some(-32_601)));
    let mut newer = modern(message(1, "tools/list", json!({})));
    newer["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2030-01-01");
    let answer = gateway.post(&[("mcp-protocol-version", "2030-01-01"), ("mcp-method", "tools/list")], &newer);
    assert_eq!((answer.status, answer.code()), (400, Some(-32_022)));
}

#[test]
fn arguments_that_a_server_wants_repeated_in_headers_are_compared() {
    let schema = json!({"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}});
    let world = allowed(json!([{"name": "deploy", "inputSchema": schema, "behaviour": {"echo": true}}]));
    let gateway = Gateway::start(&world, &[], &[]);
    let call = modern(message(1, "tools/call", json!({"name": "work.deploy", "arguments": {"region": "eu", "x": 1}})));
    let (method, name) = (("mcp-method", "tools/call"), ("mcp-name", "work.deploy"));
    let answer = gateway.post(&[NEW, method, name, ("mcp-param-region", "eu")], &call);
    assert_eq!(answer.result()["structuredContent"], json!({"region": "eu", "x": 1}), "{answer:?}");
    for headers in [&[NEW, method, name][..], &[NEW, method, name, ("mcp-param-region", "us")]] {
        let answer = gateway.post(headers, &call);
        assert_eq!((answer.status, answer.code()), (400, Some(-32_020)), "{headers:?}");
    }
    assert_eq!(world.calls("work").len(), 1);
}

#[test]
fn a_stream_that_broke_off_is_taken_up_where_it_was_heard_last() {
    let line = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":{token},"progress":1}}"#;
    let slow = json!([{"line": line}, {"sleep_ms": 1_500}, {"text": "done"}]);
    let world = allowed(json!([function("slow", slow)]));
    let gateway = Gateway::start(&world, &[], &[]);
    let session = gateway.hello(&[]);
    let of = [("mcp-session-id", session.as_str()), ("mcp-protocol-version", "2025-11-25")];
    let mut stream = BufReader::new(gateway.send("POST", &of, &call(1, "work.slow", json!({})).to_string()));
    let mut ids = vec![];
    while ids.len() < 2 {
        let mut line = String::new();
        assert!(stream.read_line(&mut line).unwrap() > 0, "{ids:?}");
        ids.extend(line.trim().strip_prefix("id: ").map(str::to_owned));
    }
    // An event without words, and the progress.
    assert_eq!(ids, ["0-0", "0-1"]);
    drop(stream);
    let again = |last: &str| gateway.request("GET", &[&of[..], &[("last-event-id", last)]].concat(), "");
    let rest = again("0-1");
    assert_eq!((rest.status, rest.messages.len()), (200, 1), "{rest:?}");
    assert_eq!(text(&rest.messages[0]["result"]), "done");
    assert_eq!(again("0-0").messages.len(), 2, "from the beginning");
    assert_eq!(again("0-7").status, 410);
    assert_eq!(world.calls("work").len(), 1);
}

#[test]
fn closing_a_stream_cancels_in_the_newest_revision_and_not_in_older_ones() {
    let world = allowed(json!([function("slow", json!([{"await_cancel": true}, {"text": "x"}]))]));
    let gateway = Gateway::start(&world, &[], &[]);
    let session = gateway.hello(&[]);
    let old = call(1, "work.slow", json!({"old": true}));
    drop(gateway.send("POST", &[("mcp-session-id", &session)], &old.to_string()));
    eventually("the call is made", || (world.calls("work").len() == 1).then_some(()));
    std::thread::sleep(Duration::from_secs(1));
    assert!(!world.was_cancelled("work"));
    let new = modern(message(1, "tools/call", json!({"name": "work.slow", "arguments": {}})));
    let headers = [NEW, ("mcp-method", "tools/call"), ("mcp-name", "work.slow")];
    let stream = gateway.send("POST", &headers, &new.to_string());
    eventually("the call is made", || (world.calls("work").len() == 2).then_some(()));
    drop(stream);
    eventually("the server is told", || world.was_cancelled("work").then_some(()));
}

#[test]
fn a_call_whose_client_goes_while_its_server_starts_is_not_made() {
    let script = json!({"start": [{"sleep_ms": 5_000}], "tools": echo()});
    let world = World::with(Plugin::new("p").scripted("work", script, json!({})));
    let gateway = Gateway::start(&world, &[], &[]);
    let headers = [NEW, ("mcp-method", "tools/call"), ("mcp-name", "work.echo")];
    let call = |a: i64| modern(message(a, "tools/call", json!({"name": "work.echo", "arguments": {"a": a}})));
    let gone = gateway.send("POST", &headers, &call(1).to_string());
    // Wherever the call is by then: it waits for the server.
    std::thread::sleep(Duration::from_millis(300));
    drop(gone);
    assert_eq!(gateway.post(&headers, &call(2)).result()["structuredContent"], json!({"a": 2}));
    assert_eq!(world.calls("work"), [("echo".to_owned(), json!({"a": 2}))]);
}

#[test]
fn what_one_client_can_is_not_taken_for_another_of_its_name() {
    let world = watched(echo(), says("escalate", json!({"reason": "a look"})));
    let gateway = Gateway::start(&world, &["--wait", "1"], &[]);
    let headers = [NEW, ("mcp-method", "tools/call"), ("mcp-name", "work.echo")];
    let call = |can: Value| {
        let mut call = modern(message(1, "tools/call", json!({"name": "work.echo", "arguments": {}})));
        call["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = can;
        gateway.post(&headers, &call).result().clone()
    };
    assert_eq!(call(json!({"elicitation": {}}))["resultType"], "input_required");
    assert!(text(&call(json!({}))).contains("Nobody has decided within 1s"));
}

#[test]
fn a_client_hears_of_changed_lists_on_its_stream() {
    let new = json!({"add_tool": {"name": "new", "inputSchema": {"type": "object"}}});
    let script = json!({"list_changed": true, "tools": [function("grow", json!([new, {"text": "grown"}]))]});
    let world = World::with(crate::support::Plugin::new("p").scripted("work", script, json!({})));
    let gateway = Gateway::start(&world, &[], &[]);
    let session = gateway.hello(&[]);
    let of = [("mcp-session-id", session.as_str())];
    let mut stream = BufReader::new(gateway.send("GET", &[of[0], ("accept", "text/event-stream")], ""));
    gateway.post(&of, &message(1, "tools/list", json!({})));
    gateway.post(&of, &call(2, "work.grow", json!({})));
    let mut line = String::new();
    while !line.contains("notifications/tools/list_changed") {
        line.clear();
        assert!(stream.read_line(&mut line).unwrap() > 0, "the stream ended");
    }
    assert_eq!(gateway.post(&of, &message(3, "tools/list", json!({}))).result()["tools"].as_array().unwrap().len(), 2);
}
