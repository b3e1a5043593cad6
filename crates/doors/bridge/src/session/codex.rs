//! Codex's exec mode with hooks of our own: each is the bridge, and is answered here, over a socket of the session.
//!
//! Seen with Codex 0.171.0: hooks given by `-c` run beside the user's own where hook trust is bypassed; `exec` takes the prompt from its
//! standard input, and ends after the stop that its hooks let pass.
//!
//! Invariant: the socket stands in a folder that only we can enter, and goes with the session.

use super::Launch;
use super::child::Child;
use crate::ask::{Reply, Request};
use crate::desk::Desk;
use crate::dialects;
use crate::door::MAX_PAYLOAD_BYTES;
use crate::harness::{Harness, Moment};
use crate::install::guarded;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use hookwright_runtime::job::Helpers;
use hookwright_runtime::observe::{Event, Observer};
use hookwright_runtime::outside::{Outside, Stand};
use hookwright_runtime::ports::harness::{self as port, Order};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};

/// How long its hooks wait for an answer, in seconds: people may take their time.
const HOOK_SECONDS: u64 = 7 * 24 * 60 * 60;
/// Seconds by which the bridge gives up before Codex does.
const MARGIN: u64 = 60;
/// Connections at once; more wait.
const ASKS: usize = 256;

/// Sessions of Codex.
#[derive(Debug)]
pub struct Codex {
    launch: Launch,
    /// Our own program.
    program: PathBuf,
}

impl Codex {
    /// Started so; `program` is ours, by its absolute path.
    pub fn new(launch: Launch, program: PathBuf) -> Self {
        Self { launch, program }
    }

    /// Runs a session. `Err` says why there is no output.
    async fn session(
        &self,
        order: &Order,
        desk: &Desk,
        helpers: &Helpers,
        observer: &dyn Observer,
    ) -> Result<(), String> {
        let Ok(Stand::Admitted(input)) = desk.job().admitted().await else { return Ok(()) };
        let odd = |error: std::io::Error| format!("the session's socket can't be made: {error}");
        let folder = tempfile::Builder::new()
            .prefix("hookwright-")
            .permissions(std::fs::Permissions::from_mode(0o700))
            .tempdir()
            .map_err(odd)?;
        let socket = folder.path().join("s");
        let listener = UnixListener::bind(&socket).map_err(odd)?;
        let args = self.args(order, &socket, &folder)?;
        let mut child = Child::start(&self.launch, &args)?;
        let prompt = match &order.instructions {
            Some(instructions) => format!("{instructions}\n\n{}", as_text(&input)),
            None => as_text(&input),
        };
        let wrong = {
            let Child { lines, input, .. } = &mut child;
            input.put_text(&prompt).await?;
            input.close().await;
            let told = async {
                let (mut wrong, mut made) = (None, 0);
                while let Some(line) = lines.next().await? {
                    // A configuration of the user's can switch hooks off, which Codex does not say.
                    made += u64::from(begins_call(&line));
                    if made > desk.asked() {
                        return Err("it made a call that its hooks were not asked about: look for what switches hooks off in its configuration".to_owned());
                    }
                    tell(&line, order, observer, &mut wrong);
                }
                Ok::<_, String>(wrong)
            };
            tokio::select! {
                wrong = told => wrong,
                () = answer(&listener, desk, helpers) => Ok(None),
            }
        };
        let how = child.end().await;
        match wrong {
            Ok(None) => Err(format!("the session ended without an output ({how})")),
            Ok(Some(wrong)) => Err(format!("{wrong} ({how})")),
            Err(why) => Err(format!("{why} ({how})")),
        }
    }

    fn args(&self, order: &Order, socket: &Path, folder: &TempDir) -> Result<Vec<String>, String> {
        let fixed = "exec --json --skip-git-repo-check --dangerously-bypass-hook-trust";
        let mut args: Vec<String> = fixed.split(' ').map(str::to_owned).collect();
        for (event, moment) in dialects::of(Harness::Codex).events() {
            if matches!(moment, Moment::Start | Moment::Prompt | Moment::End) {
                continue;
            }
            args.push("-c".to_owned());
            args.push(format!("hooks.{event}={}", self.hook(event, *moment, socket)));
        }
        if let Some(schema) = &order.output_schema {
            let file = folder.path().join("schema.json");
            std::fs::write(&file, schema.to_string()).map_err(|error| format!("the output's schema: {error}"))?;
            args.push(format!("--output-schema={}", file.display()));
        }
        // The prompt comes on standard input: it is nobody's who lists processes.
        args.push("-".to_owned());
        Ok(args)
    }

