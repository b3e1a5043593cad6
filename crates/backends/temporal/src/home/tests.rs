//! Segments on a real journal, without a cluster: a book stands for the workflow.

#![allow(clippy::unwrap_used, reason = "what can't be done fails its test")]

use super::*;
use crate::book::{Book, Next};
use crate::wire::{Answer, Item, NewJobWire};
use hookwright_core::FunctionName;
use hookwright_core::event::Moment;
use hookwright_core::hooks::{Hook, HookSet};
use hookwright_core::job::{AgentSpec, JobSpec, Outcome};
use hookwright_core::message::StopReason;
use hookwright_core::stored::Stored;
use hookwright_runtime::job::{Deps, Which, run_segment};
use hookwright_runtime::observe::Silent;
use hookwright_runtime::ports::clock::SystemClock;
use hookwright_runtime::ports::model::{Model, ModelError, Turn, TurnCall, TurnRequest, TurnSink};
use hookwright_runtime::ports::store::{Decision, NewJob};
use hookwright_runtime::ports::tools::{CallOutcome, ListedFunction, ToolDown, ToolState, ToolStatus, Tools};
use hookwright_sqlite::{OpenOptions, SqliteStore};
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

pub(crate) const JOB: &str = "job_1";

/// A node whose `git.push` counts, and whose `policy.check` always says the same.
pub(crate) struct Town {
    folder: tempfile::TempDir,
    says: Value,
    result: Value,
    pushes: Arc<AtomicU32>,
}

struct Scripted {
    says: Value,
    result: Value,
    pushes: Arc<AtomicU32>,
}

#[async_trait::async_trait]
impl Tools for Scripted {
    async fn ready(&self, _: &str) -> Result<(), ToolDown> {
        Ok(())
    }
    async fn functions(&self, tool: &str) -> Result<Vec<ListedFunction>, ToolDown> {
        Ok(vec![ListedFunction {
            name: if tool == "policy" { "check" } else { "push" }.into(),
            description: None,
            input_schema: json!({"type": "object"}),
            read_only_hint: false,
            idempotent_hint: false,
            definition: Arc::default(),
        }])
    }
    async fn call(&self, name: &FunctionName, _: Map<String, Value>, _: Duration) -> CallOutcome {
        let said = if name.tool() == "git" {
            self.pushes.fetch_add(1, Ordering::SeqCst);
            &self.result
        } else {
            &self.says
        };
        CallOutcome::Answered { result: json!({"content": [], "structuredContent": said}), duplicate_key: false }
    }
    fn status(&self) -> Vec<ToolStatus> {
        let status = |tool: &str| ToolStatus {
            tool: tool.into(),
            state: ToolState::Ready,
            starts: 1,
            last_error: None,
            server: None,
            protocol: None,
        };
        vec![status("policy"), status("git")]
    }
    async fn kill(&self, _: &str, _: &str) -> bool {
        false
    }
    async fn shutdown(&self) {}
}

/// Calls once, then is done.
struct Pushes;

#[async_trait::async_trait]
impl Model for Pushes {
    async fn turn(&self, request: TurnRequest<'_>, _: &dyn TurnSink) -> Result<Turn, ModelError> {
        let call =
            || TurnCall { provider_id: "c".into(), tool: "git.push".into(), arguments: json!({"branch": "main"}) };
        let calls: Vec<TurnCall> = (request.turn == 1).then(call).into_iter().collect();
        let stop = if calls.is_empty() { StopReason::EndTurn } else { StopReason::ToolCalls };
        Ok(Turn { text: Some("done".into()), calls, stop, usage: None, provider_state: None })
    }
    fn label(&self) -> String {
        "pushes".into()
    }
    fn is_scripted(&self) -> bool {
        true
    }
}

impl Town {
    pub(crate) fn new(says: Value) -> Self {
        Self { folder: tempfile::tempdir().unwrap(), says, result: json!("pushed"), pushes: Arc::default() }
    }

    fn file(&self) -> SqliteStoreFile {
        let path = self.folder.path().join("jobs.db");
        SqliteStore::open(path, OpenOptions::new("n", Arc::new(SystemClock))).unwrap()
    }

    /// Loses its disk.
    fn lose(&self) {
        for entry in std::fs::read_dir(self.folder.path()).unwrap() {
            std::fs::remove_file(entry.unwrap().path()).unwrap();
        }
    }

    /// The book's next segment on this node.
    async fn step(&self, book: &mut Book, attempt: u32) -> Result<(), SegmentError> {
        let input = self.input(book);
        let given = input.items.clone();
        let output = segment(self, input, attempt, Arc::new(Silent)).await?;
        book.segments += 1;
        book.segment_ended(output, &given).unwrap();
        Ok(())
    }

