//! Collects what was seen: histories, what servers wrote, what people were told.

use super::check::{Ask, Decision, Effect, Job, Seen};
use super::{plan, run};
use crate::engine::Stage;
use crate::process::{Program, said};
use hookwright_core::history::replay;
use hookwright_core::job::{Command, Fact, ToolOutcome};
use serde_json::Value;

/// Everything, through the program's own commands; what these find wrong goes to `faults`.
pub(super) fn collect(program: &Program, stage: &Stage, decisions: Vec<Decision>, faults: &mut Vec<String>) -> Seen {
    let call = |args: &[&str]| program.call(&[args, &["--config", "hookwright.yaml"]].concat());
    let mut fault = |args: &[&str]| {
        let ended = call(args);
        if !ended.status.success() {
            faults.push(format!("{args:?}: {ended}"));
        }
        ended
    };
    fault(&["audit", "verify"]);
    let listed = fault(&["jobs", "list", "--limit", "100000", "--output", "json"]).json();
    let (mut jobs, mut wrong) = (vec![], vec![]);
    for row in listed["jobs"].as_array().into_iter().flatten() {
        let id = row["job"].as_str().unwrap_or_default().to_owned();
        let history = fault(&["jobs", "history", &id, "--output", "json"]).json();
        let records = history["history"].as_array().cloned().unwrap_or_default();
        // What `replay` does, without a process for each job.
        if let Err(error) = replay(records.iter().map(Value::to_string)) {
            wrong.push(format!("{id} does not replay: {error}"));
        }
        let records = records.into_iter().filter_map(|record| serde_json::from_value(record).ok()).collect();
        jobs.push(Job { id, status: row["status"].as_str().unwrap_or_default().to_owned(), records });
    }
    faults.append(&mut wrong);
    let mut lines = |file: &str| -> Vec<Value> {
        let text = said(&stage.path(file));
        let read = |line: &str| serde_json::from_str(line).map_err(|e| format!("{file}: {e}: {line}"));
        let (lines, wrong): (Vec<_>, Vec<_>) = text.lines().map(read).partition(Result::is_ok);
        faults.extend(wrong.into_iter().filter_map(Result::err));
        lines.into_iter().filter_map(Result::ok).collect()
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let at = |line: &Value| line["at_ms"].as_u64().unwrap_or_default();
    let effects = lines(plan::EFFECTS);
    let effects = effects.iter().map(|line| Effect {
        at_ms: at(line),
        tool: text(&line["tool"]),
        arguments: line["arguments"].clone(),
    });
    let effects = effects.collect();
    let asks = lines(plan::ASKS);
    let asks = asks.iter().map(|line| Ask {
        at_ms: at(line),
        call: text(&line["call"]),
        event: line["arguments"]["event"].clone(),
    });
    let asks = asks.collect();
    if jobs.iter().any(|job| !["completed", "failed", "cancelled"].contains(&job.status.as_str())) {
        faults.push(format!("the node said last:\n{}", run::last_words(stage)));
    }
    Seen { jobs, effects, asks, decisions }
}

/// In numbers.
pub(super) fn tally(seen: &Seen) -> String {
    let facts = || seen.jobs.iter().flat_map(|job| job.records.iter().map(|record| &record.fact));
    let count = |is: &dyn Fn(&Fact) -> bool| facts().filter(|fact| is(fact)).count();
    let status = |status: &str| seen.jobs.iter().filter(|job| job.status == status).count();
    let calls = count(&|fact| matches!(fact, Fact::Begun { command: Command::CallTool { .. } }));
    let unknown = count(&|fact| matches!(fact, Fact::ToolReturned { outcome: ToolOutcome::Unknown { .. }, .. }));
    let answers = count(&|fact| matches!(fact, Fact::HookAnswered { .. }));
    let resumed = count(&|fact| matches!(fact, Fact::Resumed { .. }));
    let counted = seen.decisions.iter().filter(|decision| decision.counted).count();
    format!(
        "{} jobs ({} subagents'; {} completed, {} failed, {} cancelled), {calls} calls ({unknown} unknown), {} effects, {answers} answers of {} asks, {resumed} resumed, \
         {counted} decisions counted of {}",
        seen.jobs.len(),
        seen.jobs.iter().filter(|job| job.is_child()).count(),
        status("completed"),
        status("failed"),
        status("cancelled"),
        seen.effects.len(),
        seen.asks.len(),
        seen.decisions.len(),
    )
}
