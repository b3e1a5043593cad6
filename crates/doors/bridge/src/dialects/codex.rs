//! Codex.
//!
//! Facts: its payloads are Claude Code's with `turn_id`. It ignores a deny without a reason or with any key that it does not know, and `ask`;
//! it has no switch for hooks that fail. After a call, `decision: block` puts the reason in the place of the result. Exit code 2 needs a
//! reason on standard error.

use super::{Context, Dialect, claude, drops_a_key, nothing, refused, said};
use crate::ask::{Ask, Reply};
use crate::door::{Printed, unchanged};
use crate::fields::{Fault, Fields, as_text};
use crate::harness::{Harness, Moment};
use serde_json::{Value, json};

pub(super) struct Codex;

impl Dialect for Codex {
    fn events(&self) -> &'static [(&'static str, Moment)] {
        // It has no event for failed calls: those are told as any other.
        &claude::EVENTS[..8]
    }

    fn event<'a>(&self, raw: &'a Value) -> Option<&'a str> {
        raw["hook_event_name"].as_str()
    }

    fn read(&self, harness: Harness, moment: Moment, raw: &Value) -> Result<Ask, Fault> {
        claude::read(harness, moment, Fields::of(raw)?, "turn_id", None)
    }

    fn print(&self, context: Context<'_>, reply: &Reply) -> Printed {
        let inside = |mut more: Value| {
            more["hookEventName"] = context.event.into();
            json!({"hookSpecificOutput": more})
        };
        let deny =
            |text: &str| refused(inside(json!({"permissionDecision": "deny", "permissionDecisionReason": text})), text);
        let block = |text: &str| json!({"decision": "block", "reason": text});
        match reply {
            Reply::Allow => nothing(),
            Reply::Deny { text } if context.moment == Moment::Prompt => refused(block(text), text),
            Reply::Deny { text } | Reply::AskPerson { text, .. } => deny(text),
            Reply::Rewrite { arguments } if takes(context.raw, arguments) => {
                said(inside(json!({"permissionDecision": "allow", "updatedInput": arguments})))
            }
            Reply::Rewrite { .. } => deny(&unchanged(Harness::Codex)),
            Reply::Replace { result } => said(block(&filled(as_text(result)))),
            Reply::Withhold { text } | Reply::Hold { text } => said(block(text)),
        }
    }
}

/// A block without words is none.
fn filled(text: String) -> String {
    if text.trim().is_empty() { "(nothing)".to_owned() } else { text }
}

/// Its own tools take `command` from what is rewritten and nothing else; MCP calls take all of it.
fn takes(raw: &Value, arguments: &Value) -> bool {
    if raw["tool_name"].as_str().is_some_and(|tool| tool.starts_with("mcp__")) {
        return true;
    }
    let old = raw.get("tool_input");
    let others = |value: &Value| {
        let mut value = value.clone();
        value.as_object_mut().map(|map| map.remove("command"));
        value
    };
    arguments["command"].is_string()
        && !drops_a_key(old, arguments)
        && old.is_some_and(|old| others(old) == others(arguments))
}
