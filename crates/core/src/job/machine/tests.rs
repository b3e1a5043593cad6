//! The machine against a simulated world: what happens is fixed by each effect's id, only the order of arrival varies.

mod advice;
mod compacting;
mod external;
mod limited;
mod properties;
mod session;

use super::*;
use crate::chain::HookOutcome;
use crate::history::{Head, Record, replay};
use crate::hooks::{Hook, HookSet, tests::hook};
use crate::job::{AgentSpec, AsksThere, RequestedCall, ToolOutcome};
use crate::json;
use crate::lifecycle::{LifecycleAnswer, LifecycleOutcome, LifecycleSpec};
use crate::message::{StopReason, Usage};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;

pub(crate) fn spec(hooks: Vec<Hook>) -> JobSpec {
    let agent = AgentSpec::new("dev", "p", "script/x.yaml", 10);
    let hooks = HookSet { manifests: vec![], hooks };
    JobSpec { hooks, ..JobSpec::new("job-1", agent, Stored::inline(json!("go"))) }
}

/// What a world answers to each effect.
type Oracle<'a> = dyn Fn(&Command) -> Fact + 'a;

fn answered(effect: &str, outcome: HookOutcome) -> Fact {
    Fact::HookAnswered { effect: effect.into(), outcome, ms: 1.0, other: None }
}
fn returned(effect: &str, text: &str) -> Fact {
    let outcome =
        ToolOutcome::Returned { result: Stored::inline(json!(text)), structured: None, is_error: false, rest: None };
    Fact::ToolReturned { effect: effect.into(), outcome, ms: 1.0 }
}
fn turn(effect: &str, text: &str, calls: &[(&str, Value)]) -> Fact {
    Fact::ModelAnswered {
        effect: effect.into(),
        text: Some(Stored::inline(json!(text))),
        calls: calls
            .iter()
            .enumerate()
            .map(|(i, (tool, arguments))| RequestedCall {
                provider_id: format!("{effect}-{i}"),
                tool: (*tool).into(),
                alias: None,
                further_aliases: vec![],
                arguments: Stored::inline(arguments.clone()),
                refused: None,
                idempotent: false,
                schema_sha256: None,
                asks_there: AsksThere::No,
            })
            .collect(),
        stop: if calls.is_empty() { StopReason::EndTurn } else { StopReason::ToolCalls },
        usage: Some(Usage::default()),
        sent: None,
        provider_state: None,
        output: None,
        output_fault: None,
        ms: 1.0,
    }
}
fn decided(command: &Command, approve: bool) -> Fact {
    let Command::OpenApproval { effect, approval } = command else { panic!() };
    Fact::ApprovalDecided {
        effect: effect.clone(),
        approval: approval.id.clone(),
        approve,
        by: "ada".into(),
        verified: false,
        note: None,
        digest: approval.digest.clone(),
        decided_ms: 5,
    }
}

/// A run of a job: its history, and every command in the order it was emitted.
struct Run {
    machine: Machine,
    history: Vec<Record>,
    commands: Vec<Command>,
}

/// Runs a job to its end. `pick` chooses which of the effects under way ends next.
fn run(spec: JobSpec, oracle: &Oracle<'_>, mut pick: impl FnMut(usize) -> usize) -> Run {
    let (mut head, mut history, mut commands) = (Head::default(), vec![], vec![]);
    let write = |head: &mut Head, history: &mut Vec<Record>, fact: Fact| {
        let record = head.next(1_000 + history.len() as u64, fact);
        head.advance(&record);
        history.push(record.clone());
        record
    };
    write(&mut head, &mut history, Fact::Started { spec: Box::new(spec.clone()) });
    let (mut machine, mut fresh) = Machine::new(spec).unwrap();
    let mut under_way: Vec<Command> = vec![];
    for _ in 0..10_000 {
        for command in fresh.drain(..) {
            if command.effect().is_some() {
                let r = write(&mut head, &mut history, Fact::Begun { command: command.digest_only() });
                assert_eq!(machine.handle(r.at_ms, &r.fact), Ok(vec![]));
                under_way.push(command.clone());
            }
            commands.push(command);
        }
        if let Some(outcome) = machine.due_outcome().cloned() {
            let r = write(&mut head, &mut history, Fact::Finished { outcome });
            machine.handle(r.at_ms, &r.fact).unwrap();
            return Run { machine, history, commands };
        }
        assert!(!under_way.is_empty(), "the job stands still");
        let command = under_way.remove(pick(under_way.len()));
        let r = write(&mut head, &mut history, oracle(&command));
        fresh = machine.handle(r.at_ms, &r.fact).unwrap();
    }
    panic!("the job does not end");
}

