//! Jobs whose conversations grow beyond the model's window.

use super::*;
use crate::compaction;
use crate::compaction::{GO_ON, summary_message};
use crate::job::{Continues, FirstPrompt, ModelFault, Sent};
use crate::lifecycle::{LifecycleAnswer, LifecycleOutcome, LifecycleSpec, Point};
use crate::message::Usage;

const OVERHEAD: u64 = 800;

fn small(window: Option<u64>, max_turns: u32) -> JobSpec {
    let mut spec = spec(vec![]);
    spec.agent.context_window = window;
    spec.agent.max_turns = max_turns;
    spec
}

fn sized(text_bytes: usize) -> Stored {
    Stored { sha256: format!("{text_bytes:064}"), bytes: text_bytes as u64, value: None }
}

fn summary(effect: &str, turns: u32) -> Fact {
    let summary = Some(Stored::inline(json!(summary_message(turns, "All was fine."))));
    Fact::Compacted { effect: effect.into(), summary, fault: None, turns, go_on: None, usage: None, ms: 1.0 }
}

fn no_summary(effect: &str) -> Fact {
    Fact::Compacted {
        effect: effect.into(),
        summary: None,
        fault: Some("down".into()),
        turns: 4,
        go_on: None,
        usage: None,
        ms: 1.0,
    }
}

fn full(effect: &str, bytes: u64) -> Fact {
    Fact::ModelFailed {
        effect: effect.into(),
        fault: ModelFault::ContextFull,
        message: "prompt is too long".into(),
        sent: Some(Sent { bytes, overhead_bytes: OVERHEAD }),
    }
}

/// A model that calls `calls` functions a turn for `turns` turns and counts a token for four bytes; results have `bytes`.
fn worker(turns: u32, calls: usize, bytes: usize, window: u64) -> impl Fn(&Command) -> Fact {
    let used = std::cell::Cell::new(OVERHEAD);
    move |command| match command {
        Command::CallModel { effect, turn: n, .. } => {
            let wanted = vec![("git.log", json!({"n": n})); if *n < turns { calls } else { 0 }];
            let mut answer = turn(effect, "I look.", &wanted);
            if let Fact::ModelAnswered { usage, sent, .. } = &mut answer {
                let bytes = used.get();
                *usage = Some(Usage { input_tokens: bytes / 4, output_tokens: 20 });
                *sent = Some(Sent { bytes, overhead_bytes: OVERHEAD });
            }
            used.set(used.get() + 200);
            answer
        }
        Command::CallTool { effect, .. } => {
            // No more of a result is sent than a quarter of the window.
            used.set(used.get() + (bytes as u64).min(window) + 50);
            let outcome = ToolOutcome::Returned { result: sized(bytes), structured: None, is_error: false, rest: None };
            Fact::ToolReturned { effect: effect.clone(), outcome, ms: 1.0 }
        }
        Command::Compact { effect, plan, .. } => {
            used.set(OVERHEAD + window);
            match plan.summary_tokens {
                0 => Fact::Compacted {
                    effect: effect.clone(),
                    summary: None,
                    fault: None,
                    turns: 0,
                    go_on: None,
                    usage: None,
                    ms: 1.0,
                },
                _ => summary(effect, 3),
            }
        }
        other => yes(other),
    }
}

/// Replays a history record by record and looks at the conversation before each model turn.
fn each_turn(run: &Run, mut look: impl FnMut(&Machine)) {
    let Fact::Started { spec } = &run.history[0].fact else { panic!() };
    let (mut machine, _) = Machine::new((**spec).clone()).unwrap();
    for record in &run.history[1..] {
        machine.handle(record.at_ms, &record.fact).unwrap();
        if let Fact::Begun { command: Command::CallModel { .. } } = &record.fact {
            look(&machine);
        }
    }
}

fn is_well_formed(messages: &[Message]) -> bool {
    let mut due: Vec<&str> = vec![];
    messages.iter().all(|message| match message {
        Message::Tool { provider_id, .. } => !due.is_empty() && due.remove(0) == provider_id,
        Message::Assistant { calls, .. } => {
            let ok = due.is_empty();
            due = calls.iter().map(|c| c.provider_id.as_str()).collect();
            ok
        }
        Message::User { .. } => due.is_empty(),
    })
}

fn compactions(run: &Run) -> Vec<(String, crate::compaction::Plan)> {
    let plans = run.commands.iter().filter_map(|c| match c {
        Command::Compact { effect, plan, .. } => Some((effect.clone(), *plan)),
        _ => None,
    });
    plans.collect()
}

