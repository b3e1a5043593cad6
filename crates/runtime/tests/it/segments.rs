//! Jobs in segments: the same history as in one go, with nothing under way at a boundary.

use crate::support::*;
use hookwright_core::event::Moment;
use hookwright_core::job::{Command, Fact, Outcome};
use hookwright_runtime::job::{End, Options, RunError, SegmentEnd, Which, run_segment};
use hookwright_runtime::observe::Silent;
use hookwright_runtime::ports::store::Store as _;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

const ALL: [Moment; 4] = [Moment::JobStart, Moment::PreToolCall, Moment::PostToolCall, Moment::JobEnd];

async fn segment(world: &World, which: Which) -> Result<SegmentEnd, RunError> {
    let options = Options { detach: true, cancel: CancellationToken::new(), cancelled_by: String::new() };
    run_segment(world.deps(world.store()), which, options, Arc::new(Silent)).await
}

fn go_on() -> Which {
    Which::GoOn { job: JOB.into(), process: "another".into() }
}

/// Runs to the end or until only people are awaited, each segment in a process of its own; what each ended with.
async fn segments(world: &World, first: Which) -> Vec<SegmentEnd> {
    let mut ends = vec![segment(world, first).await.unwrap()];
    while ends.last() == Some(&SegmentEnd::Paused) {
        let pending = world.facts().await.len();
        ends.push(segment(world, go_on()).await.unwrap());
        assert!(world.facts().await.len() > pending, "a segment that does nothing");
    }
    ends
}

/// What happened, without durations.
async fn story(world: &World) -> Vec<Value> {
    let without = |fact: &Fact| {
        let mut fact = serde_json::to_value(fact).unwrap();
        fact.as_object_mut().unwrap().shift_remove("ms");
        fact
    };
    world.facts().await.iter().map(without).collect()
}

#[tokio::test]
async fn a_job_in_segments_has_the_history_of_one_in_one_go() {
    for calls in [0, 1, 3] {
        let world = || World { model_pushes: calls, ..World::answering(&ALL, json!({"decision": "allow"})) };
        let (whole, parts) = (world(), world());
        assert!(matches!(whole.begin().await, End::Finished(Outcome::Completed { .. })));
        let ends = segments(&parts, parts.new_job(JOB)).await;
        assert!(matches!(ends.last(), Some(SegmentEnd::End(End::Finished(Outcome::Completed { .. })))));
        // The start, and then a turn or all its calls each: however many calls and hooks there are.
        assert_eq!(ends.len(), if calls == 0 { 3 } else { 5 });
        let (mut one, mut other) = (story(&whole).await, story(&parts).await);
        if calls > 1 {
            // Independent calls end in any order.
            one.sort_by_key(ToString::to_string);
            other.sort_by_key(ToString::to_string);
        }
        assert_eq!(one, other);
        assert_eq!(parts.pushes(), calls as u64);
    }
}

#[tokio::test]
async fn at_a_boundary_nothing_is_under_way() {
    let world = World::answering(&ALL, json!({"decision": "allow"}));
    let mut which = world.new_job(JOB);
    while segment(&world, which).await.unwrap() == SegmentEnd::Paused {
        let texts = world.store().records(JOB, 0).await.unwrap();
        let (machine, _) = hookwright_core::history::replay(&texts).unwrap();
        assert!(machine.pending().count() > 0 && machine.pending().all(|(_, begun)| !begun), "{machine:?}");
        which = go_on();
    }
}

#[tokio::test]
async fn a_segment_that_waits_for_people_alone_ends_and_the_next_is_no_resumption() {
    let world = World::answering(&[Moment::PreToolCall], json!({"decision": "escalate", "reason": "r"}));
    let ends = segments(&world, world.new_job(JOB)).await;
    assert_eq!(ends.last(), Some(&SegmentEnd::End(End::Detached)));
    world.decide(true).await;
    let ends = segments(&world, go_on()).await;
    assert!(matches!(ends.last(), Some(SegmentEnd::End(End::Finished(Outcome::Completed { .. })))));
    assert!(!world.facts().await.iter().any(|fact| matches!(fact, Fact::Resumed { .. })));
    assert_eq!(world.pushes(), 1);
}

#[tokio::test]
async fn a_segment_that_was_broken_off_in_a_call_is_settled_as_after_any_crash() {
    let (called, mut calls) = tokio::sync::mpsc::unbounded_channel();
    let world = World::new(&[], move |_, _| {
        let called = called.clone();
        async move {
            called.send(()).unwrap();
            std::future::pending().await
        }
    });
    assert_eq!(segment(&world, world.new_job(JOB)).await.unwrap(), SegmentEnd::Paused);
    tokio::select! {
        _ = segment(&world, go_on()) => panic!("the call has no end"),
        _ = calls.recv() => {}
    }
    let ends = segments(&world, go_on()).await;
    assert!(matches!(ends.last(), Some(SegmentEnd::End(End::Finished(_)))));
    let facts = world.facts().await;
    assert_eq!(facts.iter().filter(|fact| matches!(fact, Fact::Resumed { .. })).count(), 1);
    assert_eq!(begun_calls(&facts), 1);
    let said = serde_json::to_value(facts).unwrap().to_string();
    assert!(said.contains("the process ended while it was under way"), "{said}");
    assert!(calls.try_recv().is_err(), "it was called again");
}

#[tokio::test]
async fn a_finished_job_stays_finished() {
    let world = World::answering(&[], json!(null));
    segments(&world, world.new_job(JOB)).await;
    let before = world.facts().await;
    assert!(matches!(segment(&world, go_on()).await.unwrap(), SegmentEnd::End(End::Finished(_))));
    assert_eq!(world.facts().await, before);
    assert!(before.iter().any(|fact| matches!(fact, Fact::Begun { command: Command::CallModel { .. } })));
}
