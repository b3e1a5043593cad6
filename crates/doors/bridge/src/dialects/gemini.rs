//! Gemini CLI.
//!
//! Facts: `decision: deny` with a reason denies a call, a prompt and a stop, and takes the place of a result. Rewritten arguments are merged
//! over the old ones, so a key can't be taken away. Exit code 1 and a timeout let the call through; codes of 2 and above block. A held stop
//! comes back as a prompt of the same words. Calls have no id.

use super::{Context, Dialect, drops_a_key, nothing, refused, said};
use crate::ask::{Ask, Call, Reply, What};
use crate::door::{Printed, unchanged};
use crate::fields::{Fault, Fields, as_text, result, splits};
use crate::harness::{Harness, Moment};
use serde_json::{Value, json};

pub(super) struct Gemini;

impl Dialect for Gemini {
    fn events(&self) -> &'static [(&'static str, Moment)] {
        &[
            ("SessionStart", Moment::Start),
            ("BeforeAgent", Moment::Prompt),
            ("BeforeTool", Moment::Before),
            ("AfterTool", Moment::After),
            ("AfterAgent", Moment::Stop),
            ("SessionEnd", Moment::End),
        ]
    }

    fn event<'a>(&self, raw: &'a Value) -> Option<&'a str> {
        raw["hook_event_name"].as_str()
    }

    fn read(&self, harness: Harness, moment: Moment, raw: &Value) -> Result<Ask, Fault> {
        let fields = Fields::of(raw)?;
        let what = match moment {
            Moment::Start => What::Started { source: fields.owned("source")? },
            Moment::Prompt => What::Prompt { text: fields.text("prompt")?.to_owned() },
            Moment::Before => What::Before { call: call(fields)? },
            Moment::After | Moment::Failed => {
                let response = fields.value("tool_response")?;
                let is_error = response.get("error").is_some_and(|error| !error.is_null());
                let content = response.get("llmContent").unwrap_or(response);
                let (result, structured) = result(&blocks(content));
                What::After { call: call(fields)?, result, structured, is_error }
            }
            Moment::Stop | Moment::SubagentStop => What::Stop {
                output: fields.owned("prompt_response")?,
                already_held: fields.flag("stop_hook_active")?,
                transcript: None,
            },
            Moment::SubagentStart => What::SubagentStart,
            Moment::End => What::Ended { reason: fields.owned("reason")? },
        };
        let session = fields.name("session_id")?.to_owned();
        Ok(Ask { harness, session, turn: None, cwd: fields.owned("cwd")?, agent: None, what })
    }

    fn print(&self, context: Context<'_>, reply: &Reply) -> Printed {
        let deny = |text: &str| json!({"decision": "deny", "reason": text});
        match reply {
            Reply::Allow => nothing(),
            Reply::Deny { text } | Reply::AskPerson { text, .. } => refused(deny(text), text),
            Reply::Rewrite { arguments } if drops_a_key(context.raw.get("tool_input"), arguments) => {
                let text = unchanged(Harness::GeminiCli);
                refused(deny(&text), &text)
            }
            Reply::Rewrite { arguments } => {
                said(json!({"hookSpecificOutput": {"hookEventName": context.event, "tool_input": arguments}}))
            }
            Reply::Replace { result } => said(deny(&as_text(result))),
            Reply::Withhold { text } | Reply::Hold { text } => said(deny(text)),
        }
    }
}

fn call(fields: Fields<'_>) -> Result<Call, Fault> {
    let tool = fields.name("tool_name")?;
    let aliases = match fields.inner("mcp_context")? {
        Some(mcp) => vec![format!("{}.{}", mcp.name("server_name")?, mcp.name("tool_name")?)],
        None => tool.strip_prefix("mcp_").map(|rest| splits(rest, "_")).unwrap_or_default(),
    };
    Ok(Call { id: None, tool: tool.to_owned(), aliases, arguments: fields.arguments("tool_input")? })
}

/// Its parts, as content blocks: a text part has no type.
fn blocks(content: &Value) -> Value {
    let block = |part: &Value| match part {
        Value::Object(map) if map.len() == 1 && map.get("text").is_some_and(Value::is_string) => {
            json!({"type": "text", "text": map["text"]})
        }
        other => other.clone(),
    };
    match content {
        Value::Array(parts) => Value::Array(parts.iter().map(block).collect()),
        other => other.clone(),
    }
}
