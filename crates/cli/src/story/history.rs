//! `jobs history`: one line for each record; and `jobs show`: a job at a glance.

use super::advice;
use super::line::{Line, columns};
use super::look::{Look, Role};
use super::tally::Tally;
use super::teller::{place, scripted};
use super::{compaction, family, flow, units, values};
use crate::next::Next;
use hookwright_core::chain::HookOutcome;
use hookwright_core::history::Record;
use hookwright_core::job::{Command, Fact, JobSpec, Outcome, ToolOutcome};
use hookwright_core::lifecycle::Point;
use hookwright_core::stored::Stored;
use hookwright_core::{subagent, text};
use hookwright_runtime::ports::store::{ApprovalRow, ApprovalState, JobRow, JobStatus};
use std::collections::HashMap;

/// Columns before what happened: number, time, place.
const WHAT: usize = 29;

/// All records, one line each, days as headings; under a model's answer its calls that no other record tells of. Times are UTC.
pub(crate) fn lines(records: &[Record], look: Look) -> String {
    let known = Known { spec: started(records), values: inline_values(records) };
    let mut out = String::new();
    let mut day = String::new();
    for record in records {
        let today = units::day(record.at_ms);
        if today != day {
            out.push_str(&Line::default().add(Role::Strong, &format!("{today} (UTC)")).end(look));
            day = today;
        }
        let head = Line::default()
            .pad(5_usize.saturating_sub(columns(&record.seq.to_string())))
            .add(Role::Dim, &record.seq.to_string())
            .pad(7)
            .add(Role::Dim, &units::clock(record.at_ms))
            .pad(21)
            .add(Role::Dim, fact_place(&record.fact))
            .pad(WHAT);
        match &record.fact {
            Fact::LifecycleAnswered { effect, answers } => {
                let point = Point::of_effect(effect).unwrap_or(Point::Stop);
                out.push_str(&advice::in_history(head, point, answers, WHAT, look));
            }
            Fact::SessionEnded { answers } => {
                out.push_str(&advice::in_history(head, Point::SessionEnd, answers, WHAT, look));
            }
            fact => out.push_str(&what(head, fact, &known, look).end(look)),
        }
        if let Fact::ModelAnswered { effect, calls, .. } = &record.fact {
            let most = known.spec.map_or(usize::MAX, |spec| spec.limits.calls_per_turn as usize);
            for (i, call) in calls.iter().enumerate() {
                let why = match &call.refused {
                    Some(why) => why,
                    None if i >= most => "more calls than a turn may make",
                    None => continue,
                };
                let place = format!("{}.c{i}", place(effect));
                let line = Line::default().pad(21).add(Role::Dim, &place).pad(WHAT).add(Role::Bad, "refused");
                out.push_str(&line.plain(&format!(": {}: {why}", call.tool)).end(look));
            }
        }
    }
    out
}

/// What records say about others.
struct Known<'a> {
    spec: Option<&'a JobSpec>,
    /// Values that records name by digest, and earlier ones hold.
    values: HashMap<&'a str, &'a Stored>,
}

fn inline_values(records: &[Record]) -> HashMap<&str, &Stored> {
    let mut values = HashMap::new();
    for record in records {
        match &record.fact {
            Fact::ModelAnswered { calls, .. } => {
                values.extend(calls.iter().map(|c| (&*c.arguments.sha256, &c.arguments)));
            }
            Fact::HookAnswered { outcome: HookOutcome::Modify { value, .. }, .. } => {
                values.insert(&*value.sha256, value);
            }
            _ => {}
        }
    }
    values
}

fn started(records: &[Record]) -> Option<&JobSpec> {
    records.iter().find_map(|r| if let Fact::Started { spec } = &r.fact { Some(&**spec) } else { None })
}

