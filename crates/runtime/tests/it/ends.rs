//! What comes late, and what comes at the moment of a cancel, is recorded.

use crate::support::*;
use hookwright_core::event::Moment;
use hookwright_core::job::{Fact, Outcome, ToolOutcome};
use hookwright_core::manifest::OnTimeout;
use hookwright_runtime::job::End;
use hookwright_runtime::ports::tools::{CallOutcome, LateAnswer};
use serde_json::json;
use std::sync::{Arc, Mutex};
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;

/// No answer in time; one comes right after.
fn late(after_ms: u64) -> CallOutcome {
    let (sender, late) = oneshot::channel();
    let _ = sender.send(LateAnswer { after_ms });
    CallOutcome::TimedOut { late }
}

#[tokio::test]
async fn a_late_answer_in_a_jobs_last_steps_stands_before_its_end() {
    for (on_timeout, end) in [(OnTimeout::Allow, "completed"), (OnTimeout::Deny, "failed")] {
        let mut world = World::new(&[Moment::JobEnd], |name, _| {
            let said = if name.tool() == "policy" { late(2_500) } else { says(json!("pushed")) };
            async move { said }
        });
        world.hooks[0].on_timeout = on_timeout;
        assert!(matches!(world.begin().await, End::Finished(_)));
        let facts = world.facts().await;
        assert!(facts.contains(&Fact::HookLate { effect: "end.h0".into(), after_ms: 2_500 }), "{end}: {facts:?}");
        assert!(matches!(facts.last(), Some(Fact::Finished { .. })));
    }
}

#[tokio::test]
async fn a_late_answer_of_a_call_is_recorded_and_not_read() {
    let world = World::new(&[], |_, _| async { late(700_000) });
    assert!(matches!(world.begin().await, End::Finished(Outcome::Completed { .. })));
    let facts = world.facts().await;
    let timed_out = |f: &Fact| matches!(f, Fact::ToolReturned { outcome: ToolOutcome::TimedOut { .. }, .. });
    let end = facts.iter().position(timed_out).unwrap();
    let late = facts.iter().position(|f| matches!(f, Fact::ToolLate { after_ms: 700_000, .. })).unwrap();
    assert!(end < late);
}

#[tokio::test]
async fn a_job_does_not_wait_for_an_answer_that_never_comes() {
    let kept = Arc::new(Mutex::new(vec![]));
    let keeping = kept.clone();
    let world = World::new(&[], move |_, _| {
        let (sender, late) = oneshot::channel();
        keeping.lock().unwrap().push(sender);
        async move { CallOutcome::TimedOut { late } }
    });
    assert!(matches!(world.begin().await, End::Finished(Outcome::Completed { .. })));
    assert!(!world.facts().await.iter().any(|f| matches!(f, Fact::ToolLate { .. })));
    assert_eq!(kept.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_result_that_came_before_a_cancel_was_read_is_recorded() {
    let (sender, result) = oneshot::channel();
    let (begun, result) = (Arc::new(Notify::new()), Mutex::new(Some(result)));
    let called = begun.clone();
    let world = World::new(&[Moment::PostToolCall], move |name, _| {
        assert_eq!(name.tool(), "git", "no hook is asked after a cancel");
        called.notify_one();
        let result = result.lock().unwrap().take().unwrap();
        async move { result.await.unwrap() }
    });
    let cancel = CancellationToken::new();
    let run = world.run_on(world.store(), world.new_job(JOB), false, cancel.clone());
    // Both at once, as the runner sees it: it is not polled between them.
    let both = async {
        begun.notified().await;
        assert!(sender.send(says(json!("pushed"))).is_ok());
        cancel.cancel();
    };
    let (end, ()) = tokio::join!(run, both);
    assert!(matches!(end.unwrap(), End::Finished(Outcome::Cancelled { .. })));
    let facts = world.facts().await;
    let returned = |f: &Fact| matches!(f, Fact::ToolReturned { outcome: ToolOutcome::Returned { .. }, .. });
    let at = facts.iter().position(returned).expect("the result is in the history");
    assert!(matches!(facts[at + 1..], [Fact::Cancelled { .. }, Fact::Finished { .. }]), "{:?}", &facts[at..]);
}

#[tokio::test]
async fn a_call_under_way_at_a_cancel_stays_begun_without_an_end() {
    let begun = Arc::new(Notify::new());
    let called = begun.clone();
    let world = World::new(&[], move |_, _| {
        called.notify_one();
        std::future::pending()
    });
    let cancel = CancellationToken::new();
    let run = world.run_on(world.store(), world.new_job(JOB), false, cancel.clone());
    let both = async {
        begun.notified().await;
        cancel.cancel();
    };
    let (end, ()) = tokio::join!(run, both);
    assert!(matches!(end.unwrap(), End::Finished(Outcome::Cancelled { .. })));
    let facts = world.facts().await;
    assert_eq!(begun_calls(&facts), 1);
    assert!(!facts.iter().any(|f| matches!(f, Fact::ToolReturned { .. })));
}

#[tokio::test]
async fn nothing_begins_after_a_cancel_that_came_while_its_record_was_written() {
    for fault in [Fault::Cancelled, Fault::CancelAsked] {
        let (mut at, mut begun) = (0, 0);
        loop {
            at += 1;
            let world = World::answering(&Moment::ALL, json!({"decision": "allow"}));
            let store = Faulty::new(&world, at, fault);
            let end = world.run_on(store.clone(), world.new_job(JOB), false, store.cancel.clone()).await.unwrap();
            let Some(then) = *store.pushes_then.lock().unwrap() else { break };
            let what = format!("{fault:?} at write {at}");
            assert_eq!(world.pushes(), then, "{what}: a call after the cancel");
            let facts = world.facts().await;
            begun += begun_calls(&facts);
            if let End::Finished(Outcome::Completed { .. }) = end {
                // The last write of all is the one.
                assert!(matches!(facts.last(), Some(Fact::Finished { .. })), "{what}");
                continue;
            }
            assert!(matches!(facts[facts.len() - 2..], [Fact::Cancelled { .. }, Fact::Finished { .. }]), "{what}");
        }
        assert!(at >= 8 && begun > 0, "{fault:?}: a call was about to be made at one of {at} writes");
    }
}
