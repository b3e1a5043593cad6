//! An ACP client that speaks frames: whatever a test wants to send, and everything that came back, in order.

use crate::support::{Finished, World};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long anything may take before a test gives up: the machine may be busy.
const PATIENCE: Duration = Duration::from_mins(2);

/// A client and its `hookwright acp`. Dropped, the process is killed.
pub(crate) struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    frames: Receiver<String>,
    reader: Option<JoinHandle<()>>,
    errors: Option<JoinHandle<String>>,
    next: i64,
    deaf: Arc<AtomicBool>,
    /// Every frame that came, in order.
    pub(crate) seen: Vec<Value>,
}

impl Client {
    /// Starts `hookwright acp` with the world's plugins and further arguments; nothing is sent yet.
    pub(crate) fn start(world: &World, args: &[&str]) -> Self {
        Self::start_in(world, args, &[])
    }

    /// As [`Client::start`], with variables.
    pub(crate) fn start_in(world: &World, args: &[&str], env: &[(&str, &str)]) -> Self {
        let mut command = world.hookwright(&[&["acp", "--db", "jobs.db"], args].concat());
        for plugin in world.plugins() {
            command.args(["--plugin", &plugin]);
        }
        command.envs(env.iter().copied());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (out, mut err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let (sender, frames) = channel();
        let deaf = Arc::new(AtomicBool::new(false));
        let is_deaf = deaf.clone();
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                while is_deaf.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(10));
                }
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
        Self { child, stdin, frames, reader: Some(reader), errors: Some(errors), next: 1, deaf, seen: vec![] }
    }

    /// Whether what comes is left unread.
    pub(crate) fn deaf(&self, deaf: bool) {
        self.deaf.store(deaf, Ordering::Relaxed);
    }

    /// Starts it and says hello, as a client that shows notices.
    pub(crate) fn new(world: &World, args: &[&str]) -> Self {
        let mut client = Self::start(world, args);
        client.hello();
        client
    }

    pub(crate) fn hello(&mut self) -> Value {
        self.call(
            "initialize",
            json!({
                "protocolVersion": 1,
                "clientCapabilities": {"session": {"notices": {}}},
                "clientInfo": {"name": "test-client", "version": "1"},
            }),
        )
    }

    /// Writes bytes as they are. A process that is gone is noticed by what does not come back.
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().unwrap();
        let _ = stdin.write_all(bytes).and_then(|()| stdin.flush());
    }

    /// Writes bytes in a thread, which may be held up.
    pub(crate) fn write_aside(&mut self, bytes: Vec<u8>) -> JoinHandle<ChildStdin> {
        let mut stdin = self.stdin.take().unwrap();
        std::thread::spawn(move || {
            let _ = stdin.write_all(&bytes).and_then(|()| stdin.flush());
            stdin
        })
    }

    /// Goes on writing where a thread ended.
    pub(crate) fn take_back(&mut self, writing: JoinHandle<ChildStdin>) {
        self.stdin = Some(writing.join().unwrap());
    }

    fn frame(&mut self, frame: &Value) {
        let mut line = frame.to_string();
        line.push('\n');
        self.raw(line.as_bytes());
    }

    /// Sends a request; returns its id.
    pub(crate) fn send(&mut self, method: &str, params: Value) -> i64 {
        let id = self.next;
        self.next += 1;
        self.frame(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    pub(crate) fn notify(&mut self, method: &str, params: Value) {
        self.frame(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Answers a request of the agent.
    pub(crate) fn answer(&mut self, request: &Value, result: Value) {
        self.frame(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result}));
    }

    /// Answers a question for permission with the option of that kind.
    pub(crate) fn choose(&mut self, request: &Value, kind: &str) {
        let options = request["params"]["options"].as_array().unwrap();
        let option = options.iter().find(|o| o["kind"] == kind).unwrap()["optionId"].clone();
        self.answer(request, json!({"outcome": {"outcome": "selected", "optionId": option}}));
    }

    /// The next frame that fits, those before it are only seen.
    #[track_caller]
    pub(crate) fn until(&mut self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + PATIENCE;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let Ok(line) = self.frames.recv_timeout(left) else {
                panic!("it never came: {what}\n{:#?}", self.seen);
            };
            let frame: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("not a frame: {e}: {line:?}"));
            assert_eq!(frame["jsonrpc"], "2.0", "{frame}");
            self.seen.push(frame.clone());
            if fits(&frame) {
                return frame;
            }
        }
    }

    /// The response to a request, whatever it is.
    #[track_caller]
    pub(crate) fn response(&mut self, id: i64) -> Value {
        self.until(&format!("the response to {id}"), |f| f["id"] == id && f.get("method").is_none())
    }

    /// The result of a request.
    #[track_caller]
    pub(crate) fn result(&mut self, id: i64) -> Value {
        let response = self.response(id);
        assert!(response.get("error").is_none(), "{response:#}");
        response["result"].clone()
    }

    /// The error of a request: its code and message.
    #[track_caller]
    pub(crate) fn error(&mut self, method: &str, params: Value) -> (i64, String) {
        let id = self.send(method, params);
        let response = self.response(id);
        let error = &response["error"];
        assert!(error.is_object(), "{response:#}");
        (error["code"].as_i64().unwrap(), error["message"].as_str().unwrap().to_owned())
    }

    /// A request and its result.
    #[track_caller]
    pub(crate) fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        self.result(id)
    }

    /// A new session with these servers; its id.
    #[track_caller]
    pub(crate) fn session(&mut self, servers: Value) -> String {
        let cwd = std::env::temp_dir();
        let made = self.call("session/new", json!({"cwd": cwd, "mcpServers": servers}));
        made["sessionId"].as_str().unwrap().to_owned()
    }

    /// Sends a prompt; returns the request's id.
    pub(crate) fn begin(&mut self, session: &str, text: &str) -> i64 {
        self.send("session/prompt", json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]}))
    }

    /// A prompt to its end; its stop reason.
    #[track_caller]
    pub(crate) fn prompt(&mut self, session: &str, text: &str) -> String {
        let id = self.begin(session, text);
        self.result(id)["stopReason"].as_str().unwrap().to_owned()
    }

    /// The next question for permission.
    #[track_caller]
    pub(crate) fn question(&mut self) -> Value {
        self.until("a question for permission", |f| f["method"] == "session/request_permission")
    }

    /// The next update of that kind.
    #[track_caller]
    pub(crate) fn update(&mut self, kind: &str) -> Value {
        self.until(&format!("an update {kind}"), |f| f["params"]["update"]["sessionUpdate"] == kind)["params"]["update"]
            .clone()
    }

    /// All updates of that kind that were seen.
    pub(crate) fn updates(&self, kind: &str) -> Vec<Value> {
        let updates = self.seen.iter().map(|f| &f["params"]["update"]);
        updates.filter(|u| u["sessionUpdate"] == kind).cloned().collect()
    }

    /// What the agent said, all pieces together.
    pub(crate) fn said(&self) -> String {
        let pieces = self.updates("agent_message_chunk");
        pieces.iter().map(|u| u["content"]["text"].as_str().unwrap()).collect()
    }

    /// Titles of the notices that were seen.
    pub(crate) fn notices(&self) -> Vec<String> {
        self.updates("notice").iter().map(|n| n["title"].as_str().unwrap().to_owned()).collect()
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_raw(self.pid()).unwrap(), signal).unwrap();
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
        self.deaf(false);
        self.reader.take().unwrap().join().unwrap();
        while let Ok(line) = self.frames.try_recv() {
            self.seen.push(serde_json::from_str(&line).unwrap_or_else(|e| panic!("not a frame: {e}: {line:?}")));
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

/// A stdio server of the client: a scripted one, whose script is written into the world.
pub(crate) fn server(world: &World, name: &str, mut script: Value) -> Value {
    let file = name.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    script["log"] = json!(world.path(&format!("{file}.log")));
    let path = world.write(&format!("{file}.json"), script.to_string());
    json!({"name": name, "command": hookwright_testkit::bins::bin("scripted-mcp"), "args": [path], "env": []})
}

/// A list of frames in which ids, times and paths are the same in every run.
pub(crate) fn normal(frames: &[Value], world: &World) -> Vec<Value> {
    let mut names: Vec<(String, String)> = vec![];
    let folder = world.path("").to_string_lossy().trim_end_matches('/').to_owned();
    let tmp = format!("{}/", std::env::temp_dir().display());
    let texts: Vec<String> = frames.iter().map(Value::to_string).collect();
    for text in &texts {
        for kind in ["ses_", "job_", "ap_"] {
            for (at, _) in text.match_indices(kind) {
                let id: String = text[at..].chars().take(kind.len() + 16).collect();
                if id[kind.len()..].chars().all(|c| c.is_ascii_hexdigit())
                    && !names.iter().any(|(known, _)| *known == id)
                {
                    let n = names.iter().filter(|(known, _)| known.starts_with(kind)).count() + 1;
                    names.push((id, format!("{kind}{n}")));
                }
            }
        }
    }
    texts
        .into_iter()
        .map(|mut text| {
            for (id, name) in &names {
                text = text.replace(id, name);
            }
            let mut frame = serde_json::from_str(&text.replace(&folder, "[folder]").replace(&tmp, "[tmp]/")).unwrap();
            settle(&mut frame);
            frame
        })
        .collect()
}

fn settle(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, value) in map.iter_mut() {
                match key.as_str() {
                    "updatedAt" if value.is_string() => *value = json!("[time]"),
                    "ms" => *value = json!("[ms]"),
                    // Ids of our requests are random.
                    "id" | "requestId" if value.as_str().is_some_and(|id| id.len() == 36) => *value = json!("[id]"),
                    "digest" => *value = json!("[digest]"),
                    "version" => *value = json!("[version]"),
                    _ => settle(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(settle),
        _ => {}
    }
}
