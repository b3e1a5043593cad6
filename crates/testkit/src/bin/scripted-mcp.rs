//! `scripted-mcp SCRIPT.json` – an MCP server over stdio that plays a script, hostile ones too.
//! `scripted-mcp --json '{…}'` – the same with the script as argument.
//!
//! The script's keys are documented in `hookwright_testkit::script`. Exit code 2 where the script can't be read, else 0 when stdin ends.

use hookwright_testkit::script::{Behaviour, Cursor, Modern, Opening, OpeningWord, Script, Step};
use serde_json::{Map, Value, json};
use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const HOUR: Duration = Duration::from_hours(1);
const MODERN: &str = "2026-07-28";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let text = match args.as_slice() {
        [flag, json] if flag == "--json" => Ok(json.clone()),
        [path] => std::fs::read_to_string(path).map_err(|e| format!("{path}: {e}")),
        _ => Err("usage: scripted-mcp SCRIPT.json | scripted-mcp --json '{…}'".to_owned()),
    };
    let script =
        text.and_then(|text| serde_json::from_str::<Script>(&text).map_err(|e| format!("the script is wrong: {e}")));
    match script {
        Ok(script) => {
            Server::new(script).run();
            ExitCode::SUCCESS
        }
        Err(why) => {
            let _ = writeln!(std::io::stderr(), "scripted-mcp: {why}");
            ExitCode::from(2)
        }
    }
}

struct Server {
    script: Script,
    out: Mutex<()>,
    log: Option<Mutex<File>>,
    cancelled: (Mutex<HashSet<String>>, Condvar),
    added: Mutex<Vec<Map<String, Value>>>,
    stop_reading: AtomicBool,
    calls: AtomicU64,
    calls_by_name: Mutex<HashMap<String, u64>>,
    one_by_one: Mutex<()>,
    /// Answers of the client, by the id of our request.
    answers: (Mutex<HashMap<String, Value>>, Condvar),
}

/// The request that steps belong to.
struct Ask {
    id: Value,
    arguments: Value,
    call: u64,
    /// Which call of its function it is, from 1.
    nth: u64,
    /// The token of its progress, and what the client brought along (`inputResponses`).
    token: Value,
    input: Value,
}

impl Ask {
    fn of(id: Value) -> Self {
        Self { id, arguments: Value::Null, call: 0, nth: 0, token: Value::Null, input: Value::Null }
    }
}

impl Server {
    fn new(script: Script) -> Arc<Self> {
        let log = script
            .log
            .as_ref()
            .and_then(|path| OpenOptions::new().create(true).append(true).open(path).ok())
            .map(Mutex::new);
        Arc::new(Self {
            script,
            out: Mutex::default(),
            log,
            cancelled: Default::default(),
            added: Mutex::default(),
            stop_reading: AtomicBool::new(false),
            calls: AtomicU64::new(0),
            calls_by_name: Mutex::default(),
            one_by_one: Mutex::default(),
            answers: Default::default(),
        })
    }

    fn run(self: &Arc<Self>) {
        let nobody = Ask::of(Value::Null);
        for step in &self.script.start {
            self.step(step, &nobody);
        }
        let mut stdin = std::io::stdin().lock();
        let mut bytes = Vec::new();
        loop {
            // In small pieces, so that stopping leaves a long line in the pipe.
            let mut piece = [0; 4_096];
            let read = match stdin.read(&mut piece) {
                Ok(0) | Err(_) => return,
                Ok(read) => read,
            };
            if self.stop_reading.load(Ordering::SeqCst) {
                // What was waited for meanwhile is lost.
                std::thread::sleep(HOUR);
            }
            let searched = bytes.len();
            bytes.extend_from_slice(&piece[..read]);
            let Some(end) = bytes[searched..].iter().rposition(|byte| *byte == b'\n') else { continue };
            let rest = bytes.split_off(searched + end + 1);
            for line in bytes.split_inclusive(|byte| *byte == b'\n') {
                if let Some(log) = &self.log {
                    let _ = lock(log).write_all(line);
                }
                if let Ok(message) = serde_json::from_slice::<Value>(line) {
                    self.message(message);
                }
            }
            bytes = rest;
        }
    }

