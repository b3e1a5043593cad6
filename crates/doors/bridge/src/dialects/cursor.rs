//! Cursor, by its documentation; not run.
//!
//! Facts as documented: answers are flat (`permission`, `agent_message`, `updated_input`); with `failClosed` an empty answer blocks too. MCP
//! tools are told as `MCP:function`, without their server. A stop is held by a follow-up message.

use super::{Context, Dialect, nothing, said};
use crate::ask::{Agent, Ask, Call, Reply, What};
use crate::door::Printed;
use crate::fields::{Fault, Fields, as_text, result};
use crate::harness::{Harness, Moment};
use serde_json::{Value, json};

pub(super) struct Cursor;

impl Dialect for Cursor {
    fn events(&self) -> &'static [(&'static str, Moment)] {
        &[
            ("sessionStart", Moment::Start),
            ("beforeSubmitPrompt", Moment::Prompt),
            ("preToolUse", Moment::Before),
            ("postToolUse", Moment::After),
            ("postToolUseFailure", Moment::Failed),
            ("stop", Moment::Stop),
            ("sessionEnd", Moment::End),
        ]
    }

    fn event<'a>(&self, raw: &'a Value) -> Option<&'a str> {
        raw["hook_event_name"].as_str()
    }

    fn read(&self, harness: Harness, moment: Moment, raw: &Value) -> Result<Ask, Fault> {
        let fields = Fields::of(raw)?;
        let what = match moment {
            Moment::Start => What::Started { source: None },
            Moment::Prompt => What::Prompt { text: fields.text("prompt")?.to_owned() },
            Moment::Before => What::Before { call: call(fields)? },
            Moment::After => {
                let (result, structured) = result(fields.value("tool_output")?);
                What::After { call: call(fields)?, result, structured, is_error: false }
            }
            Moment::Failed => {
                let (result, structured) = result(fields.value("error_message")?);
                What::After { call: call(fields)?, result, structured, is_error: true }
            }
            Moment::Stop | Moment::SubagentStop => {
                let loops = raw["loop_count"].as_u64().ok_or("`loop_count` is no number")?;
                What::Stop { output: None, already_held: loops > 0, transcript: None }
            }
            Moment::SubagentStart => What::SubagentStart,
            Moment::End => What::Ended { reason: fields.owned("reason")? },
        };
        let parent = fields.owned("parent_conversation_id")?;
        let session = fields.name("conversation_id")?.to_owned();
        let agent = parent.map(|parent| Agent { id: session.clone(), kind: None, parent: Some(parent) });
        Ok(Ask { harness, session, turn: fields.owned("generation_id")?, cwd: fields.owned("cwd")?, agent, what })
    }

    fn print(&self, context: Context<'_>, reply: &Reply) -> Printed {
        let deny = |text: &str| Printed {
            stdout: json!({"permission": "deny", "user_message": text, "agent_message": text}).to_string(),
            stderr: text.to_owned(),
            code: 2,
        };
        match reply {
            // With its switch on, an empty answer is a no.
            Reply::Allow if context.moment == Moment::Before => said(json!({"permission": "allow"})),
            Reply::Allow if context.moment == Moment::Prompt => said(json!({"continue": true})),
            Reply::Allow => nothing(),
            Reply::Deny { text } if context.moment == Moment::Prompt => {
                said(json!({"continue": false, "user_message": text}))
            }
            Reply::Deny { text } | Reply::AskPerson { text, .. } => deny(text),
            Reply::Rewrite { arguments } => said(json!({"permission": "allow", "updated_input": arguments})),
            Reply::Replace { result } if is_mcp(context.raw) => replaced(&as_text(result)),
            Reply::Withhold { text } if is_mcp(context.raw) => replaced(text),
            // Its own tools' results can't be replaced: the model is told beside them.
            Reply::Replace { result } => said(json!({"additional_context": as_text(result)})),
            Reply::Withhold { text } => said(json!({"additional_context": text})),
            Reply::Hold { text } => said(json!({"followup_message": text})),
        }
    }
}

fn is_mcp(raw: &Value) -> bool {
    raw["tool_name"].as_str().is_some_and(|tool| tool.starts_with("MCP:"))
}

fn replaced(text: &str) -> Printed {
    said(json!({"updated_mcp_tool_output": {"content": [{"type": "text", "text": text}]}}))
}

fn call(fields: Fields<'_>) -> Result<Call, Fault> {
    let tool = fields.name("tool_name")?;
    Ok(Call {
        id: fields.owned("tool_use_id")?,
        tool: tool.to_owned(),
        aliases: vec![],
        arguments: fields.arguments("tool_input")?,
    })
}
