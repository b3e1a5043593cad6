//! An output that is objected to stands where the agent can't go on.

use super::*;

/// How a turn goes.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Play {
    Says,
    Calls,
    /// Prose, where the agent declares a schema.
    Prose,
    CutOff,
    Refused,
    Failed(ModelFault),
}

fn play(play: Play, effect: &str, n: u32) -> Fact {
    let said = format!("turn {n}");
    let with = |change: &dyn Fn(&mut StopReason, &mut Option<String>)| {
        let mut fact = turn(effect, &said, &[]);
        if let Fact::ModelAnswered { stop, output_fault, .. } = &mut fact {
            change(stop, output_fault);
        }
        fact
    };
    match play {
        Play::Says => turn(effect, &said, &[]),
        Play::Calls => turn(effect, &said, &[("todo.add", json!({"n": n}))]),
        Play::Prose => with(&|_, fault| *fault = Some("it is no JSON".into())),
        Play::CutOff => with(&|stop, _| *stop = StopReason::MaxTokens),
        Play::Refused => with(&|stop, _| *stop = StopReason::Refusal),
        Play::Failed(fault) => Fact::ModelFailed { effect: effect.into(), fault, message: "down".into(), sent: None },
    }
}

/// A job whose turns go so, and then go on as the last one.
fn played(spec: JobSpec, plays: &[Play], said: &dyn Fn(Point, &str) -> Option<String>) -> Run {
    let oracle = |command: &Command| match command {
        Command::CallModel { effect, turn: n, .. } => play(plays[(*n as usize - 1).min(plays.len() - 1)], effect, *n),
        Command::AskLifecycle { .. } => answers(command, said),
        other => yes(other),
    };
    run(spec, &oracle, first)
}

fn failures() -> [(&'static str, Vec<Play>); 7] {
    use Play::*;
    [
        ("MaxTurns", vec![Says, Calls]),
        ("BadOutput", vec![Prose, Prose, Says, Prose]),
        ("MaxTokens", vec![Says, CutOff]),
        ("Refused", vec![Says, Refused]),
        ("ModelFailed", vec![Says, Calls, Failed(ModelFault::Failed)]),
        ("ContextFull", vec![Says, Calls, Failed(ModelFault::ContextFull)]),
        ("ContextFull", vec![Says, Failed(ModelFault::WindowTooSmall)]),
    ]
}

#[test]
fn where_the_agent_can_not_go_on_after_an_objection_its_output_from_before_stands() {
    for (kind, plays) in failures() {
        let mut spec = advised(&["todo"], 3);
        spec.agent.max_turns = 4;
        let stood = plays.iter().position(|p| *p == Play::Says).unwrap() + 1;
        let r = played(spec, &plays, &objects);
        assert_eq!(output(&r), json!(format!("turn {stood}")), "{kind}");
        let kept = r.commands.iter().find_map(|c| match c {
            Command::AskLifecycle { skip: Some(Skip::Kept), failure: Some(failure), .. } => Some(failure.kind.clone()),
            _ => None,
        });
        assert_eq!(kept.as_deref(), Some(kind), "the history says what went wrong");
        let (replayed, _) = replay(&texts(&r.history)).unwrap();
        assert_eq!(replayed, r.machine);
    }
}

#[test]
fn without_an_objection_the_same_failures_fail_the_job() {
    for (kind, plays) in failures() {
        let mut plays = plays;
        plays.retain(|p| *p != Play::Says);
        let mut spec = advised(&["todo"], 3);
        spec.agent.max_turns = 4;
        assert_eq!(error(&played(spec, &plays, &objects)).kind, kind);
    }
}

#[test]
fn logic_2_fails_as_it_did() {
    for (kind, plays) in failures() {
        let mut spec = advised(&["todo"], 3);
        (spec.agent.max_turns, spec.logic) = (4, 2);
        assert_eq!(error(&played(spec, &plays, &objects)).kind, kind);
    }
}

#[test]
fn hooks_at_the_jobs_end_decide_on_an_output_that_was_kept() {
    let mut spec = advised(&["todo"], 3);
    spec.agent.max_turns = 2;
    spec.hooks.hooks = vec![hook("policy.check", Moment::JobEnd, None, None)];
    let oracle = |command: &Command| match command {
        Command::CallModel { effect, turn: 1, .. } => turn(effect, "a secret", &[]),
        Command::CallModel { effect, .. } => turn(effect, "", &[("todo.add", json!({}))]),
        Command::AskLifecycle { .. } => answers(command, &objects),
        Command::Ask { effect, value, .. } => {
            assert_eq!(value.value.as_deref(), Some(&json!("a secret")));
            answered(effect, HookOutcome::Deny { reason: "it is secret".into() })
        }
        other => yes(other),
    };
    let r = run(spec, &oracle, first);
    assert_eq!(error(&r).kind, "HookDenied");
}

#[test]
fn a_cancel_after_an_objection_is_a_cancel() {
    let mut spec = advised(&["todo"], 3);
    spec.lifecycle.as_mut().unwrap().session_start = false;
    let (mut machine, mut out) = Machine::new(spec).unwrap();
    while machine.kept_output().is_none() {
        let command = out.remove(0);
        machine.handle(1, &Fact::Begun { command: command.digest_only() }).unwrap();
        let fact = match &command {
            Command::CallModel { effect, .. } => turn(effect, "done", &[]),
            other => answers(other, &objects),
        };
        out = machine.handle(1, &fact).unwrap();
    }
    let out = machine.handle(2, &Fact::Cancelled { by: "ada".into() }).unwrap();
    assert!(matches!(out.as_slice(), [Command::Finish { outcome: Outcome::Cancelled { .. } }]), "{out:?}");
}

proptest! {
    #[test]
    fn a_job_whose_output_once_stood_never_fails_whatever_turns_come_to(
        dice in prop::collection::vec(0u8..10, 1..12), turns in 1u32..12, pattern in any::<u64>(), max in 0u32..5,
    ) {
        let plays: Vec<Play> = dice.iter().map(|die| match die {
            0..=2 => Play::Says,
            3..=5 => Play::Calls,
            6 => Play::Prose,
            7 => Play::CutOff,
            8 => Play::Refused,
            _ => Play::Failed(ModelFault::Failed),
        }).collect();
        let mut spec = advised(&["a", "b"], max);
        spec.agent.max_turns = turns;
        let said = move |point: Point, server: &str| {
            let bit = (point as u64 * 7 + u64::from(server.as_bytes()[0])) % 64;
            (pattern >> bit & 1 == 1).then(|| format!("{server} says"))
        };
        let r = played(spec, &plays, &said);
        // What stood last, read from the history alone: servers were to be asked about it, or it ended the job.
        let (mut answer, mut stood) = (None, None);
        for record in &r.history {
            match &record.fact {
                Fact::ModelAnswered { text, .. } => answer.clone_from(text),
                Fact::Begun { command: Command::AskLifecycle { point: Point::Stop, skip, .. } } if *skip != Some(Skip::Kept) => {
                    stood.clone_from(&answer);
                }
                _ => {}
            }
        }
        match (r.machine.outcome(), stood) {
            (Some(Outcome::Completed { output }), Some(stood)) => prop_assert_eq!(&output.sha256, &stood.sha256),
            (Some(Outcome::Completed { .. }), None) => prop_assert_eq!(max, 0),
            (outcome, stood) => prop_assert!(stood.is_none(), "{:?} although {:?} stood", outcome, stood),
        }
        let all = texts(&r.history);
        for end in 1..=all.len() {
            prop_assert!(replay(&all[..end]).is_ok());
        }
    }
}
