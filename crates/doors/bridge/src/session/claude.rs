//! The Claude Agent SDK's control protocol: lines of JSON on the standard streams of its command line, hooks answered over the same pipes.
//!
//! Seen with Claude Code 2.1.332: `initialize` tells by `hook_on_failure_supported` whether a failing hook denies; a session without
//! that is not run.

use super::Launch;
use super::child::{Child, Input};
use crate::ask::{Escalate, Reply};
use crate::desk::Desk;
use crate::door::{Door, Trouble};
use crate::harness::Harness;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use hookwright_core::job::Outcome;
use hookwright_runtime::job::Helpers;
use hookwright_runtime::observe::{Event, Observer};
use hookwright_runtime::outside::{OutputNews, Outside, Stand};
use hookwright_runtime::ports::harness::{self as port, Order};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::sync::mpsc;

/// How long it may take to say that it is ready.
const START: Duration = Duration::from_mins(1);
/// How long its hooks wait for an answer, in seconds: people may take their time.
const HOOK_SECONDS: u64 = 7 * 24 * 60 * 60;
/// The events that are asked about.
const EVENTS: [&str; 5] = ["PreToolUse", "PostToolUse", "PostToolUseFailure", "SubagentStart", "SubagentStop"];
/// Hook events under way at once; the child waits with more.
const ASKS: usize = 256;

/// Sessions of the Claude Agent SDK.
#[derive(Debug)]
pub struct Claude {
    launch: Launch,
}

impl Claude {
    /// Started so.
    pub fn new(launch: Launch) -> Self {
        Self { launch }
    }
}

#[async_trait::async_trait]
impl port::Harness for Claude {
    async fn run(&self, order: Order, outside: Outside, helpers: &Helpers, observer: &dyn Observer) {
        let desk = Desk::new(Harness::ClaudeAgentSdk, outside.clone()).with_schema(order.output_schema.clone());
        if let Err(why) = self.session(&order, &desk, helpers, observer).await {
            let _ = outside.fail(&port::Harness::label(self), &why).await;
        }
    }

    fn label(&self) -> String {
        format!("harness/{}", Harness::ClaudeAgentSdk)
    }
}

impl Claude {
    /// Runs a session. `Err` says why there is no output.
    async fn session(
        &self,
        order: &Order,
        desk: &Desk,
        helpers: &Helpers,
        observer: &dyn Observer,
    ) -> Result<(), String> {
        let Ok(Stand::Admitted(input)) = desk.job().admitted().await else { return Ok(()) };
        let mut child = Child::start(&self.launch, &args(order))?;
        let (lines, mut said) = mpsc::channel(16);
        let end = {
            let Child { lines: from, input: to, .. } = &mut child;
            let read = async {
                loop {
                    let line = from.next().await;
                    let over = !matches!(line, Ok(Some(_)));
                    if lines.send(line).await.is_err() || over {
                        return std::future::pending::<()>().await;
                    }
                }
            };
            let talk = Talk { order, desk, helpers, observer, to };
            tokio::select! {
                end = talk.run(&input, &mut said) => end,
                () = read => Ok(End::Closed),
            }
        };
        match end {
            Ok(End::Over) => {
                child.input.close().await;
                Ok(())
            }
            Ok(End::Closed) => Err(format!("the session ended without an output ({})", child.end().await)),
            Err(why) => Err(format!("{why} ({})", child.end().await)),
        }
    }
}

enum End {
    /// The job is over.
    Over,
    /// The child said no more.
    Closed,
}

struct Talk<'a> {
    order: &'a Order,
    desk: &'a Desk,
    helpers: &'a Helpers,
    observer: &'a dyn Observer,
    to: &'a Input,
}

type Line = Result<Option<Value>, String>;

