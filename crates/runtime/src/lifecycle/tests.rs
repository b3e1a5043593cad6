//! Rounds of asks against scripted tools.

use super::*;
use crate::ports::tools::{ListedFunction, ToolDown, ToolStatus};
use hookwright_core::Limits;
use hookwright_core::hooks::HookSet;
use hookwright_core::job::{AgentSpec, LOGIC_VERSION};
use hookwright_core::lifecycle::Delivered;
use serde_json::{Map, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::sync::{Barrier, oneshot};

/// Servers by name: what they list, and what a call of each does.
#[derive(Default)]
struct Fake {
    listed: HashMap<&'static str, Vec<&'static str>>,
    /// These never answer a call of a hook.
    hanging: Vec<&'static str>,
    /// These never list, from their second listing on.
    busy: Vec<&'static str>,
    /// These are down.
    down: Mutex<Vec<&'static str>>,
    /// Each call waits until so many are there.
    together: Option<Barrier>,
    starts: AtomicU32,
    lists: Mutex<HashMap<String, u32>>,
    calls: Mutex<Vec<(String, Value)>>,
    killed: Mutex<Vec<String>>,
}

#[async_trait::async_trait]
impl Tools for Fake {
    async fn ready(&self, _: &str) -> Result<(), ToolDown> {
        Ok(())
    }
    async fn functions(&self, tool: &str) -> Result<Vec<ListedFunction>, ToolDown> {
        if self.down.lock().unwrap().contains(&tool) {
            return Err(ToolDown { why: "its server is down".into() });
        }
        let times = {
            let mut lists = self.lists.lock().unwrap();
            let times = lists.entry(tool.to_owned()).or_default();
            *times += 1;
            *times
        };
        if times > 1 && self.busy.contains(&tool) {
            std::future::pending::<()>().await;
        }
        let function = |name: &&str| ListedFunction {
            name: (*name).to_owned(),
            description: None,
            input_schema: json!({"type": "object", "properties": {"job": {}}}),
            read_only_hint: false,
            idempotent_hint: false,
            definition: std::sync::Arc::default(),
        };
        Ok(self.listed[tool].iter().map(function).collect())
    }
    async fn call(&self, name: &FunctionName, arguments: Map<String, Value>, limit: Duration) -> CallOutcome {
        self.calls.lock().unwrap().push((name.to_string(), Value::Object(arguments)));
        if let Some(together) = &self.together {
            together.wait().await;
        }
        if name.is_lifecycle() && self.hanging.contains(&name.tool()) {
            tokio::time::sleep(limit).await;
            return CallOutcome::TimedOut { late: oneshot::channel().1 };
        }
        let text = format!("{} speaks", name.tool());
        CallOutcome::Answered { result: json!({"content": [{"type": "text", "text": text}]}), duplicate_key: false }
    }
    async fn kill(&self, tool: &str, why: &str) -> bool {
        self.killed.lock().unwrap().push(format!("{tool}: {why}"));
        true
    }
    fn status(&self) -> Vec<ToolStatus> {
        let down = self.down.lock().unwrap();
        let status = |tool: &&'static str| ToolStatus {
            tool: (*tool).to_owned(),
            state: if down.contains(tool) { ToolState::Restarting } else { ToolState::Ready },
            starts: self.starts.load(Ordering::SeqCst),
            last_error: None,
            server: None,
            protocol: None,
        };
        self.listed.keys().map(status).collect()
    }
    async fn shutdown(&self) {}
}

fn spec() -> JobSpec {
    JobSpec {
        logic: LOGIC_VERSION,
        job: "job_1".into(),
        tenant: "t".into(),
        node: "n".into(),
        session: "s".into(),
        parent_jobs: vec![],
        continues: None,
        agent: AgentSpec {
            id: "dev".into(),
            plugin: "p".into(),
            model: "script/x.yaml".into(),
            instructions: None,
            tools: None,
            own_tools: vec![],
            input_schema: None,
            output_schema: None,
            max_turns: 10,
            max_tokens: None,
            context_window: None,
            subagents: vec![],
            external: None,
        },
        input: Stored::inline(json!("go")),
        hooks: HookSet { manifests: vec![], hooks: vec![] },
        hook_functions: vec![],
        limits: Limits::default(),
        lifecycle: None,
    }
}

