//! Whatever goes wrong is a no in the harness's own words.

use hookwright_bridge::{
    Door, Escalate, Harness, MAX_PAYLOAD_BYTES, Moment, Printed, Reply, Trouble, denies, dialects,
};
use serde_json::{Value, json};

fn before(harness: Harness) -> &'static str {
    let events = dialects::of(harness).events();
    events.iter().find(|(_, moment)| *moment == Moment::Before).unwrap().0
}

fn door(harness: Harness, event: &str) -> Door {
    Door::new(harness, Some(event.to_owned()), Escalate::Wait, 1000)
}

fn never(_: hookwright_bridge::Request) -> Result<Reply, Trouble> {
    panic!("nobody is to be asked")
}

fn is_no(harness: Harness, printed: &Printed) -> bool {
    denies(harness, before(harness), &printed.stdout, Some(i32::from(printed.code)))
}

#[test]
fn a_payload_that_cant_be_read_is_a_no_before_a_call_in_every_harness() {
    let huge = vec![b' '; MAX_PAYLOAD_BYTES + 1];
    let deep = format!("{}{}", "[".repeat(500), "]".repeat(500));
    let bad: [&[u8]; 10] = [
        b"",
        b"  \n",
        b"no json",
        b"[]",
        b"{}",
        b"\xff\xfe{}",
        br#"{"hook_event_name":"Other","event":"Other","hookName":"other"}"#,
        br#"{"session_id":"a","session_id":"b"}"#,
        deep.as_bytes(),
        &huge,
    ];
    for harness in Harness::ALL {
        for payload in bad {
            let printed = door(harness, before(harness)).answer(payload, never);
            assert!(is_no(harness, &printed), "{harness}: {:?}: {printed:?}", payload.get(..40));
        }
    }
}

#[test]
fn every_trouble_is_a_no_before_a_call_in_every_harness() {
    let why = || "x".to_owned();
    for harness in Harness::ALL {
        for trouble in [
            Trouble::Unreachable { store: "/s".to_owned(), why: why() },
            Trouble::Silent { waited_ms: 1 },
            Trouble::Broken { why: why() },
            Trouble::Payload { why: why() },
            Trouble::Own { why: why() },
        ] {
            assert!(is_no(harness, &door(harness, before(harness)).refuse(trouble.clone())), "{harness}: {trouble:?}");
            let payload = hookwright_bridge::probe_payload(harness, before(harness), "n", "/p");
            assert!(is_no(harness, &door(harness, before(harness)).answer(payload.as_bytes(), |_| Err(trouble))));
        }
    }
}

#[test]
fn a_reply_that_does_not_fit_the_event_is_a_no() {
    for harness in Harness::ALL {
        let payload = hookwright_bridge::probe_payload(harness, before(harness), "n", "/p");
        for reply in [
            Reply::Replace { result: json!("x") },
            Reply::Withhold { text: "x".to_owned() },
            Reply::Hold { text: "x".to_owned() },
            Reply::Rewrite { arguments: json!([1]) },
        ] {
            let printed = door(harness, before(harness)).answer(payload.as_bytes(), |_| Ok(reply.clone()));
            assert!(is_no(harness, &printed), "{harness}: {reply:?}: {printed:?}");
        }
    }
}

#[test]
fn an_allow_of_a_call_is_no_no_and_grants_nothing_beyond_the_harness_rules() {
    for harness in Harness::ALL {
        let payload = hookwright_bridge::probe_payload(harness, before(harness), "n", "/p");
        let printed = door(harness, before(harness)).answer(payload.as_bytes(), |_| Ok(Reply::Allow));
        assert!(!is_no(harness, &printed) && printed.code == 0, "{harness}: {printed:?}");
        let said: Value = serde_json::from_str(&printed.stdout).unwrap();
        assert!(said["hookSpecificOutput"]["permissionDecision"].is_null() && said["permissionDecision"].is_null());
    }
}

