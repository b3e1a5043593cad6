//! A loopback server that records requests and plays answers, and the conversation that the tests speak of.

use hookwright_core::Stored;
use hookwright_core::message::{AssistantCall, FunctionSpec, Message};
use hookwright_model::{Options, RetryPolicy, open};
use hookwright_runtime::ports::model::{Model, ModelError, Purpose, Turn, TurnRequest, TurnSink};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

pub const KEY: &str = "sk-test-0123456789abcdef";

/// What the server does with one request.
#[derive(Clone)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub chunks: Vec<Vec<u8>>,
    pub end: End,
}

#[derive(Clone, Copy, PartialEq)]
pub enum End {
    /// The body ends as HTTP says.
    Whole,
    /// The connection closes in the middle of the body.
    Cut,
    /// The connection stays open and nothing more comes.
    Hang,
    /// Not even a status line: the connection is reset.
    Reset,
    /// The chunks again and again.
    Flood,
}

impl Reply {
    pub fn sse(body: impl Into<String>) -> Self {
        Self {
            status: 200,
            headers: vec![("content-type".into(), "text/event-stream".into())],
            chunks: vec![body.into().into_bytes()],
            end: End::Whole,
        }
    }

    pub fn error(status: u16, body: impl Into<String>) -> Self {
        Self { status, headers: vec![("content-type".into(), "application/json".into())], ..Self::sse(body) }
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(n, _)| n != name);
        self.headers.push((name.into(), value.into()));
        self
    }

    pub fn end(mut self, end: End) -> Self {
        self.end = end;
        self
    }

    pub fn chunks(mut self, chunks: Vec<Vec<u8>>) -> Self {
        self.chunks = chunks;
        self
    }
}

pub struct Recorded {
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Value,
}

impl Recorded {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }
}

/// Plays replies in order; the last one for all requests after it.
pub struct Server {
    pub address: String,
    pub requests: Arc<Mutex<Vec<Recorded>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    pub async fn start(replies: Vec<Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, replies.clone(), Arc::clone(&seen)));
            }
        });
        Self { address, requests, task }
    }

    pub fn count(&self) -> usize {
        self.requests.lock().unwrap().len()
    }

    pub fn body(&self, index: usize) -> Value {
        self.requests.lock().unwrap()[index].body.clone()
    }

    /// A model of the provider, at this server.
    pub fn model(&self, spec: &str) -> Arc<dyn Model> {
        self.model_with(spec, quick())
    }

    pub fn model_with(&self, spec: &str, options: Options) -> Arc<dyn Model> {
        let address = self.address.clone();
        let env = move |name: &str| match name {
            "ANTHROPIC_BASE_URL" | "GOOGLE_GEMINI_BASE_URL" => Some(format!("http://{address}")),
            "OPENAI_BASE_URL" | "HOOKWRIGHT_COMPATIBLE_BASE_URL" => Some(format!("http://{address}/v1")),
            "OLLAMA_HOST" => Some(address.clone()),
            "ANTHROPIC_API_KEY" | "OPENAI_API_KEY" | "GEMINI_API_KEY" => Some(KEY.to_owned()),
            // Nothing on this machine may be asked through it.
            "http_proxy" | "HTTP_PROXY" | "HTTPS_PROXY" | "ALL_PROXY" => Some("http://127.0.0.1:9".to_owned()),
            _ => None,
        };
        open(spec, &env, &options).unwrap_or_else(|e| panic!("{spec}: {e}"))
    }
}

/// Limits for tests: hardly any wait between attempts.
pub fn quick() -> Options {
    Options {
        idle: Duration::from_secs(30),
        retry: RetryPolicy { attempts: 3, first: Duration::from_millis(5), ..RetryPolicy::default() },
        ..Options::default()
    }
}

