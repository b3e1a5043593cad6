//! What must hold of jobs, whatever was killed: a pure function over what histories, servers and people say.
//!
//! Times are of one machine's clock: records, the lines that servers append, all of them in Unix milliseconds.
//!
//! Invariant: nothing of the machine that wrote the histories is asked; what a verdict is, is worked out here anew.

mod call;
mod people;

use hookwright_core::history::Record;
use hookwright_core::job::{Command, Fact, JobSpec, Outcome};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// All that was seen of a run.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// The jobs.
    pub jobs: Vec<Job>,
    /// Calls that servers made, as they say themselves.
    pub effects: Vec<Effect>,
    /// Asks that hooks' servers got, as they say themselves.
    pub asks: Vec<Ask>,
    /// What people decided, as they were told.
    pub decisions: Vec<Decision>,
}

/// A job, as it is stored.
#[derive(Debug, Clone)]
pub struct Job {
    /// Its id.
    pub id: String,
    /// `completed`, `failed`, …
    pub status: String,
    /// Its records.
    pub records: Vec<Record>,
}

impl Job {
    /// Whether another job started it.
    pub fn is_child(&self) -> bool {
        let first = self.records.first().map(|record| &record.fact);
        matches!(first, Some(Fact::Started { spec }) if !spec.parent_jobs.is_empty())
    }
}

/// A call that was made.
#[derive(Debug, Clone)]
pub struct Effect {
    /// When.
    pub at_ms: u64,
    /// The function's full name.
    pub tool: String,
    /// The arguments, which no other call of the run has.
    pub arguments: Value,
}

/// An ask that reached a hook.
#[derive(Debug, Clone)]
pub struct Ask {
    /// When.
    pub at_ms: u64,
    /// The function's full name.
    pub call: String,
    /// The event.
    pub event: Value,
}

/// A person's decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The approval's id.
    pub approval: String,
    /// Yes or no.
    pub approve: bool,
    /// The name.
    pub by: String,
    /// Whether the person was told that it counts.
    pub counted: bool,
}

/// Kinds of what must not be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A job has no end, or its row says another one.
    NotOver,
    /// A job failed for another reason than a hook's or a person's no.
    Failed,
    /// A recorded call was made twice, or not at all.
    Calls,
    /// A call was made that no record says, or before its record, or after its end.
    Unrecorded,
    /// A call was made without a verdict that lets it, or with other arguments than its verdict left.
    Verdict,
    /// A recorded answer was asked for again.
    AskedAgain,
    /// An ask reached a hook that no record says, or an answer is recorded that nobody was asked for.
    Ask,
    /// An effect begins or ends twice, or ends without a beginning.
    Records,
    /// A decision or an approval was lost.
    Lost,
    /// An approval or a yes was used twice.
    Twice,
    /// A decision is recorded that nobody made.
    Forged,
}

/// What must not be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Its kind.
    pub kind: Kind,
    /// For people: where, and what.
    pub what: String,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}: {}", self.kind, self.what)
    }
}

/// Collects what must not be.
#[derive(Default)]
struct Found(Vec<Violation>);

impl Found {
    fn add(&mut self, kind: Kind, what: impl Into<String>) {
        self.0.push(Violation { kind, what: what.into() });
    }
}

/// Everything that must not be, and is.
pub fn check(seen: &Seen) -> Vec<Violation> {
    let mut found = Found::default();
    let read: Vec<Read<'_>> = seen.jobs.iter().filter_map(|job| Read::of(job, &mut found)).collect();
    for job in &read {
        ends(job, &mut found);
        call::verdicts(job, &mut found);
        asks(job, seen, &mut found);
    }
    call::made(&read, &seen.effects, &mut found);
    strays(&read, seen, &mut found);
    people::decisions(&read, &seen.decisions, &mut found);
    found.0
}

/// A job's records, by effect.
struct Read<'a> {
    job: &'a Job,
    spec: &'a JobSpec,
    /// What was begun, in order.
    begun: BTreeMap<&'a str, (&'a Record, &'a Command)>,
    /// How it ended.
    ended: BTreeMap<&'a str, &'a Record>,
    cancelled: bool,
}

impl<'a> Read<'a> {
    fn of(job: &'a Job, found: &mut Found) -> Option<Self> {
        let Some(Fact::Started { spec }) = job.records.first().map(|record| &record.fact) else {
            found.add(Kind::Records, format!("{}: it has no first record", job.id));
            return None;
        };
        let mut read = Self { job, spec, begun: BTreeMap::new(), ended: BTreeMap::new(), cancelled: false };
        for record in &job.records {
            let twice = match &record.fact {
                Fact::Begun { command } => match command.effect() {
                    Some(effect) => read.begun.insert(effect, (record, command)).map(|_| effect),
                    None => None,
                },
                Fact::Cancelled { .. } => {
                    read.cancelled = true;
                    None
                }
                fact => match end_of(fact) {
                    Some(effect) => {
                        if !read.begun.contains_key(effect) {
                            found.add(Kind::Records, format!("{} {effect}: it ended without a beginning", job.id));
                        }
                        read.ended.insert(effect, record).map(|_| effect)
                    }
                    None => None,
                },
            };
            if let Some(effect) = twice {
                found.add(Kind::Records, format!("{} {effect}: it stands twice (record {})", job.id, record.seq));
            }
        }
        Some(read)
    }