#[test]
fn jobs_in_windows_of_1k_8k_and_200k_go_on_for_1000_turns_without_a_loop_or_a_lost_task() {
    for (window, calls, bytes) in
        [(1_000, 1, 150), (1_000, 1, 4_000), (1_000, 4, 4_000), (8_000, 3, 3_000), (200_000, 2, 60_000)]
    {
        let r = run(small(Some(window), 1_000), &worker(1_000, calls, bytes, window), first);
        assert_eq!(
            r.machine.outcome(),
            Some(&Outcome::Completed { output: Stored::inline(json!("I look.")) }),
            "{window}"
        );
        assert_eq!(r.machine.turn(), 1_000);
        let n = compactions(&r).len();
        assert!(n > 10 && n < 1_000, "{window} {bytes}: {n}");
        let mut turns = 0;
        each_turn(&r, |machine| {
            turns += 1;
            let messages = machine.conversation();
            assert_eq!(messages[0], Message::User { content: Stored::inline(json!("go")) });
            assert!(is_well_formed(messages), "{window}, turn {turns}: {messages:#?}");
            assert!(machine.tokens() < window, "{window} {bytes}, turn {turns}: {} tokens", machine.tokens());
        });
        assert_eq!(turns, 1_000, "the model was asked once a turn");
    }
}

#[test]
fn a_compacted_conversation_is_the_task_a_summary_in_the_models_words_and_the_last_turns() {
    let r = run(small(Some(8_000), 30), &worker(30, 1, 3_000, 8_000), first);
    let (effect, plan) = &compactions(&r)[0];
    assert_eq!(effect.split_once('.').unwrap().1, "compact", "{effect}");
    assert!(plan.keep_from > 3 && plan.summary_tokens > 100, "{plan:?}");
    let second = &compactions(&r)[1].0;
    assert_eq!(second.split_once('.').unwrap().1, "compact2", "{second}");
    let [
        Message::User { .. },
        Message::Assistant { text: Some(text), calls, .. },
        Message::User { content },
        rest @ ..,
    ] = r.machine.conversation()
    else {
        panic!("{:#?}", r.machine.conversation())
    };
    assert!(calls.is_empty() && text.value.as_deref().unwrap().as_str().unwrap().ends_with("All was fine."));
    assert_eq!(content.value.as_deref(), Some(&json!(GO_ON)));
    assert!(matches!(rest[0], Message::Assistant { .. }) && rest.len() > 2);
}