    fn message(self: &Arc<Self>, message: Value) {
        let Some(method) = message["method"].as_str() else {
            let said = message.get("result").or(message.get("error")).cloned().unwrap_or_default();
            lock(&self.answers.0).insert(message["id"].to_string(), said);
            self.answers.1.notify_all();
            return;
        };
        if method == "notifications/cancelled" {
            lock(&self.cancelled.0).insert(message["params"]["requestId"].to_string());
            self.cancelled.1.notify_all();
        }
        if message.get("id").is_none() {
            return;
        }
        let ask = Ask::of(message["id"].clone());
        let modern = self.script.modern;
        match method {
            "initialize" if modern != Modern::Only => {
                let wanted = message["params"]["protocolVersion"].as_str().unwrap_or_default();
                let revisions = &self.script.revisions;
                let revision =
                    revisions.iter().find(|r| *r == wanted).or(revisions.first()).cloned().unwrap_or_default();
                let result = json!({"protocolVersion": revision, "capabilities": self.capabilities(),
                    "serverInfo": {"name": self.script.name, "version": "1"}});
                self.opening(&self.script.initialize, &ask, result);
            }
            "server/discover" if modern != Modern::No => {
                let result = json!({"resultType": "complete", "supportedVersions": [MODERN], "capabilities": self.capabilities(),
                    "ttlMs": 0, "cacheScope": "private",
                    "_meta": {"io.modelcontextprotocol/serverInfo": {"name": self.script.name, "version": "1"}}});
                self.opening(&self.script.discover, &ask, result);
            }
            "initialize" => self.opening_error(&self.script.initialize, &ask),
            "server/discover" => self.opening_error(&self.script.discover, &ask),
            _ if modern == Modern::Only
                && message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] != MODERN =>
            {
                self.error(&ask, -32602, "every request needs _meta of revision 2026-07-28");
            }
            "ping" => self.result(&ask, json!({})),
            "tools/list" => {
                for step in &self.script.list.before {
                    self.step(step, &ask);
                }
                let page = self.page(message["params"]["cursor"].as_str());
                self.result(&ask, page);
            }
            "tools/call" => {
                let name = message["params"]["name"].as_str().unwrap_or_default().to_owned();
                let call = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
                let nth = {
                    let mut by_name = lock(&self.calls_by_name);
                    let nth = by_name.entry(name.clone()).or_default();
                    *nth += 1;
                    *nth
                };
                let ask = Ask {
                    arguments: message["params"]["arguments"].clone(),
                    token: message["params"]["_meta"]["progressToken"].clone(),
                    input: message["params"]["inputResponses"].clone(),
                    call,
                    nth,
                    ..ask
                };
                let server = Arc::clone(self);
                if self.script.threads {
                    std::thread::spawn(move || server.call(&name, &ask));
                } else {
                    let _order = lock(&self.one_by_one);
                    self.call(&name, &ask);
                }
            }
            other => match self.script.answers.get(other) {
                Some(answer) => self.result(&ask, answer.clone()),
                None => self.error(&ask, -32601, &format!("unknown method {other}")),
            },
        }
    }

    fn capabilities(&self) -> Value {
        let mut capabilities = json!({"tools": {"listChanged": self.script.list_changed}});
        if let Value::Object(capabilities) = &mut capabilities {
            capabilities.extend(self.script.capabilities.clone());
        }
        capabilities
    }

    fn opening(&self, opening: &Opening, ask: &Ask, proper: Value) {
        match opening {
            Opening::Word(OpeningWord::Answer) => self.result(ask, proper),
            Opening::Word(OpeningWord::Never) => {}
            Opening::Word(OpeningWord::Exit) => std::process::exit(1),
            Opening::Word(OpeningWord::Error) => self.error(ask, -32601, "unknown method"),
            Opening::Steps(steps) => steps.iter().for_each(|step| self.step(step, ask)),
        }
    }

    /// The revision is not spoken: an error, unless the script says otherwise.
    fn opening_error(&self, opening: &Opening, ask: &Ask) {
        match opening {
            Opening::Word(OpeningWord::Answer) => self.error(ask, -32601, "unknown method"),
            other => self.opening(other, ask, Value::Null),
        }
    }

    fn page(&self, cursor: Option<&str>) -> Value {
        let mut tools: Vec<Value> = self.script.tools.iter().map(|tool| Value::Object(tool.listed.clone())).collect();
        tools.extend(lock(&self.added).iter().cloned().map(Value::Object));
        let listing = &self.script.list;
        let start: usize = cursor.and_then(|c| c.parse().ok()).unwrap_or(0);
        let mut page = match (listing.cursor, listing.page_size) {
            (Some(Cursor::Repeat), _) => json!({"tools": tools, "nextCursor": "again"}),
            (Some(Cursor::Endless), _) => {
                json!({"tools": [{"name": format!("invented_{start}"), "inputSchema": {"type": "object"}}], "nextCursor": (start + 1).to_string()})
            }
            (None, Some(size)) => {
                let end = (start + size).min(tools.len());
                let mut page = json!({"tools": tools.get(start..end).unwrap_or_default()});
                if end < tools.len() {
                    page["nextCursor"] = json!(end.to_string());
                }
                page
            }
            (None, None) => json!({"tools": tools}),
        };
        if self.script.modern != Modern::No {
            page["resultType"] = json!("complete");
            page["ttlMs"] = json!(3_600_000);
            page["cacheScope"] = json!("private");
        }
        page
    }

    fn call(&self, name: &str, ask: &Ask) {
        let Some(tool) = self.script.tools.iter().find(|tool| tool.listed.get("name").is_some_and(|n| n == name))
        else {
            return self.error(ask, -32602, &format!("unknown tool {name}"));
        };
        match &tool.behaviour {
            Behaviour::One(step) => self.step(step, ask),
            Behaviour::Many(steps) => steps.iter().for_each(|step| self.step(step, ask)),
        }
    }

    fn step(&self, step: &Step, ask: &Ask) {
        match step {
            Step::Echo(_) => self.structured(ask, &ask.arguments),
            Step::Result(result) => self.result(ask, result.clone()),
            Step::Text(text) => self.result(ask, json!({"content": [{"type": "text", "text": fill(text, ask)}]})),
            Step::Structured(value) => self.structured(ask, value),
            Step::IsError(text) => self.result(ask, json!({"content": [{"type": "text", "text": fill(text, ask)}], "isError": true})),
            Step::Error { code, message } => self.error(ask, *code, message),
            Step::BigText(bytes) => self.result(ask, json!({"content": [{"type": "text", "text": "x".repeat(*bytes)}]})),
            Step::Line(text) => self.write(format!("{}\n", fill(text, ask)).as_bytes()),
            Step::Partial(text) => self.write(fill(text, ask).as_bytes()),
            Step::Hex(digits) => {
                let digits = digits.replace("7b69647d", &hex(ask.id.to_string().as_bytes()));
                let mut bytes: Vec<u8> =
                    (0..digits.len() / 2).filter_map(|i| u8::from_str_radix(digits.get(2 * i..2 * i + 2)?, 16).ok()).collect();
                bytes.push(b'\n');
                self.write(&bytes);
            }
            Step::Unending(bytes) => {
                let block = vec![b'x'; 65_536];
                let mut left = *bytes;
                while left > 0 {
                    let now = left.min(block.len());
                    self.write(&block[..now]);
                    left -= now;
                }
            }
            Step::Noise(lines) => (0..*lines).for_each(|i| self.write(format!("this is no JSON {i}\n").as_bytes())),
            Step::Flood(count) => (0..*count).for_each(|i| {
                self.send(&json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": i}}));
            }),
            Step::Notify { method, params } => self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params})),
            Step::Request { id, method, params } => {
                self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
            }
            Step::SleepMs(ms) => std::thread::sleep(Duration::from_millis(*ms)),
            Step::AwaitCancel(_) => self.await_cancel(ask),
            Step::Hang(_) => std::thread::sleep(HOUR),
            Step::StopReading(_) => self.stop_reading.store(true, Ordering::SeqCst),
            Step::CloseStdin(_) => close(0),
            Step::Answered(id) => {
                let answers = lock(&self.answers.0);
                let (mut answers, _) = self
                    .answers
                    .1
                    .wait_timeout_while(answers, Duration::from_mins(1), |answers| !answers.contains_key(&id.to_string()))
                    .unwrap_or_else(PoisonError::into_inner);
                let said = answers.remove(&id.to_string()).unwrap_or_default().to_string();
                drop(answers);
                self.result(ask, json!({"content": [{"type": "text", "text": said}]}));
            }
            Step::CloseStdout(_) => close(1),
            Step::Stderr(text) => {
                let _ = std::io::stderr().write_all(fill(text, ask).as_bytes());
            }
            Step::StderrFlood(bytes) => {
                let line = format!("{}\n", "e".repeat(99));
                (0..bytes.div_ceil(100)).for_each(|_| {
                    let _ = std::io::stderr().write_all(line.as_bytes());
                });
            }
            Step::Append { file, line } => {
                if let Ok(mut file) = OpenOptions::new().create(true).append(true).open(file) {
                    let _ = file.write_all(format!("{}\n", fill(line, ask)).as_bytes());
                }
            }
            Step::DumpEnv(file) => dump_env(file),
            Step::WritePid(file) => {
                let _ = std::fs::write(file, std::process::id().to_string());
            }
            Step::Grandchild(file) => {
                if let Ok(child) = Command::new("sleep").arg("3600").stdin(Stdio::null()).spawn() {
                    let _ = std::fs::write(file, child.id().to_string());
                }
            }
            Step::AddTool(tool) => {
                lock(&self.added).push(tool.clone());
                self.send(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
            }
            Step::Cases(cases) => {
                let fits = |when: &Map<String, Value>| when.iter().all(|(pointer, value)| ask.arguments.pointer(pointer) == Some(value));
                if let Some(case) = cases.iter().find(|case| fits(&case.when)) {
                    case.then.iter().for_each(|step| self.step(step, ask));
                }
            }
            Step::Sequence(lists) => {
                let nth = usize::try_from(ask.nth).unwrap_or(usize::MAX).min(lists.len());
                if let Some(list) = nth.checked_sub(1).and_then(|i| lists.get(i)) {
                    for step in list {
                        self.step(step, ask);
                    }
                }
            }
            Step::Exit(code) => std::process::exit(*code),
            Step::Abort(_) => std::process::abort(),
        }
    }

    fn await_cancel(&self, ask: &Ask) {
        let end = Instant::now() + Duration::from_mins(1);
        let mut cancelled = lock(&self.cancelled.0);
        while !cancelled.contains(&ask.id.to_string()) {
            let Some(left) = end.checked_duration_since(Instant::now()) else { return };
            cancelled = self.cancelled.1.wait_timeout(cancelled, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn structured(&self, ask: &Ask, value: &Value) {
        self.result(ask, json!({"content": [{"type": "text", "text": value.to_string()}], "structuredContent": value}));
    }

    fn result(&self, ask: &Ask, result: Value) {
        self.send(&json!({"jsonrpc": "2.0", "id": ask.id, "result": result}));
    }

    fn error(&self, ask: &Ask, code: i64, message: &str) {
        self.send(&json!({"jsonrpc": "2.0", "id": ask.id, "error": {"code": code, "message": message}}));
    }

    fn send(&self, message: &Value) {
        self.write(format!("{message}\n").as_bytes());
    }

    fn write(&self, bytes: &[u8]) {
        let _whole = lock(&self.out);
        let mut stdout = std::io::stdout().lock();
        let _ = stdout.write_all(bytes);
        let _ = stdout.flush();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

#[allow(clippy::disallowed_methods, reason = "what it appends says when, to be compared with records")]
fn now_ms() -> u128 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis())
}

fn fill(text: &str, ask: &Ask) -> String {
    text.replace("{id}", &ask.id.to_string())
        .replace("{arguments}", &ask.arguments.to_string())
        .replace("{call}", &ask.call.to_string())
        .replace("{now}", &now_ms().to_string())
        .replace("{pid}", &std::process::id().to_string())
        .replace("{token}", &ask.token.to_string())
        .replace("{input}", &ask.input.to_string())
}

#[allow(clippy::disallowed_methods, reason = "its very purpose is to show what environment it was given")]
fn dump_env(file: &str) {
    let mut text: String =
        std::env::vars().fold(String::new(), |text, (name, value)| text + &format!("{name}={value}\n"));
    if let Ok(cwd) = std::env::current_dir() {
        text = format!("{text}cwd={}\n", cwd.display());
    }
    let _ = std::fs::write(file, text);
}

/// Closes one of the standard streams: std has no safe way, so what stands there is replaced by `/dev/null`.
fn close(stream: i32) {
    if let Ok(null) = OpenOptions::new().read(true).write(true).open("/dev/null") {
        let _ = if stream == 0 { rustix::stdio::dup2_stdin(&null) } else { rustix::stdio::dup2_stdout(&null) };
    }
}
