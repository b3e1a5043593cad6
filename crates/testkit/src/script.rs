//! The script that `scripted-mcp` plays. All keys but `tools` may be left out; unknown keys are errors.
//!
//! ```json
//! {
//!   "name": "policy",                            // the self-reported name
//!   "log": "/tmp/seen.jsonl",                    // every message received, one a line, as it came
//!   "revisions": ["2025-06-18"],                 // answered to `initialize`; default: the four that have it
//!   "modern": "no",                              // 2026-07-28: "no" | "too" | "only"
//!   "initialize": "answer",                      // "answer" | "never" | "exit" | "error", or a list of steps
//!   "discover": "answer",                        // the same, of `server/discover` (without "modern": a method-not-found error)
//!   "start": [{"stderr": "hello\n"}],            // steps before anything is read
//!   "list": {"page_size": 2, "cursor": "repeat"},// "repeat" | "endless": hostile cursors
//!   "list_changed": true,                        // whether the capability is announced
//!   "capabilities": {"resources": {}},           // beside "tools"
//!   "answers": {"resources/list": {…}},          // results of other requests, by method
//!   "threads": true,                             // false: calls are answered one after the other, in order
//!   "tools": [{"name": "check", "inputSchema": {"type": "object"}, "annotations": {}, "behaviour": [ …steps… ]}]
//! }
//! ```
//!
//! A tool's entry is listed as it stands, without `behaviour`. A behaviour is a list of steps (or one step); none means `echo`.
//! In the texts of steps `{id}` stands for the request's id (as JSON), `{arguments}` for its arguments (as JSON), `{call}` for
//! how often this process was called so far, `{now}` for the time (Unix milliseconds), `{pid}` for the process's id, `{token}` for the request's progress token, and `{input}`
//! for its `inputResponses`. See [`Step`] for the steps.

use serde::Deserialize;
use serde_json::{Map, Value};

/// A whole script.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Script {
    /// The self-reported name.
    pub name: String,
    /// A file that gets every message received, one a line.
    pub log: Option<String>,
    /// The revisions that `initialize` may answer; the first where the client's is not among them.
    pub revisions: Vec<String>,
    /// Whether revision 2026-07-28 is spoken.
    pub modern: Modern,
    /// What follows `initialize`.
    pub initialize: Opening,
    /// What follows `server/discover`.
    pub discover: Opening,
    /// Steps before anything is read.
    pub start: Vec<Step>,
    /// How tools are listed.
    pub list: Listing,
    /// Whether `listChanged` is announced.
    pub list_changed: bool,
    /// Whether calls run concurrently.
    pub threads: bool,
    /// The tools.
    pub tools: Vec<Tool>,
    /// Capabilities beside `tools`.
    pub capabilities: Map<String, Value>,
    /// Results of other requests, by method.
    pub answers: Map<String, Value>,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            name: "scripted".into(),
            log: None,
            revisions: ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"].map(String::from).to_vec(),
            modern: Modern::No,
            initialize: Opening::Word(OpeningWord::Answer),
            discover: Opening::Word(OpeningWord::Answer),
            start: Vec::new(),
            list: Listing::default(),
            list_changed: false,
            threads: true,
            tools: Vec::new(),
            capabilities: Map::new(),
            answers: Map::new(),
        }
    }
}

/// Whether revision 2026-07-28 is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Modern {
    /// `server/discover` is an unknown method.
    No,
    /// Beside `initialize`.
    Too,
    /// `initialize` is an unknown method, and every request needs `_meta`.
    Only,
}

/// What follows the opening request.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum Opening {
    /// In one word.
    Word(OpeningWord),
    /// Steps, as for a call.
    Steps(Vec<Step>),
}

/// What follows the opening request, in one word.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OpeningWord {
    /// The proper answer.
    Answer,
    /// Nothing, ever.
    Never,
    /// The process ends with status 1.
    Exit,
    /// An error -32601.
    Error,
}

/// How tools are listed.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Listing {
    /// Tools a page; absent: all on one.
    pub page_size: Option<usize>,
    /// A hostile `nextCursor`.
    pub cursor: Option<Cursor>,
    /// Steps before each page, e.g. a delay.
    pub before: Vec<Step>,
}

