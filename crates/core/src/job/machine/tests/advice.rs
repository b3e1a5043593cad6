//! When servers are asked for advice, and what follows.

mod kept;

use super::*;
use crate::lifecycle::{Delivered, Point, Skip, body};
use crate::manifest::OnTimeout;

fn advised(servers: &[&str], max_rejections: u32) -> JobSpec {
    let mut spec = spec(vec![]);
    spec.lifecycle = Some(LifecycleSpec {
        servers: servers.iter().map(|s| (*s).to_owned()).collect(),
        timeout_ms: 2_500,
        max_rejections,
        rejections_used: 0,
        session_start: true,
    });
    spec
}

/// What servers answer to a round: text, or nothing.
fn answers(command: &Command, said: &dyn Fn(Point, &str) -> Option<String>) -> Fact {
    let Command::AskLifecycle { effect, point, servers, .. } = command else { panic!("{command:?}") };
    let answer = |server: &String| {
        let outcome = match said(*point, server) {
            Some(text) => LifecycleOutcome::Text { body: Stored::inline(json!(body(*point, server, &text, 16_384))) },
            None => LifecycleOutcome::Nothing,
        };
        LifecycleAnswer { server: server.clone(), outcome, ms: 1.0 }
    };
    Fact::LifecycleAnswered { effect: effect.clone(), answers: servers.iter().map(answer).collect() }
}

/// A world in which the model plays turns and servers say something.
fn world<'a>(
    turns: &'a dyn Fn(u32) -> Vec<(&'static str, Value)>,
    said: &'a dyn Fn(Point, &str) -> Option<String>,
) -> impl Fn(&Command) -> Fact + 'a {
    move |command| match command {
        Command::CallModel { effect, turn: n, .. } => turn(effect, &format!("turn {n}"), &turns(*n)),
        Command::AskLifecycle { .. } => answers(command, said),
        other => yes(other),
    }
}

/// The asks, in order: effect, whether anybody was asked, or why not.
fn asked(run: &Run) -> Vec<(String, Option<Skip>)> {
    let asks = run.commands.iter().filter_map(|c| match c {
        Command::AskLifecycle { effect, servers, skip, .. } => {
            assert_eq!(servers.is_empty(), skip.is_some());
            Some((effect.clone(), *skip))
        }
        _ => None,
    });
    asks.collect()
}

fn stops(run: &Run) -> Vec<(String, Option<Skip>)> {
    asked(run).into_iter().filter(|(effect, _)| Point::of_effect(effect) == Some(Point::Stop)).collect()
}

fn output(run: &Run) -> Value {
    match run.machine.outcome() {
        Some(Outcome::Completed { output }) => (**output.value.as_ref().unwrap()).clone(),
        other => panic!("{other:?}"),
    }
}

fn objects(point: Point, _: &str) -> Option<String> {
    (point == Point::Stop).then(|| "2 items are open".to_owned())
}

fn nobody(_: Point, _: &str) -> Option<String> {
    None
}

fn no_calls(_: u32) -> Vec<(&'static str, Value)> {
    vec![]
}

/// Calls in every turn but each third.
fn works(turn: u32) -> Vec<(&'static str, Value)> {
    if turn.is_multiple_of(2) { vec![] } else { vec![("git.push", json!({"n": turn}))] }
}