    /// A list of one hook, as TOML.
    fn hook(&self, event: &str, moment: Moment, socket: &Path) -> String {
        let words = [
            self.program.to_string_lossy().into_owned(),
            "bridge".to_owned(),
            Harness::Codex.id().to_owned(),
            event.to_owned(),
            "--socket".to_owned(),
            socket.to_string_lossy().into_owned(),
            "--deadline".to_owned(),
            (HOOK_SECONDS - MARGIN).to_string(),
        ];
        let command = toml_edit::Value::from(guarded(&words, Harness::Codex, event, moment));
        let matcher = if matches!(moment, Moment::Before | Moment::After) { "matcher=\"*\"," } else { "" };
        format!("[{{{matcher}hooks=[{{type=\"command\",command={command},timeout={HOOK_SECONDS}}}]}}]")
    }
}

#[async_trait::async_trait]
impl port::Harness for Codex {
    async fn run(&self, order: Order, outside: Outside, helpers: &Helpers, observer: &dyn Observer) {
        let desk = Desk::new(Harness::Codex, outside.clone()).with_schema(order.output_schema.clone());
        if let Err(why) = self.session(&order, &desk, helpers, observer).await {
            let _ = outside.fail(&port::Harness::label(self), &why).await;
        }
    }

    fn label(&self) -> String {
        format!("harness/{}", Harness::Codex)
    }
}

/// Answers the bridges of the session, for as long as it lasts.
async fn answer(listener: &UnixListener, desk: &Desk, helpers: &Helpers) {
    let mut asks = FuturesUnordered::new();
    loop {
        tokio::select! {
            Some(()) = asks.next(), if !asks.is_empty() => {}
            came = listener.accept(), if asks.len() < ASKS => match came {
                Ok((stream, _)) => asks.push(one(stream, desk, helpers)),
                Err(error) => {
                    tracing::warn!(%error, "a bridge of the session can't be answered");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            },
        }
    }
}

/// One bridge: a line in, a line out. A bridge that goes away asks for nothing any more.
async fn one(stream: UnixStream, desk: &Desk, helpers: &Helpers) {
    let own = rustix::process::geteuid().as_raw();
    if stream.peer_cred().ok().is_none_or(|peer| peer.uid() != own && peer.uid() != 0) {
        return;
    }
    let mut stream = BufReader::new(stream);
    let mut line = vec![];
    let most = 2 * MAX_PAYLOAD_BYTES as u64;
    let read = (&mut stream).take(most).read_until(b'\n', &mut line).await;
    let request: Request = match read.map(|_| serde_json::from_slice(&line)) {
        Ok(Ok(request)) => request,
        // Without a reply it is a no.
        Ok(Err(_)) | Err(_) => return,
    };
    let reply: Reply = tokio::select! {
        reply = desk.answer(&request.ask, helpers, None) => reply,
        _ = stream.read_u8() => return,
    };
    if let Ok(mut line) = serde_json::to_vec(&reply) {
        line.push(b'\n');
        let _ = stream.write_all(&line).await;
    }
}

/// Whether a line says that a call begins which hooks are asked about before.
fn begins_call(line: &Value) -> bool {
    line["type"] == "item.started"
        && matches!(line["item"]["type"].as_str(), Some("command_execution" | "mcp_tool_call"))
}

/// What a line of Codex's says to people, and what went wrong.
fn tell(line: &Value, order: &Order, observer: &dyn Observer, wrong: &mut Option<String>) {
    let item = &line["item"];
    match (line["type"].as_str(), item["type"].as_str()) {
        (Some("item.completed"), Some("agent_message")) if !order.silent => {
            observer.event(Event::Text(item["text"].as_str().unwrap_or_default()));
        }
        (Some("turn.failed"), _) => *wrong = Some(as_text(&line["error"]["message"])),
        (Some("error"), _) => *wrong = Some(as_text(&line["message"])),
        _ => {}
    }
}

fn as_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