    fn input(&self, book: &Book) -> SegmentInput {
        let acknowledged = book.acknowledged();
        SegmentInput {
            job: JOB.into(),
            number: 1,
            home: self.place(),
            row: row(),
            new: (acknowledged.records == 0).then(|| Box::new(NewJobWire { spec: spec(), blobs: vec![] })),
            acknowledged,
            items: book.items(),
        }
    }

    /// Goes on until people are awaited or it is over.
    async fn run(&self, book: &mut Book) -> Next {
        loop {
            match book.next(0) {
                Next::Segment => self.step(book, 1).await.unwrap(),
                next => return next,
            }
        }
    }
}

type SqliteStoreFile = Arc<SqliteStore>;

#[async_trait::async_trait]
impl Home for Town {
    fn place(&self) -> Place {
        Place { node: "n".into(), queue: "q".into(), store: Some("s".into()) }
    }
    fn store(&self) -> Arc<dyn Store> {
        self.file()
    }
    async fn run(&self, take: Take, options: Options, observer: Arc<dyn Observer>) -> Result<SegmentEnd, NotRun> {
        let which = match take {
            Take::New(run) => Which::New(run),
            Take::GoOn { job } => Which::GoOn { job, process: "p".into() },
        };
        let deps = Deps {
            store: self.file(),
            tools: Arc::new(Scripted {
                says: self.says.clone(),
                result: self.result.clone(),
                pushes: self.pushes.clone(),
            }),
            model: Arc::new(Pushes),
            clock: Arc::new(SystemClock),
            traits: HashMap::new(),
            standing: Arc::default(),
            subagents: None,
            checkpoint: None,
        };
        run_segment(deps, which, options, observer).await.map_err(|e| NotRun(e.to_string()))
    }
}

fn spec() -> JobSpec {
    let agent = AgentSpec { own_tools: vec!["git".into()], ..AgentSpec::new("dev", "p", "script/x.yaml", 10) };
    let hook = Hook::new("p", Moment::PreToolCall, FunctionName::new("policy", "check"));
    JobSpec {
        hooks: HookSet { manifests: vec![], hooks: vec![hook] },
        ..JobSpec::new(JOB, agent, Stored::inline(json!("go")))
    }
}

fn row() -> NewJob {
    NewJob {
        id: JOB.into(),
        tenant: "default".into(),
        agent: "dev".into(),
        session: spec().session,
        parent: None,
        created_ms: 1,
        origin: Value::Null,
    }
}

fn allows() -> Town {
    Town::new(json!({"decision": "allow"}))
}

fn asks() -> Town {
    Town::new(json!({"decision": "escalate", "reason": "r"}))
}

pub(crate) fn yes(book: &Book) -> (String, Decision) {
    let (approval, _) = book.open().next().unwrap();
    let digest = approval.digest.clone();
    (approval.id.clone(), Decision { approve: true, by: "ada".into(), verified: true, note: None, digest, at_ms: 0 })
}

