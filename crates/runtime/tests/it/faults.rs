//! A store that fails, a job that is taken away, two runners, a clock that goes back.

use crate::support::*;
use hookwright_core::event::Moment;
use hookwright_core::job::{Fact, Outcome, ToolOutcome};
use hookwright_runtime::approvals::Decided;
use hookwright_runtime::job::{End, RunError};
use hookwright_runtime::ports::store::{JobStatus, Store as _, StoreError};
use serde_json::json;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

fn allowing() -> World {
    World::answering(&Moment::ALL, json!({"decision": "allow"}))
}

/// What must hold once a job has stopped because of its store.
async fn nothing_was_done_without_its_record(world: &World, what: &str) {
    if let Ok(row) = world.store().job(JOB).await {
        assert!(!row.running, "{what}: nobody holds it");
        assert!(world.pushes() <= begun_calls(&world.facts().await), "{what}: a call without its record");
    } else {
        assert_eq!(world.pushes(), 0, "{what}");
    }
}

#[tokio::test]
async fn a_store_that_fails_at_any_write_stops_the_job_and_no_call_is_repeated() {
    for fault in [Fault::Before, Fault::After] {
        let mut stopped = 0;
        loop {
            let world = allowing();
            let store = Faulty::new(&world, stopped, fault);
            let ran = world.run_on(store, world.new_job(JOB), true, CancellationToken::new()).await;
            let what = format!("{fault:?} write {stopped}");
            let Err(error) = ran else { break };
            assert!(matches!(error, RunError::Store(StoreError::Failed(_))), "{what}: {error}");
            nothing_was_done_without_its_record(&world, &what).await;
            if world.store().job(JOB).await.is_ok() {
                assert!(matches!(world.resume().await, End::Finished(Outcome::Completed { .. })), "{what}");
                let facts = world.facts().await;
                let unknown =
                    facts.iter().any(|f| matches!(f, Fact::ToolReturned { outcome: ToolOutcome::Unknown { .. }, .. }));
                assert!(world.pushes() == 1 || unknown && world.pushes() == 0, "{what}: {} pushes", world.pushes());
                assert_eq!(world.store().job(JOB).await.unwrap().status, JobStatus::Completed, "{what}");
            }
            stopped += 1;
        }
        assert!(stopped >= 8, "a job with a hook at each moment writes more often than {stopped} times");
    }
}

#[tokio::test]
async fn a_store_that_fails_around_an_approval_neither_loses_nor_doubles_it() {
    for fault in [Fault::Before, Fault::After] {
        for at in 0.. {
            let world = World::answering(&[Moment::PreToolCall], json!({"decision": "escalate", "reason": "r"}));
            let store = Faulty::new(&world, at, fault);
            let what = format!("{fault:?} write {at}");
            let Err(_) = world.run_on(store, world.new_job(JOB), true, CancellationToken::new()).await else { break };
            nothing_was_done_without_its_record(&world, &what).await;
            if world.store().job(JOB).await.is_err() {
                continue;
            }
            assert_eq!(world.resume().await, End::Detached, "{what}");
            assert_eq!(world.store().approvals(true).await.unwrap().len(), 1, "{what}");
            assert_eq!(world.decide(true).await, Decided::Counted, "{what}");
            assert!(matches!(world.resume().await, End::Finished(Outcome::Completed { .. })), "{what}");
            assert_eq!(world.pushes(), 1, "{what}");
        }
    }
}

#[tokio::test]
async fn after_another_process_took_the_job_nothing_more_is_done() {
    for at in 1.. {
        let world = allowing();
        let store = Faulty::new(&world, at, Fault::Taken);
        let Err(error) = world.run_on(store.clone(), world.new_job(JOB), true, CancellationToken::new()).await else {
            assert!(at >= 8, "a job with a hook at each moment writes more often than {at} times");
            break;
        };
        assert!(matches!(error, RunError::Store(StoreError::LeaseLost { .. })), "write {at}: {error}");
        assert_eq!(Some(world.pushes()), *store.pushes_then.lock().unwrap(), "write {at}");
        assert!(world.store().job(JOB).await.unwrap().running, "write {at}: the other one's lease was left alone");
        drop(store);
        assert!(matches!(world.resume().await, End::Finished(Outcome::Completed { .. })), "write {at}");
        assert!(world.pushes() <= 1, "write {at}");
    }
}

#[tokio::test]
async fn of_two_runners_of_one_job_one_is_told_that_the_other_has_it() {
    let world = Arc::new(World::answering(&[Moment::PreToolCall], json!({"decision": "escalate", "reason": "r"})));
    let first = tokio::spawn({
        let world = world.clone();
        async move { world.run_on(world.store(), world.new_job(JOB), false, CancellationToken::new()).await }
    });
    let watching = world.store();
    while watching.approvals(true).await.unwrap().is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let second = world.run_on(world.store(), resumed(), false, CancellationToken::new()).await;
    assert!(matches!(second, Err(RunError::Store(StoreError::Leased { .. }))), "{second:?}");
    assert_eq!(world.decide(true).await, Decided::Counted);
    assert!(matches!(first.await.unwrap().unwrap(), End::Finished(Outcome::Completed { .. })));
    assert_eq!(world.pushes(), 1);
}

#[tokio::test]
async fn of_two_who_take_a_job_up_at_once_only_one_goes_on_with_it() {
    let world = World::answering(&[Moment::PreToolCall], json!({"decision": "escalate", "reason": "r"}));
    assert_eq!(world.begin().await, End::Detached);
    world.decide(true).await;
    let run = || world.run_on(world.store(), resumed(), false, CancellationToken::new());
    let (one, two) = tokio::join!(run(), run());
    let finished = |end: &Result<End, RunError>| matches!(end, Ok(End::Finished(Outcome::Completed { .. })));
    let refused = |end: &Result<End, RunError>| matches!(end, Err(RunError::Store(StoreError::Leased { .. })));
    assert!(finished(&one) || finished(&two), "{one:?} {two:?}");
    assert!([&one, &two].iter().all(|end| finished(end) || refused(end)), "{one:?} {two:?}");
    assert_eq!(world.pushes(), 1);
}

#[tokio::test]
async fn a_clock_that_goes_back_neither_expires_an_approval_nor_turns_the_history_around() {
    let world = World::answering(&[Moment::PreToolCall], json!({"decision": "escalate", "reason": "r"}));
    assert_eq!(world.begin().await, End::Detached);
    world.clock.set(NOW - 48 * HOUR);
    assert_eq!(world.resume().await, End::Detached);
    assert_eq!(world.decide(true).await, Decided::Counted);
    assert!(matches!(world.resume().await, End::Finished(Outcome::Completed { .. })));
    assert_eq!(world.pushes(), 1);
    let times: Vec<u64> = world.records(JOB).await.iter().map(|r| r.at_ms).collect();
    assert!(times.is_sorted() && times[0] == NOW, "{times:?}");
}