async fn serve(mut stream: TcpStream, replies: Vec<Reply>, seen: Arc<Mutex<Vec<Recorded>>>) {
    let mut buffer = Vec::new();
    while let Some(recorded) = read_request(&mut stream, &mut buffer).await {
        let index = {
            let mut seen = seen.lock().unwrap();
            seen.push(recorded);
            seen.len() - 1
        };
        let reply = &replies[index.min(replies.len() - 1)];
        if reply.end == End::Reset {
            return reset(stream);
        }
        let mut head = format!("HTTP/1.1 {} X\r\n", reply.status);
        for (name, value) in &reply.headers {
            head += &[name, ": ", value, "\r\n"].concat();
        }
        head.push_str("transfer-encoding: chunked\r\n\r\n");
        let mut ok = stream.write_all(head.as_bytes()).await.is_ok();
        loop {
            for chunk in &reply.chunks {
                ok = ok && stream.write_all(format!("{:x}\r\n", chunk.len()).as_bytes()).await.is_ok();
                ok = ok && stream.write_all(chunk).await.is_ok() && stream.write_all(b"\r\n").await.is_ok();
                ok = ok && stream.flush().await.is_ok();
            }
            if reply.end != End::Flood || !ok {
                break;
            }
        }
        match reply.end {
            End::Whole if ok => {
                let _ = stream.write_all(b"0\r\n\r\n").await;
            }
            End::Hang => {
                // Until the other side goes away.
                let _ = stream.read(&mut [0_u8; 1]).await;
                return;
            }
            _ => return,
        }
    }
}

fn reset(stream: TcpStream) {
    // A socket that is closed with unread or lingering data resets the connection.
    #[allow(deprecated)]
    let _ = stream.set_linger(Some(Duration::ZERO));
}

async fn read_request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<Recorded> {
    let mut chunk = vec![0_u8; 65_536];
    let head_end = loop {
        if let Some(at) = buffer.windows(4).position(|w| w == b"\r\n\r\n") {
            break at + 4;
        }
        match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => return None,
            Ok(n) => buffer.extend_from_slice(&chunk[..n]),
        }
    };
    let head = String::from_utf8(buffer[..head_end].to_vec()).unwrap();
    let mut lines = head.lines();
    let path = lines.next()?.split(' ').nth(1)?.to_owned();
    let headers: Vec<(String, String)> =
        lines.filter_map(|l| l.split_once(": ")).map(|(n, v)| (n.to_lowercase(), v.to_owned())).collect();
    let length: usize = headers.iter().find(|(n, _)| n == "content-length").map_or(0, |(_, v)| v.parse().unwrap());
    while buffer.len() < head_end + length {
        match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => return None,
            Ok(n) => buffer.extend_from_slice(&chunk[..n]),
        }
    }
    let body = serde_json::from_slice(&buffer[head_end..head_end + length]).unwrap_or(Value::Null);
    buffer.drain(..head_end + length);
    Some(Recorded { path, headers, body })
}

/// Keeps what a turn streamed.
#[derive(Default)]
pub struct Sink {
    pub pieces: Mutex<Vec<String>>,
    pub notices: Mutex<Vec<String>>,
}

impl TurnSink for Sink {
    fn text(&self, piece: &str) {
        self.pieces.lock().unwrap().push(piece.to_owned());
    }
    fn notice(&self, what: &str) {
        self.notices.lock().unwrap().push(what.to_owned());
    }
}

impl Sink {
    pub fn text(&self) -> String {
        self.pieces.lock().unwrap().concat()
    }
    pub fn notices(&self) -> Vec<String> {
        self.notices.lock().unwrap().clone()
    }
}

/// What a turn is asked with.
#[derive(Default)]
pub struct Asking {
    pub messages: Vec<Message>,
    pub functions: Vec<FunctionSpec>,
    pub instructions: Option<&'static str>,
    pub output_schema: Option<Value>,
    pub max_tokens: Option<u32>,
    pub window: Option<u64>,
    pub purpose: Purpose,
}

impl Asking {
    pub fn user(text: &str) -> Self {
        Self { messages: vec![user(text)], functions: functions(), ..Self::default() }
    }

    pub async fn ask(&self, model: &dyn Model, sink: &Sink) -> Result<Turn, ModelError> {
        let request = TurnRequest {
            job: "job-1",
            turn: 1,
            instructions: self.instructions,
            messages: &self.messages,
            functions: &self.functions,
            output_schema: self.output_schema.as_ref(),
            max_tokens: self.max_tokens,
            window: self.window,
            purpose: self.purpose,
        };
        model.turn(request, sink).await
    }
}

