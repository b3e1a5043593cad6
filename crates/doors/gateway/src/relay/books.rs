//! What is under way between a client and the session that it has, so that a session's end leaves nobody waiting.

use super::peek::{self, Seen};
use crate::call::error_result;
use crate::wire::{self, Fault, Id};
use hookwright_core::text;
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};

/// What the client has set and another node does not know: at most so many.
const KEPT: usize = 1_024;
/// How ids of ours begin.
const OURS: &str = "hookwright-again-";
/// What a new session's ids are beyond those of the one before.
const APART: u64 = 1_000;

/// A request of the client that has no answer.
struct Open {
    count: u32,
    /// The function, where it is a call.
    tool: Option<String>,
}

/// What becomes of what the client says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Passing {
    /// It goes to the session; a request of it is in the books now.
    On,
    /// It answers what this session did not ask: it goes nowhere.
    Nowhere,
    /// There is no session.
    Closed,
}

/// What the client is to be told of what is lost.
pub(super) struct Lost {
    pub(super) messages: Vec<Vec<u8>>,
}

/// The books of one client.
pub(super) struct Books {
    version: String,
    /// The number of the session that there is.
    session: u64,
    open: bool,
    leaving: bool,
    /// Whether the client said hello: every result stands for itself otherwise.
    greeted: bool,
    asked: HashMap<String, Open>,
    /// Ids of what the session asked the client.
    theirs: HashSet<String>,
    highest: u64,
    /// What the client has set, by what it sets.
    set: Vec<(String, Vec<u8>)>,
    /// Ids of ours whose answers are nobody's.
    ours: HashSet<String>,
}

impl Books {
    pub(super) fn new(version: String) -> Self {
        Self {
            version,
            session: 0,
            open: false,
            leaving: false,
            greeted: false,
            asked: HashMap::new(),
            theirs: HashSet::new(),
            highest: 0,
            set: vec![],
            ours: HashSet::new(),
        }
    }

    /// A session begins; its number.
    pub(super) fn begun(&mut self) -> u64 {
        self.session += 1;
        self.open = true;
        self.session
    }

    /// The client goes: what has no answer needs none.
    pub(super) fn leaving(&mut self) {
        self.leaving = true;
    }

    /// The first id of what a new session asks.
    pub(super) fn ids_from(&self) -> u64 {
        self.highest + APART
    }

    /// The client says something.
    pub(super) fn asked(&mut self, seen: &Seen<'_>, line: &[u8]) -> Passing {
        if !self.open {
            return Passing::Closed;
        }
        match (&seen.method, seen.id) {
            (Some(_), Some(id)) => {
                self.greeted |= seen.is("initialize");
                let tool = seen.is("tools/call").then(|| peek::param(line, "name").unwrap_or_default());
                self.asked.entry(id.to_owned()).or_insert(Open { count: 0, tool }).count += 1;
                self.keep(seen, line);
                Passing::On
            }
            (Some(_), None) => {
                if seen.is("notifications/cancelled")
                    && let Some(id) = peek::raw_param(line, "requestId")
                {
                    self.answered(&id);
                }
                Passing::On
            }
            (None, Some(id)) if self.theirs.remove(id) => Passing::On,
            (None, Some(_)) => Passing::Nowhere,
            // What can't be read is for the session to complain about.
            (None, None) => Passing::On,
        }
    }

