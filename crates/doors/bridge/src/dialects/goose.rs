//! Goose, by its documentation; not run.
//!
//! Facts as documented: only `PreToolUse` and `Stop` block, by exit code 2 or `decision: block`; results and prompts are told only.

use super::{Context, Dialect, nothing, refused};
use crate::ask::{Ask, Call, Reply, What};
use crate::door::{Printed, unchanged};
use crate::fields::{Fault, Fields, result, splits};
use crate::harness::{Harness, Moment};
use serde_json::{Value, json};

pub(super) struct Goose;

impl Dialect for Goose {
    fn events(&self) -> &'static [(&'static str, Moment)] {
        &[
            ("SessionStart", Moment::Start),
            ("PreToolUse", Moment::Before),
            ("PostToolUse", Moment::After),
            ("PostToolUseFailure", Moment::Failed),
            ("Stop", Moment::Stop),
            ("SessionEnd", Moment::End),
        ]
    }

    fn event<'a>(&self, raw: &'a Value) -> Option<&'a str> {
        raw["event"].as_str()
    }

    fn read(&self, harness: Harness, moment: Moment, raw: &Value) -> Result<Ask, Fault> {
        let fields = Fields::of(raw)?;
        let what = match moment {
            Moment::Start => What::Started { source: None },
            Moment::Prompt => return Err("Goose's prompts are not asked about".to_owned()),
            Moment::Before => What::Before { call: call(fields)? },
            Moment::After | Moment::Failed => {
                let told = ["tool_result", "tool_response", "tool_output", "error"].iter().find_map(|key| raw.get(key));
                let (result, structured) = result(told.unwrap_or(&Value::Null));
                What::After { call: call(fields)?, result, structured, is_error: moment == Moment::Failed }
            }
            Moment::Stop | Moment::SubagentStop => What::Stop {
                output: fields.owned("last_assistant_message")?,
                already_held: fields.flag("stop_hook_active")?,
                transcript: None,
            },
            Moment::SubagentStart => What::SubagentStart,
            Moment::End => What::Ended { reason: fields.owned("reason")? },
        };
        let session = fields.name("session_id")?.to_owned();
        Ok(Ask { harness, session, turn: None, cwd: fields.owned("working_dir")?, agent: None, what })
    }

    fn print(&self, context: Context<'_>, reply: &Reply) -> Printed {
        let block = |text: &str| refused(json!({"decision": "block", "reason": text}), text);
        match reply {
            Reply::Deny { text } | Reply::AskPerson { text, .. } | Reply::Hold { text } => block(text),
            Reply::Rewrite { .. } => block(&unchanged(Harness::Goose)),
            Reply::Withhold { text } if context.moment == Moment::Before => block(text),
            Reply::Allow | Reply::Replace { .. } | Reply::Withhold { .. } => nothing(),
        }
    }
}

fn call(fields: Fields<'_>) -> Result<Call, Fault> {
    let tool = fields.name("tool_name")?;
    let aliases = splits(tool, "__");
    Ok(Call {
        id: fields.owned("tool_call_id")?,
        tool: tool.to_owned(),
        aliases,
        arguments: fields.arguments("tool_input")?,
    })
}
