use super::*;
use crate::event::Moment;
use crate::hooks::tests::hook;
use proptest::prelude::*;
use serde_json::json;

fn v(n: u32) -> Stored {
    Stored::inline(json!({ "n": n }))
}

fn hooks(n: usize) -> Vec<Hook> {
    (0..n).map(|i| hook(&format!("t.h{i}"), Moment::PreToolCall, None, None)).collect()
}

/// Runs a chain to its verdict; also says how many hooks were asked.
fn run(hooks: &[Hook], outcomes: &[HookOutcome]) -> (Verdict, usize, Chain) {
    let mut chain = Chain::new((0..hooks.len()).collect(), v(0));
    let mut asked = 0;
    loop {
        match chain.step() {
            Step::Ask(i) => {
                asked += 1;
                chain.answered(&hooks[i], &outcomes[i]);
            }
            Step::Done(verdict) => return (verdict, asked, chain),
        }
    }
}

fn allow() -> HookOutcome {
    HookOutcome::Allow { reason: None }
}
fn modify(n: u32) -> HookOutcome {
    HookOutcome::Modify { value: v(n), reason: None }
}
fn deny() -> HookOutcome {
    HookOutcome::Deny { reason: "no".into() }
}
fn escalate(r: &str) -> HookOutcome {
    HookOutcome::Escalate { reason: r.into() }
}

#[test]
fn the_first_deny_ends_the_chain() {
    let (verdict, asked, _) = run(&hooks(3), &[modify(1), deny(), allow()]);
    assert_eq!((verdict, asked), (Verdict::Deny(Denial { hook: "t.h1".into(), reason: "no".into() }), 2));
}

#[test]
fn a_later_deny_spares_the_person() {
    let (verdict, ..) = run(&hooks(2), &[escalate("ask"), deny()]);
    assert_eq!(verdict.word(), "deny");
}

#[test]
fn escalate_does_not_end_the_chain_and_the_approval_shows_the_final_value() {
    let (verdict, asked, chain) = run(&hooks(4), &[modify(1), escalate("a"), modify(2), escalate("b")]);
    let Verdict::Escalate { value, reasons } = verdict else { panic!("{verdict:?}") };
    assert_eq!((asked, value), (4, v(2)));
    assert_eq!(reasons.iter().map(|r| r.reason.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(
        chain.changes().iter().map(|c| (c.from.clone(), c.to.clone())).collect::<Vec<_>>(),
        [(v(0), v(1)), (v(1), v(2))]
    );
    assert_eq!(chain.escalated_by().collect::<Vec<_>>(), [1, 3]);
}

#[test]
fn a_value_that_is_changed_back_is_an_allow() {
    assert_eq!(run(&hooks(2), &[modify(1), modify(0)]).0, Verdict::Allow);
    assert_eq!(run(&hooks(1), &[modify(0)]).0, Verdict::Allow);
    assert_eq!(run(&hooks(1), &[modify(1)]).0, Verdict::Modify { value: v(1) });
    assert_eq!(run(&[], &[]).0, Verdict::Allow);
}

#[test]
fn a_hook_without_an_answer_gets_its_on_timeout() {
    for (on_timeout, word) in
        [(OnTimeout::Deny, "deny"), (OnTimeout::Allow, "modify"), (OnTimeout::Escalate, "escalate")]
    {
        for (outcome, says) in [
            (HookOutcome::TimedOut, "did not answer within 2s"),
            (HookOutcome::Failed { why: "x".into() }, "failed: x"),
        ] {
            let mut hooks = hooks(2);
            hooks[1].on_timeout = on_timeout;
            let (verdict, ..) = run(&hooks, &[modify(1), outcome]);
            assert_eq!(verdict.word(), word);
            match verdict {
                Verdict::Deny(d) => assert_eq!((d.hook.as_str(), d.reason.as_str()), ("t.h1", says)),
                Verdict::Escalate { reasons, .. } => assert_eq!(reasons[0].reason, says),
                Verdict::Allow | Verdict::Modify { .. } => {}
            }
        }
    }
}

fn outcome() -> impl Strategy<Value = HookOutcome> {
    prop_oneof![
        Just(allow()),
        (0u32..3).prop_map(modify),
        Just(deny()),
        Just(escalate("e")),
        Just(HookOutcome::TimedOut),
        Just(HookOutcome::Failed { why: "w".into() }),
    ]
}

proptest! {
    #[test]
    fn nothing_is_asked_after_a_deny(outcomes in prop::collection::vec(outcome(), 0..8)) {
        let hooks = hooks(outcomes.len());
        let denies = |o: &HookOutcome| matches!(o, HookOutcome::Deny { .. } | HookOutcome::TimedOut | HookOutcome::Failed { .. });
        let (verdict, asked, _) = run(&hooks, &outcomes);
        match outcomes.iter().position(denies) {
            Some(first) => prop_assert!(asked == first + 1 && verdict.word() == "deny"),
            None => prop_assert!(asked == outcomes.len() && verdict.word() != "deny"),
        }
    }

    #[test]
    fn the_verdict_is_deny_else_escalate_else_modify_else_allow(outcomes in prop::collection::vec(outcome(), 0..8)) {
        let (verdict, _, chain) = run(&hooks(outcomes.len()), &outcomes);
        let word = if verdict.word() == "deny" { "deny" }
            else if outcomes.iter().any(|o| matches!(o, HookOutcome::Escalate { .. })) { "escalate" }
            else if !chain.value().same(chain.original()) { "modify" }
            else { "allow" };
        prop_assert_eq!(verdict.word(), word);
    }

    #[test]
    fn a_chain_survives_serde_at_every_step(outcomes in prop::collection::vec(outcome(), 0..6)) {
        let hooks = hooks(outcomes.len());
        let (expect, ..) = run(&hooks, &outcomes);
        let mut chain = Chain::new((0..hooks.len()).collect(), v(0));
        let verdict = loop {
            chain = serde_json::from_str(&serde_json::to_string(&chain).unwrap()).unwrap();
            match chain.step() {
                Step::Ask(i) => chain.answered(&hooks[i], &outcomes[i]),
                Step::Done(verdict) => break verdict,
            }
        };
        prop_assert_eq!(verdict, expect);
    }
}