#[test]
fn without_a_window_nothing_is_compacted_until_the_provider_refuses() {
    let work = worker(40, 1, 3_000, 8_000);
    let refused = std::cell::Cell::new(0);
    let oracle = |c: &Command| match c {
        Command::CallModel { effect, turn: 30, .. } if refused.get() < 2 => {
            refused.set(refused.get() + 1);
            full(effect, 100_000 / refused.get())
        }
        other => work(other),
    };
    let r = run(small(None, 40), &oracle, first);
    assert!(matches!(r.machine.outcome(), Some(Outcome::Completed { .. })), "{:?}", r.machine.outcome());
    let plans = compactions(&r);
    let effects: Vec<&str> = plans.iter().map(|(e, _)| e.as_str()).collect();
    assert_eq!(effects, ["t30.compact", "t30.compact2"]);
    let asked: Vec<&str> = r
        .commands
        .iter()
        .filter_map(|c| match c {
            Command::CallModel { effect, turn: 30, .. } => Some(effect.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(asked, ["t30.model", "t30.model2", "t30.model3"], "the same turn again, under ids of its own");
    assert_eq!(r.machine.turn(), 40);
    assert!(plans[0].1.keep_from > 3 && plans[1].1.summary_tokens > 0);
}

#[test]
fn a_provider_that_refuses_whatever_is_sent_fails_the_job_after_two_compactions_with_the_sizes() {
    for window in [None, Some(8_000)] {
        let work = worker(20, 1, 3_000, 8_000);
        let oracle = |c: &Command| match c {
            Command::CallModel { effect, turn, .. } if *turn > 5 => full(effect, 40_000),
            other => work(other),
        };
        let r = run(small(window, 20), &oracle, first);
        let e = error(&r);
        assert_eq!((e.kind.as_str(), compactions(&r).len()), ("ContextFull", 2));
        assert!(e.message.starts_with("prompt is too long (nothing more can be left out: of about"), "{}", e.message);
    }
}

#[test]
fn a_task_that_does_not_fit_fails_at_once_and_nothing_is_compacted() {
    let oracle = |c: &Command| match c {
        Command::CallModel { effect, .. } => full(effect, 40_000),
        other => yes(other),
    };
    let r = run(small(None, 20), &oracle, first);
    assert_eq!((error(&r).kind.as_str(), compactions(&r).len()), ("ContextFull", 0));
    let oracle = |c: &Command| match c {
        Command::CallModel { effect, .. } => Fact::ModelFailed {
            effect: effect.clone(),
            fault: ModelFault::WindowTooSmall,
            message: "the model's window of 10 tokens is too small".into(),
            sent: None,
        },
        other => yes(other),
    };
    let r = run(small(Some(10), 20), &oracle, first);
    assert_eq!((error(&r).kind.as_str(), compactions(&r).len()), ("ContextFull", 0));
    assert_eq!(error(&r).message, "the model's window of 10 tokens is too small");
}

#[test]
fn histories_of_logic_1_fail_at_a_full_window_as_they_did() {
    let work = worker(20, 1, 3_000, 8_000);
    let oracle = |c: &Command| match c {
        Command::CallModel { effect, turn: 6, .. } => full(effect, 40_000),
        other => work(other),
    };
    let r = run(JobSpec { logic: 1, ..small(Some(8_000), 20) }, &oracle, first);
    assert_eq!((error(&r).message.as_str(), compactions(&r).len()), ("prompt is too long", 0));
}

#[test]
fn without_a_summary_the_oldest_whole_turns_are_left_out_and_that_is_said() {
    let work = worker(30, 2, 3_000, 8_000);
    let oracle = |c: &Command| match c {
        Command::Compact { effect, plan, .. } if plan.summary_tokens > 0 => no_summary(effect),
        other => work(other),
    };
    let r = run(small(Some(8_000), 30), &oracle, first);
    assert!(matches!(r.machine.outcome(), Some(Outcome::Completed { .. })));
    assert!(!compactions(&r).is_empty());
    each_turn(&r, |machine| assert!(is_well_formed(machine.conversation())));
    let Message::Assistant { text: Some(text), .. } = &r.machine.conversation()[1] else { panic!() };
    let text = text.value.as_deref().unwrap().as_str().unwrap();
    assert!(text.contains("turns: 4]") && text.contains("No summary could be made"), "{text}");
}

#[test]
fn servers_are_asked_about_it_before_the_next_turn_and_what_they_say_is_delivered() {
    let lifecycle = LifecycleSpec {
        servers: vec!["todo".into()],
        timeout_ms: 2_500,
        max_rejections: 0,
        rejections_used: 0,
        session_start: false,
    };
    let body = r#"{"hook":"_PostCompact","server":"todo","text":"2 open"}"#;
    let work = worker(30, 1, 3_000, 8_000);
    let asked = std::cell::Cell::new(0);
    let oracle = |c: &Command| match c {
        Command::AskLifecycle { effect, point, context, servers, .. } => {
            let mut answers = vec![];
            if *point == Point::PostCompact {
                asked.set(asked.get() + 1);
                assert_eq!((context.attempt, servers.len()), (Some(asked.get()), 1));
                let outcome = LifecycleOutcome::Text { body: Stored::inline(json!(body)) };
                answers.push(LifecycleAnswer { server: "todo".into(), outcome, ms: 1.0 });
            }
            Fact::LifecycleAnswered { effect: effect.clone(), answers }
        }
        other => work(other),
    };
    let r = run(JobSpec { lifecycle: Some(lifecycle), ..small(Some(8_000), 30) }, &oracle, first);
    assert!(asked.get() > 1 && asked.get() as usize == compactions(&r).len());
    let mut after = false;
    for record in &r.history {
        match &record.fact {
            Fact::Compacted { .. } => after = true,
            Fact::Begun { command: Command::AskLifecycle { point: Point::PostCompact, .. } } => {
                assert!(std::mem::take(&mut after), "asked once, right after each compaction");
            }
            Fact::Begun { command: Command::CallModel { .. } } => assert!(!after, "asked before the next turn"),
            _ => {}
        }
    }
    let delivered = |m: &Message| matches!(m, Message::Tool { tool, content, .. } if tool == "todo._PostCompact" && content.value.as_deref() == Some(&json!(body)));
    let mut seen = false;
    each_turn(&r, |machine| {
        seen |= machine.conversation().iter().any(delivered);
        let limits = machine.result_limits();
        for (i, message) in machine.conversation().iter().enumerate().filter(|(_, m)| delivered(m)) {
            assert_eq!(limits[i], u64::MAX, "advice is never cut: {message:?}");
        }
    });
    assert!(seen);
}

#[test]
fn what_earlier_jobs_of_the_session_said_goes_into_the_summary() {
    let continues = Continues {
        job: "job-0".into(),
        conversation: "c".repeat(64),
        messages: 40,
        bytes: 90_000,
        tokens: Some(7_500),
        first: None,
    };
    let spec = JobSpec { continues: Some(continues), ..small(Some(8_000), 30) };
    let r = run(spec, &worker(3, 1, 100, 8_000), first);
    let (effect, plan) = &compactions(&r)[0];
    assert_eq!((effect.as_str(), plan.keep_from), ("t0.compact", 1), "before the first turn");
    assert!(!r.machine.carries_earlier());
    assert_eq!(r.machine.conversation().len(), 3 + 5);
}

#[test]
fn a_sessions_first_prompt_is_kept_while_it_is_small_and_comes_from_the_jobs_before() {
    let of = |bytes: u64| {
        let first = Some(FirstPrompt { job: "job-0".into(), bytes });
        let (job, conversation) = ("job-9".into(), "c".repeat(64));
        Continues { job, conversation, messages: 40, bytes: 90_000, tokens: Some(7_500), first }
    };
    // A window of 8,000 tokens has 32,000 bytes by the usual rate; an eighth of it may be the first prompt.
    for (bytes, kept) in [(500, true), (3_000, true), (20_000, false)] {
        let spec = JobSpec { continues: Some(of(bytes)), ..small(Some(8_000), 30) };
        let r = run(spec, &worker(3, 1, 100, 8_000), first);
        assert_eq!(compactions(&r)[0].1.keep_first, kept, "{bytes}");
        assert_eq!(r.machine.session_state().first, of(bytes).first, "it is handed on, whatever became of it");
    }
    // What stands behind the summary is what the fact says, and the digest of the conversation covers it.
    let spec = JobSpec { continues: Some(of(500)), ..small(Some(8_000), 30) };
    let said = |with: Option<&'static str>| {
        let oracle = worker(3, 1, 100, 8_000);
        let answering = move |command: &Command| match oracle(command) {
            Fact::Compacted { effect, summary, fault, turns, usage, ms, .. } => {
                let go_on = with.map(|text| Stored::inline(json!(text)));
                Fact::Compacted { effect, summary, fault, turns, go_on, usage, ms }
            }
            other => other,
        };
        run(spec.clone(), &answering, first).machine
    };
    let (with, without) = (said(Some("It began with X.")), said(None));
    let third = |machine: &Machine| match &machine.conversation()[2] {
        Message::User { content } => content.value.as_ref().unwrap().as_str().unwrap().to_owned(),
        other => panic!("{other:?}"),
    };
    assert_eq!((third(&with), third(&without)), ("It began with X.".into(), compaction::GO_ON.into()));
    assert_ne!(with.session_state().conversation, without.session_state().conversation);
    assert!(is_well_formed(with.conversation()));
}

#[test]
fn a_session_begins_with_the_first_prompt_that_was_taken() {
    let first_of = |spec: JobSpec| run(spec, &worker(1, 1, 100, 8_000), first).machine.session_state().first;
    let alone = first_of(small(None, 9)).unwrap();
    assert_eq!(alone.job, small(None, 9).job);
    // A job that was denied at its start said nothing: the next one's prompt is the first.
    let nothing = Continues {
        job: "job-0".into(),
        conversation: "c".repeat(64),
        messages: 0,
        bytes: 0,
        tokens: None,
        first: None,
    };
    assert_eq!(first_of(JobSpec { continues: Some(nothing.clone()), ..small(None, 9) }), Some(alone));
    // One that was too long, or of a history that does not say, is none.
    let long = Continues { messages: 5, ..nothing };
    assert_eq!(first_of(JobSpec { continues: Some(long), ..small(None, 9) }), None);
    let input = Stored::inline(json!("x".repeat(20_000)));
    assert_eq!(first_of(JobSpec { input, ..small(None, 9) }), None);
}

#[test]
fn a_job_can_be_cancelled_and_taken_up_at_every_record_of_a_compaction() {
    let r = run(small(Some(1_000), 12), &worker(12, 2, 4_000, 1_000), first);
    assert!(!compactions(&r).is_empty());
    let texts: Vec<String> = r.history.iter().map(|r| serde_json::to_string(r).unwrap()).collect();
    for end in 1..texts.len() {
        let (mut machine, _) = replay(&texts[..end]).unwrap();
        let expected = machine.clone();
        let back: Machine = serde_json::from_str(&serde_json::to_string(&machine).unwrap()).unwrap();
        assert_eq!(back, expected, "the machine survives serde, record {end}");
        machine.handle(u64::MAX, &Fact::Cancelled { by: "ada".into() }).unwrap();
        assert!(machine.due_outcome().is_some());
        assert!(is_well_formed(machine.conversation()), "cancelled after record {end}");
    }
    // Another conversation before a compaction is noticed.
    let at =
        r.history.iter().position(|r| matches!(&r.fact, Fact::Begun { command: Command::Compact { .. } })).unwrap();
    let (machine, head) = replay(&texts[..at]).unwrap();
    let Fact::Begun { command: Command::Compact { effect, turn, mut plan, conversation } } = r.history[at].fact.clone()
    else {
        panic!()
    };
    plan.keep_from += 1;
    let other = head.next(1, Fact::Begun { command: Command::Compact { effect, turn, plan, conversation } });
    assert!(matches!(machine.clone().handle(other.at_ms, &other.fact), Err(Mismatch::Command { .. })));
}
