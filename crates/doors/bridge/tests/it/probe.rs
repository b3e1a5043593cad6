//! A probe's payload is one that the harness could have sent.

use hookwright_bridge::{Door, Escalate, Harness, Moment, PROBE_TOOL, Reply, What, denies, dialects, probe_payload};

#[test]
fn a_probe_is_understood_and_its_answers_are_told_apart() {
    for harness in Harness::ALL {
        let event = dialects::of(harness).events().iter().find(|(_, moment)| *moment == Moment::Before).unwrap().0;
        let payload = probe_payload(harness, event, "n0nce", "/p");
        let mut seen = None;
        let door = Door::new(harness, Some(event.to_owned()), Escalate::Wait, 1);
        let denied = door.answer(payload.as_bytes(), |request| {
            seen = Some(request.ask.what);
            Ok(Reply::Deny { text: "n0nce".to_owned() })
        });
        let Some(What::Before { call }) = seen else { panic!("{harness}") };
        assert_eq!((call.tool.as_str(), call.arguments["nonce"].as_str()), (PROBE_TOOL, Some("n0nce")));
        assert!(denies(harness, event, &denied.stdout, Some(i32::from(denied.code))));
        assert!(!denies(harness, event, "", Some(0)) && !denies(harness, event, "{}", Some(0)));
        assert!(!denies(harness, event, r#"{"decision":"denied"}"#, Some(0)));
    }
}