    /// Remembers what sets something for the whole session.
    fn keep(&mut self, seen: &Seen<'_>, line: &[u8]) {
        let of = |key: &str| peek::param(line, key).unwrap_or_default();
        let (what, on) = match seen.method.as_deref() {
            Some("logging/setLevel") => ("level".to_owned(), true),
            Some("resources/subscribe") => (format!("resource {}", of("uri")), true),
            Some("resources/unsubscribe") => (format!("resource {}", of("uri")), false),
            _ => return,
        };
        self.set.retain(|(other, _)| *other != what);
        if on && self.set.len() < KEPT {
            let method = seen.method.as_deref().unwrap_or_default();
            let (method, params) = (Value::from(method), peek::params(line));
            let id = Value::from(format!("{OURS}{what}"));
            let again = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":{method},\"params\":{params}}}\n");
            self.set.push((what, again.into_bytes()));
        }
    }

    /// What a new session is told after the client's own hello.
    pub(super) fn again(&mut self) -> Vec<u8> {
        let mut lines = wire::notification("notifications/initialized", &json!({}));
        lines.push(b'\n');
        for (what, line) in &self.set {
            self.ours.insert(Value::from(format!("{OURS}{what}")).to_string());
            lines.extend_from_slice(line);
        }
        lines
    }

    fn answered(&mut self, id: &str) -> bool {
        let Some(open) = self.asked.get_mut(id) else { return false };
        open.count -= 1;
        if open.count == 0 {
            self.asked.remove(id);
        }
        true
    }

    /// A request was not passed on after all. False where it has been answered already.
    pub(super) fn forget(&mut self, seen: &Seen<'_>) -> bool {
        match (&seen.method, seen.id) {
            (Some(_), Some(id)) => self.answered(id),
            _ => true,
        }
    }

    /// The session says something. False where it is nothing for the client.
    pub(super) fn told(&mut self, session: u64, seen: &Seen<'_>) -> bool {
        if session != self.session {
            return false;
        }
        let Some(id) = seen.id else { return true };
        if seen.method.is_some() {
            self.highest = self.highest.max(id.parse().unwrap_or(0));
            self.theirs.insert(id.to_owned());
            return true;
        }
        self.answered(id);
        !self.ours.remove(id)
    }

    /// The session has ended. What the client waits for is answered; what it was asked is taken back.
    pub(super) fn ended(&mut self, session: u64) -> Lost {
        let mut messages = vec![];
        if session == self.session {
            self.open = false;
            let (asked, theirs) = (std::mem::take(&mut self.asked), std::mem::take(&mut self.theirs));
            if !self.leaving {
                for (id, open) in asked {
                    let Some(id) = Id::of_text(&id) else { continue };
                    messages.extend((0..open.count).map(|_| self.lost(&id, open.tool.as_deref())));
                }
                messages.extend(theirs.iter().filter_map(|id| serde_json::from_str::<Value>(id).ok()).map(|id| {
                    let params = json!({"requestId": id, "reason": "the node that asked has ended"});
                    wire::notification("notifications/cancelled", &params)
                }));
            }
        }
        Lost { messages }
    }

    fn lost(&self, id: &Id, tool: Option<&str>) -> Vec<u8> {
        match tool {
            Some(tool) => self.result(id, &unknown(tool)),
            None => wire::error(Some(id), &Fault::new(wire::INTERNAL, "the node ended before it answered; ask again")),
        }
    }

    fn result(&self, id: &Id, text: &str) -> Vec<u8> {
        let result = error_result(text);
        let result = if self.greeted { result } else { wire::signed(wire::complete(result), &self.version) };
        wire::result(id, &Value::Object(result))
    }

    /// What a request gets that reached no session.
    pub(super) fn not_begun(&self, seen: &Seen<'_>, line: &[u8], why: &str) -> Option<Vec<u8>> {
        let id = seen.id.and_then(Id::of_text)?;
        if seen.is("tools/call") {
            let tool = text::shown(&peek::param(line, "name").unwrap_or_default(), 200);
            let text = format!("The call to {tool} was not made: {}.", why.trim_end_matches('.'));
            return Some(self.result(&id, &text));
        }
        Some(wire::error(Some(&id), &Fault::new(wire::INTERNAL, why)))
    }
}

/// What is read of a call whose session ended before its answer.
fn unknown(tool: &str) -> String {
    format!(
        "It is not known whether the call to {} was made: the node ended meanwhile. Check before you call it again.",
        text::shown(tool, 200)
    )
}
