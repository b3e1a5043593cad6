//! What a job may use up in all.

use super::*;
use crate::job::{CallReply, External, Sent};

/// A model that asks for so many calls in each of its turns, each of which costs so many tokens, and ends after these turns.
fn turns(calls: &[usize], usage: Option<Usage>) -> impl Fn(&Command) -> Fact + '_ {
    move |command| match command {
        Command::CallModel { effect, turn: t, .. } => {
            let asked = calls.get(*t as usize - 1).copied().unwrap_or(0);
            let asked: Vec<_> = (0..asked).map(|_| ("git.log", json!({}))).collect();
            let Fact::ModelAnswered { effect, text, calls, stop, .. } = turn(effect, "ok", &asked) else { panic!() };
            let sent = Some(Sent { bytes: 396, overhead_bytes: 0 });
            Fact::ModelAnswered {
                effect,
                text,
                calls,
                stop,
                usage,
                sent,
                provider_state: None,
                output: None,
                output_fault: None,
                ms: 1.0,
            }
        }
        other => yes(other),
    }
}

fn limited(calls: Option<u32>, tokens: Option<u64>) -> JobSpec {
    let mut spec = spec(vec![]);
    (spec.limits.calls_per_job, spec.limits.tokens_per_job) = (calls, tokens);
    spec
}

fn made(run: &Run) -> usize {
    run.commands.iter().filter(|c| matches!(c, Command::CallTool { .. })).count()
}

#[test]
fn a_job_ends_with_the_call_that_is_one_too_many() {
    for (limit, calls, made_calls, ends) in [
        (None, &[3, 3][..], 6, None),
        (Some(6), &[3, 3], 6, None),
        (
            Some(5),
            &[3, 3],
            3,
            Some("the agent asked for 3 more, and 2 of the 5 calls that the job may make are left (calls_per_job)"),
        ),
        (
            Some(3),
            &[3, 1],
            3,
            Some("the agent asked for 1 more, and 0 of the 3 calls that the job may make are left (calls_per_job)"),
        ),
        (
            Some(1),
            &[2],
            0,
            Some("the agent asked for 2 more, and 1 of the 1 calls that the job may make are left (calls_per_job)"),
        ),
    ] {
        let run = run(limited(limit, None), &turns(calls, None), first);
        assert_eq!(made(&run), made_calls, "{limit:?} {calls:?}");
        match ends {
            None => assert!(matches!(run.machine.outcome(), Some(Outcome::Completed { .. })), "{limit:?} {calls:?}"),
            Some(message) => assert_eq!(error(&run), JobError::plain("CallLimit", message)),
        }
        let (replayed, _) = replay(texts(&run.history)).unwrap();
        assert_eq!(replayed, run.machine);
    }
}

#[test]
fn a_denied_call_counts_as_one_that_was_asked_for() {
    let mut spec = limited(Some(2), None);
    spec.hooks.hooks = vec![hook("policy.check", Moment::PreToolCall, None, None)];
    let model = turns(&[1, 1, 1], None);
    let world = |c: &Command| match c {
        Command::Ask { effect, .. } => answered(effect, HookOutcome::Deny { reason: "no".into() }),
        other => model(other),
    };
    let run = run(spec, &world, first);
    assert_eq!((made(&run), error(&run).kind.as_str()), (0, "CallLimit"));
}

#[test]
fn nothing_is_begun_once_the_tokens_are_used_up_and_an_output_that_stands_is_given() {
    let fifty = Some(Usage { input_tokens: 40, output_tokens: 10 });
    for (limit, usage, calls, made_calls, used) in [
        (None, fifty, &[1, 1][..], 2, None),
        (Some(151), fifty, &[1, 1], 2, None),
        // The last turn has the output: it was paid for.
        (Some(101), fifty, &[1, 1], 2, None),
        // What the second turn asks for is not begun.
        (Some(100), fifty, &[1, 1], 1, Some(100)),
        (Some(1), fifty, &[1, 1], 0, Some(50)),
        (Some(1), fifty, &[], 0, None),
        // A provider that reports nothing: 396 bytes of the request, 4 of the text, 2 of the arguments, four a token.
        (Some(101), None, &[1], 0, Some(101)),
        (Some(102), None, &[1], 1, None),
        (Some(101), Some(Usage::default()), &[1], 0, Some(101)),
    ] {
        let run = run(limited(None, limit), &turns(calls, usage), first);
        assert_eq!(made(&run), made_calls, "{limit:?} {usage:?} {calls:?}");
        match used {
            None => assert!(matches!(run.machine.outcome(), Some(Outcome::Completed { .. })), "{limit:?} {calls:?}"),
            Some(used) => {
                let message =
                    format!("the job used {used} of the {} tokens that it may use (tokens_per_job)", limit.unwrap());
                assert_eq!(error(&run), JobError::plain("TokenLimit", message));
            }
        }
        let (replayed, _) = replay(texts(&run.history)).unwrap();
        assert_eq!(replayed, run.machine);
    }
}

#[test]
fn a_turn_that_is_asked_for_again_is_not_begun_either() {
    let mut spec = limited(None, Some(50));
    spec.agent.output_schema = Some(Stored::inline(json!({"type": "object"})));
    let world = |c: &Command| match c {
        Command::CallModel { effect, .. } => {
            let Fact::ModelAnswered { effect, text, calls, stop, sent, .. } = turn(effect, "no JSON", &[]) else {
                panic!()
            };
            Fact::ModelAnswered {
                effect,
                text,
                calls,
                stop,
                usage: Some(Usage { input_tokens: 30, output_tokens: 30 }),
                sent,
                provider_state: None,
                output: None,
                output_fault: Some("no object".into()),
                ms: 1.0,
            }
        }
        other => yes(other),
    };
    let run = run(spec, &world, first);
    assert_eq!(error(&run).kind, "TokenLimit");
}

#[test]
fn an_agent_that_somebody_else_runs_has_as_many_calls_and_is_told_when_they_are_used_up() {
    let mut spec = limited(Some(2), None);
    spec.agent.external = Some(External { makes_calls: false, holds: 0 });
    let mut desk = super::external::Desk::new(spec);
    for _ in 0..2 {
        let call = desk.call("git.log", json!({}));
        desk.ends(&format!("{call}.call"), &yes);
    }
    let last = desk.call("git.log", json!({}));
    let told = desk.replies().into_iter().find(|(call, _)| *call == last).map(|(_, reply)| reply.clone());
    let expected = "The call to git.log was not made: the agent asked for 1 more, and 0 of the 2 calls that the job may make are left \
        (calls_per_job). The job ends here.";
    assert_eq!(told, Some(CallReply::NotMade { text: expected.into() }));
    match desk.machine.outcome() {
        Some(Outcome::Failed { error }) => assert_eq!(error.kind, "CallLimit"),
        other => panic!("{other:?}"),
    }
    desk.check_replay();
}