/// A hostile `nextCursor`.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cursor {
    /// The same one on every page.
    Repeat,
    /// A new one on every page, without end; each page lists one more (invented) tool.
    Endless,
}

/// A tool: what is listed, and what a call of it does.
#[derive(Debug, Clone, Deserialize)]
pub struct Tool {
    /// What a call does.
    #[serde(default)]
    pub behaviour: Behaviour,
    /// The listed definition.
    #[serde(flatten)]
    pub listed: Map<String, Value>,
}

/// What a call does.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum Behaviour {
    /// One step.
    One(Step),
    /// Several, in order.
    Many(Vec<Step>),
}

impl Default for Behaviour {
    fn default() -> Self {
        Self::One(Step::Echo(true))
    }
}

/// One step of a behaviour, written `{"step": value}`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Step {
    /// Answers with the arguments, as text and as structured content.
    Echo(bool),
    /// Answers with this raw `result`.
    Result(Value),
    /// Answers with one text block.
    Text(String),
    /// Answers with this structured content (and the same as text).
    Structured(Value),
    /// Answers with `isError` and this text.
    IsError(String),
    /// Answers with a JSON-RPC error.
    Error {
        /// Its code.
        code: i64,
        /// Its message.
        message: String,
    },
    /// Answers with a text block of so many bytes.
    BigText(usize),
    /// Writes this line as it stands; `{id}` and the others are replaced.
    Line(String),
    /// Writes this text without an end of line.
    Partial(String),
    /// Writes bytes, given as hex digits, and an end of line; `7b69647d` (`{id}`) is replaced too.
    Hex(String),
    /// Writes so many bytes of `x` without an end of line.
    Unending(usize),
    /// Writes so many lines that are no JSON.
    Noise(usize),
    /// Sends so many notifications (`notifications/message`).
    Flood(usize),
    /// Sends this notification.
    Notify {
        /// Its method.
        method: String,
        /// Its parameters.
        #[serde(default)]
        params: Value,
    },
    /// Sends this request to the client. Its answer is seen in the log.
    Request {
        /// Its id.
        id: Value,
        /// Its method.
        method: String,
        /// Its parameters.
        #[serde(default)]
        params: Value,
    },
    /// Waits for the client's answer to our request of this id, at most a minute, and answers the call with it as text.
    Answered(Value),
    /// Waits so many milliseconds.
    SleepMs(u64),
    /// Waits until `notifications/cancelled` came for this request, at most a minute.
    AwaitCancel(bool),
    /// Never goes on (the call stays open; the process lives).
    Hang(bool),
    /// From now on nothing is read from stdin.
    StopReading(bool),
    /// Closes stdin.
    CloseStdin(bool),
    /// Closes stdout; the process lives on.
    CloseStdout(bool),
    /// Writes to stderr.
    Stderr(String),
    /// Writes so many bytes to stderr, in lines of 100.
    StderrFlood(usize),
    /// Appends a line to a file (for counting effects).
    Append {
        /// The file.
        file: String,
        /// The line.
        line: String,
    },
    /// Writes the process's environment (`NAME=value` lines) and current folder (`cwd=…`) to a file.
    DumpEnv(String),
    /// Writes this process's id to a file.
    WritePid(String),
    /// Spawns a process that sleeps for an hour, holds this one's stdout and stderr, and writes its id to the file.
    Grandchild(String),
    /// Adds a tool to the list and sends `notifications/tools/list_changed`.
    AddTool(Map<String, Value>),
    /// Goes on with the first case that fits the arguments.
    Cases(Vec<Case>),
    /// Goes on with the first list at a function's first call of this process, with the second at its second, …; the last one stays.
    Sequence(Vec<Vec<Step>>),
    /// Ends the process with this status.
    Exit(i32),
    /// Ends the process by an abort signal.
    Abort(bool),
}

/// A case of [`Step::Cases`].
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// JSON pointers into the arguments (e.g. `/event/tool`) and the values that they must have; empty: always.
    #[serde(default)]
    pub when: Map<String, Value>,
    /// What is done.
    pub then: Vec<Step>,
}
