//! Scripts, as a job plays them.

use crate::support::*;
use hookwright_core::message::StopReason;
use hookwright_model::{Options, open};
use hookwright_runtime::ports::model::{Model, ModelError, Purpose};
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn opened(text: &str) -> (tempfile::TempDir, Result<Arc<dyn Model>, ModelError>) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("scripts")).unwrap();
    std::fs::write(folder.path().join("scripts/demo.yaml"), text).unwrap();
    let options = Options { folder: Some(folder.path().to_owned()), ..Options::default() };
    let model = open("script/scripts/demo.yaml", &|_| None, &options);
    (folder, model)
}

fn model(text: &str) -> Arc<dyn Model> {
    opened(text).1.unwrap_or_else(|e| panic!("{e}"))
}

const DEMO: &str = r#"
turns:
  - say: I push it.
    call: { tool: git.push, with: { branch: main } }
    usage: { input: 100, output: 20 }
  - expect: { matches: "denied it: .*main" }
    call:
      - { tool: git.push, with: { branch: fix } }
      - { tool: git.log, raw: "{broken" }
  - expect: [pushed, no JSON]
    say: Done.
"#;

#[tokio::test]
async fn a_script_plays_its_turns_by_the_conversation_alone() {
    let script = model(DEMO);
    assert_eq!((script.label().as_str(), script.is_scripted()), ("script/scripts/demo.yaml (scripted)", true));
    let mut asking = Asking::user("Go.");
    let sink = Sink::default();
    let first = asking.ask(&*script, &sink).await.unwrap();
    assert_eq!(
        (first.text.as_deref(), first.stop, sink.text().as_str()),
        (Some("I push it."), StopReason::ToolCalls, "I push it.")
    );
    assert_eq!((first.calls[0].tool.as_str(), &first.calls[0].arguments), ("git.push", &json!({"branch": "main"})));
    assert_eq!(first.usage.map(|u| (u.input_tokens, u.output_tokens)), Some((100, 20)));
    // The same conversation, asked of the same model or of one opened after a crash: the same turn.
    assert_eq!(asking.ask(&*model(DEMO), &Sink::default()).await.unwrap(), first);
    asking.messages.push(message_of(&first));
    asking.messages.extend(results_of(&first, "hook policy.check denied it: a push to main."));
    let second = asking.ask(&*script, &Sink::default()).await.unwrap();
    assert_eq!((second.calls.len(), &second.calls[1].arguments), (2, &json!("{broken")));
    asking.messages.push(message_of(&second));
    asking.messages.push(result(
        &second.calls[0].provider_id,
        "git.push",
        json!([{"type": "text", "text": "pushed"}]),
        false,
    ));
    asking.messages.push(result(&second.calls[1].provider_id, "git.log", json!("no JSON object"), true));
    let third = asking.ask(&*script, &Sink::default()).await.unwrap();
    assert_eq!((third.text.as_deref(), third.stop), (Some("Done."), StopReason::EndTurn));
}

#[tokio::test]
async fn an_expectation_that_fails_says_what_stood_there() {
    let script = model("turns:\n  - expect: a push to main\n    say: x\n");
    let Err(ModelError::Refused(text)) = Asking::user("All is \u{1b}[31mwell.").ask(&*script, &Sink::default()).await
    else {
        panic!()
    };
    assert_eq!(
        text,
        "script/scripts/demo.yaml, turn 1: expected the text \"a push to main\", but the model was told: \"All is \\u{1b}[31mwell.\""
    );
}

#[tokio::test]
async fn a_script_that_is_over_says_so() {
    let script = model("turns:\n  - say: x\n");
    let mut asking = Asking::user("Go.");
    asking.messages.push(assistant(Some("x"), vec![]));
    asking.messages.push(user("And then?"));
    let Err(ModelError::Refused(text)) = asking.ask(&*script, &Sink::default()).await else { panic!() };
    assert!(text.contains("has 1 turns, and was asked for turn 2") && text.contains("And then?"), "{text}");
}

#[tokio::test]
async fn what_a_lifecycle_hook_said_is_no_turn_of_the_model() {
    let script = model("turns:\n  - say: one\n  - expect: objection\n    say: two\n");
    let mut asking = Asking::user("Go.");
    asking.messages.push(assistant(Some("one"), vec![]));
    asking.messages.push(assistant(None, vec![call("hw_stop_job-1_1_0", "todo._Stop", json!({}))]));
    asking.messages.push(result(
        "hw_stop_job-1_1_0",
        "todo._Stop",
        json!("{\"hook\":\"_Stop\",\"text\":\"objection\"}"),
        false,
    ));
    assert_eq!(asking.ask(&*script, &Sink::default()).await.unwrap().text.as_deref(), Some("two"));
}

#[tokio::test]
async fn errors_and_stops_can_be_scripted() {
    for (yaml, check) in [
        ("error: unavailable", "unavailable"),
        ("error: context_full", "does not fit into the model's window"),
        ("error: refused", "refused"),
        ("error: malformed", "malformed"),
    ] {
        let sink = Sink::default();
        let error =
            Asking::user("Go.").ask(&*model(&format!("turns:\n  - {yaml}\n    say: half\n")), &sink).await.unwrap_err();
        assert!(error.to_string().contains(check), "{error}");
        assert_eq!(sink.text(), "half");
    }
    for (yaml, stop) in [("max_tokens", StopReason::MaxTokens), ("refusal", StopReason::Refusal)] {
        let script = model(&format!("turns:\n  - say: half\n    stop: {yaml}\n"));
        assert_eq!(Asking::user("Go.").ask(&*script, &Sink::default()).await.unwrap().stop, stop);
    }
}

