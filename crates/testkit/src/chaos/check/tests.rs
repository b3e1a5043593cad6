//! A run in which all is well, and each way in which it might not be: the checker says so, and which.

use super::{Ask, Decision, Effect, Job, Kind, Seen, check};
use hookwright_core::approval::{Approval, Grant};
use hookwright_core::chain::HookOutcome;
use hookwright_core::event::{EventHead, Moment};
use hookwright_core::history::Record;
use hookwright_core::hooks::Hook;
use hookwright_core::job::{AgentSpec, Command, Fact, JobError, JobSpec, Outcome, RequestedCall, ToolOutcome};
use hookwright_core::message::StopReason;
use hookwright_core::verdict::Escalation;
use hookwright_core::{FunctionName, Stored};
use serde_json::{Value, json};

const JOB: &str = "job_1";
const APPROVAL: &str = "ap_1";

fn name(name: &str) -> FunctionName {
    serde_json::from_value(json!(name)).unwrap()
}

fn stored(value: Value) -> Stored {
    Stored::new(value).0
}

fn arguments(n: u64) -> Value {
    json!({ "n": n })
}

fn begun(command: Command) -> Fact {
    Fact::Begun { command }
}

fn ask(call: &str) -> Fact {
    let head = EventHead {
        event: Moment::PreToolCall,
        job: JOB.into(),
        agent: "worker".into(),
        tenant: "default".into(),
        node: "here".into(),
        parent_job: None,
        call: Some(call.into()),
        tool: Some("fx.push".into()),
        alias: None,
    };
    let effect = format!("{call}.pre.h0");
    begun(Command::Ask {
        effect,
        hook: 0,
        call: name("policy.check"),
        head,
        value: stored(json!({})),
        arguments: None,
        structured: None,
        error: None,
    })
}

fn answer(call: &str, outcome: HookOutcome) -> Fact {
    Fact::HookAnswered { effect: format!("{call}.pre.h0"), outcome, ms: 1.0, other: None }
}

fn call(call: &str, n: u64, grant: Option<Grant>, idempotent: bool) -> Fact {
    let effect = format!("{call}.call");
    let arguments = stored(arguments(n));
    begun(Command::CallTool { effect, call: call.into(), tool: name("fx.push"), arguments, idempotent, grant })
}

fn returned(call: &str) -> Fact {
    let outcome = ToolOutcome::Returned { result: stored(json!("did")), structured: None, is_error: false, rest: None };
    Fact::ToolReturned { effect: format!("{call}.call"), outcome, ms: 1.0 }
}

fn model(turn: u32, calls: &[u64]) -> [Fact; 2] {
    let effect = format!("t{turn}.model");
    let calls: Vec<RequestedCall> = calls
        .iter()
        .map(|n| RequestedCall {
            provider_id: n.to_string(),
            tool: "fx.push".into(),
            alias: None,
            further_aliases: vec![],
            arguments: stored(arguments(*n)),
            refused: None,
            idempotent: false,
            schema_sha256: None,
            asks_there: hookwright_core::job::AsksThere::No,
        })
        .collect();
    let answered = json!({
        "kind": "model_answered", "effect": effect, "calls": calls, "stop": StopReason::ToolCalls, "ms": 1.0,
    });
    [begun(Command::CallModel { effect, turn, conversation: String::new() }), serde_json::from_value(answered).unwrap()]
}

fn approval() -> Approval {
    Approval {
        id: APPROVAL.into(),
        kind: "hook".into(),
        tenant: "default".into(),
        job: JOB.into(),
        parent_jobs: vec![],
        agent: "worker".into(),
        event: Moment::PreToolCall,
        call: Some("t1.c1".into()),
        tool: Some("fx.push".into()),
        arguments: None,
        reasons: vec![Escalation { hook: "policy.check".into(), reason: "hm".into() }],
        original: stored(arguments(1)),
        value: stored(arguments(1)),
        structured: None,
        changes: vec![],
        digest: "digest".into(),
        schema_sha256: None,
        approvers: vec![],
        expires_after_ms: 1_000,
    }
}

