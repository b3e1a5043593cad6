//! One run of the bridge, as a value: a payload goes in, what is printed comes out.
//!
//! Invariant: every path ends in [`Printed`], and every path that is not the node's own word ends in the refusal of that event.

use crate::ask::{Ask, Escalate, Reply, Request, What};
use crate::dialects::{self, Dialect};
use crate::harness::{Harness, Moment};
use hookwright_core::job::AsksThere;
use hookwright_core::{json, text};
use serde_json::Value;
use std::fmt;

/// The largest payload that is read.
pub const MAX_PAYLOAD_BYTES: usize = 16 * 1024 * 1024;
/// Characters of what a model or a person is told about a failure.
const MAX_TROUBLE_CHARS: u32 = 600;
/// Levels of a payload's JSON; the parser refuses more.
const DEEP: usize = 100;

/// What the process prints, and how it ends.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Printed {
    /// One JSON object.
    pub stdout: String,
    /// A reason, for harnesses that take it from there.
    pub stderr: String,
    /// The exit code.
    pub code: u8,
}

/// Why there is no reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// The node was not reached.
    Unreachable {
        /// The store that it is the node of.
        store: String,
        /// Why.
        why: String,
    },
    /// It was reached, and said nothing in time.
    Silent {
        /// How long it was waited for, in milliseconds.
        waited_ms: u64,
    },
    /// It said something else, or went away.
    Broken {
        /// What.
        why: String,
    },
    /// The payload can't be read.
    Payload {
        /// Why.
        why: String,
    },
    /// This process failed.
    Own {
        /// How.
        why: String,
    },
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable { store, why } => write!(
                f,
                "Hookwright let nothing through, because no node can be asked ({why}). Start one with `hookwright serve --db {store}`"
            ),
            Self::Silent { waited_ms } => write!(
                f,
                "Hookwright let nothing through, because its node did not answer within {}",
                text::duration(*waited_ms)
            ),
            Self::Broken { why } => {
                write!(f, "Hookwright let nothing through, because its node gave no answer that can be used ({why})")
            }
            Self::Payload { why } => {
                write!(f, "Hookwright let nothing through, because the event can't be read ({why})")
            }
            Self::Own { why } => write!(f, "Hookwright let nothing through, because its bridge failed ({why})"),
        }
    }
}

/// A payload that was read, as far as its reply needs it.
#[derive(Debug, Clone)]
pub struct Asked {
    event: String,
    moment: Moment,
    already_held: bool,
    raw: Value,
}

/// The bridge of one harness, for one event.
#[derive(Debug, Clone)]
pub struct Door {
    harness: Harness,
    event: Option<String>,
    escalate: Escalate,
    wait_ms: u64,
}

impl Door {
    /// A bridge for `harness`. `event` is the event that the configuration names; none: the payload has to.
    pub fn new(harness: Harness, event: Option<String>, escalate: Escalate, wait_ms: u64) -> Self {
        Self { harness, event, escalate, wait_ms }
    }

    /// Reads the payload and asks, through `exchange`.
    pub fn answer(&self, payload: &[u8], exchange: impl FnOnce(Request) -> Result<Reply, Trouble>) -> Printed {
        match self.ask(payload) {
            Ok((asked, request)) => self.say(&asked, exchange(request)),
            Err(printed) => printed,
        }
    }

    /// Reads the payload: what to ask, and what is needed to print the reply. `Err` is what is printed where it can't be read.
    pub fn ask(&self, payload: &[u8]) -> Result<(Asked, Request), Printed> {
        let dialect = dialects::of(self.harness);
        let raw = match read(payload) {
            Ok(raw) => raw,
            Err(why) => return Err(self.refuse(Trouble::Payload { why })),
        };
        let (event, moment) = match self.moment(dialect, &raw) {
            Ok(found) => found,
            Err(why) => return Err(self.refuse(Trouble::Payload { why })),
        };
        let read = dialect.read(self.harness, moment, &raw).and_then(|ask| checked(ask, payload));
        let context = Context { event: &event, moment, raw: &raw };
        let ask = match read {
            Ok(ask) => ask,
            Err(why) => {
                // A stop that may have been held before is not held again for a payload that can't be read.
                let held = raw.get("stop_hook_active").is_none_or(|held| *held != Value::Bool(false));
                return Err(dialect.print(context, &refusal(moment, held, &Trouble::Payload { why })));
            }
        };
        let already_held = matches!(ask.what, What::Stop { already_held: true, .. });
        let escalate = if dialect.may_ask(&raw) { self.escalate } else { Escalate::Wait };
        let request = Request { ask, escalate, wait_ms: self.wait_ms, tenant: None };
        Ok((Asked { event, moment, already_held, raw }, request))
    }

    /// What is printed of a reply, or where there is none.
    pub fn say(&self, asked: &Asked, reply: Result<Reply, Trouble>) -> Printed {
        let Asked { event, moment, already_held, raw } = asked;
        let reply = match reply {
            Ok(reply) => fitting(self.harness, *moment, *already_held, reply),
            Err(trouble) => refusal(*moment, *already_held, &trouble),
        };
        dialects::of(self.harness).print(Context { event, moment: *moment, raw }, &reply)
    }

