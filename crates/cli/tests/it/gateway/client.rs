//! An MCP client over stdin and stdout: whatever a test wants to send, and everything that came back, in order.

use crate::support::{Finished, World};
use serde_json::{Map, Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long anything may take before a test gives up: the machine may be busy.
const PATIENCE: Duration = Duration::from_mins(2);

/// A client and its `hookwright gateway`. Dropped, the process is killed.
pub(crate) struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    reader: Option<JoinHandle<()>>,
    errors: Option<JoinHandle<String>>,
    next: i64,
    /// What every request carries as `_meta`.
    meta: Option<Map<String, Value>>,
    /// Every message that came, in order.
    pub(crate) seen: Vec<Value>,
}

impl Client {
    /// Starts the gateway with the world's plugins; nothing is sent yet.
    pub(crate) fn start(world: &World, args: &[&str]) -> Self {
        let mut command = world.hookwright(&[&["gateway", "--db", "jobs.db"], args].concat());
        for plugin in world.plugins() {
            command.args(["--plugin", &plugin]);
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (out, mut err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let (sender, lines) = channel();
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let errors = std::thread::spawn(move || {
            let mut text = String::new();
            let _ = err.read_to_string(&mut text);
            text
        });
        let stdin = child.stdin.take();
        Self { child, stdin, lines, reader: Some(reader), errors: Some(errors), next: 1, meta: None, seen: vec![] }
    }

    /// Starts it and says hello, in the newest revision that does.
    pub(crate) fn new(world: &World, args: &[&str]) -> Self {
        Self::with(world, args, json!({}))
    }

    /// The same, with capabilities.
    pub(crate) fn with(world: &World, args: &[&str], capabilities: Value) -> Self {
        let mut client = Self::start(world, args);
        client.hello("2025-11-25", capabilities);
        client
    }

    /// Starts it as a client of the revision without a hello.
    pub(crate) fn modern(world: &World, args: &[&str], capabilities: Value) -> Self {
        let mut client = Self::start(world, args);
        client.meta = Some(Map::from_iter([
            ("io.modelcontextprotocol/protocolVersion".to_owned(), json!("2026-07-28")),
            ("io.modelcontextprotocol/clientInfo".to_owned(), json!({"name": "test client", "version": "1"})),
            ("io.modelcontextprotocol/clientCapabilities".to_owned(), capabilities),
        ]));
        client
    }

    pub(crate) fn hello(&mut self, revision: &str, capabilities: Value) -> Value {
        let params = json!({
            "protocolVersion": revision, "capabilities": capabilities,
            "clientInfo": {"name": "test client", "version": "1"},
        });
        let hello = self.request("initialize", params);
        self.notify("notifications/initialized", json!({}));
        hello
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().unwrap();
        let _ = stdin.write_all(bytes).and_then(|()| stdin.flush());
    }

    pub(crate) fn message(&mut self, message: &Value) {
        self.raw(format!("{message}\n").as_bytes());
    }

    /// Sends a request; returns its id.
    pub(crate) fn send(&mut self, method: &str, mut params: Value) -> i64 {
        let id = self.next;
        self.next += 1;
        if let Some(meta) = &self.meta {
            let mut all = meta.clone();
            all.extend(params["_meta"].as_object().cloned().unwrap_or_default());
            params["_meta"] = json!(all);
        }
        self.message(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    pub(crate) fn notify(&mut self, method: &str, params: Value) {
        self.message(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// The next message that fits; those before it are only seen.
    #[track_caller]
    pub(crate) fn until(&mut self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + PATIENCE;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let Ok(line) = self.lines.recv_timeout(left) else {
                panic!("it never came: {what}\n{:#?}", self.seen);
            };
            let message: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("no message: {e}: {line:?}"));
            assert_eq!(message["jsonrpc"], "2.0", "{message}");
            self.seen.push(message.clone());
            if fits(&message) {
                return message;
            }
        }
    }

    /// The answer to a request, whatever it is.
    #[track_caller]
    pub(crate) fn answer(&mut self, id: i64) -> Value {
        let fits = |m: &Value| m["id"] == id && m.get("method").is_none();
        if let Some(seen) = self.seen.iter().find(|m| fits(m)) {
            return seen.clone();
        }
        self.until(&format!("the answer to {id}"), fits)
    }

    #[track_caller]
    pub(crate) fn result(&mut self, id: i64) -> Value {
        let answer = self.answer(id);
        assert!(answer.get("error").is_none(), "{answer:#}");
        answer["result"].clone()
    }

    #[track_caller]
    pub(crate) fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        self.result(id)
    }

    /// The error of a request: its code and message.
    #[track_caller]
    pub(crate) fn error(&mut self, method: &str, params: Value) -> (i64, String) {
        let id = self.send(method, params);
        let answer = self.answer(id);
        let error = &answer["error"];
        assert!(error.is_object(), "{answer:#}");
        (error["code"].as_i64().unwrap(), error["message"].as_str().unwrap().to_owned())
    }

    pub(crate) fn begin(&mut self, tool: &str, arguments: Value) -> i64 {
        self.send("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    #[track_caller]
    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let id = self.begin(tool, arguments);
        self.result(id)
    }

    /// Names of the functions that are listed.
    pub(crate) fn names(&mut self) -> Vec<String> {
        let list = self.request("tools/list", json!({}));
        list["tools"].as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Messages of this method that were seen.
    pub(crate) fn told(&self, method: &str) -> Vec<Value> {
        self.seen.iter().filter(|m| m["method"] == method).map(|m| m["params"].clone()).collect()
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = i32::try_from(self.child.id()).unwrap();
        rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), signal).unwrap();
    }

    /// Closes standard input, and waits for the end; what was still sent is seen.
    pub(crate) fn close(&mut self) -> Finished {
        drop(self.stdin.take());
        self.finish()
    }

    pub(crate) fn finish(&mut self) -> Finished {
        let end = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < end, "it did not end");
            std::thread::sleep(Duration::from_millis(10));
        };
        self.reader.take().unwrap().join().unwrap();
        while let Ok(line) = self.lines.try_recv() {
            self.seen.push(serde_json::from_str(&line).unwrap_or_else(|e| panic!("no message: {e}: {line:?}")));
        }
        let err = self.errors.take().unwrap().join().unwrap();
        assert!(!err.contains("panicked"), "{err}");
        Finished { status, out: String::new(), err }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
