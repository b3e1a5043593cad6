//! What each harness says and understands.
//!
//! Invariant: an allow never grants more than the harness's own rules would: it says nothing of permissions, unless a rewrite needs it.

mod claude;
mod cline;
mod codex;
mod copilot;
mod cursor;
mod gemini;
mod goose;
mod opencode;

pub use crate::door::Context;

use crate::ask::{Ask, Reply};
use crate::door::Printed;
use crate::fields::Fault;
use crate::harness::{Harness, Moment};
use serde_json::{Value, json};

/// A harness's payloads and answers.
pub trait Dialect: Sync {
    /// Its hook events, as its configuration names them, with what they mean.
    fn events(&self) -> &'static [(&'static str, Moment)];

    /// The event that a payload says it is about.
    fn event<'a>(&self, raw: &'a Value) -> Option<&'a str>;

    /// A payload in neutral words.
    fn read(&self, harness: Harness, moment: Moment, raw: &Value) -> Result<Ask, Fault>;

    /// Whether a person is asked there, as the harness is run now.
    fn may_ask(&self, _raw: &Value) -> bool {
        true
    }

    /// A reply in its own words.
    fn print(&self, context: Context<'_>, reply: &Reply) -> Printed;

    /// What an event means.
    fn moment(&self, event: &str) -> Option<Moment> {
        self.events().iter().find(|(name, _)| *name == event).map(|(_, moment)| *moment)
    }
}

/// The dialect of a harness.
pub fn of(harness: Harness) -> &'static dyn Dialect {
    match harness {
        Harness::ClaudeCode | Harness::ClaudeAgentSdk => &claude::Claude,
        Harness::Codex => &codex::Codex,
        Harness::GeminiCli => &gemini::Gemini,
        Harness::CopilotCli => &copilot::Copilot,
        Harness::OpenCode => &opencode::OpenCode,
        Harness::Cline => &cline::Cline,
        Harness::Goose => &goose::Goose,
        Harness::Cursor => &cursor::Cursor,
    }
}

/// Printed with code 0.
fn said(value: Value) -> Printed {
    Printed { stdout: value.to_string(), ..Printed::default() }
}

/// Nothing to say.
fn nothing() -> Printed {
    said(json!({}))
}

/// A no that is said twice: as JSON, and by code 2 with the reason on standard error. Each alone is enough for the harness.
fn refused(value: Value, text: &str) -> Printed {
    Printed { stdout: value.to_string(), stderr: text.to_owned(), code: 2 }
}

/// Whether the new arguments lack a key of the old ones: where a harness merges, that key would stay.
fn drops_a_key(old: Option<&Value>, new: &Value) -> bool {
    let Some(old) = old.and_then(Value::as_object) else { return true };
    old.keys().any(|key| new.get(key).is_none())
}