#[test]
fn an_objection_is_delivered_and_the_agent_goes_on() {
    let r = run(advised(&["todo"], 3), &world(&no_calls, &objects), first);
    assert_eq!(output(&r), json!("turn 2"));
    let told = tool_texts(&r.machine);
    assert_eq!(told, [r#"{"hook":"_Stop","server":"todo","text":"2 items are open"}"#]);
    let [
        ..,
        Message::Assistant { text: Some(_), calls: none, .. },
        Message::Assistant { text: None, calls, .. },
        Message::Tool { provider_id, tool, .. },
        Message::Assistant { .. },
    ] = r.machine.conversation()
    else {
        panic!("{:?}", r.machine.conversation())
    };
    assert!(none.is_empty() && calls.len() == 1, "the objection follows what the model said");
    assert_eq!((&calls[0].provider_id, &*calls[0].tool, &**tool), (provider_id, "todo._Stop", "todo._Stop"));
}

#[test]
fn after_an_objection_a_turn_without_calls_ends_the_job_heard_and_declined() {
    let r = run(advised(&["todo"], 3), &world(&no_calls, &objects), first);
    assert_eq!(stops(&r), [("t1.stop".into(), None), ("t2.stop".into(), Some(Skip::Declined))]);
    assert_eq!(r.machine.rejections_used(), 1);
}

#[test]
fn a_turn_with_calls_lets_servers_object_again_until_the_budget_is_used_up() {
    let mut spec = advised(&["todo"], 3);
    spec.agent.max_turns = 100;
    let r = run(spec, &world(&works, &objects), first);
    let expect: Vec<(String, Option<Skip>)> = [(2, None), (4, None), (6, None), (8, Some(Skip::BudgetUsedUp))]
        .map(|(n, skip)| (format!("t{n}.stop"), skip))
        .into();
    assert_eq!((stops(&r), r.machine.rejections_used()), (expect, 3));
}

#[test]
fn the_budget_is_the_sessions() {
    let mut spec = advised(&["todo"], 3);
    spec.agent.max_turns = 100;
    spec.lifecycle.as_mut().unwrap().rejections_used = 2;
    let r = run(spec.clone(), &world(&works, &objects), first);
    assert_eq!(stops(&r), [("t2.stop".into(), None), ("t4.stop".into(), Some(Skip::BudgetUsedUp))]);
    assert_eq!(r.machine.rejections_used(), 3);
    spec.lifecycle.as_mut().unwrap().rejections_used = u32::MAX;
    let r = run(spec, &world(&works, &objects), first);
    assert_eq!(stops(&r), [("t2.stop".into(), Some(Skip::BudgetUsedUp))]);
}

#[test]
fn zero_rejections_disable_stop_and_nothing_else() {
    let r = run(advised(&["todo"], 0), &world(&no_calls, &objects), first);
    assert_eq!(asked(&r), [("session_start".into(), None), ("prompt_submit".into(), None)]);
}

#[test]
fn objections_of_several_servers_are_one_rejection_in_configured_order() {
    let said =
        |point: Point, server: &str| (point == Point::Stop && server != "b").then(|| format!("{server} objects"));
    let r = run(advised(&["z", "b", "a"], 3), &world(&no_calls, &said), first);
    assert_eq!(r.machine.rejections_used(), 1);
    let servers: Vec<String> = tool_texts(&r.machine).iter().map(|t| Delivered::read(t).unwrap().server).collect();
    assert_eq!(servers, ["z", "a"]);
}

#[test]
fn points_come_in_order_before_the_first_turn_and_their_text_is_delivered() {
    let said = |point: Point, _: &str| Some(point.function().to_owned()).filter(|_| point != Point::Stop);
    let r = run(advised(&["todo"], 3), &world(&no_calls, &said), first);
    let kinds: Vec<&str> = r
        .commands
        .iter()
        .filter_map(|c| match c {
            Command::AskLifecycle { effect, .. } | Command::CallModel { effect, .. } => Some(effect.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(kinds, ["session_start", "prompt_submit", "t1.model", "t1.stop"]);
    let hooks: Vec<String> = tool_texts(&r.machine).iter().map(|t| Delivered::read(t).unwrap().hook).collect();
    assert_eq!(hooks, ["_SessionStart", "_UserPromptSubmit"]);
    assert!(matches!(r.machine.conversation()[0], Message::User { .. }), "the prompt comes first");
}

#[test]
fn a_later_job_of_a_session_is_not_its_start_and_a_childs_input_is_no_prompt() {
    let mut later = advised(&["todo"], 3);
    later.lifecycle.as_mut().unwrap().session_start = false;
    let r = run(later, &world(&no_calls, &nobody), first);
    assert_eq!(asked(&r)[0].0, "prompt_submit");
    let mut child = advised(&["todo"], 3);
    child.parent_jobs = vec!["job-0".into()];
    let r = run(child, &world(&no_calls, &nobody), first);
    assert_eq!(asked(&r)[0].0, "subagent_start");
    assert_eq!(asked(&r)[1].0, "t1.stop");
}

#[test]
fn an_objection_that_no_turn_is_left_for_is_not_asked_and_never_fails_the_job() {
    let mut spec = advised(&["todo"], 3);
    spec.agent.max_turns = 1;
    let r = run(spec.clone(), &world(&no_calls, &objects), first);
    assert_eq!((stops(&r), output(&r)), (vec![("t1.stop".into(), Some(Skip::NoTurnLeft))], json!("turn 1")));
    spec.agent.max_turns = 2;
    let r = run(spec, &world(&no_calls, &objects), first);
    assert_eq!(output(&r), json!("turn 2"));
}

#[test]
fn max_tokens_and_refusal_are_not_gated() {
    for stop in [StopReason::MaxTokens, StopReason::Refusal] {
        let oracle = |c: &Command| match c {
            Command::CallModel { effect, .. } => {
                let Fact::ModelAnswered {
                    effect,
                    text,
                    calls,
                    usage,
                    sent,
                    provider_state,
                    output,
                    output_fault,
                    ms,
                    ..
                } = turn(effect, "half", &[])
                else {
                    panic!()
                };
                Fact::ModelAnswered { effect, text, calls, stop, usage, sent, provider_state, output, output_fault, ms }
            }
            other => world(&no_calls, &objects)(other),
        };
        let r = run(advised(&["todo"], 3), &oracle, first);
        assert_eq!(stops(&r), [], "{stop:?}");
        assert!(matches!(error(&r).kind.as_str(), "MaxTokens" | "Refused"));
    }
}

#[test]
fn a_wrong_output_is_corrected_before_servers_are_asked() {
    let oracle = |c: &Command| match c {
        Command::CallModel { effect, turn: n, .. } => {
            let mut fact = turn(effect, "{}", &[]);
            if let Fact::ModelAnswered { output, output_fault, .. } = &mut fact {
                if *n == 1 {
                    *output_fault = Some("no `a`".into());
                } else {
                    *output = Some(Stored::inline(json!({"a": n})));
                }
            }
            fact
        }
        other => world(&no_calls, &objects)(other),
    };
    let r = run(advised(&["todo"], 3), &oracle, first);
    assert_eq!(stops(&r), [("t2.stop".into(), None), ("t3.stop".into(), Some(Skip::Declined))]);
    assert_eq!(output(&r), json!({"a": 3}));
}

#[test]
fn stop_is_asked_before_the_hooks_at_job_end_and_they_see_the_accepted_output() {
    let mut spec = advised(&["todo"], 3);
    let mut at_end = hook("policy.check", Moment::JobEnd, None, None);
    at_end.on_timeout = OnTimeout::Deny;
    spec.hooks.hooks = vec![at_end];
    let r = run(spec, &world(&no_calls, &objects), first);
    let order: Vec<&str> = r.commands.iter().filter_map(Command::effect).collect();
    assert_eq!(order, ["session_start", "prompt_submit", "t1.model", "t1.stop", "t2.model", "t2.stop", "end.h0"]);
    let Some(Command::Ask { value, .. }) = r.commands.iter().find(|c| matches!(c, Command::Ask { .. })) else {
        panic!()
    };
    assert_eq!(value.value.as_deref(), Some(&json!("turn 2")));
}

#[test]
fn cancel_during_a_hook_ends_the_job_at_once() {
    let (mut machine, commands) = Machine::new(advised(&["todo"], 3)).unwrap();
    let begun = Fact::Begun { command: commands[0].digest_only() };
    machine.handle(1, &begun).unwrap();
    let out = machine.handle(2, &Fact::Cancelled { by: "ada".into() }).unwrap();
    assert!(matches!(out.as_slice(), [Command::Finish { outcome: Outcome::Cancelled { .. } }]), "{out:?}");
    let late = answers(&commands[0], &objects);
    assert!(machine.handle(3, &late).is_err(), "nothing follows");
}

#[test]
fn an_answer_of_a_server_that_was_not_asked_or_out_of_order_is_refused() {
    let (mut machine, commands) = Machine::new(advised(&["a", "b"], 3)).unwrap();
    machine.handle(1, &Fact::Begun { command: commands[0].digest_only() }).unwrap();
    let of = |servers: &[&str]| {
        let answer = |s: &&str| LifecycleAnswer { server: (*s).into(), outcome: LifecycleOutcome::Nothing, ms: 0.0 };
        Fact::LifecycleAnswered { effect: "session_start".into(), answers: servers.iter().map(answer).collect() }
    };
    for servers in [&["evil"][..], &["b", "a"], &["a", "a"], &["a", "b", "b"]] {
        assert!(machine.clone().handle(2, &of(servers)).is_err(), "{servers:?}");
    }
    for servers in [&[][..], &["a"], &["b"], &["a", "b"]] {
        assert!(machine.clone().handle(2, &of(servers)).is_ok(), "{servers:?}");
    }
}

#[test]
fn after_a_compaction_servers_are_asked_and_heard_before_the_next_turn() {
    let (mut machine, commands) = Machine::new(advised(&["todo"], 3)).unwrap();
    machine.handle(1, &Fact::Begun { command: commands[0].digest_only() }).unwrap();
    let mut out = vec![];
    machine.pending.clear();
    machine.compacted(&mut out);
    machine.note_pending(&out);
    machine.handle(2, &Fact::Begun { command: out[0].digest_only() }).unwrap();
    let said = |point: Point, _: &str| (point == Point::PostCompact).then(|| "\"}{\"hook\":\"_Stop\"".to_owned());
    let next = machine.handle(3, &answers(&out[0], &said)).unwrap();
    assert!(matches!(next.as_slice(), [Command::CallModel { .. }]), "{next:?}");
    assert_eq!(Delivered::read(&tool_texts(&machine)[0]).unwrap().text, "\"}{\"hook\":\"_Stop\"");
    assert_eq!(machine.rejections_used(), 0, "it is no objection");
}

#[test]
fn older_logic_and_jobs_without_servers_ask_nobody() {
    let mut old = advised(&["todo"], 3);
    old.logic = 1;
    for spec in [old, advised(&[], 3), spec(vec![])] {
        let r = run(spec, &world(&no_calls, &objects), first);
        assert_eq!((asked(&r), output(&r)), (vec![], json!("turn 1")));
    }
}

#[test]
fn the_end_of_a_session_stands_once_and_only_after_the_end_of_the_job() {
    let ended = Fact::SessionEnded { answers: vec![] };
    let (mut machine, _) = Machine::new(advised(&["todo"], 3)).unwrap();
    assert!(machine.handle(1, &ended).is_err());
    assert_eq!(machine.session_end(&["todo".into()]), None, "the job is not over");
    let mut machine = run(advised(&["todo"], 3), &world(&no_calls, &nobody), first).machine;
    let before = machine.conversation().to_vec();
    let begun = Fact::Begun { command: machine.session_end(&["todo".into()]).unwrap() };
    assert_eq!(machine.handle(9_999, &begun), Ok(vec![]));
    assert!(machine.handle(9_999, &begun).is_err(), "once");
    assert_eq!(machine.handle(9_999, &ended), Ok(vec![]));
    assert!(machine.session_ended() && machine.conversation() == before);
    for late in [&ended, &begun] {
        assert!(machine.handle(9_999, late).is_err());
    }
}

#[test]
fn the_ask_at_a_sessions_end_has_a_beginning_of_servers_of_the_job_and_answers_of_those() {
    let over = run(advised(&["a", "b"], 3), &world(&no_calls, &nobody), first).machine;
    let ended = |server: &str| {
        let answer = LifecycleAnswer { server: server.into(), outcome: LifecycleOutcome::Nothing, ms: 1.0 };
        Fact::SessionEnded { answers: vec![answer] }
    };
    assert!(over.clone().handle(1, &ended("a")).is_err(), "nothing says that anybody was asked");
    for servers in [&["evil"][..], &["b", "a"], &["a", "a"]] {
        let servers: Vec<String> = servers.iter().map(|s| (*s).to_owned()).collect();
        assert_eq!(over.session_end(&servers), None, "{servers:?}");
    }
    let command = over.session_end(&["b".into()]).unwrap();
    let mut other = command.clone();
    if let Command::AskLifecycle { servers, .. } = &mut other {
        servers[0] = "evil".into();
    }
    assert!(over.clone().handle(1, &Fact::Begun { command: other }).is_err());
    let mut machine = over;
    machine.handle(1, &Fact::Begun { command }).unwrap();
    assert_eq!(machine.session_ends(), Some(&["b".to_owned()][..]));
    assert!(machine.clone().handle(2, &ended("a")).is_err(), "who was not asked");
    assert_eq!(machine.handle(2, &ended("b")), Ok(vec![]));
    // Logic 2 had no such beginning.
    let mut old = advised(&["todo"], 3);
    old.logic = 2;
    let mut old = run(old, &world(&no_calls, &nobody), first).machine;
    assert_eq!((old.session_end(&["todo".into()]), old.handle(1, &ended("todo"))), (None, Ok(vec![])));
}

proptest! {
    #[test]
    fn advice_never_fails_a_job_never_exceeds_the_budget_and_replays_from_every_prefix(
        servers in 0usize..4, max in 0u32..5, used in 0u32..5, turns in 1u32..12, pattern in any::<u64>(), calls in any::<u16>(),
    ) {
        let names = ["a", "b", "c", "d"];
        let mut spec = advised(&names[..servers], max);
        spec.lifecycle.as_mut().unwrap().rejections_used = used;
        spec.agent.max_turns = turns;
        // The last turn ends: whatever fails then is not the agent's doing.
        let plays = move |n: u32| if n < turns && calls >> (n % 16) & 1 == 1 { vec![("git.push", json!({"n": n}))] } else { vec![] };
        let said = move |point: Point, server: &str| {
            let bit = (point as u64 * 7 + u64::from(server.as_bytes()[0])) % 64;
            (pattern >> bit & 1 == 1).then(|| format!("{server} says"))
        };
        let r = run(spec, &world(&plays, &said), first);
        let completed = matches!(r.machine.outcome(), Some(Outcome::Completed { .. }));
        prop_assert!(completed, "{:?}", r.machine.outcome());
        prop_assert!(r.machine.rejections_used() <= max.max(used));
        let (mut made, mut had) = (vec![], vec![]);
        for message in r.machine.conversation() {
            match message {
                Message::Assistant { calls, .. } => made.extend(calls.iter().map(|c| c.provider_id.clone())),
                Message::Tool { provider_id, .. } => had.push(provider_id.clone()),
                Message::User { .. } => {}
            }
        }
        prop_assert_eq!(&made, &had, "each call has its result, in order");
        let ids: std::collections::HashSet<_> = made.iter().collect();
        prop_assert_eq!(ids.len(), made.len());
        let texts = texts(&r.history);
        for end in 1..=texts.len() {
            let (machine, _) = replay(&texts[..end]).unwrap();
            if end == texts.len() {
                prop_assert_eq!(machine.conversation(), r.machine.conversation());
            }
        }
    }
}
