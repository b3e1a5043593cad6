//! What a job has of earlier jobs of its session, and hands on.

use super::*;
use crate::job::Continues;

/// Every call of a conversation has exactly one result, right behind its turn and in order.
fn is_well_formed(messages: &[Message]) -> bool {
    let mut due: Vec<&str> = vec![];
    for message in messages {
        match message {
            Message::Tool { provider_id, .. } => {
                if due.first() != Some(&provider_id.as_str()) {
                    return false;
                }
                due.remove(0);
            }
            Message::Assistant { calls, .. } if due.is_empty() => {
                due = calls.iter().map(|c| c.provider_id.as_str()).collect();
            }
            Message::User { .. } if due.is_empty() => {}
            Message::User { .. } | Message::Assistant { .. } => return false,
        }
    }
    due.is_empty()
}

/// Two parallel calls, then an answer.
fn oracle(command: &Command) -> Fact {
    match command {
        Command::CallModel { effect, turn: 1, .. } => {
            turn(effect, "I look", &[("git.log", json!({})), ("git.push", json!({"to": "main"}))])
        }
        Command::CallModel { effect, .. } => turn(effect, "done", &[]),
        Command::CallTool { effect, .. } => returned(effect, "ok"),
        Command::Ask { effect, .. } => answered(effect, HookOutcome::Allow { reason: None }),
        _ => panic!("{command:?}"),
    }
}

#[test]
fn a_job_cancelled_after_any_record_hands_on_a_well_formed_conversation() {
    let whole = run(
        spec(vec![hook("p.c", Moment::PreToolCall, None, None), hook("p.c", Moment::PostToolCall, None, None)]),
        &oracle,
        |_| 0,
    );
    let mut results = std::collections::BTreeSet::new();
    for end in 1..whole.history.len() - 1 {
        let texts = whole.history[..end].iter().map(|r| serde_json::to_string(r).unwrap());
        let (mut machine, _) = replay(texts.collect::<Vec<_>>()).unwrap();
        if machine.due_outcome().is_some() {
            continue;
        }
        machine.handle(9_999, &Fact::Cancelled { by: "ada".into() }).unwrap();
        assert!(is_well_formed(machine.conversation()), "cancelled after record {end}: {:#?}", machine.conversation());
        for message in machine.conversation() {
            if let Message::Tool { content, tool, .. } = message {
                results.insert(format!("{tool}: {}", content.value.as_ref().unwrap().as_str().unwrap()));
            }
        }
    }
    let said: Vec<&str> = results.iter().map(String::as_str).collect();
    assert_eq!(
        said.iter().filter(|s| s.starts_with("git.push")).copied().collect::<Vec<_>>(),
        [
            "git.push: It is not known whether the call to git.push was made: the job was cancelled meanwhile. Check before you call it again.",
            "git.push: The call to git.push was made; the job was cancelled before its result could be given.",
            "git.push: The call to git.push was not made: the job was cancelled.",
            "git.push: ok",
        ]
    );
}

#[test]
fn the_state_that_is_handed_on_adds_up_over_jobs_and_its_digest_goes_on() {
    let first = run(spec(vec![]), &oracle, |_| 0).machine;
    let state = first.session_state();
    assert_eq!((state.job.as_str(), state.messages, state.tokens), ("job-1", 5, Some(0)));
    assert!(!first.carries_earlier());

    let next = JobSpec { job: "job-2".into(), continues: Some(state.clone()), ..spec(vec![]) };
    let second = run(next.clone(), &oracle, |_| 0).machine;
    assert!(second.carries_earlier());
    let both = second.session_state();
    assert_eq!((both.job.as_str(), both.messages, both.bytes), ("job-2", 10, 2 * state.bytes));
    assert_ne!(both.conversation, state.conversation);
    assert_eq!(second.conversation().len(), 5, "the machine holds its own part only");

    // Another conversation before it is noticed by the first model turn's digest.
    let other = JobSpec { continues: Some(Continues { conversation: "0".repeat(64), ..state }), ..next };
    let third = run(other, &oracle, |_| 0);
    let digest = |commands: &[Command]| {
        commands.iter().find_map(|c| match c {
            Command::CallModel { conversation, .. } => Some(conversation.clone()),
            _ => None,
        })
    };
    assert_ne!(digest(&third.commands), Some(both.conversation));
}

#[test]
fn the_end_of_each_call_can_be_read_when_it_stands() {
    let whole = run(spec(vec![]), &oracle, |_| 0);
    let (mut machine, _) = Machine::new(spec(vec![])).unwrap();
    let mut seen = vec![];
    for record in &whole.history[1..] {
        machine.handle(record.at_ms, &record.fact).unwrap();
        for call in ["t1.c0", "t1.c1"] {
            if let Some((content, false)) = machine.call_end(call)
                && !seen.iter().any(|(c, _)| *c == call)
            {
                seen.push((call, content.value.as_ref().unwrap().to_string()));
            }
        }
        assert_eq!(machine.call_end("t7.c0"), None);
    }
    assert_eq!(seen, [("t1.c0", "\"ok\"".to_owned()), ("t1.c1", "\"ok\"".to_owned())]);
}