fn grant() -> Grant {
    Grant { approval: APPROVAL.into(), digest: "digest".into(), expires_ms: 9_999, schema_sha256: None }
}

fn decided(approve: bool, by: &str) -> Fact {
    Fact::ApprovalDecided {
        effect: "t1.c1.pre.approval".into(),
        approval: APPROVAL.into(),
        approve,
        by: by.into(),
        verified: false,
        note: None,
        digest: "digest".into(),
        decided_ms: 1,
    }
}

/// Where things stand in the history of [`well`].
const ANSWER: usize = 5;
const DECIDED: usize = 8;
const CALL: usize = 9;
const RETURNED: usize = 10;
const CALL_ASKED: usize = 11;
const UNKNOWN: usize = 17;
const FINISHED: usize = 20;

/// A job with four calls: one that returns, one that a person lets, one denied, one of which nothing is known.
fn facts() -> Vec<Fact> {
    let mut spec = JobSpec::new(JOB, AgentSpec::new("worker", "p", "script/x", 10), stored(json!("go")));
    spec.hooks.hooks = vec![Hook::new("p", Moment::PreToolCall, name("policy.check"))];
    let [asks_model, model_answers] = model(1, &[0, 1, 2]);
    let [asks_again, answers_again] = model(2, &[3]);
    let unknown = ToolOutcome::Unknown { why: "it died".into() };
    vec![
        Fact::Started { spec: Box::new(spec) },
        asks_model,
        model_answers,
        ask("t1.c0"),
        ask("t1.c1"),
        answer("t1.c0", HookOutcome::Allow { reason: None }),
        answer("t1.c1", HookOutcome::Escalate { reason: "hm".into() }),
        begun(Command::OpenApproval { effect: "t1.c1.pre.approval".into(), approval: Box::new(approval()) }),
        decided(true, "Ada"),
        call("t1.c0", 0, None, false),
        returned("t1.c0"),
        call("t1.c1", 1, Some(grant()), false),
        returned("t1.c1"),
        asks_again,
        answers_again,
        ask("t2.c0"),
        answer("t2.c0", HookOutcome::Allow { reason: None }),
        call("t2.c0", 3, None, false),
        Fact::Resumed { process: "process 2".into() },
        Fact::ToolReturned { effect: "t2.c0.call".into(), outcome: unknown, ms: 0.0 },
        Fact::Finished { outcome: Outcome::Completed { output: stored(json!("done")) } },
    ]
}

/// Records of these facts, ten milliseconds after each other.
fn records(facts: Vec<Fact>) -> Vec<Record> {
    let facts = facts.into_iter().enumerate();
    facts
        .map(|(seq, fact)| Record {
            seq: seq as u64,
            at_ms: 10 * seq as u64,
            fact,
            prev: String::new(),
            hash: String::new(),
        })
        .collect()
}

fn effect(n: u64, at_ms: u64) -> Effect {
    Effect { at_ms, tool: "fx.push".into(), arguments: arguments(n) }
}

fn asked(call: &str, at_ms: u64) -> Ask {
    Ask { at_ms, call: "policy.check".into(), event: json!({"event": "pre_tool_call", "job": JOB, "call": call}) }
}

fn decision(approve: bool, by: &str, counted: bool) -> Decision {
    Decision { approval: APPROVAL.into(), approve, by: by.into(), counted }
}

fn of(facts: Vec<Fact>) -> Seen {
    Seen {
        jobs: vec![Job { id: JOB.into(), status: "completed".into(), records: records(facts) }],
        effects: vec![effect(0, 95), effect(1, 115)],
        asks: vec![asked("t1.c0", 41), asked("t1.c1", 42), asked("t2.c0", 155)],
        decisions: vec![decision(true, "Ada", true), decision(false, "Bob", false)],
    }
}

fn well() -> Seen {
    of(facts())
}

/// The kinds that are found after a change.
#[track_caller]
fn finds(expected: Kind, change: impl FnOnce(&mut Seen)) {
    let mut seen = well();
    change(&mut seen);
    let found = check(&seen);
    assert!(found.iter().any(|violation| violation.kind == expected), "{expected:?} is not among {found:#?}");
}