#[tokio::test]
async fn a_book_follows_a_job_to_its_end_and_knows_what_its_journal_holds() {
    let (town, mut book) = (allows(), Book::default());
    let Next::Over(Outcome::Completed { .. }) = town.run(&mut book).await else { panic!("{book:?}") };
    // The first turn, its calls, the second turn.
    assert_eq!((book.segments, book.status()), (3, "completed"));
    let texts = town.file().records(JOB, 0).await.unwrap();
    let (_, head) = hookwright_core::history::replay(&texts).unwrap();
    assert_eq!(book.acknowledged(), Mark { records: head.records, hash: head.hash });
    assert_eq!(town.pushes.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn an_attempt_whose_result_was_lost_is_not_made_again() {
    let (town, mut book) = (allows(), Book::default());
    town.step(&mut book, 1).await.unwrap();
    // The calls are made, and nobody hears of it.
    segment(&town, town.input(&book), 1, Arc::new(Silent)).await.unwrap();
    assert_eq!(town.pushes.load(Ordering::SeqCst), 1);
    town.step(&mut book, 2).await.unwrap();
    assert!(matches!(town.run(&mut book).await, Next::Over(Outcome::Completed { .. })));
    assert_eq!(town.pushes.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_lost_journal_is_told_from_one_that_was_never_begun() {
    let (town, mut book) = (allows(), Book::default());
    // An attempt was broken off before it began anything: the file is the same.
    let input = town.input(&book);
    let elsewhere = SegmentInput { home: Place { store: Some("t".into()), ..town.place() }, ..input.clone() };
    assert!(matches!(segment(&town, elsewhere, 2, Arc::new(Silent)).await, Err(SegmentError::Lost)));
    segment(&town, input, 2, Arc::new(Silent)).await.unwrap();
    town.step(&mut book, 1).await.unwrap();
    town.lose();
    // Nothing was under way, or something may have been.
    assert!(matches!(town.step(&mut book, 1).await, Err(SegmentError::Gone)));
    assert!(matches!(town.step(&mut book, 2).await, Err(SegmentError::Lost)));
}

#[tokio::test]
async fn a_journal_that_is_gone_is_made_again_with_its_approvals() {
    let (town, mut book) = (asks(), Book::default());
    assert!(matches!(town.run(&mut book).await, Next::Wait { .. }));
    let records = town.file().records(JOB, 0).await.unwrap();
    town.lose();
    let (id, decision) = yes(&book);
    book.decide(&id, decision, 1).unwrap();
    assert!(matches!(town.step(&mut book, 1).await, Err(SegmentError::Gone)));
    let input = RestoreInput { job: JOB.into(), row: row(), acknowledged: book.acknowledged() };
    let less = restore(&*town.file(), &input, records[1..].to_vec()).await;
    assert!(less.is_err(), "records are missing");
    restore(&*town.file(), &input, records).await.unwrap();
    assert!(matches!(town.run(&mut book).await, Next::Over(Outcome::Completed { .. })));
    assert_eq!(town.pushes.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_decision_counts_once_and_only_for_what_was_asked() {
    let (town, mut book) = (asks(), Book::default());
    let Next::Wait { .. } = town.run(&mut book).await else { panic!("{book:?}") };
    let (id, decision) = yes(&book);
    assert_eq!(book.undecided(), std::slice::from_ref(&id));
    assert_eq!(book.refuses("ap_0", &decision), Some(Answer::Unknown));
    let other = Decision { digest: "d".repeat(64), ..decision.clone() };
    assert_eq!(book.refuses(&id, &other), Some(Answer::Digest));
    assert_eq!(book.decide(&id, decision.clone(), u64::MAX), Err(Answer::Expired));
    let Item { what: InboxKind::Decided { decision: first, .. }, .. } =
        book.decide(&id, decision.clone(), 1_000).unwrap()
    else {
        panic!("{book:?}")
    };
    assert_eq!(first.at_ms, 1_000, "the workflow says when");
    let no = Decision { approve: false, ..decision };
    assert_eq!(book.decide(&id, no, 2_000), Err(Answer::Already { decision: Some(first) }));
    assert!(book.undecided().is_empty());
    assert!(matches!(town.run(&mut book).await, Next::Over(Outcome::Completed { .. })));
}

#[tokio::test]
async fn a_book_that_is_carried_over_goes_on_where_it_was() {
    let (town, mut book) = (asks(), Book::default());
    town.run(&mut book).await;
    let text = serde_json::to_string(&book).unwrap();
    let mut other: Book = serde_json::from_str(&text).unwrap();
    assert_eq!(other.acknowledged(), book.acknowledged());
    let (id, decision) = yes(&other);
    other.decide(&id, decision, 1).unwrap();
    assert!(matches!(town.run(&mut other).await, Next::Over(Outcome::Completed { .. })));
}

#[tokio::test]
async fn a_cancel_ends_a_job_in_order_at_whatever_point_it_comes() {
    for steps in 0..3 {
        let (town, mut book) = (allows(), Book::default());
        for _ in 0..steps {
            town.step(&mut book, 1).await.unwrap();
        }
        book.say(InboxKind::Cancel { by: "ada".into(), at_ms: 1 });
        assert_eq!(town.run(&mut book).await, Next::Over(Outcome::Cancelled { by: "ada".into() }));
    }
    let (town, mut book) = (asks(), Book::default());
    town.run(&mut book).await;
    book.say(InboxKind::Cancel { by: "ada".into(), at_ms: 1 });
    assert_eq!(town.run(&mut book).await, Next::Over(Outcome::Cancelled { by: "ada".into() }));
    assert_eq!(town.pushes.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn records_that_are_too_large_go_by_digest_and_still_replay() {
    let mut town = allows();
    town.result = json!("x".repeat(50_000));
    let mut book = Book::default();
    town.run(&mut book).await;
    let whole = town.file().records(JOB, 0).await.unwrap();
    let many: Vec<String> = std::iter::repeat_n(whole.clone(), 40).flatten().collect();
    let bytes = |records: &[String]| records.iter().map(String::len).sum::<usize>();
    assert!(bytes(&many) > RETURNED_BYTES);
    let fitted = fit(many);
    assert!(bytes(&fitted) <= RETURNED_BYTES);
    let (_, head) = hookwright_core::history::replay(&fitted[..whole.len()]).unwrap();
    assert_eq!(book.acknowledged().hash, head.hash);
}
