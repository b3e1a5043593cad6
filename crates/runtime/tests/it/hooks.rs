//! Hooks that can't be asked, and new values that can't be checked.

use crate::support::*;
use hookwright_core::FunctionName;
use hookwright_core::chain::HookOutcome;
use hookwright_core::event::Moment;
use hookwright_core::job::{Fact, Outcome};
use hookwright_runtime::job::{End, RunError};
use serde_json::json;
use tokio_util::sync::CancellationToken;

/// Why hooks failed, in order.
async fn failures(world: &World) -> Vec<String> {
    let why = |f: Fact| match f {
        Fact::HookAnswered { outcome: HookOutcome::Failed { why }, .. } => Some(why),
        _ => None,
    };
    world.facts().await.into_iter().filter_map(why).collect()
}

#[tokio::test]
async fn a_declared_hook_that_cannot_be_loaded_fails_for_every_event_that_it_matches() {
    for moment in Moment::ALL {
        for (broken, why) in [
            ("server", "its server is down"),
            ("function", "the tool policy lists no function chekc"),
            ("known at the start", "it could not be loaded"),
        ] {
            let mut world = World::answering(&[moment], json!({"decision": "allow"}));
            match broken {
                "server" => world.town.down.lock().unwrap().push("policy"),
                "function" => world.hooks[0].call = FunctionName::new("policy", "chekc"),
                _ => world.hooks[0].unavailable = Some(why.into()),
            }
            let End::Finished(outcome) = world.begin().await else { panic!() };
            assert_eq!(failures(&world).await, [why], "{moment:?}, {broken}");
            let denied = matches!(&outcome, Outcome::Failed { error } if error.kind == "HookDenied");
            assert_eq!(denied, !moment.is_call(), "{moment:?}, {broken}: {outcome:?}");
            let made = matches!(moment, Moment::PostToolCall | Moment::JobEnd);
            assert_eq!(world.pushes(), u64::from(made), "{moment:?}, {broken}");
        }
    }
}

#[tokio::test]
async fn a_new_value_that_cannot_be_checked_against_the_tools_schema_is_no_valid_decision() {
    let modify = json!({"decision": "modify", "arguments": {"branch": 1}});
    // The process ends when the hook was begun; when the job is taken up, the call's own tool is down.
    for at in 0.. {
        let world = World::answering(&[Moment::PreToolCall], modify.clone());
        let store = Faulty::new(&world, at, Fault::Before);
        let ran = world.run_on(store, world.new_job(JOB), true, CancellationToken::new()).await;
        assert!(matches!(ran, Err(RunError::Store(_))), "the job ended before its hook was asked");
        if at == 0 {
            continue;
        }
        let facts = world.facts().await;
        let asked =
            |f: &Fact| matches!(f, Fact::Begun { command } if command.effect().is_some_and(|e| e.contains(".pre.h")));
        if !facts.iter().any(asked) {
            continue;
        }
        world.town.down.lock().unwrap().push("git");
        assert!(matches!(world.resume().await, End::Finished(Outcome::Completed { .. })));
        let failed = failures(&world).await;
        assert!(failed.len() == 1 && failed[0].contains("its value could not be checked"), "{failed:?}");
        assert_eq!((world.pushes(), begun_calls(&world.facts().await)), (0, 0));
        return;
    }
}
