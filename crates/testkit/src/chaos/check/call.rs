//! Calls: what their hooks said, and how often they were made.

use super::{Effect, Found, Kind, Read};
use hookwright_core::chain::HookOutcome;
use hookwright_core::event::Moment;
use hookwright_core::job::{Command, Fact, ToolOutcome};
use hookwright_core::manifest::OnTimeout;
use hookwright_core::{FunctionName, json, subagent};
use std::collections::{BTreeMap, BTreeSet};

/// Whether a hook gave no valid decision.
pub(super) fn is_failure(outcome: &HookOutcome) -> bool {
    matches!(outcome, HookOutcome::TimedOut | HookOutcome::Failed { .. })
}

/// Each call that was begun was let by all its hooks, and by a person where one of them asked for that; with what they left of it.
pub(super) fn verdicts(read: &Read<'_>, found: &mut Found) {
    for (effect, (record, command)) in &read.begun {
        let Command::CallTool { call, tool, arguments, grant, .. } = command else { continue };
        let at = read.at(effect);
        let names = [tool.to_string()];
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let hooks = read.spec.hooks.hooks.iter().enumerate();
        let watching = hooks.filter(|(_, hook)| hook.watches(Moment::PreToolCall, &read.spec.agent.id, &names));
        let (mut value, mut escalated) = (requested(read, call), false);
        for (i, hook) in watching {
            let asked = format!("{call}.pre.h{i}");
            let answer = read.ended.get(asked.as_str()).filter(|answer| answer.seq < record.seq);
            let Some(Fact::HookAnswered { outcome, .. }) = answer.map(|answer| &answer.fact) else {
                found.add(Kind::Verdict, format!("{at}: begun before {} had answered", hook.call));
                continue;
            };
            match (outcome, hook.on_timeout) {
                (HookOutcome::Allow { .. }, _)
                | (HookOutcome::TimedOut | HookOutcome::Failed { .. }, OnTimeout::Allow) => {}
                (HookOutcome::Modify { value: new, .. }, _) => value = Some(new.sha256.clone()),
                (HookOutcome::Escalate { .. }, _)
                | (HookOutcome::TimedOut | HookOutcome::Failed { .. }, OnTimeout::Escalate) => escalated = true,
                (HookOutcome::Deny { .. }, _) => {
                    found.add(Kind::Verdict, format!("{at}: begun though {} denied it", hook.call));
                }
                (_, OnTimeout::Deny) => {
                    found.add(Kind::Verdict, format!("{at}: begun though {} did not answer", hook.call));
                }
            }
        }
        if value.as_deref() != Some(arguments.sha256.as_str()) {
            found.add(Kind::Verdict, format!("{at}: begun with other arguments than its hooks left"));
        }
        let approval = format!("{call}.pre.approval");
        let decided = read.ended.get(approval.as_str()).filter(|decided| decided.seq < record.seq);
        match decided.map(|decided| &decided.fact) {
            Some(Fact::ApprovalDecided { approve: true, approval, digest, .. }) if escalated => {
                let given = grant.as_ref().map(|grant| (&grant.approval, &grant.digest));
                if given != Some((approval, digest)) {
                    found.add(Kind::Verdict, format!("{at}: begun with another yes than the one that was given"));
                }
            }
            _ if escalated => found.add(Kind::Verdict, format!("{at}: begun without a person's yes")),
            _ if grant.is_some() => {
                found.add(Kind::Verdict, format!("{at}: begun with a yes that nobody was asked for"));
            }
            _ => {}
        }
    }
}

/// The digest of a call's arguments as the model asked for it: `t3.c1` is the second call of the third turn.
fn requested(read: &Read<'_>, call: &str) -> Option<String> {
    let (turn, number) = call.split_once('.')?;
    let number: usize = number.strip_prefix('c')?.parse().ok()?;
    let answered = read.ended.get(format!("{turn}.model").as_str())?;
    match &answered.fact {
        Fact::ModelAnswered { calls, .. } => calls.get(number).map(|call| call.arguments.sha256.clone()),
        _ => None,
    }
}

/// Each recorded call was made exactly once (an idempotent one at least once; at most once where that is not known), between its records.
pub(super) fn made(read: &[Read<'_>], effects: &[Effect], found: &mut Found) {
    let mut made: BTreeMap<(String, String), Vec<u64>> = BTreeMap::new();
    for effect in effects {
        made.entry((effect.tool.clone(), json::digest(&effect.arguments))).or_default().push(effect.at_ms);
    }
    let mut known = BTreeSet::new();
    for read in read {
        for (effect, (record, command)) in &read.begun {
            let Command::CallTool { tool, arguments, idempotent, .. } = command else { continue };
            // Its effect is a job, whose own calls are looked at.
            if tool.to_string() == subagent::FUNCTION {
                continue;
            }
            let key = key(tool, &arguments.sha256);
            let times = made.get(&key).cloned().unwrap_or_default();
            known.insert(key);
            one(
                &read.at(effect),
                record.at_ms,
                read.ended.get(effect).copied(),
                *idempotent,
                &times,
                read.cancelled,
                found,
            );
        }
    }
    for ((tool, digest), times) in made.iter().filter(|(key, _)| !known.contains(*key)) {
        let arguments =
            effects.iter().find(|effect| json::digest(&effect.arguments) == *digest).map(|e| e.arguments.to_string());
        found.add(
            Kind::Unrecorded,
            format!("{tool} {} was made {} times, and no record says so", arguments.unwrap_or_default(), times.len()),
        );
    }
}

fn key(tool: &FunctionName, digest: &str) -> (String, String) {
    (tool.to_string(), digest.to_owned())
}

fn one(
    at: &str,
    begun_ms: u64,
    end: Option<&hookwright_core::history::Record>,
    idempotent: bool,
    times: &[u64],
    cancelled: bool,
    found: &mut Found,
) {
    let times_made = times.len();
    if times.iter().any(|made| *made < begun_ms) {
        found.add(Kind::Unrecorded, format!("{at}: made before the record of its beginning"));
    }
    let most = if idempotent { usize::MAX } else { 1 };
    let Some(end) = end else {
        if times_made > most || !cancelled {
            found.add(Kind::Calls, format!("{at}: no end is recorded, and it was made {times_made} times"));
        }
        return;
    };
    let Fact::ToolReturned { outcome, .. } = &end.fact else { return };
    let (least, most) = match outcome {
        ToolOutcome::Returned { .. } => (1, most),
        ToolOutcome::NotMade { .. } => (0, 0),
        // What a server does that nobody waits for any more is not known either.
        ToolOutcome::Failed { .. } | ToolOutcome::TimedOut { .. } | ToolOutcome::Unknown { .. } => (0, most),
    };
    if times_made < least || times_made > most {
        found.add(Kind::Calls, format!("{at}: made {times_made} times, and its end is {outcome:?}"));
    }
    let is_returned = matches!(outcome, ToolOutcome::Returned { .. });
    if is_returned && times.iter().any(|made| *made > end.at_ms) {
        found.add(Kind::Unrecorded, format!("{at}: made after its end was recorded"));
    }
}
