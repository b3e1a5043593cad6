//! The node's side of the bridges: which job an event belongs to, and what becomes of jobs.

use hookwright_bridge::{Agent, Ask, Call, Escalate, Harness, IsOf, Reply, Request, Sessions, What, Wiring};
use hookwright_core::FunctionName;
use hookwright_core::event::Moment;
use hookwright_core::hooks::{Hook, HookSet};
use hookwright_core::job::{AgentSpec, External, JobSpec, LOGIC_VERSION};
use hookwright_core::stored::Stored;
use hookwright_runtime::job::{Deps, NewRun};
use hookwright_runtime::ports::clock::SystemClock;
use hookwright_runtime::ports::model::{Model, ModelError, Turn, TurnRequest, TurnSink};
use hookwright_runtime::ports::store::{JobRow, NewJob, Store};
use hookwright_runtime::ports::tools::{CallOutcome, ListedFunction, ToolDown, ToolStatus, Tools};
use hookwright_sqlite::{OpenOptions, SqliteStore};
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// `policy.check`: denies what holds the word `no`, changes what holds `change`.
struct Policy;

#[async_trait::async_trait]
impl Tools for Policy {
    async fn ready(&self, _: &str) -> Result<(), ToolDown> {
        Ok(())
    }
    async fn functions(&self, _: &str) -> Result<Vec<ListedFunction>, ToolDown> {
        Ok(vec![ListedFunction {
            name: "check".into(),
            description: None,
            input_schema: json!({"type": "object"}),
            read_only_hint: false,
            idempotent_hint: false,
            definition: Arc::default(),
        }])
    }
    async fn call(&self, _: &FunctionName, arguments: Map<String, Value>, _: Duration) -> CallOutcome {
        let event = &arguments["event"];
        let key = match event["event"].as_str() {
            Some("job_start") => "input",
            Some("job_end") => "output",
            _ => "arguments",
        };
        let value = event[key].to_string();
        let says = if value.contains("no") {
            json!({"decision": "deny", "reason": "it says no"})
        } else if value.contains("change") {
            json!({"decision": "modify", key: "otherwise"})
        } else {
            json!({"decision": "allow"})
        };
        CallOutcome::Answered { result: json!({"content": [], "structuredContent": says}), duplicate_key: false }
    }
    fn status(&self) -> Vec<ToolStatus> {
        vec![]
    }
    async fn kill(&self, _: &str, _: &str) -> bool {
        false
    }
    async fn shutdown(&self) {}
}

struct NoModel;

#[async_trait::async_trait]
impl Model for NoModel {
    async fn turn(&self, _: TurnRequest<'_>, _: &dyn TurnSink) -> Result<Turn, ModelError> {
        Err(ModelError::Config("a harness has its own".into()))
    }
    fn label(&self) -> String {
        "none".into()
    }
    fn is_scripted(&self) -> bool {
        true
    }
}

struct Town {
    store: Arc<SqliteStore>,
    begun: AtomicUsize,
}

impl Wiring for Town {
    fn job(&self, ask: &Ask, input: Value) -> Result<(NewRun, Deps), String> {
        let id = format!("job_{}", self.begun.fetch_add(1, Ordering::SeqCst));
        let holds = u32::from(ask.harness.caps().holds_stop);
        let agent = AgentSpec {
            tools: Some(vec!["*".into()]),
            external: Some(External { makes_calls: true, holds }),
            ..AgentSpec::new(ask.harness.id(), "", "", 1)
        };
        let hook = |on| Hook::new("p", on, FunctionName::parse("policy.check").unwrap());
        let hooks = [Moment::JobStart, Moment::PreToolCall, Moment::JobEnd].into_iter().map(hook).collect();
        let spec = JobSpec {
            logic: LOGIC_VERSION,
            job: id.clone(),
            tenant: "t".into(),
            node: "here".into(),
            session: "s".into(),
            parent_jobs: vec![],
            continues: None,
            hooks: HookSet { hooks, ..HookSet::default() },
            agent,
            input: Stored::inline(input),
            hook_functions: vec![],
            limits: hookwright_core::limits::Limits::default(),
            lifecycle: None,
        };
        let job = NewJob {
            id,
            tenant: "t".into(),
            agent: spec.agent.id.clone(),
            session: "s".into(),
            parent: None,
            created_ms: self.begun.load(Ordering::SeqCst) as u64,
            origin: json!({"conversation": ask.session}),
        };
        Ok((NewRun { job, spec, blobs: vec![] }, self.deps()))
    }

    fn left(&self, ask: &Ask) -> Option<(Deps, IsOf)> {
        let (conversation, agent) = (ask.session.clone(), ask.harness.id());
        let is_of = move |row: &JobRow| row.job.origin["conversation"] == conversation && row.job.agent == agent;
        Some((self.deps(), Box::new(is_of)))
    }
}

impl Town {
    fn deps(&self) -> Deps {
        Deps {
            store: self.store.clone(),
            tools: Arc::new(Policy),
            model: Arc::new(NoModel),
            clock: Arc::new(SystemClock),
            traits: HashMap::new(),
            subagents: None,
            standing: Arc::default(),
            checkpoint: None,
        }
    }
}