fn first(_: usize) -> usize {
    0
}

/// A model that makes `calls` in its first turn and then says what it read.
fn two_turns<'a>(calls: &'a [(&'a str, Value)], rest: &'a Oracle<'a>) -> impl Fn(&Command) -> Fact + 'a {
    move |command| match command {
        Command::CallModel { effect, turn: 1, .. } => turn(effect, "calling", calls),
        Command::CallModel { effect, .. } => turn(effect, "done", &[]),
        other => rest(other),
    }
}

fn yes(command: &Command) -> Fact {
    match command {
        Command::Ask { effect, .. } => answered(effect, HookOutcome::Allow { reason: None }),
        Command::CallTool { effect, .. } => returned(effect, "ok"),
        Command::OpenApproval { .. } => decided(command, true),
        other => panic!("{other:?}"),
    }
}

fn tool_texts(machine: &Machine) -> Vec<String> {
    machine
        .conversation()
        .iter()
        .filter_map(|m| match m {
            Message::Tool { content, .. } => content.value.as_deref().map(|v| v.as_str().unwrap_or("").to_owned()),
            Message::User { .. } | Message::Assistant { .. } => None,
        })
        .collect()
}

fn error(run: &Run) -> JobError {
    match run.machine.outcome() {
        Some(Outcome::Failed { error }) => error.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_job_without_hooks_calls_and_completes() {
    let r = run(spec(vec![]), &two_turns(&[("git.push", json!({}))], &yes), first);
    assert_eq!(r.machine.outcome(), Some(&Outcome::Completed { output: Stored::inline(json!("done")) }));
    assert_eq!(tool_texts(&r.machine), ["ok"]);
}

#[test]
fn a_denied_call_is_not_made_and_the_model_reads_exactly_why() {
    let hooks = vec![hook("policy.check", Moment::PreToolCall, Some(&["github.*"]), None)];
    let rest = |c: &Command| match c {
        Command::Ask { effect, .. } => answered(effect, HookOutcome::Deny { reason: "not today".into() }),
        other => yes(other),
    };
    let r = run(spec(hooks), &two_turns(&[("github.merge", json!({})), ("git.log", json!({}))], &rest), first);
    assert_eq!(
        tool_texts(&r.machine),
        ["The call to github.merge was not made: hook policy.check denied it: not today.", "ok"]
    );
    let calls: Vec<_> = r.commands.iter().filter(|c| matches!(c, Command::CallTool { .. })).collect();
    assert_eq!(calls.len(), 1, "a deny stops only its own call");
}

#[test]
fn a_withheld_result_is_replaced_and_the_call_is_not_made_again() {
    let hooks = vec![hook("policy.check", Moment::PostToolCall, None, None)];
    let rest = |c: &Command| match c {
        Command::Ask { effect, head, error, .. } => {
            assert_eq!((head.event, *error), (Moment::PostToolCall, Some(false)));
            answered(effect, HookOutcome::Deny { reason: "secret".into() })
        }
        other => yes(other),
    };
    let r = run(spec(hooks), &two_turns(&[("github.merge", json!({}))], &rest), first);
    assert_eq!(
        tool_texts(&r.machine),
        ["The result of github.merge was withheld: hook policy.check denied it: secret."]
    );
}

#[test]
fn a_deny_at_job_start_or_end_fails_the_job_with_hook_denied() {
    for (moment, what) in [(Moment::JobStart, "the job"), (Moment::JobEnd, "the output")] {
        let rest = |c: &Command| match c {
            Command::Ask { effect, .. } => answered(effect, HookOutcome::Deny { reason: "no".into() }),
            other => yes(other),
        };
        let r = run(spec(vec![hook("policy.check", moment, None, None)]), &two_turns(&[], &rest), first);
        let e = error(&r);
        assert_eq!(
            (e.kind.as_str(), e.hook.as_deref(), e.reason.as_deref()),
            ("HookDenied", Some("policy.check"), Some("no"))
        );
        assert_eq!(e.message, format!("hook policy.check denied {what}: no"));
        let asked_model = r.commands.iter().any(|c| matches!(c, Command::CallModel { .. }));
        assert_eq!(asked_model, moment == Moment::JobEnd, "no token is spent before job_start is decided");
    }
}

#[test]
fn modify_feeds_the_call_and_the_output() {
    let hooks = vec![
        hook("p.input", Moment::JobStart, None, None),
        hook("p.args", Moment::PreToolCall, None, None),
        hook("p.result", Moment::PostToolCall, None, None),
        hook("p.sign", Moment::JobEnd, None, None),
    ];
    let rest = |c: &Command| match c {
        Command::Ask { effect, head, .. } => {
            let value = match head.event {
                Moment::PreToolCall => json!({"branch": "dev"}),
                other => json!(other.name()),
            };
            answered(effect, HookOutcome::Modify { value: Stored::inline(value), reason: None })
        }
        Command::CallTool { arguments, .. } => {
            assert_eq!(arguments.value.as_deref(), Some(&json!({"branch": "dev"})));
            yes(c)
        }
        other => yes(other),
    };
    let r = run(spec(hooks), &two_turns(&[("git.push", json!({"branch": "main"}))], &rest), first);
    assert_eq!(r.machine.outcome(), Some(&Outcome::Completed { output: Stored::inline(json!("job_end")) }));
    assert_eq!(tool_texts(&r.machine), ["post_tool_call"]);
    assert_eq!(r.machine.conversation()[0], Message::User { content: Stored::inline(json!("job_start")) });
}

#[test]
fn an_escalation_waits_for_a_person_and_the_yes_goes_with_the_call() {
    let hooks = vec![hook("p.ask", Moment::PreToolCall, None, None), hook("p.args", Moment::PreToolCall, None, None)];
    for approve in [true, false] {
        let rest = |c: &Command| match c {
            Command::Ask { effect, hook: 0, .. } => {
                answered(effect, HookOutcome::Escalate { reason: "a push to main".into() })
            }
            Command::Ask { effect, .. } => {
                answered(effect, HookOutcome::Modify { value: Stored::inline(json!({"force": false})), reason: None })
            }
            Command::OpenApproval { approval, .. } => {
                assert_eq!(approval.value, Stored::inline(json!({"force": false})), "the final value is shown");
                assert_eq!((approval.changes.len(), approval.original.clone()), (1, Stored::inline(json!({}))));
                decided(c, approve)
            }
            Command::CallTool { grant, .. } => {
                let grant = grant.as_ref().expect("the yes goes with the call");
                assert!(grant.expires_ms > 86_400_000);
                yes(c)
            }
            other => yes(other),
        };
        let r = run(spec(hooks.clone()), &two_turns(&[("git.push", json!({}))], &rest), first);
        let expect = if approve {
            "ok"
        } else {
            "The call to git.push was not made: hook p.ask denied it: a push to main (declined by ada)."
        };
        assert_eq!(tool_texts(&r.machine), [expect]);
    }
}

#[test]
fn expiry_counts_as_a_no() {
    let rest = |c: &Command| match c {
        Command::Ask { effect, .. } => answered(effect, HookOutcome::Escalate { reason: "r".into() }),
        Command::OpenApproval { effect, approval } => {
            Fact::ApprovalExpired { effect: effect.clone(), approval: approval.id.clone() }
        }
        other => yes(other),
    };
    let r = run(
        spec(vec![hook("p.ask", Moment::PreToolCall, None, None)]),
        &two_turns(&[("a.b", json!({}))], &rest),
        first,
    );
    assert_eq!(tool_texts(&r.machine), ["The call to a.b was not made: hook p.ask denied it: r (expired)."]);
    for moment in [Moment::JobStart, Moment::JobEnd] {
        let r = run(spec(vec![hook("p.ask", moment, None, None)]), &two_turns(&[], &rest), first);
        assert_eq!(error(&r).reason.as_deref(), Some("r (expired)"));
    }
}

#[test]
fn a_yes_for_something_else_or_by_somebody_else_is_a_mismatch() {
    let mut h = hook("p.ask", Moment::JobStart, None, None);
    h.approvers = vec!["grace".into()];
    let (mut m, commands) = Machine::new(spec(vec![h])).unwrap();
    let begin = |m: &mut Machine, c: &Command| m.handle(1, &Fact::Begun { command: c.digest_only() }).unwrap();
    begin(&mut m, &commands[0]);
    let open = m.handle(2, &answered("start.h0", HookOutcome::Escalate { reason: "r".into() })).unwrap();
    begin(&mut m, &open[0]);
    let mut fact = decided(&open[0], true);
    let before = m.clone();
    assert!(matches!(m.handle(3, &fact), Err(Mismatch::Decision { .. })), "ada may not decide");
    assert_eq!(m, before);
    if let Fact::ApprovalDecided { by, .. } = &mut fact {
        *by = "grace".into();
    }
    let mut other = fact.clone();
    if let Fact::ApprovalDecided { digest, .. } = &mut other {
        *digest = "0".repeat(64);
    }
    assert!(matches!(m.handle(3, &other), Err(Mismatch::Decision { .. })));
    assert_eq!(m.handle(3, &fact).unwrap().len(), 1);
}

#[test]
fn a_refused_call_reaches_no_hook_and_no_server() {
    let oracle = |c: &Command| match c {
        Command::CallModel { effect, turn: 1, .. } => {
            let mut fact = turn(effect, "", &[("todo._Stop", json!({}))]);
            if let Fact::ModelAnswered { calls, .. } = &mut fact {
                calls[0].refused = Some("unknown tool: todo._Stop".into());
            }
            fact
        }
        Command::CallModel { effect, .. } => turn(effect, "done", &[]),
        other => panic!("{other:?}"),
    };
    let r = run(spec(vec![hook("p.h", Moment::PreToolCall, None, None)]), &oracle, first);
    assert_eq!(tool_texts(&r.machine), ["unknown tool: todo._Stop"]);
}

#[test]
fn limits_of_calls_hold() {
    let calls: Vec<(&str, Value)> = (0..70).map(|i| ("a.b", json!({ "i": i }))).collect();
    let (mut machine, commands) = Machine::new(spec(vec![])).unwrap();
    machine.handle(1, &Fact::Begun { command: commands[0].digest_only() }).unwrap();
    let out = machine.handle(2, &turn("t1.model", "", &calls)).unwrap();
    assert_eq!(out.len(), 8, "8 at the same time");
    let r = run(spec(vec![]), &two_turns(&calls, &yes), first);
    let texts = tool_texts(&r.machine);
    assert_eq!((texts.len(), texts.iter().filter(|t| *t == "ok").count()), (70, 64));
    assert!(texts[64].contains("a turn may make 64 calls"));
}

#[test]
fn many_yeses_at_once_do_not_make_more_calls_at_once() {
    let calls: Vec<(&str, Value)> = (0..20).map(|i| ("a.b", json!({ "i": i }))).collect();
    let (mut m, mut fresh) = Machine::new(spec(vec![hook("p.ask", Moment::PreToolCall, None, None)])).unwrap();
    let (mut waiting, mut made) = (vec![], vec![]);
    while let Some(command) = fresh.pop() {
        m.handle(1, &Fact::Begun { command: command.digest_only() }).unwrap();
        match &command {
            Command::CallModel { effect, .. } => fresh.extend(m.handle(1, &turn(effect, "", &calls)).unwrap()),
            Command::Ask { effect, .. } => {
                let escalate = HookOutcome::Escalate { reason: "r".into() };
                fresh.extend(m.handle(1, &answered(effect, escalate)).unwrap());
            }
            Command::OpenApproval { .. } => waiting.push(command),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(waiting.len(), 20, "who waits for a person takes no place");
    for command in &waiting {
        made.extend(m.handle(2, &decided(command, true)).unwrap());
    }
    assert_eq!(made.len(), 8);
    m.handle(3, &Fact::Begun { command: made[0].digest_only() }).unwrap();
    let more = m.handle(3, &returned(made[0].effect().unwrap(), "ok")).unwrap();
    assert!(matches!(more[..], [Command::CallTool { grant: Some(_), .. }]), "{more:?}");
}

#[test]
fn turns_that_were_cut_off_or_refused_fail_the_job_and_make_no_call() {
    for (stop, kind) in [(StopReason::MaxTokens, "MaxTokens"), (StopReason::Refusal, "Refused")] {
        let oracle = |c: &Command| match c {
            Command::CallModel { effect, .. } => {
                let mut fact = turn(effect, "par", &[("a.b", json!({}))]);
                if let Fact::ModelAnswered { stop: s, .. } = &mut fact {
                    *s = stop;
                }
                fact
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(error(&run(spec(vec![]), &oracle, first)).kind, kind);
    }
}

#[test]
fn max_turns_ends_a_job_that_never_ends() {
    let oracle = |c: &Command| match c {
        Command::CallModel { effect, .. } => turn(effect, "", &[("a.b", json!({}))]),
        other => yes(other),
    };
    let r = run(spec(vec![]), &oracle, first);
    assert_eq!((error(&r).kind.as_str(), r.machine.turn()), ("MaxTurns", 10));
}

#[test]
fn an_output_against_its_schema_is_corrected_twice_then_fails() {
    let oracle = |c: &Command| match c {
        Command::CallModel { effect, .. } => {
            let mut fact = turn(effect, "x", &[]);
            if let Fact::ModelAnswered { output_fault, .. } = &mut fact {
                *output_fault = Some("no JSON".into());
            }
            fact
        }
        other => panic!("{other:?}"),
    };
    let r = run(spec(vec![]), &oracle, first);
    assert_eq!((error(&r).kind.as_str(), r.machine.turn()), ("BadOutput", 3));
}

#[test]
fn cancel_closes_approvals_and_late_facts_are_refused() {
    let (mut m, c) = Machine::new(spec(vec![hook("p.ask", Moment::JobStart, None, None)])).unwrap();
    m.handle(1, &Fact::Begun { command: c[0].digest_only() }).unwrap();
    let open = m.handle(2, &answered("start.h0", HookOutcome::Escalate { reason: "r".into() })).unwrap();
    m.handle(3, &Fact::Begun { command: open[0].digest_only() }).unwrap();
    assert!(m.only_waits());
    let out = m.handle(4, &Fact::Cancelled { by: "ada".into() }).unwrap();
    assert!(matches!(out[..], [Command::CloseApproval { .. }, Command::Finish { outcome: Outcome::Cancelled { .. } }]));
    assert!(m.handle(5, &decided(&open[0], true)).is_err());
    assert_eq!(m.handle(6, &Fact::Cancelled { by: "bob".into() }), Ok(vec![]));
}

#[test]
fn a_server_that_died_or_timed_out_is_told_to_the_model_and_to_post_hooks() {
    let hooks = vec![hook("p.after", Moment::PostToolCall, None, None)];
    for (outcome, says, asked) in [
        (
            ToolOutcome::Unknown { why: "the server died".into() },
            "It is not known whether the call to a.b was made: the server died.",
            true,
        ),
        (ToolOutcome::TimedOut { after_ms: 660_000 }, "The call to a.b did not end within 11m.", true),
        (ToolOutcome::Failed { why: "code -1".into() }, "The call to a.b failed: code -1.", true),
        (
            ToolOutcome::NotMade { why: "the server is down".into() },
            "The call to a.b was not made: the server is down.",
            false,
        ),
    ] {
        let was_asked = std::cell::Cell::new(false);
        let rest = |c: &Command| match c {
            Command::CallTool { effect, .. } => {
                Fact::ToolReturned { effect: effect.clone(), outcome: outcome.clone(), ms: 1.0 }
            }
            Command::Ask { error, .. } => {
                was_asked.set(true);
                assert_eq!(*error, Some(true));
                yes(c)
            }
            other => yes(other),
        };
        let r = run(spec(hooks.clone()), &two_turns(&[("a.b", json!({}))], &rest), first);
        assert!(tool_texts(&r.machine)[0].starts_with(says), "{:?}", tool_texts(&r.machine));
        assert_eq!(was_asked.get(), asked, "{says}");
    }
}

#[test]
fn a_history_of_newer_logic_is_refused() {
    let mut s = spec(vec![]);
    s.logic = LOGIC_VERSION + 1;
    assert!(matches!(Machine::new(s), Err(Mismatch::Logic(_))));
}

/// A machine whose one call's result waits for a person.
fn withheld(result: Value, structured: Option<Value>, outcomes: &[HookOutcome]) -> Machine {
    let hooks = vec![hook("policy.check", Moment::PostToolCall, None, None); outcomes.len()];
    let (mut machine, mut commands) = Machine::new(spec(hooks)).unwrap();
    loop {
        let Some(command) = commands.pop() else { panic!("no person was asked") };
        machine.handle(1_000, &Fact::Begun { command: command.digest_only() }).unwrap();
        let fact = match &command {
            Command::OpenApproval { .. } => return machine,
            Command::CallModel { effect, .. } => turn(effect, "calling", &[("git.log", json!({}))]),
            Command::Ask { effect, hook, .. } => answered(effect, outcomes[*hook].clone()),
            Command::CallTool { effect, .. } => {
                let result = Stored::inline(result.clone());
                let structured = structured.clone().map(Stored::inline);
                let outcome = ToolOutcome::Returned { result, structured, is_error: false, rest: None };
                Fact::ToolReturned { effect: effect.clone(), outcome, ms: 1.0 }
            }
            other => panic!("{other:?}"),
        };
        commands = machine.handle(2_000, &fact).unwrap();
    }
}

#[test]
fn an_approval_shows_and_binds_the_structured_content_that_the_yes_lets_through() {
    let escalate = HookOutcome::Escalate { reason: "r".into() };
    let modify = HookOutcome::Modify { value: Stored::inline(json!("less")), reason: None };
    let asked = |structured, outcomes: &[HookOutcome]| {
        let machine = withheld(json!([]), structured, outcomes);
        machine.waiting().next().unwrap().clone()
    };
    let secret = json!({"key": "k"});
    let shown = asked(Some(secret.clone()), std::slice::from_ref(&escalate));
    assert_eq!(shown.structured.as_ref().and_then(|s| s.value.as_deref()), Some(&secret));
    assert!(shown.is_sound());
    let none = asked(None, std::slice::from_ref(&escalate));
    assert_ne!(shown.digest, none.digest, "the yes is bound to it");
    assert!(!serde_json::to_string(&none).unwrap().contains("structured"), "as in histories before");
    // A modified result drops it (SPEC §3).
    let changed = asked(Some(secret), &[escalate, modify]);
    assert_eq!((changed.structured.is_none(), changed.is_sound()), (true, true));
}

#[test]
fn a_yes_after_the_expiry_that_the_history_says_is_a_mismatch_and_changes_nothing() {
    let machine = withheld(json!("x"), None, &[HookOutcome::Escalate { reason: "r".into() }]);
    let (command, _) = machine.pending().next().unwrap();
    let yes = |at_ms| match decided(command, true) {
        Fact::ApprovalDecided { effect, approval, approve, by, verified, note, digest, .. } => {
            Fact::ApprovalDecided { effect, approval, approve, by, verified, note, digest, decided_ms: at_ms }
        }
        other => other,
    };
    let expires_ms = 1_000 + 86_400_000;
    let mut late = machine.clone();
    assert!(matches!(late.handle(expires_ms, &yes(expires_ms)), Err(Mismatch::Decision { .. })));
    assert_eq!(late, machine);
    assert!(late.handle(expires_ms, &yes(expires_ms - 1)).is_ok(), "made in time, read later");
}

#[test]
fn notes_of_what_decides_nothing_change_nothing() {
    let machine = withheld(json!("x"), None, &[HookOutcome::Escalate { reason: "r".into() }]);
    let mut noted = machine.clone();
    for fact in [
        Fact::ToolLate { effect: "t1.c0.call".into(), after_ms: 9 },
        Fact::HookLate { effect: "t1.c0.post.h0".into(), after_ms: 9 },
        Fact::DecisionIgnored {
            approval: machine.waiting().next().unwrap().id.clone(),
            approve: true,
            by: "eve".into(),
            verified: true,
            why: "w".into(),
        },
    ] {
        assert_eq!(noted.handle(3_000, &fact), Ok(vec![]));
    }
    assert_eq!(noted, machine);
}

fn texts(history: &[Record]) -> Vec<String> {
    history.iter().map(|r| serde_json::to_string(r).unwrap()).collect()
}
