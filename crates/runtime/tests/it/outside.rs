//! Agents that somebody else runs: their calls, their outputs, their going.

use crate::support::*;
use hookwright_core::event::Moment;
use hookwright_core::job::{AsksThere, Command, External, Fact, Outcome};
use hookwright_runtime::approvals::Decided;
use hookwright_runtime::job::{End, Helpers, Options, RunError, Which, run_external};
use hookwright_runtime::observe::Silent;
use hookwright_runtime::outside::{
    Asked, CallNews, CallRequest, Gone, Left, Made, OutputNews, Outside, Stand, channel,
};
use hookwright_runtime::ports::store::{Store, StoreError};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const CLIENT: External = External { makes_calls: false, holds: 0 };
const HARNESS: External = External { makes_calls: true, holds: 1 };

type Running = JoinHandle<Result<End, RunError>>;

impl World {
    fn external(&self, store: Arc<dyn Store>, which: Which) -> (Outside, Running) {
        let (outside, arrivals) = channel();
        let options = Options { detach: false, cancel: CancellationToken::new(), cancelled_by: "ada".into() };
        let run = run_external(self.deps(store), which, options, Arc::new(Silent), arrivals);
        (outside, tokio::spawn(run))
    }

    fn open(&self, external: External) -> (Outside, Running) {
        self.external(self.store(), self.new_job_of(JOB, Some(external)))
    }

    /// Waits until an approval is open, and decides it.
    async fn decide_open(&self, approve: bool) -> Decided {
        while self.store().approvals(true).await.unwrap().is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        self.decide(approve).await
    }
}

fn push(branch: &str) -> CallRequest {
    request("git.push", json!({ "branch": branch }))
}

fn request(tool: &str, arguments: Value) -> CallRequest {
    CallRequest {
        provider_id: "theirs".into(),
        tool: tool.into(),
        aliases: vec![],
        arguments,
        fault: None,
        progress: None,
        asks_there: AsksThere::No,
    }
}

async fn news(asked: Asked) -> CallNews {
    asked.news.await.unwrap()
}