/// As [`finds`], after a change of the history.
#[track_caller]
fn finds_in(expected: Kind, change: impl FnOnce(&mut Vec<Fact>)) {
    let mut facts = facts();
    change(&mut facts);
    let found = check(&of(facts));
    assert!(found.iter().any(|violation| violation.kind == expected), "{expected:?} is not among {found:#?}");
}

#[test]
fn a_run_in_which_all_is_well() {
    assert_eq!(check(&well()), []);
}

#[test]
fn what_a_crash_may_do_is_no_violation() {
    let mut seen = well();
    // An ask that was begun is asked again until its answer stands; a call of which nothing is known may have been made, even late.
    seen.asks.push(asked("t1.c0", 49));
    seen.effects.push(effect(3, 500));
    assert_eq!(check(&seen), []);
    // An idempotent call may be made again until its end stands.
    let mut facts = facts();
    facts[CALL] = call("t1.c0", 0, None, true);
    let mut seen = of(facts);
    seen.effects.push(effect(0, 99));
    assert_eq!(check(&seen), []);
    seen.effects.push(effect(0, 101));
    assert_eq!(check(&seen)[0].kind, Kind::Unrecorded);
}

#[test]
fn a_job_without_an_end_or_with_another_one_than_its_row_says() {
    finds_in(Kind::NotOver, |facts| drop(facts.pop()));
    finds_in(Kind::NotOver, |facts| facts.push(facts[FINISHED].clone()));
    finds(Kind::NotOver, |seen| seen.jobs[0].status = "failed".into());
}

#[test]
fn a_job_that_failed_for_no_honest_reason() {
    let failed = |kind: &str| {
        let error = JobError { kind: kind.into(), message: "m".into(), hook: None, reason: None };
        let mut facts = facts();
        facts[FINISHED] = Fact::Finished { outcome: Outcome::Failed { error } };
        let mut seen = of(facts);
        seen.jobs[0].status = "failed".into();
        check(&seen)
    };
    assert_eq!(failed("HookDenied"), []);
    assert_eq!(failed("ModelFailed")[0].kind, Kind::Failed);
}

#[test]
fn a_call_made_twice_or_not_at_all_or_with_another_end() {
    finds(Kind::Calls, |seen| seen.effects.push(effect(0, 96)));
    finds(Kind::Calls, |seen| drop(seen.effects.remove(0)));
    finds(Kind::Calls, |seen| seen.effects.extend([effect(3, 171), effect(3, 172)]));
    let not_made = ToolOutcome::NotMade { why: "w".into() };
    finds_in(Kind::Calls, |facts| {
        facts[RETURNED] = Fact::ToolReturned { effect: "t1.c0.call".into(), outcome: not_made, ms: 0.0 };
    });
    finds_in(Kind::Calls, |facts| drop(facts.remove(RETURNED)));
}

#[test]
fn a_call_that_no_record_says_or_that_is_made_before_its_record_or_after_its_end() {
    finds(Kind::Unrecorded, |seen| seen.effects.push(effect(2, 60)));
    finds(Kind::Unrecorded, |seen| seen.effects[0].at_ms = 89);
    finds(Kind::Unrecorded, |seen| seen.effects[0].at_ms = 101);
    finds(Kind::Unrecorded, |seen| seen.effects[0].tool = "fx.other".into());
}

#[test]
fn a_call_without_its_verdict() {
    let deny = || answer("t1.c0", HookOutcome::Deny { reason: "no".into() });
    finds_in(Kind::Verdict, |facts| facts[ANSWER] = deny());
    finds_in(Kind::Verdict, |facts| facts[ANSWER] = answer("t1.c0", HookOutcome::TimedOut));
    finds_in(Kind::Verdict, |facts| facts[ANSWER] = answer("t1.c0", HookOutcome::Failed { why: "w".into() }));
    // Before the answer stands.
    finds_in(Kind::Verdict, |facts| facts.swap(ANSWER, CALL));
    // A modify's value is what is called with, and nothing else.
    let modify = HookOutcome::Modify { value: stored(arguments(7)), reason: None };
    finds_in(Kind::Verdict, |facts| facts[ANSWER] = answer("t1.c0", modify));
    finds_in(Kind::Verdict, |facts| facts[CALL] = call("t1.c0", 7, None, false));
}

