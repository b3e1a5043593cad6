use super::*;
use serde_json::json;

fn event(arguments: Value) -> Map<String, Value> {
    let event = json!({"event": "pre_tool_call", "job": "job-1", "agent": "maintainer", "tool": "git.x", "arguments": arguments});
    event.as_object().unwrap().clone()
}

#[test]
fn a_person_decides_on_a_push_to_a_protected_branch_only() {
    for (branch, escalates) in
        [("main", true), ("Main", true), ("release", true), ("mainline", false), ("feature/x", false)]
    {
        let answer = push_policy(&event(json!({"remote": "origin", "branch": branch})));
        assert_eq!(matches!(answer, Answer::Escalate { .. }), escalates, "{branch}");
        assert_eq!(answer == Answer::Allow, !escalates, "{branch}");
    }
}

#[test]
fn a_protected_branch_is_not_deleted() {
    assert!(matches!(no_delete(&event(json!({"branch": "RELEASE"}))), Answer::Deny { .. }));
    assert_eq!(no_delete(&event(json!({"branch": "old-idea"}))), Answer::Allow);
}

#[test]
fn an_event_without_what_a_hook_looks_at_is_denied() {
    for arguments in [json!({}), json!({"branch": 1, "message": ["x"]}), json!({"branch": null, "message": " \n"})] {
        let event = event(arguments);
        for answer in [push_policy(&event), no_delete(&event), message_style(&event)] {
            assert!(matches!(answer, Answer::Deny { .. }), "{answer:?}");
        }
    }
    assert!(matches!(message_style(&Map::new()), Answer::Deny { .. }));
}

#[test]
fn a_message_gets_the_style_once_and_keeps_the_other_arguments() {
    let Answer::Modify { arguments, .. } = message_style(&event(json!({"message": "fix typo.", "extra": 1}))) else {
        panic!()
    };
    assert_eq!(
        Value::from(arguments.clone()),
        json!({"message": "Fix typo\n\nAgent: maintainer\nJob: job-1", "extra": 1})
    );
    assert_eq!(message_style(&event(arguments.into())), Answer::Allow);
}

#[test]
fn a_body_is_kept_and_made_up_trailers_are_not() {
    assert_eq!(
        styled("say hello\n\nIt said hullo.\n\nAgent: root\n job: 7", "a\nb", "j"),
        "Say hello\n\nIt said hullo.\n\nAgent: a b\nJob: j"
    );
    assert_eq!(styled("Agent: root", "a", "j"), "\n\nAgent: a\nJob: j");
}
