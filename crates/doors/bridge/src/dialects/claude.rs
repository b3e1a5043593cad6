//! Claude Code and the Claude Agent SDK.
//!
//! Facts: a deny counts only in `hookSpecificOutput` with the right `hookEventName`. `updatedToolOutput` counts only in the shape of the
//! tool's own result; a replacement of another shape is dropped silently, so where the shape is not known the turn is ended too
//! (`continue: false`). A failed call's result can't be replaced, nor does `continue: false` keep it from the model.

use super::{Context, Dialect, nothing, refused, said};
use crate::ask::{Agent, Ask, Call, Reply, What};
use crate::door::Printed;
use crate::fields::{Fault, Fields, as_text, result, splits};
use crate::harness::{Harness, Moment};
use serde_json::{Value, json};

pub(super) struct Claude;

/// The events that Claude Code and Codex share.
pub(super) const EVENTS: [(&str, Moment); 9] = [
    ("SessionStart", Moment::Start),
    ("UserPromptSubmit", Moment::Prompt),
    ("PreToolUse", Moment::Before),
    ("PostToolUse", Moment::After),
    ("SubagentStart", Moment::SubagentStart),
    ("SubagentStop", Moment::SubagentStop),
    ("Stop", Moment::Stop),
    ("SessionEnd", Moment::End),
    ("PostToolUseFailure", Moment::Failed),
];

impl Dialect for Claude {
    fn events(&self) -> &'static [(&'static str, Moment)] {
        &EVENTS
    }

    fn event<'a>(&self, raw: &'a Value) -> Option<&'a str> {
        raw["hook_event_name"].as_str()
    }

    fn read(&self, harness: Harness, moment: Moment, raw: &Value) -> Result<Ask, Fault> {
        let fields = Fields::of(raw)?;
        let server = fields.inner("mcp_server")?.map(|server| server.name("name")).transpose()?;
        read(harness, moment, fields, "prompt_id", server)
    }

    /// In other modes something else than a person may say yes: a classifier, or nobody.
    fn may_ask(&self, raw: &Value) -> bool {
        matches!(raw["permission_mode"].as_str(), Some("default" | "acceptEdits" | "plan"))
    }

    fn print(&self, context: Context<'_>, reply: &Reply) -> Printed {
        let inside = |mut more: Value| {
            more["hookEventName"] = context.event.into();
            json!({"hookSpecificOutput": more})
        };
        match reply {
            Reply::Allow => nothing(),
            Reply::Deny { text } if context.moment == Moment::Prompt => {
                refused(json!({"decision": "block", "reason": text}), text)
            }
            Reply::Deny { text } => {
                refused(inside(json!({"permissionDecision": "deny", "permissionDecisionReason": text})), text)
            }
            // Without a decision: Claude Code's own rules still say whether the rewritten call may be made.
            Reply::Rewrite { arguments } => said(inside(json!({"updatedInput": arguments}))),
            Reply::AskPerson { text, arguments } => {
                let mut more = json!({"permissionDecision": "ask", "permissionDecisionReason": text});
                if let Some(arguments) = arguments {
                    more["updatedInput"] = arguments.clone();
                }
                said(inside(more))
            }
            Reply::Replace { result } => replaced(context, result, &as_text(result), &inside),
            Reply::Withhold { text } => replaced(context, &Value::String(text.clone()), text, &inside),
            Reply::Hold { text } => said(json!({"decision": "block", "reason": text})),
        }
    }
}

fn replaced(context: Context<'_>, result: &Value, text: &str, inside: &dyn Fn(Value) -> Value) -> Printed {
    if context.moment == Moment::Failed {
        // The model reads the failure all the same: the least is that it reads this too.
        return said(json!({"decision": "block", "reason": text}));
    }
    let response = &context.raw["tool_response"];
    if let Some(output) = reshaped(response, result, text) {
        return said(inside(json!({"updatedToolOutput": output})));
    }
    // The shape is a guess, and dropped silently where it is a wrong one: the model must not read on.
    let mut answer = inside(json!({"updatedToolOutput": emptied(response, text)}));
    answer["continue"] = false.into();
    answer["stopReason"] = text.into();
    said(answer)
}

/// Keys whose texts are words of a shape, not of a result.
const WORDS: [&str; 4] = ["type", "status", "mode", "kind"];