/// A job of one process.
struct Job {
    tools: Arc<dyn Tools>,
    standing: Arc<Standing>,
    hooks: Hooks,
}

impl Job {
    fn new(fake: &Arc<Fake>) -> Self {
        Self::of(fake, Arc::default())
    }

    fn of(fake: &Arc<Fake>, standing: Arc<Standing>) -> Self {
        let tools = Watched::new(fake.clone(), standing.clone());
        Self { tools, standing, hooks: Hooks::default() }
    }

    async fn ask(&self, point: Point, servers: &[&str]) -> Vec<LifecycleAnswer> {
        let lifecycle = LifecycleSpec {
            servers: vec![],
            timeout_ms: 60,
            max_rejections: 3,
            rejections_used: 0,
            session_start: false,
        };
        let round = Round {
            tools: &*self.tools,
            standing: &self.standing,
            hooks: &self.hooks,
            spec: &spec(),
            lifecycle: &lifecycle,
            point,
            context: &Context::default(),
            prompt: None,
        };
        let servers: Vec<String> = servers.iter().map(|s| (*s).to_owned()).collect();
        round.ask(&servers).await.0
    }
}

fn fake(listed: &[(&'static str, &[&'static str])]) -> Fake {
    Fake { listed: listed.iter().map(|(tool, names)| (*tool, names.to_vec())).collect(), ..Fake::default() }
}

fn timed_out(answers: &[LifecycleAnswer]) -> Vec<bool> {
    answers
        .iter()
        .map(|a| match a.outcome {
            LifecycleOutcome::TimedOut { killed, .. } => killed,
            ref other => panic!("{other:?}"),
        })
        .collect()
}

#[tokio::test]
async fn servers_are_asked_side_by_side_and_answer_in_the_order_of_the_command() {
    // Nobody answers before all three were asked.
    let fake = Fake {
        together: Some(Barrier::new(3)),
        ..fake(&[("c", &["_Stop"]), ("a", &["_Stop"]), ("none", &["Stop", "add"]), ("b", &["_Stop"])])
    };
    let fake = Arc::new(fake);
    let answers = Job::new(&fake).ask(Point::Stop, &["c", "none", "a", "b"]).await;
    let servers: Vec<&str> = answers.iter().map(|a| a.server.as_str()).collect();
    assert_eq!(servers, ["c", "a", "b"], "who does not list the function is not asked and not answered for");
    let body = answers[0].body().unwrap().value.clone().unwrap();
    assert_eq!(Delivered::read(body.as_str().unwrap()).unwrap().text, "c speaks");
    assert!(fake.calls.lock().unwrap().iter().all(|(_, arguments)| *arguments == json!({"job": "job_1"})));
}

#[tokio::test]
async fn a_hook_is_a_server_and_a_function_never_a_joined_name() {
    let fake = Arc::new(fake(&[("fake_", &["Stop"]), ("fake", &["_Stop"]), ("x", &["fake._Stop", "__Stop", "_stop"])]));
    let answers = Job::new(&fake).ask(Point::Stop, &["fake_", "fake", "x"]).await;
    assert_eq!(answers.len(), 1);
    assert_eq!(fake.calls.lock().unwrap()[0].0, "fake._Stop");
}

#[tokio::test]
async fn the_second_timeout_in_a_row_kills_and_any_completed_call_starts_anew() {
    let fake = Arc::new(Fake { hanging: vec!["todo"], ..fake(&[("todo", &["_Stop", "add"])]) });
    let job = Job::new(&fake);
    let stop = || job.ask(Point::Stop, &["todo"]);
    assert_eq!(timed_out(&stop().await), [false]);
    let add = FunctionName::new("todo", "add");
    job.tools.call(&add, Map::new(), Duration::from_secs(1)).await;
    assert_eq!(timed_out(&stop().await), [false], "an ordinary call was completed");
    assert_eq!(timed_out(&stop().await), [true]);
    let killed = fake.killed.lock().unwrap().clone();
    assert_eq!(killed, ["todo: it was killed: it did not answer _Stop within 60ms, the second time in a row"]);
    fake.starts.fetch_add(1, Ordering::SeqCst);
    assert_eq!(timed_out(&stop().await), [false], "its next start is not blamed");
}

