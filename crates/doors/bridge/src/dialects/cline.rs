//! Cline's CLI.
//!
//! Facts: `cancel` ends the whole run, before the call or before the model reads the result. Exit codes mean nothing. Its start and end can't
//! be held, and the start does not tell the prompt: the run is one job.

use super::{Context, Dialect, said};
use crate::ask::{Agent, Ask, Call, Reply, What};
use crate::door::Printed;
use crate::fields::{Fault, Fields, as_text, result};
use crate::harness::{Harness, Moment};
use serde_json::{Value, json};

pub(super) struct Cline;

impl Dialect for Cline {
    fn events(&self) -> &'static [(&'static str, Moment)] {
        &[
            ("TaskStart", Moment::Start),
            ("PreToolUse", Moment::Before),
            ("PostToolUse", Moment::After),
            ("TaskComplete", Moment::Stop),
            ("SessionShutdown", Moment::End),
        ]
    }

    fn event<'a>(&self, raw: &'a Value) -> Option<&'a str> {
        Some(match raw["hookName"].as_str()? {
            "agent_start" => "TaskStart",
            "tool_call" => "PreToolUse",
            "tool_result" => "PostToolUse",
            "agent_end" => "TaskComplete",
            "session_shutdown" => "SessionShutdown",
            other => other,
        })
    }

    fn read(&self, harness: Harness, moment: Moment, raw: &Value) -> Result<Ask, Fault> {
        let fields = Fields::of(raw)?;
        let what = match moment {
            Moment::Start => What::Started { source: None },
            Moment::Prompt => return Err("Cline tells no prompts".to_owned()),
            Moment::Before => What::Before { call: call(fields, "tool_call")?.0 },
            Moment::After | Moment::Failed => {
                let (call, told) = call(fields, "tool_result")?;
                let (result, structured) = result(told.0.get("output").unwrap_or(&Value::Null));
                let failed = told.0.get("error").is_some_and(|error| !error.is_null());
                let success = fields.inner("postToolUse")?.map(|post| post.flag("success")).transpose()?;
                What::After { call, result, structured, is_error: failed || success == Some(false) }
            }
            Moment::Stop | Moment::SubagentStop => {
                let turn = fields.inner("turn")?;
                let output = turn.map(|turn| turn.owned("outputText")).transpose()?.flatten();
                What::Stop { output, already_held: true, transcript: None }
            }
            Moment::SubagentStart => What::SubagentStart,
            Moment::End => What::Ended { reason: fields.owned("reason")? },
        };
        let id = fields.name("agent_id")?.to_owned();
        // What is told as its parent is an agent; the conversation is that of the root.
        let agent = fields.owned("parent_agent_id")?.map(|_| Agent { id, kind: None, parent: None });
        let root = fields.inner("sessionContext")?.map(|session| session.owned("rootSessionId")).transpose()?.flatten();
        let session = root.map_or_else(|| fields.name("taskId").map(str::to_owned), Ok)?;
        let cwd = raw["workspaceRoots"][0].as_str().map(str::to_owned);
        Ok(Ask { harness, session, turn: None, cwd, agent, what })
    }

    fn print(&self, _context: Context<'_>, reply: &Reply) -> Printed {
        let cancel = |text: &str| said(json!({"cancel": true, "errorMessage": text}));
        match reply {
            Reply::Allow => said(json!({"cancel": false})),
            Reply::Rewrite { arguments } => said(json!({"cancel": false, "overrideInput": arguments})),
            Reply::Deny { text } | Reply::AskPerson { text, .. } | Reply::Withhold { text } | Reply::Hold { text } => {
                cancel(text)
            }
            Reply::Replace { result } => cancel(&format!(
                "The run was ended: a hook changed a result, and Cline can't take that over. The changed result is: {}",
                as_text(result)
            )),
        }
    }
}

fn call<'a>(fields: Fields<'a>, key: &str) -> Result<(Call, Fields<'a>), Fault> {
    let told = fields.inner(key)?.ok_or_else(|| format!("`{key}` is missing"))?;
    let tool = told.name("name")?;
    let aliases = crate::fields::splits(tool, "__");
    let call = Call { id: told.owned("id")?, tool: tool.to_owned(), aliases, arguments: told.arguments("input")? };
    Ok((call, told))
}
