//! `hookwright acp` as a client has it: how long a session with slow servers takes to open, and what an idle one costs.

use crate::measure::Times;
use crate::report::{Aim, Figure, Group};
use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

/// Servers of the session that is opened; each takes a second to start.
const SLOW: usize = 8;
/// Sessions before the first look at the memory, so that what is made once is not counted.
const FIRST: u32 = 50;
/// Sessions that are counted.
const SESSIONS: u32 = 500;
/// How long an answer is waited for.
const LIMIT: Duration = Duration::from_mins(1);

/// A client and its process, which ends with it.
struct Client {
    child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    next: u32,
}

impl Client {
    async fn start(hookwright: &Path, folder: &Path, db: &str) -> Result<Self> {
        let mut child = Command::new(hookwright)
            .args(["acp", "--model", "script/script.yaml", "--db", db])
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .context("start hookwright acp")?;
        let (stdin, stdout) = (child.stdin.take().context("a stdin")?, child.stdout.take().context("a stdout")?);
        let mut client = Self { child, stdin, lines: BufReader::new(stdout).lines(), next: 0 };
        client.call("initialize", json!({"protocolVersion": 1, "clientCapabilities": {}})).await?;
        Ok(client)
    }

    async fn call(&mut self, method: &str, params: Value) -> Result<Value> {
        self.next += 1;
        let id = self.next;
        let frame = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.stdin.write_all(format!("{frame}\n").as_bytes()).await?;
        let answer = async {
            while let Some(line) = self.lines.next_line().await? {
                let mut frame: Value = serde_json::from_str(&line)?;
                if frame["id"] == id && frame.get("method").is_none() {
                    return match frame["result"].take() {
                        Value::Null => bail!("{method} failed: {frame}"),
                        result => Ok(result),
                    };
                }
            }
            bail!("hookwright acp ended")
        };
        timeout(LIMIT, answer).await.with_context(|| format!("no answer to {method}"))?
    }

    async fn session(&mut self, folder: &Path, servers: &[Value]) -> Result<Value> {
        self.call("session/new", json!({"cwd": folder, "mcpServers": servers})).await
    }

    /// The kibibytes of memory that the process holds.
    fn resident_kib(&self) -> Result<f64> {
        let pid = self.child.id().context("hookwright acp ended")?;
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        Ok(line.context("this system does not tell a process's memory")?.trim().trim_end_matches(" kB").parse()?)
    }

    /// Closes standard input, and waits for the end.
    async fn close(self) -> Result<()> {
        let Self { mut child, stdin, lines, .. } = self;
        drop((stdin, lines));
        timeout(LIMIT, child.wait()).await.context("hookwright acp did not end")??;
        Ok(())
    }
}

/// Times of `session/new` with servers that take a second to start, all of them ready when it answers.
async fn opens(hookwright: &Path, scripted: &Path, folder: &Path, rounds: usize) -> Result<Times> {
    let script = folder.join("slow.json");
    let tool = json!({"name": "add", "inputSchema": {"type": "object"}});
    std::fs::write(&script, json!({"start": [{"sleep_ms": 1_000}], "tools": [tool]}).to_string())?;
    let server = |n| json!({"name": format!("slow{n}"), "command": scripted, "args": [script], "env": []});
    let servers: Vec<Value> = (0..SLOW).map(server).collect();
    let mut client = Client::start(hookwright, folder, "slow.db").await?;
    let mut times = Times::default();
    for round in 0..=rounds {
        let since = Instant::now();
        let made = client.session(folder, &servers).await?;
        let taken = since.elapsed();
        let states = made["_meta"]["hookwright"]["servers"].as_array().cloned().unwrap_or_default();
        if states.len() != SLOW || states.iter().any(|server| server["state"] != "ready") {
            bail!("not all servers are ready: {made}");
        }
        if round > 0 {
            times.extend(vec![taken]);
        }
        client.call("session/close", json!({"sessionId": made["sessionId"]})).await?;
    }
    client.close().await?;
    Ok(times)
}

/// Kibibytes of a session that was opened; with `prompted`, of one that had a prompt, too.
async fn memory(hookwright: &Path, folder: &Path, prompted: bool) -> Result<f64> {
    let mut client = Client::start(hookwright, folder, if prompted { "prompted.db" } else { "idle.db" }).await?;
    let mut sizes = vec![];
    let mut made = 0;
    for target in [FIRST, FIRST + SESSIONS] {
        while made < target {
            let session = client.session(folder, &[]).await?["sessionId"].take();
            if prompted {
                let text = json!([{"type": "text", "text": "Hello."}]);
                let ended = client.call("session/prompt", json!({"sessionId": session, "prompt": text})).await?;
                if ended["stopReason"] != "end_turn" {
                    bail!("a prompt ended otherwise: {ended}");
                }
            }
            made += 1;
        }
        sizes.push(client.resident_kib()?);
    }
    client.close().await?;
    Ok((sizes[1] - sizes[0]) / f64::from(SESSIONS))
}

/// The door's figures. `scripted` is the program of scripted servers.
pub(crate) async fn run(hookwright: &Path, scripted: &Path, folder: &Path, rounds: usize) -> Result<Group> {
    std::fs::write(folder.join("script.yaml"), r#"{"turns": [{"say": "Done."}]}"#)?;
    let opens = opens(hookwright, scripted, folder, rounds).await?;
    let (idle, prompted) = (memory(hookwright, folder, false).await?, memory(hookwright, folder, true).await?);
    let name = format!("session/new with {SLOW} servers of 1 s each");
    let size = |key: &str, name: &str, kib: f64| {
        Figure::number(key, name, kib, format!("{kib:.1} KiB")).aim(Aim::at_most(kib, 100.0, " KiB"))
    };
    Ok(Group {
        title: "`hookwright acp`                                                  p50       p99".into(),
        figures: vec![
            Figure::of("acp_slow", &name, &opens, None).aim(Aim::at_most(opens.p50().as_secs_f64(), 1.3, " s")),
            size("acp_idle_kib", &format!("memory of an idle session, of {SESSIONS}"), idle),
            size("acp_prompted_kib", &format!("the same after a prompt, of {SESSIONS}"), prompted),
        ],
    })
}