#[tokio::test]
async fn patience_is_shared_by_all_jobs_of_a_process() {
    let fake = Arc::new(Fake { hanging: vec!["todo"], ..fake(&[("todo", &["_Stop"])]) });
    let standing = Arc::<Standing>::default();
    assert_eq!(timed_out(&Job::of(&fake, standing.clone()).ask(Point::Stop, &["todo"]).await), [false]);
    assert_eq!(timed_out(&Job::of(&fake, standing).ask(Point::Stop, &["todo"]).await), [true]);
}

#[tokio::test]
async fn a_server_that_is_down_is_a_failure_where_it_may_list_the_hook_and_silence_where_it_does_not() {
    let fake = Arc::new(fake(&[("todo", &["_Stop"])]));
    let job = Job::new(&fake);
    job.ask(Point::Stop, &["todo"]).await;
    fake.down.lock().unwrap().push("todo");
    let answers = job.ask(Point::Stop, &["todo"]).await;
    let why = "its server is down".to_owned();
    assert_eq!(answers[0].outcome, LifecycleOutcome::Failed { why });
    assert_eq!(job.ask(Point::PostCompact, &["todo"]).await, [], "it never listed that");
    let never = Job::new(&fake).ask(Point::PostCompact, &["todo"]).await;
    assert!(matches!(never[0].outcome, LifecycleOutcome::Failed { .. }), "nobody knows what it lists");
}

#[tokio::test]
async fn a_server_that_no_longer_lists_is_asked_as_it_listed_before() {
    let fake = Arc::new(Fake { busy: vec!["todo"], ..fake(&[("todo", &["_Stop"])]) });
    let standing = Arc::<Standing>::default();
    assert_eq!(Job::of(&fake, standing.clone()).ask(Point::Stop, &["todo"]).await.len(), 1);
    let answers = Job::of(&fake, standing).ask(Point::Stop, &["todo"]).await;
    assert!(answers[0].body().is_some(), "{answers:?}");
}

#[tokio::test]
async fn a_server_that_was_started_again_is_asked_for_its_list_again() {
    let fake = Arc::new(fake(&[("todo", &["_Stop"])]));
    let job = Job::new(&fake);
    for _ in 0..3 {
        job.ask(Point::Stop, &["todo"]).await;
    }
    assert_eq!(fake.lists.lock().unwrap()["todo"], 1, "once for each start");
    fake.starts.fetch_add(1, Ordering::SeqCst);
    job.ask(Point::Stop, &["todo"]).await;
    assert_eq!(fake.lists.lock().unwrap()["todo"], 2);
}

#[tokio::test]
async fn a_post_compact_hook_that_hangs_costs_its_limit_and_says_nothing() {
    let fake =
        Arc::new(Fake { hanging: vec!["todo"], ..fake(&[("todo", &["_PostCompact"]), ("memory", &["_PostCompact"])]) });
    let answers = Job::new(&fake).ask(Point::PostCompact, &["todo", "memory"]).await;
    assert_eq!(timed_out(&answers[..1]), [false]);
    let body = answers[1].body().unwrap().value.clone().unwrap();
    assert_eq!(body.as_str().unwrap(), r#"{"hook":"_PostCompact","server":"memory","text":"memory speaks"}"#);
}

#[tokio::test]
async fn a_delivery_is_never_elided_for_the_model() {
    use hookwright_core::lifecycle::provider_id;
    use hookwright_core::message::Message;
    let body = json!(format!("{{\"hook\":\"_Stop\",\"server\":\"todo\",\"text\":\"{}\"}}", "x".repeat(2_000)));
    let message = |id: String| Message::Tool {
        provider_id: id,
        tool: "todo._Stop".into(),
        content: Stored::inline(body.clone()),
        is_error: false,
    };
    let values = crate::values::Values::new(crate::job::tests::empty_store());
    let messages = [message(provider_id(Point::Stop, "job_1", 0, 0)), message("call_1".into())];
    let sent = values.conversation(&messages, &[1_000; 2]).await.unwrap();
    assert_eq!(sent[0], messages[0]);
    assert_ne!(sent[1], messages[1]);
}