fn fact_place(fact: &Fact) -> &str {
    match fact {
        Fact::Begun { command } => command.effect().map_or("job", place),
        Fact::HookAnswered { effect, .. }
        | Fact::HookLate { effect, .. }
        | Fact::ToolLate { effect, .. }
        | Fact::ModelAnswered { effect, .. }
        | Fact::ModelFailed { effect, .. }
        | Fact::ToolReturned { effect, .. }
        | Fact::Compacted { effect, .. }
        | Fact::LifecycleAnswered { effect, .. }
        | Fact::ApprovalDecided { effect, .. }
        | Fact::ApprovalExpired { effect, .. } => place(effect),
        Fact::ToolState { .. } => "tool",
        Fact::CallRequested { id: call, .. } | Fact::CallLeft { call } | Fact::CallCancelled { call } => call,
        Fact::DecisionIgnored { .. } => "approval",
        Fact::SessionEnded { .. } | Fact::OutputOffered { .. } => "end",
        Fact::Started { .. }
        | Fact::Resumed { .. }
        | Fact::AgentLeft { .. }
        | Fact::Cancelled { .. }
        | Fact::Finished { .. } => "job",
    }
}

/// The function of the hook that an effect asks.
fn hook_name(effect: &str, spec: Option<&JobSpec>) -> String {
    let known = || {
        let position = effect.rsplit_once(".h")?.1.parse::<usize>().ok()?;
        Some(spec?.hooks.hooks.get(position)?.call.to_string())
    };
    known().unwrap_or_else(|| effect.to_owned())
}

