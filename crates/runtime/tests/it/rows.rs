//! The store's rows of approvals are an index: what was changed in them by hand decides nothing (SPEC §7).

use crate::support::*;
use hookwright_core::event::Moment;
use hookwright_core::job::{Fact, Outcome};
use hookwright_runtime::approvals::Decided;
use hookwright_runtime::job::End;
use hookwright_runtime::ports::store::{ApprovalState, Store as _};
use serde_json::json;
use std::sync::atomic::Ordering;
use tokio_util::sync::CancellationToken;

fn escalating(moment: Moment) -> World {
    World::answering(&[moment], json!({"decision": "escalate", "reason": "r"}))
}

fn mismatch(decided: &Decided, why: &str) {
    let Decided::Mismatch(said) = decided else { panic!("{decided:?}") };
    assert!(said.contains(why), "{said}");
}

#[tokio::test]
async fn a_raised_expiry_in_the_store_brings_no_approval_back_to_life() {
    for moment in [Moment::JobStart, Moment::JobEnd] {
        let world = escalating(moment);
        assert_eq!(world.begin().await, End::Detached);
        world.sql("UPDATE approvals SET expires_ms = expires_ms * 2");
        mismatch(&world.decide(true).await, "its times are others");
        world.clock.set(NOW + 25 * HOUR);
        world.decide_by_row("ada").await;
        let End::Finished(Outcome::Failed { error }) = world.resume().await else { panic!("{moment:?}") };
        assert_eq!((error.kind.as_str(), error.reason.as_deref()), ("HookDenied", Some("r (expired)")));
        assert_eq!(world.ignored(JOB).await, ["it was made after the approval had expired"]);
    }
}

#[tokio::test]
async fn a_shortened_expiry_in_the_store_is_put_right_when_the_job_is_taken_up() {
    let world = escalating(Moment::JobStart);
    assert_eq!(world.begin().await, End::Detached);
    world.sql("UPDATE approvals SET expires_ms = 1, opened_ms = 0");
    assert_eq!(world.resume().await, End::Detached);
    assert_eq!(world.decide(true).await, Decided::Counted);
    assert!(matches!(world.resume().await, End::Finished(Outcome::Completed { .. })));
}

#[tokio::test]
async fn a_deleted_row_is_made_again_from_the_history() {
    let world = escalating(Moment::PreToolCall);
    assert_eq!(world.begin().await, End::Detached);
    world.sql("DELETE FROM approvals");
    assert_eq!(world.resume().await, End::Detached);
    assert_eq!(world.decide(true).await, Decided::Counted);
    assert!(matches!(world.resume().await, End::Finished(Outcome::Completed { .. })));
}

#[tokio::test]
async fn a_decision_on_a_row_that_shows_something_else_is_refused_or_ignored_visibly() {
    let other = "d".repeat(64);
    for (by_hand, by, refused, ignored) in [
        (
            format!("UPDATE approvals SET approval = json_set(approval, '$.digest', '{other}')"),
            "ada",
            "it shows another value than was asked about",
            "it was made about something else than was asked",
        ),
        (
            "UPDATE approvals SET approval = json_remove(approval, '$.approvers')".to_owned(),
            "eve",
            "it names other people who may decide",
            "this person may not decide it",
        ),
    ] {
        let mut world = escalating(Moment::PreToolCall);
        world.hooks[0].approvers = vec!["ada".into()];
        assert_eq!(world.begin().await, End::Detached);
        world.sql(&by_hand);
        mismatch(&world.decide(true).await, refused);
        // Somebody who does not ask the history: the store takes it, the job does not.
        world.decide_by_row(by).await;
        assert_eq!(world.resume().await, End::Detached);
        assert_eq!(world.ignored(JOB).await, [ignored]);
        assert_eq!(world.pushes(), 0);
        // The row says again what was asked, and who may can decide.
        assert_eq!(world.store().approvals(true).await.unwrap().len(), 1);
        assert_eq!(world.decide(true).await, Decided::Counted);
        assert!(matches!(world.resume().await, End::Finished(Outcome::Completed { .. })));
        assert_eq!(world.pushes(), 1);
    }
}