impl Talk<'_> {
    async fn run(&self, input: &Value, said: &mut mpsc::Receiver<Line>) -> Result<End, String> {
        self.initialize(said).await?;
        self.prompt(&as_text(input)).await?;
        let mut asks = FuturesUnordered::new();
        loop {
            let line = tokio::select! {
                Some(done) = asks.next(), if !asks.is_empty() => {
                    let done: Result<(), String> = done;
                    done?;
                    continue;
                }
                line = said.recv(), if asks.len() < ASKS => line.unwrap_or(Ok(None))?,
            };
            let Some(line) = line else { return Ok(End::Closed) };
            match line["type"].as_str() {
                Some("control_request") => asks.push(self.request(line)),
                Some("assistant") => self.tell(&line),
                Some("result") if self.result(&line).await? => return Ok(End::Over),
                _ => {}
            }
        }
    }

    async fn initialize(&self, said: &mut mpsc::Receiver<Line>) -> Result<(), String> {
        let matcher = json!([{"matcher": null, "hookCallbackIds": [], "timeout": HOOK_SECONDS, "onFailure": "block"}]);
        let hooks: serde_json::Map<String, Value> = EVENTS
            .into_iter()
            .map(|event| {
                let mut matcher = matcher.clone();
                matcher[0]["hookCallbackIds"] = json!([event]);
                (event.to_owned(), matcher)
            })
            .collect();
        let request = json!({"subtype": "initialize", "hooks": hooks});
        self.to.put(&json!({"type": "control_request", "request_id": "init", "request": request})).await?;
        let answer = async {
            loop {
                match said.recv().await.unwrap_or(Ok(None))? {
                    Some(line) if line["type"] == "control_response" && line["response"]["request_id"] == "init" => {
                        return Ok(line);
                    }
                    Some(_) => {}
                    None => return Err("it ended before it was ready".to_owned()),
                }
            }
        };
        let late = || Err(format!("it was not ready within {} s", START.as_secs()));
        let answer: Value = tokio::time::timeout(START, answer).await.unwrap_or_else(|_| late())?;
        let response = &answer["response"];
        if response["subtype"] != "success" {
            return Err(format!("it refused to start: {}", as_text(&response["error"])));
        }
        // Without these a hook that can't be answered would let its call through.
        let supported = response["response"]["hook_on_failure_supported"] == true;
        let applied = response["response"]["hooks_applied"] != false;
        if supported && applied {
            return Ok(());
        }
        Err("it can't make a failing hook deny: install a newer version of it".to_owned())
    }

    async fn prompt(&self, text: &str) -> Result<(), String> {
        let message = json!({"role": "user", "content": text});
        self.to.put(&json!({"type": "user", "message": message, "parent_tool_use_id": null, "session_id": ""})).await
    }

    /// Answers a request of the child.
    async fn request(&self, line: Value) -> Result<(), String> {
        let (id, request) = (&line["request_id"], &line["request"]);
        let answer = match request["subtype"].as_str() {
            Some("hook_callback") => Ok(self.hook(request).await),
            // Hooks decide; what asks beside them is not allowed.
            Some("can_use_tool") => Ok(json!({"behavior": "deny", "message": "Nobody is there to ask."})),
            other => Err(format!("Hookwright does not answer {}", other.unwrap_or("that"))),
        };
        let response = match answer {
            Ok(answer) => json!({"subtype": "success", "request_id": id, "response": answer}),
            Err(why) => json!({"subtype": "error", "request_id": id, "error": why}),
        };
        self.to.put(&json!({"type": "control_response", "response": response})).await
    }

    async fn hook(&self, request: &Value) -> Value {
        let event = request["callback_id"].as_str().unwrap_or_default();
        let door = Door::new(Harness::ClaudeAgentSdk, Some(event.to_owned()), Escalate::Wait, 0);
        let (printed, goes_on) = match door.ask(request["input"].to_string().as_bytes()) {
            Err(printed) => (printed, false),
            Ok((asked, request)) => {
                let reply = self.desk.answer(&request.ask, self.helpers, None).await;
                let goes_on = matches!(reply, Reply::Allow | Reply::Rewrite { .. });
                (door.say(&asked, Ok(reply)), goes_on)
            }
        };
        let mut answer: Value = serde_json::from_str(&printed.stdout).unwrap_or_else(|error| {
            let printed = door.refuse(Trouble::Own { why: error.to_string() });
            serde_json::from_str(&printed.stdout).unwrap_or_default()
        });
        if event == "PreToolUse" && goes_on && answer["hookSpecificOutput"]["permissionDecision"].is_null() {
            // There is no person at this session: who else would allow it?
            answer["hookSpecificOutput"]["hookEventName"] = event.into();
            answer["hookSpecificOutput"]["permissionDecision"] = "allow".into();
        }
        answer
    }

    /// Text of the main agent, as it comes.
    fn tell(&self, line: &Value) {
        if self.order.silent || !line["parent_tool_use_id"].is_null() {
            return;
        }
        for block in line["message"]["content"].as_array().into_iter().flatten() {
            if let (Some("text"), Some(text)) = (block["type"].as_str(), block["text"].as_str()) {
                self.observer.event(Event::Text(text));
            }
        }
    }

    /// The agent's turn is over. Says whether the job is.
    async fn result(&self, line: &Value) -> Result<bool, String> {
        if line["subtype"] != "success" || line["is_error"] == true {
            let kind = line["subtype"].as_str().unwrap_or("no reason");
            let said = line["result"].as_str().unwrap_or_default();
            return Err(format!("the session failed: {kind} {said}").trim_end().to_owned());
        }
        let text = line["result"].as_str().unwrap_or_default();
        let output = self.desk.output(text)?;
        match self.desk.job().offer(output).await {
            Ok(OutputNews::SentBack { hook, reason }) => {
                self.prompt(&format!("Hook {hook} denied the output: {reason}. Go on until that is mended.")).await?;
                Ok(false)
            }
            Ok(OutputNews::Over(Outcome::Completed { .. } | Outcome::Failed { .. } | Outcome::Cancelled { .. }))
            | Err(_) => Ok(true),
        }
    }
}

fn args(order: &Order) -> Vec<String> {
    let fixed = "--output-format stream-json --verbose --input-format stream-json --strict-mcp-config";
    let mut args: Vec<String> = fixed.split(' ').map(str::to_owned).collect();
    // No settings of the user's or the project's: they could switch hooks off, or bring others.
    args.push("--setting-sources=".to_owned());
    args.push(format!("--max-turns={}", order.max_turns));
    if let Some(instructions) = &order.instructions {
        args.push(format!("--append-system-prompt={instructions}"));
    }
    args
}

fn as_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