struct World {
    _folder: tempfile::TempDir,
    store: Arc<SqliteStore>,
    sessions: Sessions,
    harness: Harness,
}

impl World {
    fn new(harness: Harness) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store =
            SqliteStore::open(folder.path().join("a.db"), OpenOptions::new("test", Arc::new(SystemClock))).unwrap();
        let sessions = Self::node(&store, 0);
        Self { _folder: folder, store, sessions, harness }
    }

    fn node(store: &Arc<SqliteStore>, begun: usize) -> Sessions {
        Sessions::new(Box::new(Town { store: store.clone(), begun: AtomicUsize::new(begun) }))
    }

    async fn ask(&self, session: &str, agent: Option<Agent>, what: What) -> Reply {
        let ask = Ask { harness: self.harness, session: session.into(), turn: None, cwd: None, agent, what };
        let request = Request { ask, escalate: Escalate::Wait, wait_ms: 60_000, tenant: None };
        tokio::time::timeout(Duration::from_mins(2), self.sessions.answer(request)).await.expect("an answer in time")
    }

    /// A line of a table: `what` with its words, in a conversation.
    async fn says(&self, session: &str, line: &str) -> &'static str {
        let (what, words) = line.split_once(' ').unwrap_or((line, ""));
        let (words, agent) = match words.split_once(" as ") {
            Some((words, agent)) => (words, Some(Agent { id: agent.into(), kind: None, parent: None })),
            None => (words, None),
        };
        let call = || Call {
            id: words.split(' ').next().map(str::to_owned),
            tool: "Bash".into(),
            aliases: vec![],
            arguments: json!({"command": words}),
        };
        let text = || words.to_owned();
        let what = match what {
            "start" => What::Started { source: None },
            "prompt" => What::Prompt { text: text() },
            "before" => What::Before { call: call() },
            "after" => What::After { call: call(), result: json!("made"), structured: None, is_error: false },
            "stop" => What::Stop { output: Some(text()), already_held: false, transcript: None },
            "again" => What::Stop { output: Some(text()), already_held: true, transcript: None },
            "subagent" => What::SubagentStart,
            "end" => What::Ended { reason: None },
            other => panic!("{other}"),
        };
        match self.ask(session, agent, what).await {
            Reply::Allow => "allow",
            Reply::Deny { .. } => "deny",
            Reply::Rewrite { .. } => "rewrite",
            Reply::AskPerson { .. } => "ask",
            Reply::Replace { .. } => "replace",
            Reply::Withhold { .. } => "withhold",
            Reply::Hold { .. } => "hold",
        }
    }

    /// All jobs in the order in which they were begun: how each stands, `>` before those below another.
    async fn jobs(&self) -> Vec<String> {
        let mut rows = self.store.jobs(false, 100).await.unwrap();
        rows.sort_by_key(|row| (row.job.parent.is_some(), row.job.id.clone()));
        let below = |row: &JobRow| if row.job.parent.is_some() { "> " } else { "" };
        rows.iter().map(|row| format!("{}{}", below(row), json!(row.status).as_str().unwrap())).collect()
    }
}

async fn check(harness: Harness, lines: &[(&str, &str)], jobs: &[&str]) {
    let world = World::new(harness);
    for (line, reply) in lines {
        let (session, line) = line.split_once(": ").unwrap_or(("a", line));
        assert_eq!(world.says(session, line).await, *reply, "{harness}: {line}");
    }
    assert_eq!(world.jobs().await, jobs, "{harness}: {lines:?}");
}

/// Lines with their replies, and how the jobs stand then.
type Case<'a> = (&'a [(&'a str, &'a str)], &'a [&'a str]);

#[tokio::test]
async fn a_prompt_is_a_job_which_ends_with_its_turn() {
    let cases: &[Case<'_>] = &[
        (&[("start", "allow"), ("end", "allow")], &[]),
        (&[("prompt x", "allow"), ("before 1", "allow"), ("after 1", "allow"), ("stop done", "allow")], &["completed"]),
        (&[("prompt x", "allow"), ("stop a", "allow"), ("prompt y", "allow")], &["completed", "running"]),
        // The next prompt, or the end of the conversation, ends what was under way.
        (&[("prompt x", "allow"), ("prompt y", "allow")], &["cancelled", "running"]),
        (&[("prompt x", "allow"), ("end", "allow")], &["completed"]),
        // Conversations are apart.
        (&[("a: prompt x", "allow"), ("b: prompt y", "allow"), ("a: stop z", "allow")], &["completed", "running"]),
        // A denied prompt, and what goes on after it all the same.
        (&[("prompt no", "deny"), ("before 1", "deny"), ("stop x", "allow")], &["failed"]),
        (&[("prompt no", "deny"), ("prompt x", "allow"), ("before 1", "allow")], &["failed", "running"]),
        (&[("prompt change", "deny")], &["failed"]),
        // What is asked without a prompt begins a job too; a stop without one is no work.
        (&[("before 1", "allow"), ("stop x", "allow")], &["completed"]),
        (&[("stop x", "allow")], &[]),
        // Where the agent goes on after its output, that is a job of its own.
        (&[("prompt x", "allow"), ("stop x", "allow"), ("before 1", "allow")], &["completed", "running"]),
        // What was made without having been asked about: hooks say what they would have said.
        (&[("prompt x", "allow"), ("after 1 no", "withhold"), ("after 2", "allow")], &["running"]),
    ];
    for (lines, jobs) in cases {
        check(Harness::ClaudeCode, lines, jobs).await;
    }
}