    /// What is printed where the payload was not read, or this process failed.
    pub fn refuse(&self, trouble: Trouble) -> Printed {
        let dialect = dialects::of(self.harness);
        let event = self.event.as_deref().unwrap_or_default();
        match dialect.moment(event) {
            Some(moment) => {
                let context = Context { event, moment, raw: &Value::Null };
                dialect.print(context, &refusal(moment, true, &trouble))
            }
            // Nobody knows what it is about: all that any harness takes for a no.
            None => Printed {
                stdout: serde_json::json!({"decision": "block", "reason": words(&trouble)}).to_string(),
                stderr: words(&trouble),
                code: 2,
            },
        }
    }

    fn moment(&self, dialect: &dyn Dialect, raw: &Value) -> Result<(String, Moment), String> {
        let told = dialect.event(raw);
        let event = match (&self.event, told) {
            (Some(named), Some(told)) if named != told => {
                return Err(format!("it is about {told:?}, and the configuration says {named:?}"));
            }
            (Some(named), _) => named.as_str(),
            (None, Some(told)) => told,
            (None, None) => return Err("it does not say which event it is about".to_owned()),
        };
        let moment = dialect.moment(event).ok_or_else(|| format!("no event {event:?} is known"))?;
        Ok((event.to_owned(), moment))
    }
}

/// What a dialect knows when it prints.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The event's name.
    pub event: &'a str,
    /// What it means.
    pub moment: Moment,
    /// The payload; null where it can't be read.
    pub raw: &'a Value,
}

fn read(payload: &[u8]) -> Result<Value, String> {
    if payload.len() > MAX_PAYLOAD_BYTES {
        return Err(format!("it is larger than {} MiB", MAX_PAYLOAD_BYTES / 1024 / 1024));
    }
    let payload = std::str::from_utf8(payload).map_err(|_| "it is no UTF-8".to_owned())?;
    if payload.trim().is_empty() {
        return Err("it is empty".to_owned());
    }
    let value = json::parse_strict(payload).map_err(|error| error.to_string())?;
    if json::is_deep(&value, DEEP) { Err("it is nested too deeply".to_owned()) } else { Ok(value) }
}

/// Numbers that lose their value when they are read would show hooks another call than the one that is made.
fn checked(ask: Ask, payload: &[u8]) -> Result<Ask, String> {
    let is_call = matches!(ask.what, What::Before { .. });
    if is_call && !std::str::from_utf8(payload).is_ok_and(json::keeps_numbers) {
        return Err("it holds a number that can't be kept to its last digit".to_owned());
    }
    Ok(ask)
}

fn words(trouble: &Trouble) -> String {
    format!("{}.", text::shown(&trouble.to_string(), MAX_TROUBLE_CHARS))
}

/// What fails closed at that moment. A stop is held once, never twice in a row.
fn refusal(moment: Moment, already_held: bool, trouble: &Trouble) -> Reply {
    let text = words(trouble);
    match moment {
        Moment::Prompt | Moment::Before => Reply::Deny { text },
        Moment::After | Moment::Failed => Reply::Withhold { text },
        Moment::Stop | Moment::SubagentStop if !already_held => Reply::Hold { text },
        Moment::Stop | Moment::SubagentStop | Moment::Start | Moment::SubagentStart | Moment::End => Reply::Allow,
    }
}

/// The reply if it fits the moment and the harness; else what comes nearest without letting anything through.
fn fitting(harness: Harness, moment: Moment, already_held: bool, reply: Reply) -> Reply {
    let caps = harness.caps();
    match (moment, reply) {
        (_, Reply::Allow) => Reply::Allow,
        (Moment::Before, Reply::Rewrite { .. }) if !caps.rewrites_input => Reply::Deny { text: unchanged(harness) },
        (Moment::Before, Reply::AskPerson { text, .. }) if caps.asks == AsksThere::No => Reply::Deny { text },
        // The person must be shown what is made.
        (Moment::Before, Reply::AskPerson { arguments: Some(_), .. }) if caps.asks != AsksThere::Any => {
            Reply::Deny { text: unchanged(harness) }
        }
        (Moment::Stop | Moment::SubagentStop, Reply::Hold { .. }) if already_held => Reply::Allow,
        (
            Moment::Before,
            reply @ (Reply::Deny { .. } | Reply::AskPerson { .. } | Reply::Rewrite { arguments: Value::Object(_) }),
        )
        | (Moment::Prompt, reply @ Reply::Deny { .. })
        | (Moment::After | Moment::Failed, reply @ (Reply::Replace { .. } | Reply::Withhold { .. }))
        | (Moment::Stop | Moment::SubagentStop, reply @ Reply::Hold { .. }) => reply,
        (moment, _) => refusal(moment, already_held, &Trouble::Broken { why: "it does not fit the event".to_owned() }),
    }
}

/// What a model reads where a hook changed arguments and the harness can't take them over.
pub(crate) fn unchanged(harness: Harness) -> String {
    format!(
        "The call was not made: a hook changed its arguments, and {} can't take over changed arguments of this kind.",
        harness.title()
    )
}