/// What a record says, added to the start of its line.
fn what(line: Line, fact: &Fact, known: &Known<'_>, look: Look) -> Line {
    match fact {
        Fact::Started { spec } => {
            let scripted = if scripted(&spec.agent.model) { " (scripted)" } else { "" };
            let line = line
                .add(Role::Strong, "started")
                .plain(&format!(": agent {}, model {}", spec.agent.id, spec.agent.model));
            line.plain(&format!("{scripted}, {}", units::plural(spec.hooks.hooks.len() as u64, "hook")))
        }
        Fact::Begun { command } => begun(line, command, known, look),
        Fact::HookAnswered { effect, outcome, ms, .. } => {
            let (role, word, reason) = match outcome {
                HookOutcome::Allow { reason } => (Role::Good, "allow", reason.clone()),
                HookOutcome::Modify { reason, .. } => (Role::Change, "modify", reason.clone()),
                HookOutcome::Deny { reason } => (Role::Bad, "deny", Some(reason.clone())),
                HookOutcome::Escalate { reason } => (Role::Warn, "escalate", Some(reason.clone())),
                HookOutcome::TimedOut => (Role::Bad, "did not answer in time", None),
                HookOutcome::Failed { why } => (Role::Bad, "failed", Some(why.clone())),
            };
            let line = line.plain(&hook_name(effect, known.spec)).plain(": ").add(role, word);
            let line = line.add(Role::Dim, &format!(", {}", units::took(*ms)));
            match reason {
                Some(reason) => line.plain(": ").plain(&reason),
                None => line,
            }
        }
        Fact::HookLate { effect, after_ms } => {
            let took = units::took_whole(*after_ms);
            line.plain(&format!("{} answered too late, after {took}: not counted", hook_name(effect, known.spec)))
        }
        Fact::ToolLate { after_ms, .. } => {
            line.plain(&format!("the call's answer came too late, after {}: not read", units::took_whole(*after_ms)))
        }
        Fact::DecisionIgnored { approval, approve, by, why, .. } => {
            let word = if *approve { "yes" } else { "no" };
            line.add(Role::Bad, "ignored").plain(&format!(" a {word} by {by} on {approval}: {why}"))
        }
        Fact::ModelAnswered { text, calls, ms, .. } => {
            let asks = match calls.as_slice() {
                [] => String::new(),
                [call] => format!(" and asks for {}", call.tool),
                calls => format!(" and asks for {}", units::plural(calls.len() as u64, "call")),
            };
            let line = line.plain("model answered").plain(&asks).add(Role::Dim, &format!(", {}", units::took(*ms)));
            match text {
                Some(text) => {
                    let room = line.room(look).saturating_sub(2);
                    line.plain(": ").plain(&values::stored(text, room.max(8), look))
                }
                None => line,
            }
        }
        Fact::ModelFailed { message, .. } => line.add(Role::Bad, "model gave no turn").plain(": ").plain(message),
        Fact::ToolReturned { outcome, ms, .. } => returned(line, outcome, *ms, look),
        Fact::Compacted { summary, fault: why, ms, .. } => {
            let line = line
                .add(compaction::word(fact).1, &compaction::short(fact))
                .add(Role::Dim, &format!(", {}", units::took(*ms)));
            match summary.as_ref().and_then(compaction::words).or(why.as_deref()) {
                Some(words) => line.plain(": ").plain(words),
                None => line,
            }
        }
        // They may take several lines.
        Fact::LifecycleAnswered { .. } | Fact::SessionEnded { .. } => line,
        Fact::ApprovalDecided { approve, by, verified, note, .. } => {
            let (role, word) = if *approve { (Role::Good, "approved") } else { (Role::Bad, "declined") };
            let claim = if *verified { "verified" } else { "claimed" };
            let line = line.add(role, word).plain(&format!(" by {by} ({claim})"));
            match note {
                Some(note) => line.plain(": ").plain(note),
                None => line,
            }
        }
        Fact::ApprovalExpired { approval, .. } => {
            line.add(Role::Bad, "nobody decided in time").plain(&format!(": {approval}"))
        }
        Fact::Resumed { process } => line.add(Role::Strong, "taken up again").plain(&format!(" by {process}")),
        Fact::ToolState { tool, state, why } => {
            let line = line.plain(&format!("{tool} is ")).add(Role::Warn, state);
            match why {
                Some(why) => line.plain(": ").plain(why),
                None => line,
            }
        }
        Fact::CallRequested { call, .. } => {
            let line = line.plain(&format!("the agent asks for {} with ", call.tool));
            let room = line.room(look).max(8);
            let line = line.plain(&values::stored(&call.arguments, room, look));
            match &call.refused {
                Some(why) => line.plain(": ").add(Role::Bad, "refused").plain(&format!(": {why}")),
                None => line,
            }
        }
        Fact::CallLeft { .. } => line.plain("the agent waits no longer; it may ask for the same call again"),
        Fact::CallCancelled { .. } => line.add(Role::Warn, "cancelled").plain(" by the agent"),
        Fact::OutputOffered { output } => {
            line.plain(&format!("the agent ends with an output of {}", units::bytes(output.bytes)))
        }
        Fact::AgentLeft { by, done, failed } => {
            let how = if *done { "" } else { " before it was done" };
            let line = line.plain(&format!("{by} left{how}"));
            match failed {
                Some(why) => line.plain(": ").add(Role::Bad, why),
                None => line,
            }
        }
        Fact::Cancelled { by } => line.add(Role::Warn, "cancelled").plain(&format!(" by {by}")),
        Fact::Finished { outcome } => match outcome {
            Outcome::Completed { output } => {
                line.add(Role::Good, "completed").plain(&format!(" with an output of {}", units::bytes(output.bytes)))
            }
            Outcome::Failed { error } => {
                line.add(Role::Bad, "failed").plain(&format!(": {}: {}", error.kind, error.message))
            }
            Outcome::Cancelled { by } => line.add(Role::Warn, "ended as cancelled").plain(&format!(" by {by}")),
        },
    }
}