#[test]
fn a_number_that_cant_be_kept_is_not_shown_to_hooks_as_another() {
    for harness in Harness::ALL {
        let payload = hookwright_bridge::probe_payload(harness, before(harness), "n", "/p");
        let payload = payload.replace(r#""nonce":"n""#, r#""nonce":12345678901234567890123"#);
        assert!(is_no(harness, &door(harness, before(harness)).answer(payload.as_bytes(), never)), "{harness}");
    }
}

#[test]
fn without_an_event_that_is_known_all_that_any_harness_takes_for_a_no_is_said() {
    for harness in Harness::ALL {
        let printed = Door::new(harness, None, Escalate::Wait, 1).answer(b"?", never);
        assert_eq!(printed.code, 2);
        assert!(!printed.stderr.is_empty() && printed.stdout.contains("\"decision\":\"block\""), "{printed:?}");
    }
}

#[test]
fn a_stop_is_held_once_and_never_for_a_payload_that_cant_be_read() {
    let stop = |held: bool| {
        let payload = json!({"hook_event_name": "Stop", "session_id": "s", "stop_hook_active": held,
            "last_assistant_message": "x"});
        payload.to_string()
    };
    for harness in [Harness::ClaudeCode, Harness::Codex] {
        let silent = |held: bool| {
            door(harness, "Stop").answer(stop(held).as_bytes(), |_| Err(Trouble::Silent { waited_ms: 1 })).stdout
        };
        assert!(silent(false).contains("\"decision\":\"block\""), "{harness}");
        assert_eq!(silent(true), "{}", "{harness}");
        let held = |_| Ok(Reply::Hold { text: "again".to_owned() });
        assert_eq!(door(harness, "Stop").answer(stop(true).as_bytes(), held).stdout, "{}", "{harness}");
        assert_eq!(door(harness, "Stop").answer(b"?", never).stdout, "{}", "{harness}");
    }
}

#[test]
fn what_a_failure_says_is_bounded_and_harmless() {
    let why = format!("\u{1b}[2J\u{202e}{}", "x".repeat(10_000));
    let printed = door(Harness::Codex, "PreToolUse").refuse(Trouble::Broken { why });
    let text =
        &serde_json::from_str::<Value>(&printed.stdout).unwrap()["hookSpecificOutput"]["permissionDecisionReason"];
    let text = text.as_str().unwrap();
    assert!(text.chars().count() < 700 && !text.contains('\u{1b}') && !text.contains('\u{202e}'), "{text}");
}

#[test]
fn codex_is_given_only_rewrites_that_it_takes_over_whole() {
    let payload = json!({"hook_event_name": "PreToolUse", "session_id": "s", "tool_name": "Bash",
        "tool_input": {"command": "a", "workdir": "/w"}})
    .to_string();
    let rewritten = |arguments: Value| {
        let reply = Reply::Rewrite { arguments };
        !is_no(Harness::Codex, &door(Harness::Codex, "PreToolUse").answer(payload.as_bytes(), |_| Ok(reply)))
    };
    assert!(rewritten(json!({"command": "b", "workdir": "/w"})));
    for other in [
        json!({"command": "b"}),
        json!({"command": "b", "workdir": "/"}),
        json!({"command": 1, "workdir": "/w"}),
        json!({"command": "b", "workdir": "/w", "more": 1}),
    ] {
        assert!(!rewritten(other.clone()), "{other}");
    }
}

#[test]
fn gemini_merges_so_a_key_that_a_hook_took_away_is_a_no() {
    let payload =
        json!({"hook_event_name": "BeforeTool", "session_id": "s", "tool_name": "x", "tool_input": {"a": 1, "b": 2}});
    let rewritten = |arguments: Value| {
        let reply = Reply::Rewrite { arguments };
        let door = door(Harness::GeminiCli, "BeforeTool");
        !is_no(Harness::GeminiCli, &door.answer(payload.to_string().as_bytes(), |_| Ok(reply)))
    };
    assert!(rewritten(json!({"a": 3, "b": 2, "c": 1})));
    assert!(!rewritten(json!({"a": 3})));
}

#[test]
fn a_name_that_can_be_split_in_several_ways_has_all_of_them_as_aliases() {
    let aliases = |harness: Harness, payload: Value| {
        let mut found = vec![];
        door(harness, before(harness)).answer(payload.to_string().as_bytes(), |request| {
            if let hookwright_bridge::What::Before { call } = request.ask.what {
                found = call.aliases;
            }
            Ok(Reply::Allow)
        });
        found
    };
    let codex =
        json!({"hook_event_name": "PreToolUse", "session_id": "s", "tool_name": "mcp__a__b__c", "tool_input": {}});
    assert_eq!(aliases(Harness::Codex, codex), ["a.b__c", "a__b.c"]);
    let copilot = json!({"sessionId": "s", "toolName": "my-server-greet", "toolArgs": {}});
    assert_eq!(aliases(Harness::CopilotCli, copilot), ["my.server-greet", "my-server.greet"]);
    let claude = json!({"hook_event_name": "PreToolUse", "session_id": "s", "tool_name": "mcp__a__b__c", "tool_input": {},
        "mcp_server": {"name": "a__b", "source": "user"}});
    assert_eq!(aliases(Harness::ClaudeCode, claude), ["a__b.c"]);
    let plain = json!({"hook_event_name": "PreToolUse", "session_id": "s", "tool_name": "Bash", "tool_input": {}});
    assert_eq!(aliases(Harness::Codex, plain), [""; 0]);
}