#[tokio::test]
async fn a_denied_end_holds_a_stop_once_and_what_it_was_held_with_is_no_prompt() {
    let held = [("prompt x", "allow"), ("stop no", "hold"), ("before 1", "allow")];
    let twice = [&held[..], &[("again no", "allow")]].concat();
    check(Harness::ClaudeCode, &twice, &["failed"]).await;
    let mended = [&held[..], &[("again done", "allow")]].concat();
    check(Harness::ClaudeCode, &mended, &["completed"]).await;
    // Some harnesses give it back as a prompt.
    let world = World::new(Harness::GeminiCli);
    assert_eq!(world.says("a", "prompt x").await, "allow");
    let stop = What::Stop { output: Some("no".into()), already_held: false, transcript: None };
    let Reply::Hold { text } = world.ask("a", None, stop).await else { panic!("it is held") };
    assert_eq!(world.ask("a", None, What::Prompt { text }).await, Reply::Allow);
    assert_eq!(world.jobs().await, ["running"]);
    // One that can't be held is recorded.
    check(Harness::OpenCode, &[("prompt x", "allow"), ("stop no", "allow")], &["failed"]).await;
}

#[tokio::test]
async fn without_prompts_a_session_is_a_job() {
    let lines = [("before 1", "allow"), ("after 1", "allow"), ("before 2 no", "deny"), ("before 3", "allow")];
    check(Harness::Cline, &lines, &["running"]).await;
    check(Harness::Cline, &[&lines[..], &[("end", "allow")]].concat(), &["completed"]).await;
}

#[tokio::test]
async fn subagents_are_jobs_below_and_end_with_the_one_above() {
    let one = [("prompt x", "allow"), ("subagent  as s1", "allow"), ("before 1 as s1", "allow")];
    check(Harness::ClaudeCode, &one, &["running", "> running"]).await;
    let done = [&one[..], &[("after 1 as s1", "allow"), ("stop found as s1", "allow"), ("before 2", "allow")]].concat();
    check(Harness::ClaudeCode, &done, &["running", "> completed"]).await;
    check(Harness::ClaudeCode, &[&one[..], &[("end", "allow")]].concat(), &["completed", "> cancelled"]).await;
    check(Harness::ClaudeCode, &[&one[..], &[("before 2 no as s1", "deny")]].concat(), &["running", "> running"]).await;
}

#[tokio::test]
async fn a_node_is_busy_with_jobs_that_are_not_over() {
    let world = World::new(Harness::ClaudeCode);
    assert!(!world.sessions.is_busy());
    world.says("a", "start").await;
    assert!(!world.sessions.is_busy());
    world.says("a", "prompt x").await;
    assert!(world.sessions.is_busy());
    world.says("a", "stop done").await;
    assert!(!world.sessions.is_busy());
}

#[tokio::test]
async fn another_node_takes_the_job_up_that_a_conversation_had() {
    let mut world = World::new(Harness::ClaudeCode);
    for line in ["prompt x", "before 1"] {
        assert_eq!(world.says("a", line).await, "allow");
    }
    assert_eq!(world.says("b", "prompt y").await, "allow");
    // Its jobs are let go, as where its process ends.
    world.sessions = World::node(&world.store, 2);
    let left = async {
        loop {
            let rows = world.store.jobs(true, 10).await.unwrap();
            if rows.len() == 2 && rows.iter().all(|row| !row.running) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), left).await.unwrap();
    assert_eq!(world.says("a", "after 1").await, "allow");
    assert_eq!(world.jobs().await, ["running", "running"]);
    assert_eq!(world.says("a", "stop done").await, "allow");
    // Another conversation's next prompt ends what it had.
    assert_eq!(world.says("b", "prompt z").await, "allow");
    assert_eq!(world.says("c", "stop x").await, "allow");
    let jobs = world.jobs().await;
    assert_eq!(jobs[..3], ["completed", "cancelled", "running"], "{jobs:?}");
}

#[tokio::test]
async fn a_probe_is_denied_and_is_nobodys_job() {
    let world = World::new(Harness::Codex);
    let call = Call {
        id: None,
        tool: hookwright_bridge::PROBE_TOOL.into(),
        aliases: vec![],
        arguments: json!({"nonce": "n1\u{1b}"}),
    };
    let Reply::Deny { text } = world.ask("a", None, What::Before { call }).await else { panic!("a no") };
    assert!(text.contains("n1") && !text.contains('\u{1b}'), "{text}");
    assert!(world.jobs().await.is_empty());
}