fn begun(line: Line, command: &Command, known: &Known<'_>, look: Look) -> Line {
    match command {
        Command::Ask { call, head, .. } => {
            let about = head.tool.as_deref().map(|t| format!(" about {t}")).unwrap_or_default();
            line.plain(&format!("asks {call}{about} ({})", head.event.name()))
        }
        Command::CallTool { call, tool, arguments, grant, .. } => {
            let yes = if grant.is_some() { " (approved)" } else { "" };
            let child = known.spec.filter(|_| subagent::is_start(tool));
            let yes = match child.map(|spec| subagent::child_job(&spec.job, call)) {
                Some(job) => format!("{yes}, as {job},"),
                None => yes.to_owned(),
            };
            let arguments = known.values.get(&*arguments.sha256).copied().unwrap_or(arguments);
            let line = line.plain(&format!("calls {tool}{yes} with "));
            let room = line.room(look).max(8);
            line.plain(&values::stored(arguments, room, look))
        }
        Command::LetCall { tool, arguments, grant, asked, .. } => {
            let arguments = known.values.get(&*arguments.sha256).copied().unwrap_or(arguments);
            let line = match (asked.first(), grant) {
                (Some(first), _) => line
                    .add(Role::Warn, "has the person there asked")
                    .plain(&format!(" ({}: {}) about {tool} with ", first.hook, first.reason)),
                (None, Some(_)) => line.plain(&format!("lets the agent call {tool} (approved) with ")),
                (None, None) => line.plain(&format!("lets the agent call {tool} with ")),
            };
            let room = line.room(look).max(8);
            line.plain(&values::stored(arguments, room, look))
        }
        Command::AskLifecycle { point, servers, skip, failure, .. } => match skip {
            Some(skip) => line
                .plain(&format!("{} is not asked: ", point.function()))
                .plain(&advice::skipped(*skip, failure.as_deref())),
            None => line.plain(&format!("asks {} of {}", point.function(), servers.join(", "))),
        },
        Command::CallModel { turn, .. } => line.plain(&format!("asks the model for turn {turn}")),
        Command::Compact { plan, .. } => line.plain(if plan.summary_tokens > 0 {
            "asks for a summary: the window is nearly full"
        } else {
            "shortens the last results: the window is nearly full"
        }),
        Command::OpenApproval { approval, .. } => {
            let expiry = text::duration(approval.expires_after_ms);
            line.add(Role::Warn, "asks a person").plain(&format!(" within {expiry}: {}", approval.id))
        }
        Command::CloseApproval { approval } => line.plain(&format!("closes {approval}")),
        // These are no effects: no history holds them.
        Command::Admit { .. } | Command::Answer { .. } | Command::SendBack { .. } => line,
        Command::Finish { .. } => line.plain("ends"),
    }
}

fn returned(line: Line, outcome: &ToolOutcome, ms: f64, look: Look) -> Line {
    let took = format!(", {}", units::took(ms));
    match outcome {
        ToolOutcome::Returned { result, is_error, .. } => {
            let (role, word) = if *is_error { (Role::Bad, "error") } else { (Role::Plain, "result") };
            let line = line.add(role, word).add(Role::Dim, &took).plain(": ");
            let room = line.room(look).max(8);
            line.plain(&values::stored(result, room, look))
        }
        ToolOutcome::Failed { why } => {
            line.add(Role::Bad, "the call failed").add(Role::Dim, &took).plain(": ").plain(why)
        }
        ToolOutcome::TimedOut { after_ms } => {
            line.add(Role::Bad, "the call did not end").plain(&format!(" within {}", text::duration(*after_ms)))
        }
        ToolOutcome::Unknown { why } => line.add(Role::Bad, "the call may have been made").plain(": ").plain(why),
        ToolOutcome::NotMade { why } => line.add(Role::Bad, "the call was not made").plain(": ").plain(why),
    }
}

/// The colour and word of a job's status.
pub(crate) fn status(status: JobStatus) -> (Role, &'static str) {
    match status {
        JobStatus::Running => (Role::Change, "running"),
        JobStatus::Waiting => (Role::Warn, "waiting"),
        JobStatus::Completed => (Role::Good, "completed"),
        JobStatus::Failed => (Role::Bad, "failed"),
        JobStatus::Cancelled => (Role::Bad, "cancelled"),
    }
}