#[tokio::test]
async fn a_scripted_turn_that_is_cut_off_in_a_call_is_cut_off() {
    let script = model("turns:\n  - say: half\n    call: { tool: git.push }\n    stop: max_tokens\n");
    let turn = Asking::user("Go.").ask(&*script, &Sink::default()).await.unwrap();
    assert_eq!((turn.stop, turn.calls.len()), (StopReason::MaxTokens, 1));
}

#[tokio::test]
async fn a_delay_lets_a_turn_be_cancelled_in_the_middle() {
    let script = model("turns:\n  - say: one two three\n    delay: 20s\n");
    let (asking, sink) = (Asking::user("Go."), Sink::default());
    let start = Instant::now();
    assert!(tokio::time::timeout(Duration::from_millis(100), asking.ask(&*script, &sink)).await.is_err());
    assert!(start.elapsed() < Duration::from_secs(10) && sink.text().is_empty());
    let quick = model("turns:\n  - say: one two three\n    delay: 1ms\n");
    asking.ask(&*quick, &sink).await.unwrap();
    assert_eq!(*sink.pieces.lock().unwrap(), ["one ", "two ", "three"]);
}

#[test]
fn a_script_that_cant_be_opened_says_why_and_where() {
    let (_folder, wrong) = opened("turns:\n  - sey: x\n");
    let Err(ModelError::Config(text)) = wrong else { panic!() };
    assert!(text.contains("demo.yaml:2:5: "), "{text}");
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("binary.yaml"), [0xff, 0xfe]).unwrap();
    std::fs::write(folder.path().join("large.yaml"), vec![b'#'; 2_000_000]).unwrap();
    let options = Options { folder: Some(folder.path().to_owned()), ..Options::default() };
    for (file, words) in [
        ("none.yaml", "can't be read"),
        ("binary.yaml", "not UTF-8"),
        ("large.yaml", "at most 1048576 bytes"),
        ("../x.yaml", "inside the plugin's folder"),
        ("/etc/x.yaml", "inside the plugin's folder"),
        ("", "inside the plugin's folder"),
        ("x.json", "ends in .yaml"),
    ] {
        let Err(ModelError::Config(text)) = open(&format!("script/{file}"), &|_| None, &options) else {
            panic!("{file}")
        };
        assert!(text.contains(words), "{file}: {text}");
    }
}

#[test]
fn the_script_in_the_guide_is_one() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/models.md");
    let guide = std::fs::read_to_string(path).unwrap();
    let scripts: Vec<&str> = guide
        .split("```yaml\n")
        .skip(1)
        .filter_map(|s| s.split("```").next())
        .filter(|s| s.contains("turns:"))
        .collect();
    assert_eq!(scripts.len(), 1);
    model(scripts[0]);
}

#[tokio::test]
async fn a_scripted_turn_is_played_once_whatever_it_calls() {
    let script = model(
        "turns:\n  - call: { tool: todo._Stop }\n  - call: { tool: _Stop }\n  - call: [{ tool: todo._Stop }, { tool: x }]\n  - say: Done.\n",
    );
    let mut asking = Asking::user("Go.");
    for called in ["todo._Stop", "_Stop", "todo._Stop"] {
        let turn = asking.ask(&*script, &Sink::default()).await.unwrap();
        assert_eq!(turn.calls[0].tool, called);
        asking.messages.push(message_of(&turn));
        asking.messages.extend(results_of(&turn, "unknown tool"));
    }
    assert_eq!(asking.ask(&*script, &Sink::default()).await.unwrap().text.as_deref(), Some("Done."));
}

#[tokio::test]
async fn a_script_with_a_window_counts_and_refuses_as_a_provider_does() {
    let script = model("window: 400\nturns:\n  - say: Hello.\n");
    assert_eq!(script.window().await, Some(400));
    let turn = Asking::user("Go.").ask(&*script, &Sink::default()).await.unwrap();
    let usage = turn.usage.unwrap();
    assert!((30..200).contains(&usage.input_tokens) && usage.output_tokens == 2, "{usage:?}");
    let long = Asking::user(&"x".repeat(2_000)).ask(&*script, &Sink::default()).await.unwrap_err();
    assert!(
        matches!(&long, ModelError::ContextFull(text) if text.contains("400 maximum") && text.contains("scripted")),
        "{long}"
    );
    assert_eq!(model("turns:\n  - say: Hello.\n").window().await, None);
}

#[tokio::test]
async fn a_script_summarises_and_counts_the_turns_that_were_replaced() {
    let asking = Asking { purpose: Purpose::Summary, ..Asking::user("{}\n{}") };
    let say = async |text: &str| asking.ask(&*model(text), &Sink::default()).await;
    assert!(say("turns:\n  - say: a\n").await.unwrap().text.unwrap().contains("Scripted summary of 2 lines"));
    assert_eq!(say("summary: All done.\nturns:\n  - say: a\n").await.unwrap().text.as_deref(), Some("All done."));
    let failed = say("summary_error: unavailable\nturns:\n  - say: a\n").await.unwrap_err();
    assert!(matches!(failed, ModelError::Unavailable(_)), "{failed}");
    assert!(opened("summary: a\nsummary_error: refused\nturns:\n  - say: a\n").1.is_err());
    assert!(opened("window: 0\nturns:\n  - say: a\n").1.is_err());

    let mut asking = Asking::user("Go.");
    asking.messages.push(assistant(Some(&hookwright_core::compaction::summary_message(2, "All done.")), vec![]));
    let script = model("turns:\n  - say: one\n  - say: two\n  - say: three\n");
    assert_eq!(asking.ask(&*script, &Sink::default()).await.unwrap().text.as_deref(), Some("three"));
}