    fn at(&self, effect: &str) -> String {
        format!("{} {effect}", self.job.id)
    }
}

/// The effect that a fact ends.
fn end_of(fact: &Fact) -> Option<&str> {
    match fact {
        Fact::HookAnswered { effect, .. }
        | Fact::ModelAnswered { effect, .. }
        | Fact::ModelFailed { effect, .. }
        | Fact::Compacted { effect, .. }
        | Fact::ToolReturned { effect, .. }
        | Fact::ApprovalDecided { effect, .. }
        | Fact::ApprovalExpired { effect, .. }
        | Fact::LifecycleAnswered { effect, .. } => Some(effect),
        _ => None,
    }
}

/// Every job is over, and failed only where that is honest.
fn ends(read: &Read<'_>, found: &mut Found) {
    let id = &read.job.id;
    let ends: Vec<&Outcome> = read
        .job
        .records
        .iter()
        .filter_map(|record| if let Fact::Finished { outcome } = &record.fact { Some(outcome) } else { None })
        .collect();
    let [outcome] = ends[..] else {
        return found.add(Kind::NotOver, format!("{id}: {} ends; its row says {}", ends.len(), read.job.status));
    };
    let word = match outcome {
        Outcome::Completed { .. } => "completed",
        Outcome::Failed { .. } => "failed",
        Outcome::Cancelled { .. } => "cancelled",
    };
    if word != read.job.status {
        found.add(Kind::NotOver, format!("{id}: it {word}, and its row says {}", read.job.status));
    }
    if let Outcome::Failed { error } = outcome {
        let error = serde_json::to_value(error).unwrap_or_default();
        if error["type"] != "HookDenied" {
            found.add(Kind::Failed, format!("{id}: {error}"));
        }
    }
    if word == "cancelled" {
        return;
    }
    for effect in read.begun.keys().filter(|effect| !read.ended.contains_key(*effect)) {
        // The ask at a session's end has a fact of its own.
        if *effect != "session_end" {
            found.add(Kind::Records, format!("{}: begun, and never ended", read.at(effect)));
        }
    }
}

/// What identifies an ask on both sides: moment, call, function.
type Question = (String, String, String);

fn question(event: &Value, call: &str) -> Question {
    let text = |key: &str| event[key].as_str().unwrap_or_default().to_owned();
    (text("event"), text("call"), call.to_owned())
}

/// Each answer that is recorded was asked for, and not asked for again.
fn asks(read: &Read<'_>, seen: &Seen, found: &mut Found) {
    let mut asked: BTreeMap<Question, Vec<u64>> = BTreeMap::new();
    for ask in seen.asks.iter().filter(|ask| ask.event["job"] == *read.job.id) {
        asked.entry(question(&ask.event, &ask.call)).or_default().push(ask.at_ms);
    }
    let mut known = BTreeSet::new();
    for (effect, (record, command)) in &read.begun {
        let Command::Ask { call, head, .. } = command else { continue };
        let head = serde_json::to_value(head).unwrap_or_default();
        let question = question(&head, &call.to_string());
        let times = asked.get(&question).cloned().unwrap_or_default();
        known.insert(question);
        if times.iter().any(|at| *at < record.at_ms) {
            found.add(Kind::Ask, format!("{}: asked before the record of its beginning", read.at(effect)));
        }
        let Some(end) = read.ended.get(effect) else { continue };
        if let Some(late) = times.iter().find(|at| **at > end.at_ms) {
            let after = late - end.at_ms;
            found.add(
                Kind::AskedAgain,
                format!("{}: asked again {after} ms after its answer was recorded", read.at(effect)),
            );
        }
        let failed = matches!(&end.fact, Fact::HookAnswered { outcome, .. } if call::is_failure(outcome));
        if times.is_empty() && !failed {
            found.add(Kind::Ask, format!("{}: an answer that nobody was asked for", read.at(effect)));
        }
    }
    for (question, times) in asked.iter().filter(|(question, _)| !known.contains(*question)) {
        found.add(
            Kind::Ask,
            format!("{}: {question:?} was asked {} times, and no record says so", read.job.id, times.len()),
        );
    }
}

/// Nothing was asked for a job that is not there.
fn strays(read: &[Read<'_>], seen: &Seen, found: &mut Found) {
    let known: BTreeSet<&str> = read.iter().map(|read| read.job.id.as_str()).collect();
    for ask in &seen.asks {
        let job = ask.event["job"].as_str().unwrap_or_default();
        if !known.contains(job) {
            found.add(Kind::Ask, format!("{} was asked for {job:?}, which is no job", ask.call));
        }
    }
}

#[cfg(test)]
mod tests;
