use super::*;
use serde_json::json;

fn ask(event: Value) -> Answer {
    answer(&SigningKey::from_bytes(&[1; 32]), event.as_object().unwrap())
}

#[test]
fn an_output_is_given_with_a_signature_that_verifies() {
    let event = json!({"event": "job_end", "job": "job-1", "agent": "reviewer", "output": "Fine."});
    let Answer::Modify { output } = ask(event) else { panic!("not signed") };
    let signed = block::verify(&SigningKey::from_bytes(&[1; 32]).verifying_key(), &output).unwrap();
    assert_eq!((signed.text, signed.job.as_str(), signed.agent.as_str()), ("Fine.", "job-1", "reviewer"));
}

#[test]
fn what_cannot_be_signed_is_denied() {
    for event in [
        json!({"event": "job_end", "job": "job-1", "agent": "reviewer", "output": {"a": 1}}),
        json!({"event": "job_end", "job": "job-1", "agent": "reviewer"}),
        json!({"event": "job_end", "output": "Fine."}),
        json!({"event": "job_start", "job": "job-1", "agent": "reviewer", "input": "Hi"}),
        json!({}),
    ] {
        assert!(matches!(ask(event.clone()), Answer::Deny { .. }), "{event}");
    }
}

#[test]
fn answers_are_written_as_the_law_reads_them() {
    assert_eq!(json!(Answer::Deny { reason: "no".into() }), json!({"decision": "deny", "reason": "no"}));
    assert_eq!(json!(Answer::Modify { output: "x".into() }), json!({"decision": "modify", "output": "x"}));
}