#[tokio::test]
async fn a_decision_that_was_led_to_another_job_is_refused_and_noted_there() {
    let world = escalating(Moment::JobStart);
    assert_eq!(world.begin().await, End::Detached);
    let other = world.run_on(world.store(), world.new_job("job_2"), true, CancellationToken::new()).await.unwrap();
    assert_eq!(other, End::Detached);
    let mine = world.store().approvals(true).await.unwrap().into_iter().find(|row| row.job == JOB).unwrap().id;
    world.sql("DELETE FROM approvals WHERE job = 2");
    world.sql("UPDATE approvals SET job = 2");
    mismatch(&world.decide(true).await, "waits");
    world.decide_by_row("ada").await;
    let which = hookwright_runtime::job::Which::Resume { job: "job_2".into(), process: "p".into() };
    assert_eq!(world.run_on(world.store(), which, true, CancellationToken::new()).await.unwrap(), End::Detached);
    assert_eq!(world.ignored("job_2").await, ["no approval of that id waits in this job"]);
    assert_eq!(world.resume().await, End::Detached);
    let row = world.store().approval(&mine).await.unwrap();
    assert_eq!((row.job.as_str(), row.state), (JOB, ApprovalState::Open), "taking the job up put its row right");
    assert!(!world.facts().await.iter().any(|f| matches!(f, Fact::ApprovalDecided { .. })));
}

#[tokio::test]
async fn a_job_whose_row_says_that_it_is_over_is_not_gone_on_with_while_its_history_does_not() {
    let world = escalating(Moment::PreToolCall);
    assert_eq!(world.begin().await, End::Detached);
    world.sql("UPDATE jobs SET status = 'completed'");
    let session = format!("session of {JOB}");
    let state = hookwright_runtime::session::state(&*world.store(), &session).await.unwrap();
    assert!(state.continues.is_none() && state.unfinished.is_some_and(|row| row.job.id == JOB));
}

#[tokio::test]
async fn a_job_that_was_moved_into_another_session_or_tenant_is_not_gone_on_with() {
    for moved in ["UPDATE jobs SET session = 'other'", "UPDATE jobs SET session = 'other', tenant = 'theirs'"] {
        let world = World::answering(&[], json!({}));
        assert!(matches!(world.begin().await, End::Finished(Outcome::Completed { .. })));
        world.sql(moved);
        let error = hookwright_runtime::session::state(&*world.store(), "other").await.unwrap_err();
        assert!(error.to_string().contains("another session"), "{error}");
    }
}

#[tokio::test]
async fn a_decision_that_is_found_beside_two_expiries_is_read_once() {
    let mut world = escalating(Moment::PreToolCall);
    world.model_pushes = 2;
    let store = Faulty::new(&world, u64::MAX, Fault::Before);
    // The clock wakes both questions at once: they end in one batch.
    let run = world.run_on(store.clone(), world.new_job(JOB), false, CancellationToken::new());
    let decided = async {
        while world.store().approvals(true).await.unwrap().len() < 2 {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        store.hides_inbox.store(true, Ordering::SeqCst);
        world.decide_by_row("ada").await;
        // The runner looks, and sees nothing.
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        store.hides_inbox.store(false, Ordering::SeqCst);
        world.clock.set(NOW + 25 * HOUR);
    };
    let (end, ()) = tokio::join!(run, decided);
    assert!(matches!(end.unwrap(), End::Finished(Outcome::Completed { .. })));
    let facts = world.facts().await;
    let count = |what: fn(&Fact) -> bool| facts.iter().filter(|f| what(f)).count();
    assert_eq!(count(|f| matches!(f, Fact::ApprovalDecided { approve: true, .. })), 1, "{facts:?}");
    assert_eq!(count(|f| matches!(f, Fact::ApprovalExpired { .. })), 1);
    assert_eq!(world.ignored(JOB).await, Vec::<String>::new());
}