/// A result of a shape that is not known, with the replacement in the place of each text but the words of the shape.
fn emptied(response: &Value, text: &str) -> Value {
    match response {
        Value::String(_) => text.into(),
        Value::Array(items) => Value::Array(items.iter().map(|item| emptied(item, text)).collect()),
        Value::Object(map) => {
            let entry = |(key, value): (&String, &Value)| {
                let kept = WORDS.contains(&key.as_str()) && value.is_string();
                (key.clone(), if kept { value.clone() } else { emptied(value, text) })
            };
            Value::Object(map.iter().map(entry).collect())
        }
        other => other.clone(),
    }
}

/// The replacement in the shape of the tool's own result, where that shape is known.
fn reshaped(response: &Value, result: &Value, text: &str) -> Option<Value> {
    match response {
        Value::String(_) => Some(text.into()),
        Value::Array(_) => {
            Some(if result.is_array() { result.clone() } else { json!([{"type": "text", "text": text}]) })
        }
        Value::Object(map) if map.contains_key("stdout") && map.contains_key("stderr") => {
            Some(json!({"stdout": text, "stderr": "", "interrupted": false, "isImage": false}))
        }
        Value::Object(map) if map.get("type").is_some_and(|kind| kind == "text") && map.contains_key("file") => {
            let lines = text.lines().count().max(1);
            let path = response["file"]["filePath"].clone();
            Some(json!({"type": "text", "file": {"filePath": path, "content": text, "numLines": lines, "startLine": 1,
                "totalLines": lines}}))
        }
        _ => None,
    }
}

/// The payload that Claude Code made and others took over.
pub(super) fn read(
    harness: Harness,
    moment: Moment,
    fields: Fields<'_>,
    turn: &str,
    server: Option<&str>,
) -> Result<Ask, Fault> {
    let call = || -> Result<Call, Fault> {
        let tool = fields.name("tool_name")?;
        Ok(Call {
            id: fields.owned("tool_use_id")?,
            tool: tool.to_owned(),
            aliases: aliases(tool, server),
            arguments: fields.arguments("tool_input")?,
        })
    };
    let what = match moment {
        Moment::Start => What::Started { source: fields.owned("source")? },
        Moment::Prompt => What::Prompt { text: fields.text("prompt")?.to_owned() },
        Moment::Before => What::Before { call: call()? },
        Moment::After => {
            let (result, structured) = result(fields.value("tool_response")?);
            What::After { call: call()?, result, structured, is_error: false }
        }
        Moment::Failed => {
            let result = Value::String(fields.text("error")?.to_owned());
            What::After { call: call()?, result, structured: None, is_error: true }
        }
        Moment::Stop | Moment::SubagentStop => What::Stop {
            output: fields.owned("last_assistant_message")?,
            already_held: fields.flag("stop_hook_active")?,
            transcript: None,
        },
        Moment::SubagentStart => What::SubagentStart,
        Moment::End => What::Ended { reason: fields.owned("reason")? },
    };
    let agent = fields.owned("agent_id")?.map(|id| -> Result<Agent, Fault> {
        Ok(Agent { id, kind: fields.owned("agent_type")?, parent: fields.owned("parent_agent_id")? })
    });
    let agent = agent.transpose()?;
    if agent.is_none() && matches!(moment, Moment::SubagentStart | Moment::SubagentStop) {
        return Err("`agent_id` is no text".to_owned());
    }
    Ok(Ask {
        harness,
        session: fields.name("session_id")?.to_owned(),
        turn: fields.owned(turn)?,
        cwd: fields.owned("cwd")?,
        agent,
        what,
    })
}

/// `mcp__server__function`: the server's name is told beside it, or the name can be split in several ways.
fn aliases(tool: &str, server: Option<&str>) -> Vec<String> {
    let Some(rest) = tool.strip_prefix("mcp__") else { return vec![] };
    let Some(server) = server else { return splits(rest, "__") };
    // Other characters than these stand as `_` in the tool's name.
    let plain: String =
        server.chars().map(|c| if c.is_ascii_alphanumeric() || "_-".contains(c) { c } else { '_' }).collect();
    match rest.strip_prefix(&plain).and_then(|rest| rest.strip_prefix("__")) {
        Some(function) => vec![format!("{server}.{function}")],
        None => splits(rest, "__"),
    }
}
