//! What the figures rest on: jobs in memory, with tools that are no servers.

use super::*;
use crate::memory::MemoryStore;
use hookwright_runtime::observe::Silent;
use hookwright_runtime::ports::tools::{CallOutcome, ListedFunction, ToolDown, ToolState, ToolStatus};
use serde_json::Map;

/// What a call does.
#[derive(Clone, Copy, PartialEq)]
enum Does {
    Answers,
    /// Panics in the middle of the call.
    Panics,
    /// Denies where it is the hook.
    Denies,
    /// Objects to the end of a turn.
    Objects,
}

struct Fake(Does);

#[async_trait::async_trait]
impl Tools for Fake {
    async fn ready(&self, _: &str) -> Result<(), ToolDown> {
        Ok(())
    }

    async fn functions(&self, tool: &str) -> Result<Vec<ListedFunction>, ToolDown> {
        let input_schema = json!({"type": "object"});
        let (read_only_hint, idempotent_hint) = (false, false);
        let name = if tool == POLICY { "decide" } else { "echo" }.to_owned();
        let function = |name| ListedFunction {
            name,
            description: None,
            input_schema: input_schema.clone(),
            read_only_hint,
            idempotent_hint,
            definition: Arc::default(),
        };
        Ok(vec![function(name), function("_Stop".to_owned())])
    }

    async fn call(&self, name: &FunctionName, _: Map<String, Value>, _: Duration) -> CallOutcome {
        tokio::task::yield_now().await;
        assert!(self.0 != Does::Panics, "as asked");
        let decision = if self.0 == Does::Denies { "deny" } else { "allow" };
        let result = if name.tool() == POLICY {
            json!({"structuredContent": {"decision": decision}})
        } else if name.function() == "_Stop" {
            let text = if self.0 == Does::Objects { "no" } else { "" };
            json!({"content": [{"type": "text", "text": text}]})
        } else {
            json!({"content": [{"type": "text", "text": "done"}]})
        };
        CallOutcome::Answered { result, duplicate_key: false }
    }

    fn status(&self) -> Vec<ToolStatus> {
        let status = |tool: &str| ToolStatus {
            tool: tool.to_owned(),
            state: ToolState::Ready,
            starts: 1,
            last_error: None,
            server: None,
            protocol: None,
        };
        vec![status(CALLED), status(POLICY)]
    }

    async fn kill(&self, _: &str, _: &str) -> bool {
        false
    }

    async fn shutdown(&self) {}
}

fn work(does: Does) -> Work {
    let store = Arc::new(MemoryStore::new());
    Work {
        store,
        tools: Arc::new(Fake(does)),
        hooks: 2,
        unmatched: 3,
        turns: 2,
        calls: 5,
        arguments: arguments(),
        stop: false,
    }
}

#[tokio::test]
async fn there_is_a_time_between_each_two_calls_and_the_history_replays() {
    let work = work(Does::Answers);
    let (job, times) = work.clone().timed().await.unwrap();
    assert_eq!(times.len(), 9);
    let (machine, head) = hookwright_core::history::replay(work.store.records(&job, 0).await.unwrap()).unwrap();
    // The job's start and end, three model turns, and ten calls with two asks each; each effect has a beginning and an end.
    assert_eq!((machine.outcome().is_some(), head.records), (true, 1 + 3 * 2 + 10 * 3 * 2 + 1));
}

#[tokio::test]
async fn a_hook_that_does_not_allow_is_an_error_and_no_figure() {
    let error = work(Does::Denies).timed().await.unwrap_err().to_string();
    assert!(error.contains("0 calls, 0 allowed, 10 went another way"), "{error}");
}

#[tokio::test]
async fn an_effect_that_panics_ends_the_run_and_the_job_is_not_over() {
    let work = work(Does::Panics);
    let error = work.clone().run(Arc::new(Silent), CancellationToken::new()).await.unwrap_err().to_string();
    assert!(error.contains("ended in a panic"), "{error}");
    let jobs = work.store.jobs(true, 10).await.unwrap();
    assert_eq!((jobs.len(), jobs[0].status.is_final()), (1, false));
}

#[tokio::test]
async fn a_turn_has_a_time_with_and_without_a_server_that_is_asked_and_an_objection_is_no_figure() {
    for stop in [false, true] {
        assert_eq!(Work { stop, ..work(Does::Answers) }.turns(3).await.unwrap().len(), 3);
    }
    let error = Work { stop: true, ..work(Does::Objects) }.turns(1).await.unwrap_err().to_string();
    assert!(error.contains("went wrong"), "{error}");
}
