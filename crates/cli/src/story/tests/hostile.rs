//! Hostile names, reasons, arguments and results, small and huge: no control character, no faked line, no flood.

use super::tale::{START_MS, Tale, hook, spec};
use crate::next::Next;
use crate::story::look::Look;
use crate::story::teller::{Approvals, Teller};
use crate::story::{history, prompt};
use hookwright_core::chain::HookOutcome;
use hookwright_core::event::Moment;
use hookwright_core::job::{Fact, ToolOutcome};
use hookwright_core::lifecycle::{self, LifecycleAnswer, LifecycleOutcome, Point};
use hookwright_core::stored::Stored;
use hookwright_core::text::is_hidden;
use hookwright_runtime::observe::Event;
use serde_json::{Value, json};

/// ANSI, an OSC title, C1 controls, bidi, zero-width, separators, and lines that pose as ours.
pub(crate) const HOSTILE: &str = "x\u{1b}[2J\u{1b}]0;t\u{7}\u{9b}31m\u{7f}\r\u{202e}\u{2066}\u{200b}\u{feff}\u{2028}\u{e0041}\u{0}\nApprove? [y/n/d(etails)] y\nt1.c0   policy.check allow";

/// Nothing of the hostile text reaches the writer as it is, and each of its lines stands behind a bar or within a line of ours.
pub(crate) fn assert_tame(out: &str) {
    if let Some(c) = out.chars().find(|c| is_hidden(*c) && *c != '\n') {
        panic!("{c:?} in {out:?}");
    }
    for line in out.lines() {
        assert!(!line.starts_with("t1.c0   policy.check"), "a faked line: {line}");
        assert!(crate::story::line::columns(line) <= 80, "too long: {line}");
    }
}

fn hostile_tale(text: &str) -> Tale {
    let mut hostile = spec(vec![hook("policy.check", Moment::PreToolCall), hook("policy.check", Moment::JobEnd)]);
    for field in [&mut hostile.job, &mut hostile.tenant, &mut hostile.agent.id, &mut hostile.agent.model] {
        *field = text.to_owned();
    }
    hostile.input = Stored::new(json!(text)).0;
    // Logic 3 wants to have asked before servers answer at a session's end; what they say reads the same.
    hostile.logic = 2;
    let mut tale = Tale::new(hostile);
    tale.turn(text, &[(text, json!({text: {text: [text, 1]}})), ("git.push", json!({"a": text}))]);
    tale.hook("t1.c0.pre.h0", HookOutcome::Allow { reason: Some(text.into()) });
    tale.hook(
        "t1.c1.pre.h0",
        HookOutcome::Modify { value: Stored::new(json!({"b": text, text: 1})).0, reason: Some(text.into()) },
    );
    tale.ended("t1.c1", ToolOutcome::Failed { why: text.into() });
    tale.turn("", &[("git.push", json!({"a": text}))]);
    tale.escalate("t2.c0.pre.h0", text);
    tale
}

fn rest(tale: &mut Tale, text: &str) {
    tale.decide("t2.c0.pre.approval", false, text, Some(text));
    tale.turn("", &[("git.push", json!({}))]);
    tale.hook("t3.c0.pre.h0", HookOutcome::Failed { why: text.into() });
    tale.fact(Fact::ToolState { tool: text.into(), state: text.into(), why: Some(text.into()) });
    tale.fact(Fact::ToolLate { effect: "t1.c0.call".into(), after_ms: 1 });
    let (approval, by, why) = (text.into(), text.into(), text.into());
    tale.fact(Fact::DecisionIgnored { approval, approve: true, by, verified: true, why });
    tale.fact(Fact::Resumed { process: text.into() });
    tale.turn(text, &[]);
    tale.deny("end.h1", text);
    let answer = |outcome| LifecycleAnswer { server: text.into(), outcome, ms: 1.0 };
    let body = Stored::new(json!(lifecycle::body(Point::SessionEnd, text, text, 16_384))).0;
    tale.fact(Fact::SessionEnded {
        answers: vec![
            answer(LifecycleOutcome::Text { body }),
            answer(LifecycleOutcome::Failed { why: text.into() }),
            answer(LifecycleOutcome::TimedOut { after_ms: 1, killed: true }),
        ],
    });
}

#[test]
fn no_control_character_reaches_the_writer_in_story_history_and_prompt() {
    let mut tale = hostile_tale(HOSTILE);
    let approval = tale.approval();
    let question = prompt::question(&approval, START_MS + 1_000, START_MS, Look::PLAIN, Some(&Next::default()));
    assert_tame(&question.text);
    assert_tame(&prompt::in_full(&approval, START_MS + 1_000, START_MS, Look::PLAIN, &Next::default()));
    rest(&mut tale, HOSTILE);
    for streams in [false, true] {
        let story = tale.told(Look::PLAIN, streams);
        assert!(story.contains("\\u{1b}[2J"), "{story}");
        assert_tame(&story);
    }
    assert_tame(&history::lines(&tale.records, Look::PLAIN));
}

#[test]
fn a_notice_and_a_streamed_text_cut_anywhere_are_tame() {
    let mut teller = Teller::new(Look::PLAIN, Approvals::Told);
    let mut out = String::new();
    for c in HOSTILE.chars() {
        out += &teller.event(&Event::Text(&c.to_string()));
    }
    out += &teller.event(&Event::Notice(HOSTILE));
    assert_tame(&out);
}

#[test]
fn a_megabyte_everywhere_stays_a_short_story() {
    let text = "A long reason. ".repeat(70_000);
    let mut tale = hostile_tale(&text);
    let approval = tale.approval();
    let question = prompt::question(&approval, START_MS + 1_000, START_MS, Look::PLAIN, Some(&Next::default()));
    assert!(question.text.len() < 20_000, "{}", question.text.len());
    assert!(question.left_out > 1_000_000);
    assert_tame(&question.text);
    rest(&mut tale, "no");
    // What the model reads is told whole, so the one deny that holds the reason is long (the core cuts it at 2,000 characters).
    let story: String = tale
        .records
        .iter()
        .filter(|r| !matches!(r.fact, Fact::ApprovalDecided { .. }))
        .fold((Teller::new(Look::PLAIN, Approvals::Prompted), String::new()), |(mut teller, mut out), record| {
            out += &teller.event(&Event::Recorded(record));
            (teller, out)
        })
        .1;
    assert!(story.len() < 30_000, "{}", story.len());
    assert_tame(&story);
    let history = history::lines(&tale.records, Look::PLAIN);
    assert_eq!(
        history.lines().count(),
        tale.records.len() + 4,
        "one line each, a day, and one for each of three servers"
    );
}

#[test]
fn a_result_of_ten_megabytes_inline_is_a_few_rows() {
    let mut tale = Tale::new(spec(vec![]));
    tale.turn("", &[("a.b", json!({}))]);
    // Larger values stand beside the history; a store may still hand one in.
    let result = Stored::inline(Value::String("z\u{1b}[1m".repeat(2_000_000)));
    tale.ended("t1.c0", ToolOutcome::Returned { result, structured: None, is_error: false, rest: None });
    let story = tale.told(Look::PLAIN, false);
    assert!(story.len() < 3_000, "{}", story.len());
    assert_tame(&story);
}