#[test]
fn a_call_without_the_persons_yes() {
    finds_in(Kind::Verdict, |facts| facts[CALL_ASKED] = call("t1.c1", 1, None, false));
    finds_in(Kind::Verdict, |facts| facts[DECIDED] = decided(false, "Ada"));
    finds_in(Kind::Verdict, |facts| facts.swap(DECIDED, CALL_ASKED));
    let other = Grant { digest: "another".into(), ..grant() };
    finds_in(Kind::Verdict, |facts| facts[CALL_ASKED] = call("t1.c1", 1, Some(other), false));
    finds_in(Kind::Verdict, |facts| facts[CALL] = call("t1.c0", 0, Some(grant()), false));
}

#[test]
fn an_answer_that_is_recorded_and_asked_for_again() {
    finds(Kind::AskedAgain, |seen| seen.asks.push(asked("t1.c0", 51)));
}

#[test]
fn an_ask_that_no_record_says_and_an_answer_that_nobody_was_asked_for() {
    finds(Kind::Ask, |seen| seen.asks.push(asked("t1.c2", 45)));
    finds(Kind::Ask, |seen| seen.asks[0].at_ms = 29);
    finds(Kind::Ask, |seen| drop(seen.asks.remove(0)));
    finds(Kind::Ask, |seen| seen.asks[0].event["job"] = json!("job_9"));
}

#[test]
fn records_that_stand_twice_or_have_no_beginning_or_end() {
    finds_in(Kind::Records, |facts| facts.insert(RETURNED, facts[RETURNED].clone()));
    finds_in(Kind::Records, |facts| facts.insert(CALL, facts[CALL].clone()));
    finds_in(Kind::Records, |facts| drop(facts.remove(CALL)));
    finds_in(Kind::Records, |facts| drop(facts.remove(UNKNOWN + 2)));
    finds_in(Kind::Records, Vec::clear);
}

#[test]
fn decisions_and_approvals_that_are_lost() {
    // It counted, and does not stand there; or the question stays open.
    finds_in(Kind::Lost, |facts| drop(facts.remove(DECIDED)));
    finds(Kind::Lost, |seen| {
        seen.jobs[0].records.retain(|record| !matches!(record.fact, Fact::ApprovalDecided { .. }));
        seen.decisions.clear();
    });
    finds(Kind::Lost, |seen| {
        seen.decisions.push(Decision { approval: "ap_2".into(), ..decision(true, "Ada", true) });
    });
    let ignored = Fact::DecisionIgnored {
        approval: APPROVAL.into(),
        approve: false,
        by: "Bob".into(),
        verified: false,
        why: "w".into(),
    };
    finds_in(Kind::Lost, |facts| facts.insert(CALL, ignored));
    // An expiry is no decision: one that counted was lost.
    let expired = Fact::ApprovalExpired { effect: "t1.c1.pre.approval".into(), approval: APPROVAL.into() };
    finds_in(Kind::Lost, |facts| facts[DECIDED] = expired);
}

#[test]
fn decisions_and_a_yes_that_are_used_twice() {
    finds(Kind::Twice, |seen| seen.decisions[1].counted = true);
    finds_in(Kind::Twice, |facts| facts[UNKNOWN] = call("t2.c0", 3, Some(grant()), false));
}

#[test]
fn decisions_that_nobody_made() {
    finds(Kind::Forged, |seen| seen.decisions.clear());
    finds(Kind::Forged, |seen| seen.decisions[0].by = "Eve".into());
    finds(Kind::Forged, |seen| seen.decisions[0].approve = false);
    let Fact::ApprovalDecided { effect, approval, approve, by, verified, note, decided_ms, .. } = decided(true, "Ada")
    else {
        return;
    };
    let digest = "another".to_owned();
    let other = Fact::ApprovalDecided { effect, approval, approve, by, verified, note, digest, decided_ms };
    finds_in(Kind::Forged, |facts| facts[DECIDED] = other);
}