pub fn inline(value: Value) -> Stored {
    Stored::inline(value)
}

pub fn user(text: &str) -> Message {
    Message::User { content: inline(json!(text)) }
}

pub fn call(id: &str, tool: &str, arguments: Value) -> AssistantCall {
    AssistantCall { provider_id: id.into(), tool: tool.into(), arguments: inline(arguments) }
}

pub fn assistant(text: Option<&str>, calls: Vec<AssistantCall>) -> Message {
    Message::Assistant { text: text.map(|t| inline(json!(t))), calls, provider_state: None }
}

pub fn result(id: &str, tool: &str, content: Value, is_error: bool) -> Message {
    Message::Tool { provider_id: id.into(), tool: tool.into(), content: inline(content), is_error }
}

/// The message that a turn becomes in the conversation.
pub fn message_of(turn: &Turn) -> Message {
    Message::Assistant {
        text: turn.text.clone().map(|t| inline(json!(t))),
        calls: turn.calls.iter().map(|c| call(&c.provider_id, &c.tool, c.arguments.clone())).collect(),
        provider_state: turn.provider_state.clone().map(inline),
    }
}

/// A results message for each call of a turn.
pub fn results_of(turn: &Turn, content: &str) -> Vec<Message> {
    turn.calls.iter().map(|c| result(&c.provider_id, &c.tool, json!(content), false)).collect()
}

/// A plain function, one with an odd name, and one with a schema that providers don't take as it is.
pub fn functions() -> Vec<FunctionSpec> {
    vec![
        FunctionSpec {
            name: "git.push".into(),
            description: Some("Pushes a branch.".into()),
            input_schema: json!({"type": "object", "properties": {"branch": {"type": "string"}}, "required": ["branch"]}),
        },
        FunctionSpec { name: "fs.read file/ä".into(), description: None, input_schema: json!({"type": "object"}) },
        FunctionSpec {
            name: "db.query".into(),
            description: Some("Asks the database.".into()),
            input_schema: json!({
                "$schema": "http://json-schema.org/draft-07/schema#",
                "type": "object",
                "properties": {"sql": {"type": "string"}, "id": {"type": "integer", "minimum": 1}},
                "oneOf": [{"required": ["sql"]}, {"required": ["id"]}],
            }),
        },
    ]
}

/// A job in the middle: parallel calls with text before, an error, an image, arguments that were no JSON, a made-up name.
pub fn conversation() -> Vec<Message> {
    let image = json!([
        {"type": "text", "text": "A picture:"},
        {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"},
        {"type": "resource_link", "uri": "file:///a", "name": "a"},
        {"type": "audio", "data": "aGVsbG8=", "mimeType": "audio/wav"},
    ]);
    vec![
        user("Push the branch."),
        assistant(
            Some("I push it."),
            vec![call("call_1", "git.push", json!({"branch": "main"})), call("call_2", "fs.read file/ä", json!({}))],
        ),
        result(
            "call_1",
            "git.push",
            json!("The call to git.push was not made: hook policy.check denied it: a push to main."),
            true,
        ),
        result("call_2", "fs.read file/ä", image, false),
        assistant(
            None,
            vec![
                call(
                    "an id: that no provider takes, since it is far longer than sixty-four characters",
                    "db.query",
                    json!("{\"sql\": "),
                ),
                call("call_4", "made_up", json!({"x": [1, 2.5, null]})),
            ],
        ),
        result(
            "an id: that no provider takes, since it is far longer than sixty-four characters",
            "db.query",
            json!("not made: the arguments are no JSON object"),
            true,
        ),
        result("call_4", "made_up", json!(""), false),
        Message::User { content: inline(json!({"next": "Go on.", "n": 1})) },
    ]
}

pub fn output_schema() -> Value {
    json!({
        "type": "object",
        "properties": {"risk": {"type": "integer", "minimum": 0, "maximum": 10}, "why": {"type": "string"}},
        "required": ["risk", "why"],
        "additionalProperties": false,
    })
}