/// A job at a glance: its row, what its history came to, the approvals that wait, and what to do next.
///
/// Values of the records should be loaded: the input and the output are shown where they are.
pub(crate) fn show(
    row: &JobRow,
    records: &[Record],
    approvals: &[ApprovalRow],
    now_ms: u64,
    look: Look,
    next: &Next,
) -> String {
    let mut out = String::new();
    let mut put = |label: &str, role: Role, text: &str| {
        out.push_str(&Line::default().add(Role::Dim, label).pad(12).add(role, text).end(look));
    };
    let spec = started(records);
    let (role, word) = status(row.status);
    let process = match (row.running, row.status.is_final()) {
        (true, _) => ", a process runs it",
        (false, false) => ", no process runs it",
        (false, true) => "",
    };
    put("job", Role::Strong, &row.job.id);
    put("status", role, &format!("{word}{process}"));
    put("agent", Role::Plain, &row.job.agent);
    if let Some(spec) = spec {
        let label = if scripted(&spec.agent.model) { " (scripted)" } else { "" };
        put("model", Role::Plain, &format!("{}{label}", spec.agent.model));
    }
    put("tenant", Role::Plain, &row.job.tenant);
    put("session", Role::Plain, &row.job.session);
    if let Some(door) = family::door(row) {
        put("door", Role::Plain, door);
    }
    if let Some(earlier) = spec.and_then(|spec| spec.continues.as_ref()) {
        put("continues", Role::Plain, &earlier.job);
    }
    if let Some(parent) = &row.job.parent {
        put("started by", Role::Plain, parent);
    }
    let created = format!("{} ({})", units::moment(row.job.created_ms), units::ago(row.job.created_ms, now_ms));
    put("created", Role::Plain, &created);
    put("updated", Role::Plain, &format!("{} ({})", units::moment(row.updated_ms), units::ago(row.updated_ms, now_ms)));
    put("records", Role::Plain, &units::count(row.records));
    let figures = if row.status.is_final() { "in all" } else { "so far" };
    for (i, part) in Tally::of(records).rows(look.width - 12).iter().enumerate() {
        put(if i == 0 { figures } else { "" }, Role::Plain, part);
    }
    if let Some(Outcome::Cancelled { by }) = outcome(records) {
        put("cancelled", Role::Warn, &format!("by {by}"));
    }
    if let Some(spec) = spec {
        out.push_str(&value("input", &spec.input, look));
    }
    match outcome(records) {
        Some(Outcome::Completed { output }) => out.push_str(&value("output", output, look)),
        Some(Outcome::Failed { error }) => {
            out.push_str(&Line::default().add(Role::Dim, "error").pad(12).add(Role::Bad, &error.kind).end(look));
            out.push_str(&block(&error.message, 40, look));
        }
        Some(Outcome::Cancelled { .. }) | None => {}
    }
    let mut put = |label: &str, role: Role, text: &str| {
        out.push_str(&Line::default().add(Role::Dim, label).pad(12).add(role, text).whole(look));
    };
    for approval in approvals.iter().filter(|a| family::concerns(a, &row.job.id) && a.state == ApprovalState::Open) {
        let expiry = units::ahead(approval.expires_ms, now_ms);
        put("waits for", Role::Warn, &format!("{} (expires {expiry})", approval.id));
        put("", Role::Dim, &next.command(&format!("approvals show {}", approval.id)));
    }
    if !row.status.is_final() && !row.running && crate::acp::job::client_servers(row).is_empty() {
        put("go on", Role::Dim, &next.command(&format!("jobs resume {}", family::first(row.job.id.as_str(), spec))));
    }
    out
}

/// Rows of an input or output in `jobs show`.
const VALUE_ROWS: usize = 12;

/// A value with its size, and as much of it as a few rows hold.
fn value(label: &str, stored: &Stored, look: Look) -> String {
    let line = Line::default().add(Role::Dim, label).pad(12);
    match &stored.value {
        Some(value) => {
            line.add(Role::Dim, &units::bytes(stored.bytes)).end(look) + &block(&values::text(value), VALUE_ROWS, look)
        }
        // What is there was loaded before.
        None => line.add(Role::Dim, &values::deleted(stored)).end(look),
    }
}

/// Untrusted text behind a bar; what is left out is said.
fn block(text: &str, rows: usize, look: Look) -> String {
    let (mut block, left_out) = flow::block_in(text, &format!("{:12}{}", "", look.bar()), look.width - 14, rows);
    if left_out > 0 {
        let more = format!("{} {} more", look.ellipsis(), units::bytes(left_out as u64));
        block.push_str(&Line::default().pad(12).add(Role::Dim, &more).end(look));
    }
    block
}

/// How a history ends, if it does.
pub(crate) fn outcome(records: &[Record]) -> Option<&Outcome> {
    records.iter().rev().find_map(|r| if let Fact::Finished { outcome } = &r.fact { Some(outcome) } else { None })
}