async fn waits(outside: &Outside, call: &str) -> String {
    loop {
        if let Left::Waits { approval } = outside.leave_call(call).await.unwrap() {
            return approval;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_client_is_told_the_whole_result_or_the_exact_sentence_and_its_session_is_one_job() {
    let world = World::new(&[Moment::PreToolCall], |name, arguments| {
        let said = if name.tool() == "git" {
            hookwright_runtime::ports::tools::CallOutcome::Answered {
                result: json!({"content": [{"type": "text", "text": "ok", "annotations": {"priority": 1}}], "_meta": {"k": 1}}),
                duplicate_key: false,
            }
        } else if arguments["event"]["arguments"]["branch"] == "main" {
            says(json!({"decision": "deny", "reason": "no pushes to main"}))
        } else {
            says(json!({"decision": "allow"}))
        };
        async move { said }
    });
    let (outside, running) = world.open(CLIENT);
    assert!(matches!(outside.admitted().await, Ok(Stand::Admitted(_))));
    let CallNews::Result { content, structured, rest, is_error, changed } =
        news(outside.call(push("dev")).await.unwrap()).await
    else {
        panic!()
    };
    let raw = hookwright_core::call::raw_result(&content, structured.as_deref(), rest.as_deref(), is_error);
    assert!(!changed);
    assert_eq!(
        raw,
        json!({"content": [{"type": "text", "text": "ok", "annotations": {"priority": 1}}], "_meta": {"k": 1}})
    );
    let denied = news(outside.call(push("main")).await.unwrap()).await;
    let sentence = "The call to git.push was not made: hook policy.check denied it: no pushes to main.";
    assert_eq!(denied, CallNews::NotMade(sentence.into()));
    for hidden in ["policy.check", "git._Stop", "nowhere.at_all"] {
        let refused = news(outside.call(request(hidden, json!({}))).await.unwrap()).await;
        assert_eq!(refused, CallNews::NotMade(format!("unknown tool: {hidden}")));
    }
    assert_eq!(world.pushes(), 1);
    let outcome = outside.leave("inspector", true).await.unwrap();
    assert!(matches!(outcome, Outcome::Completed { .. }));
    assert!(matches!(running.await.unwrap(), Ok(End::Finished(Outcome::Completed { .. }))));
    assert_eq!(outside.call(push("dev")).await.unwrap_err(), Gone);
    world.records(JOB).await;
}

#[tokio::test]
async fn sixty_four_calls_are_under_way_at_once() {
    let all = Arc::new(tokio::sync::Barrier::new(64));
    let world = World::new(&[Moment::PreToolCall], move |name, _| {
        let (all, is_push) = (all.clone(), name.tool() == "git");
        async move {
            if is_push {
                all.wait().await;
            }
            says(json!({"decision": "allow"}))
        }
    });
    let (outside, running) = world.open(CLIENT);
    outside.admitted().await.unwrap();
    let mut asked = vec![];
    for n in 0..64 {
        asked.push(outside.call(push(&format!("b{n}"))).await.unwrap());
    }
    for asked in asked {
        assert!(matches!(news(asked).await, CallNews::Result { .. }));
    }
    assert_eq!(world.pushes(), 64);
    drop(outside);
    assert!(matches!(running.await.unwrap(), Ok(End::Detached)));
}

#[tokio::test]
async fn a_call_that_the_client_gave_up_goes_through_once_when_it_is_repeated_after_the_yes() {
    for restart in [false, true] {
        let world = World::answering(&[Moment::PreToolCall], json!({"decision": "escalate", "reason": "a push"}));
        let (mut outside, mut running) = world.open(CLIENT);
        outside.admitted().await.unwrap();
        let asked = outside.call(push("main")).await.unwrap();
        let approval = waits(&outside, &asked.call).await;
        assert_eq!(outside.leave_call(&asked.call).await, Ok(Left::Not), "it was left already");
        if restart {
            // The process that held the session is gone.
            running.abort();
            let _ = running.await;
            let store = world.store();
            let row = loop {
                match store.take_lease(JOB).await {
                    Ok(lease) => break lease,
                    Err(StoreError::Leased { .. }) => tokio::time::sleep(std::time::Duration::from_millis(20)).await,
                    Err(e) => panic!("{e}"),
                }
            };
            store.release(&row).await.unwrap();
            drop(store);
            (outside, running) = world.external(world.store(), resumed());
            outside.admitted().await.unwrap();
        }
        assert_eq!(world.store().approvals(true).await.unwrap()[0].id, approval);
        assert_eq!(world.decide(true).await, Decided::Counted);
        let asked = outside.call(push("main")).await.unwrap();
        assert_eq!(asked.call, "c0", "no second question");
        let repeated = news(asked).await;
        assert!(matches!(repeated, CallNews::Result { .. }), "{repeated:?}");
        assert_eq!(world.pushes(), 1);
        let again = outside.call(push("main")).await.unwrap();
        assert_ne!(again.call, "c0", "the yes is used up");
        outside.leave("client", true).await.unwrap();
        assert!(running.await.unwrap().is_ok());
        assert_eq!(world.pushes(), 1);
        assert!(world.store().approvals(true).await.unwrap().is_empty(), "nothing is left open");
        world.records(JOB).await;
    }
}

#[tokio::test]
async fn a_cancelled_call_is_dropped_and_others_go_on() {
    let world = World::new(&[], |_, arguments| {
        let slow = arguments["branch"] == "slow";
        async move {
            if slow {
                std::future::pending::<()>().await;
            }
            says(json!("pushed"))
        }
    });
    let (outside, _running) = world.open(CLIENT);
    outside.admitted().await.unwrap();
    let slow = outside.call(push("slow")).await.unwrap();
    while world.pushes() == 0 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    outside.cancel_call(&slow.call).await.unwrap();
    assert!(slow.news.await.is_err(), "its news never come");
    assert!(matches!(news(outside.call(push("fast")).await.unwrap()).await, CallNews::Result { .. }));
    // A second cancel, and one of nothing, are harmless.
    outside.cancel_call(&slow.call).await.unwrap();
    outside.cancel_call("c99").await.unwrap();
    let cancelled = world.facts().await.iter().filter(|f| matches!(f, Fact::CallCancelled { .. })).count();
    assert_eq!(cancelled, 1);
}

#[tokio::test]
async fn a_call_whose_asker_goes_away_before_it_hears_of_it_is_taken_back() {
    let world = World::new(&[], |_, _| async { says(json!("pushed")) });
    let (outside, _running) = world.open(CLIENT);
    outside.admitted().await.unwrap();
    // Queued, and dropped before the job has looked at it.
    let mut gone = Box::pin(outside.call(push("gone")));
    assert!(futures_util::poll!(&mut gone).is_pending());
    drop(gone);
    assert!(matches!(news(outside.call(push("fast")).await.unwrap()).await, CallNews::Result { .. }));
    let requested = async || world.facts().await.iter().filter(|f| matches!(f, Fact::CallRequested { .. })).count();
    assert_eq!((world.pushes(), requested().await), (1, 1));
    // Taken up, and dropped before whoever asked has read it.
    let mut gone = Box::pin(outside.call(push("gone")));
    assert!(futures_util::poll!(&mut gone).is_pending());
    while requested().await < 2 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    drop(gone);
    assert!(matches!(news(outside.call(push("last")).await.unwrap()).await, CallNews::Result { .. }));
    assert_eq!(requested().await, 3, "the job goes on");
}

#[tokio::test]
async fn a_harness_makes_its_own_calls_once_they_are_let() {
    let world = World::new(&[Moment::PreToolCall, Moment::PostToolCall], |_, event| {
        let event = &event["event"];
        let said = if event["event"] == "post_tool_call" {
            json!({"decision": "modify", "result": "redacted"})
        } else {
            json!({"decision": "modify", "arguments": {"command": "ls -l"}})
        };
        async move { says(said) }
    });
    let (outside, running) = world.open(HARNESS);
    outside.admitted().await.unwrap();
    assert_eq!(outside.is_watched(vec!["codex.Bash".into()], Moment::PostToolCall).await, Ok(true));
    let asked = outside.call(request("codex.Bash", json!({"command": "ls"}))).await.unwrap();
    let call = asked.call.clone();
    assert_eq!(
        news(asked).await,
        CallNews::Make { arguments: Arc::new(json!({"command": "ls -l"})), changed: true, asked: vec![] }
    );
    let made = Made::Returned { result: json!("secret"), structured: None, is_error: false };
    let CallNews::Result { content, changed: true, .. } = outside.returned(&call, made.clone()).await.unwrap() else {
        panic!()
    };
    assert_eq!(*content, json!("redacted"));
    assert_eq!(outside.returned(&call, made).await, Err(Gone), "it has one end");
    let OutputNews::Over(Outcome::Completed { output }) = outside.offer(json!("done")).await.unwrap() else { panic!() };
    assert_eq!(output.value.as_deref(), Some(&json!("done")));
    assert!(running.await.unwrap().is_ok());
}

#[tokio::test]
async fn a_request_shares_the_batch_of_its_first_ask_and_an_answer_that_of_what_follows() {
    for (external, tool, batches) in [(CLIENT, "git.push", 3), (HARNESS, "codex.Bash", 2)] {
        let world = World::answering(&[Moment::PreToolCall], json!({"decision": "allow"}));
        let store = world.store();
        let (outside, _running) = world.external(store.clone(), world.new_job_of(JOB, Some(external)));
        outside.admitted().await.unwrap();
        let before = store.counters().batches;
        news(outside.call(request(tool, json!({}))).await.unwrap()).await;
        assert_eq!(store.counters().batches - before, batches, "{tool}");
    }
}

#[tokio::test]
async fn a_denied_output_holds_the_harness_once() {
    let world = World::answering(&[Moment::JobEnd], json!({"decision": "deny", "reason": "tests are red"}));
    let (outside, running) = world.open(HARNESS);
    outside.admitted().await.unwrap();
    let held = outside.offer(json!("done")).await.unwrap();
    assert_eq!(held, OutputNews::SentBack { hook: "policy.check".into(), reason: "tests are red".into() });
    let over = outside.offer(json!("done")).await.unwrap();
    assert!(matches!(over, OutputNews::Over(Outcome::Failed { error }) if error.kind == "HookDenied"));
    assert!(running.await.unwrap().is_ok());
}

#[tokio::test]
async fn a_start_that_waits_for_a_person_holds_the_agent_until_then() {
    let world = World::answering(&[Moment::JobStart], json!({"decision": "escalate"}));
    let (outside, running) = world.open(HARNESS);
    assert_eq!(outside.stand(), Stand::Starting);
    world.decide_open(false).await;
    let Stand::Over(Outcome::Failed { error }) = outside.admitted().await.unwrap() else { panic!() };
    assert_eq!(error.kind, "HookDenied");
    assert_eq!(outside.call(push("x")).await.unwrap_err(), Gone);
    assert!(running.await.unwrap().is_ok());
}

/// SPEC §8: written before anything acts on it, whatever the store does.
#[tokio::test]
async fn nothing_is_let_or_told_that_is_not_durable() {
    for at in 0..12 {
        let world = World::answering(&[Moment::PreToolCall], json!({"decision": "allow"}));
        let store = Faulty::new(&world, at, Fault::Before);
        let (outside, running) = world.external(store, world.new_job_of(JOB, Some(HARNESS)));
        let mut let_go = false;
        if let Ok(asked) = outside.call(request("codex.Bash", json!({}))).await {
            let_go = matches!(asked.news.await, Ok(CallNews::Make { .. }));
        }
        drop(outside);
        let ran = running.await.unwrap();
        let facts = match &ran {
            Err(RunError::Store(_)) if at == 0 => vec![],
            _ => world.facts().await,
        };
        let stands = facts.iter().any(|f| matches!(f, Fact::Begun { command: Command::LetCall { .. } }));
        assert!(stands || !let_go, "write {at}: let without a record");
        if ran.is_ok() {
            assert!(let_go && at > 2, "write {at}");
            return;
        }
    }
    panic!("the store always failed");
}

#[tokio::test]
async fn a_job_whose_agent_is_gone_is_ended_when_it_is_resumed_without_one() {
    let world = World::answering(&[Moment::PreToolCall], json!({"decision": "escalate"}));
    let (outside, running) = world.open(CLIENT);
    outside.admitted().await.unwrap();
    let asked = outside.call(push("main")).await.unwrap();
    waits(&outside, &asked.call).await;
    drop((asked, outside));
    assert!(matches!(running.await.unwrap(), Ok(End::Detached)));
    assert!(matches!(world.resume().await, End::Finished(Outcome::Cancelled { .. })));
    assert!(world.store().approvals(true).await.unwrap().is_empty());
    assert_eq!(world.pushes(), 0);
}

/// How many calls were left, and how many cancelled.
fn abandons(facts: &[Fact]) -> (usize, usize) {
    let count = |which: fn(&Fact) -> bool| facts.iter().filter(|fact| which(fact)).count();
    (count(|f| matches!(f, Fact::CallLeft { .. })), count(|f| matches!(f, Fact::CallCancelled { .. })))
}

#[tokio::test]
async fn a_yes_to_a_call_that_nobody_waits_for_any_more_counts_for_the_same_call_asked_for_again() {
    let world = World::answering(&[Moment::PreToolCall], json!({"decision": "escalate", "reason": "a push"}));
    let (outside, _running) = world.open(HARNESS);
    outside.admitted().await.unwrap();
    let asked = outside.call(push("main")).await.unwrap();
    let awaits = outside.awaits(&asked.call, false);
    while world.store().approvals(true).await.unwrap().is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    // Its bridge is killed.
    drop((asked, awaits));
    while abandons(&world.facts().await).0 == 0 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    assert_eq!(world.decide(true).await, Decided::Counted);
    let again = outside.call(push("main")).await.unwrap();
    assert_eq!(again.call, "c0", "no second question");
    assert!(matches!(news(again).await, CallNews::Make { .. }));
    assert!(world.store().approvals(true).await.unwrap().is_empty());
    assert_eq!(abandons(&world.facts().await), (1, 0));
}

#[tokio::test]
async fn a_call_that_nobody_waits_for_while_its_hooks_are_asked_is_cancelled() {
    let world = World::new(&[Moment::PreToolCall], |_, _| std::future::pending());
    let (outside, _running) = world.open(HARNESS);
    outside.admitted().await.unwrap();
    let asked = outside.call(push("main")).await.unwrap();
    let awaits = outside.awaits(&asked.call, false);
    drop(awaits);
    assert!(asked.news.await.is_err(), "its news never come");
    while abandons(&world.facts().await) != (0, 1) {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    // One who was told leaves nothing behind.
    let asked = outside.call(push("other")).await.unwrap();
    outside.awaits(&asked.call, false).told();
    outside.cancel_call(&asked.call).await.unwrap();
    assert_eq!(abandons(&world.facts().await), (0, 2));
}

#[tokio::test]
async fn a_call_whose_asker_went_before_it_was_taken_up_is_none() {
    let world = World::answering(&[Moment::PreToolCall], json!({"decision": "allow"}));
    let (outside, _running) = world.open(CLIENT);
    outside.admitted().await.unwrap();
    {
        let gone = outside.call(push("gone"));
        let mut gone = std::pin::pin!(gone);
        // It is in the queue, and nobody is there any more.
        assert!(futures_util::poll!(&mut gone).is_pending());
    }
    assert!(matches!(news(outside.call(push("dev")).await.unwrap()).await, CallNews::Result { .. }));
    assert_eq!(world.pushes(), 1);
    let asked = world.facts().await.iter().filter(|f| matches!(f, Fact::CallRequested { .. })).count();
    assert_eq!(asked, 1);
}

#[tokio::test]
async fn a_result_that_nobody_waits_for_is_left_where_its_hooks_want_a_person() {
    let (ask, asked) = tokio::sync::watch::channel(false);
    let world = World::new(&[Moment::PostToolCall], move |_, _| {
        let mut asked = asked.clone();
        async move {
            let _ = asked.wait_for(|go| *go).await;
            says(json!({"decision": "escalate"}))
        }
    });
    let (outside, _running) = world.open(HARNESS);
    outside.admitted().await.unwrap();
    let call = outside.call(request("codex.Bash", json!({}))).await.unwrap();
    let id = call.call.clone();
    assert!(matches!(news(call).await, CallNews::Make { .. }));
    let made = Made::Returned { result: json!("kept"), structured: None, is_error: false };
    let awaits = outside.awaits(&id, true);
    {
        let mut told = std::pin::pin!(outside.returned(&id, made));
        assert!(futures_util::poll!(&mut told).is_pending());
    }
    drop(awaits);
    ask.send_replace(true);
    while abandons(&world.facts().await) != (1, 0) {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    assert_eq!(world.decide(true).await, Decided::Counted);
    let again = outside.call(request("codex.Bash", json!({}))).await.unwrap();
    let CallNews::Result { content, .. } = news(again).await else { panic!() };
    assert_eq!(*content, json!("kept"));
}

#[tokio::test]
async fn what_is_judged_is_the_output_that_was_offered_last() {
    let world = World::answering(&[Moment::JobEnd], json!({"decision": "escalate"}));
    let (outside, running) = world.open(HARNESS);
    outside.admitted().await.unwrap();
    let mut first = std::pin::pin!(outside.offer(json!("A")));
    let first_approval = tokio::select! {
        _ = &mut first => panic!("nobody has decided"),
        approval = async {
            loop {
                if let Some(row) = world.store().approvals(true).await.unwrap().first() {
                    return row.id.clone();
                }
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        } => approval,
    };
    let mut second = std::pin::pin!(outside.offer(json!("B")));
    tokio::select! {
        _ = &mut second => panic!("nobody has decided"),
        () = async {
            while world.store().approvals(true).await.unwrap().first().is_none_or(|row| row.id == first_approval) {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        } => {}
    }
    let store = world.store();
    let row = store.approvals(true).await.unwrap().remove(0);
    let say = hookwright_runtime::approvals::Say { approve: true, by: "ada".into(), verified: true, note: None };
    let decided = hookwright_runtime::approvals::decide(&*store, &*world.clock, &row, say).await.unwrap();
    assert_eq!(decided, Decided::Counted);
    // Both who wait are told what became of the job.
    for told in [first.await.unwrap(), second.await.unwrap()] {
        let OutputNews::Over(Outcome::Completed { output }) = told else { panic!("{told:?}") };
        assert_eq!(output.value.as_deref(), Some(&json!("B")));
    }
    assert!(running.await.unwrap().is_ok());
    assert!(store.approvals(true).await.unwrap().is_empty());
    world.records(JOB).await;
}

/// A job of a harness, and the means to open its subagents' jobs.
fn parent(world: &World) -> (Outside, Arc<Helpers>, Running) {
    let Which::New(new) = world.new_job_of(JOB, Some(HARNESS)) else { panic!() };
    let helpers = Arc::new(Helpers::new(world.deps(world.store()), new.spec.clone(), Arc::new(Silent)));
    let (outside, arrivals) = channel();
    let options = Options { detach: false, cancel: CancellationToken::new(), cancelled_by: "ada".into() };
    let run = run_external(world.deps(world.store()), Which::New(new), options, Arc::new(Silent), arrivals);
    let kept = helpers.clone();
    (outside, helpers, tokio::spawn(async move { Box::pin(kept.beside(run)).await }))
}

#[tokio::test]
async fn subagents_end_with_their_parent_and_none_is_opened_below_one_that_is_over() {
    let world = World::new(&[], |_, _| std::future::pending());
    let (outside, helpers, running) = parent(&world);
    outside.admitted().await.unwrap();
    let child = helpers.open("a1", json!("Explore")).await.unwrap().outside;
    child.admitted().await.unwrap();
    outside.leave("the next prompt", false).await.unwrap();
    assert!(running.await.unwrap().is_ok());
    let Outcome::Cancelled { by } = child.over().await.unwrap() else { panic!() };
    assert_eq!(by, format!("the end of {JOB}"));
    let refused = helpers.open("a2", json!("Explore")).await.err().unwrap().to_string();
    assert!(refused.contains("is over"), "{refused}");
    let store = world.store();
    assert!(store.jobs(true, 10).await.unwrap().is_empty(), "none is left unfinished");
}

#[tokio::test]
async fn a_subagent_goes_on_after_its_output_but_not_after_a_no() {
    let world = World::new(&[], |_, _| std::future::pending());
    let (outside, helpers, _running) = parent(&world);
    outside.admitted().await.unwrap();
    let mut jobs = vec![];
    for _ in 0..3 {
        let child = helpers.open("a1", json!("Explore")).await.unwrap().outside;
        child.admitted().await.unwrap();
        assert!(matches!(child.offer(json!("done")).await, Ok(OutputNews::Over(Outcome::Completed { .. }))));
        jobs.push(child);
    }
    assert_eq!(world.store().jobs(false, 10).await.unwrap().len(), 4, "each has a job of its own");
    let child = helpers.open("a1", json!("Explore")).await.unwrap().outside;
    child.admitted().await.unwrap();
    child.leave("ada", false).await.unwrap();
    let refused = helpers.open("a1", json!("Explore")).await.err().unwrap().to_string();
    assert!(refused.contains("was cancelled"), "{refused}");
    assert!(helpers.open("a2", json!("Explore")).await.is_ok());
}
