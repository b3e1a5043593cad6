//! What real clients sent (Goose and Cursor: what their documentation says), what is asked of the node, and what is printed for each reply.

use hookwright_bridge::{Door, Escalate, Harness, Printed, Reply, Request, Trouble};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn payloads(harness: Harness) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/payloads").join(harness.id());
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    files
}

/// The event of a payload's file: `PreToolUse.mcp.json` is of `PreToolUse`.
fn event(harness: Harness, file: &Path) -> String {
    let name = file.file_stem().unwrap().to_string_lossy().into_owned();
    let known = hookwright_bridge::dialects::of(harness).events().iter().map(|(event, _)| *event);
    let mut fitting: Vec<&str> =
        known.filter(|event| name == *event || name.starts_with(&format!("{event}."))).collect();
    fitting.sort_by_key(|event| event.len());
    (*fitting.last().unwrap_or_else(|| panic!("{name} is no event of {harness}"))).to_owned()
}

fn replies() -> Vec<(&'static str, Result<Reply, Trouble>)> {
    let text = || "a “reason”".to_owned();
    vec![
        ("allow", Ok(Reply::Allow)),
        ("deny", Ok(Reply::Deny { text: text() })),
        ("rewrite", Ok(Reply::Rewrite { arguments: json!({"command": "echo safe", "description": "d", "name": "x"}) })),
        ("ask person", Ok(Reply::AskPerson { text: text(), arguments: None })),
        ("replace", Ok(Reply::Replace { result: json!("another result") })),
        (
            "replace by blocks",
            Ok(Reply::Replace { result: json!([{"type": "text", "text": "a"}, {"type": "image", "data": "QQ=="}]) }),
        ),
        ("withhold", Ok(Reply::Withhold { text: text() })),
        ("hold", Ok(Reply::Hold { text: text() })),
        ("no answer", Err(Trouble::Silent { waited_ms: 1000 })),
    ]
}

fn shown(printed: &Printed) -> String {
    let Printed { stdout, stderr, code } = printed;
    let parsed: Value = serde_json::from_str(stdout).expect("one JSON object on standard output");
    assert!(parsed.is_object() && !stdout.contains('\n'), "{stdout}");
    assert!(*code != 2 || !stderr.trim().is_empty(), "code 2 without a reason means nothing to some");
    let mut text = format!("{stdout}\n");
    if *code != 0 || !stderr.is_empty() {
        let _ = writeln!(text, "    code {code}, stderr: {stderr}");
    }
    text
}

#[test]
fn every_harness_event_and_reply() {
    for harness in Harness::ALL.into_iter().filter(|harness| *harness != Harness::ClaudeAgentSdk) {
        for file in payloads(harness) {
            let event = event(harness, &file);
            let payload = std::fs::read(&file).unwrap();
            let door = Door::new(harness, Some(event), Escalate::Wait, 1000);
            let mut text = String::new();
            for (name, reply) in replies() {
                let mut asked = None;
                let printed = door.answer(&payload, |request: Request| {
                    asked = Some(request);
                    reply
                });
                let asked = asked.expect("a real payload is understood");
                // What goes over the socket comes out as it went in.
                let line = serde_json::to_string(&asked).unwrap();
                assert_eq!(
                    serde_json::to_value(serde_json::from_str::<Request>(&line).unwrap()).unwrap(),
                    serde_json::to_value(&asked).unwrap()
                );
                if text.is_empty() {
                    let _ = writeln!(text, "{:#}\n", serde_json::to_value(&asked.ask).unwrap());
                }
                let _ = write!(text, "{name}: {}", shown(&printed));
            }
            let name = format!("{harness}.{}", file.file_stem().unwrap().to_string_lossy());
            insta::with_settings!({omit_expression => true, prepend_module_to_snapshot => false}, {
                insta::assert_snapshot!(name, text);
            });
        }
    }
}

#[test]
fn the_agent_sdk_speaks_claude_codes_dialect_under_its_own_name() {
    let file = payloads(Harness::ClaudeCode).into_iter().find(|file| file.ends_with("PreToolUse.mcp.json")).unwrap();
    let door = Door::new(Harness::ClaudeAgentSdk, Some("PreToolUse".to_owned()), Escalate::Ask, 7);
    let mut asked = None;
    let printed = door.answer(&std::fs::read(file).unwrap(), |request| {
        asked = Some(request);
        Ok(Reply::Allow)
    });
    let asked = asked.unwrap();
    assert_eq!((asked.ask.harness, asked.escalate, asked.wait_ms), (Harness::ClaudeAgentSdk, Escalate::Ask, 7));
    assert_eq!(printed, Printed { stdout: "{}".to_owned(), stderr: String::new(), code: 0 });
}

#[test]
fn the_person_at_the_harness_is_asked_only_where_that_is_known_to_work() {
    let mut text = String::new();
    for harness in Harness::ALL {
        let own = if harness == Harness::ClaudeAgentSdk { Harness::ClaudeCode } else { harness };
        let files = payloads(own);
        let before = |file: &&PathBuf| {
            let event = event(own, file);
            let moment = hookwright_bridge::dialects::of(own).moment(&event);
            moment == Some(hookwright_bridge::Moment::Before) && file.to_string_lossy().matches('.').count() <= 3
        };
        let file = files.iter().find(before).unwrap();
        let payload = std::fs::read(file).unwrap();
        let door = Door::new(harness, Some(event(own, file)), Escalate::Ask, 1000);
        let asked = "Hook policy.check asks for a person: a push".to_owned();
        let changed = Some(json!({"command": "echo safe", "description": "d"}));
        for (name, arguments) in [("as it is", None), ("changed", changed)] {
            let reply = Reply::AskPerson { text: asked.clone(), arguments };
            let _ = write!(text, "{harness}, {name}: {}", shown(&door.answer(&payload, |_| Ok(reply))));
        }
    }
    insta::with_settings!({omit_expression => true, prepend_module_to_snapshot => false}, {
        insta::assert_snapshot!("asks", text);
    });
}

#[test]
fn in_modes_where_nobody_may_be_there_claude_code_waits_for_an_approval() {
    let file = payloads(Harness::ClaudeCode).into_iter().find(|file| file.ends_with("PreToolUse.json")).unwrap();
    let payload: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    for (mode, escalate) in [
        (json!("default"), Escalate::Ask),
        (json!("acceptEdits"), Escalate::Ask),
        (json!("plan"), Escalate::Ask),
        (json!("bypassPermissions"), Escalate::Wait),
        (json!("dontAsk"), Escalate::Wait),
        (json!("auto"), Escalate::Wait),
        (json!("new"), Escalate::Wait),
        (Value::Null, Escalate::Wait),
    ] {
        let mut payload = payload.clone();
        payload["permission_mode"] = mode.clone();
        let door = Door::new(Harness::ClaudeCode, Some("PreToolUse".to_owned()), Escalate::Ask, 7);
        let (_, request) = door.ask(payload.to_string().as_bytes()).unwrap();
        assert_eq!(request.escalate, escalate, "{mode}");
    }
}
