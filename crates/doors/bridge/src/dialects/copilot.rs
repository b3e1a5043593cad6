//! Copilot CLI, by its own events (`preToolUse`), which tell tools by their own names.
//!
//! Facts: a hook before a call that fails is a deny; all others fail open. Payloads don't name their event, calls have no id, and a failed
//! call's result is not told. A subagent's session is one of its own, and its end is told as any other's. What was said last stands in a file. A held stop comes back as a prompt of the same words.

use super::{Context, Dialect, nothing, refused, said};
use crate::ask::{Agent, Ask, Call, Reply, What};
use crate::door::Printed;
use crate::fields::{Fault, Fields, as_text, result, splits};
use crate::harness::{Harness, Moment};
use serde_json::{Value, json};
use std::path::PathBuf;

pub(super) struct Copilot;

impl Dialect for Copilot {
    fn events(&self) -> &'static [(&'static str, Moment)] {
        &[
            ("sessionStart", Moment::Start),
            ("userPromptSubmitted", Moment::Prompt),
            ("preToolUse", Moment::Before),
            ("postToolUse", Moment::After),
            ("agentStop", Moment::Stop),
            ("sessionEnd", Moment::End),
        ]
    }

    fn event<'a>(&self, _raw: &'a Value) -> Option<&'a str> {
        None
    }

    fn read(&self, harness: Harness, moment: Moment, raw: &Value) -> Result<Ask, Fault> {
        let fields = Fields::of(raw)?;
        let what = match moment {
            Moment::Start => What::Started { source: fields.owned("source")? },
            Moment::Prompt => What::Prompt { text: fields.text("prompt")?.to_owned() },
            Moment::Before => What::Before { call: call(fields)? },
            Moment::After | Moment::Failed => {
                let told = fields.inner("toolResult")?.ok_or("`toolResult` is missing")?;
                let is_error = told.text("resultType")? != "success";
                let (result, structured) = result(told.value("textResultForLlm")?);
                What::After { call: call(fields)?, result, structured, is_error }
            }
            Moment::Stop | Moment::SubagentStop => What::Stop {
                output: None,
                already_held: fields.flag("stop_hook_active")?,
                transcript: fields.maybe("transcriptPath")?.map(PathBuf::from).zip(raw["timestamp"].as_u64()),
            },
            Moment::SubagentStart => What::SubagentStart,
            Moment::End => What::Ended { reason: fields.owned("reason")? },
        };
        let agent = fields.owned("agentId")?.map(|id| -> Result<Agent, Fault> {
            Ok(Agent { id, kind: fields.owned("agentType")?, parent: fields.owned("parentAgentId")? })
        });
        let session = fields.name("sessionId")?.to_owned();
        Ok(Ask { harness, session, turn: None, cwd: fields.owned("cwd")?, agent: agent.transpose()?, what })
    }

    fn print(&self, context: Context<'_>, reply: &Reply) -> Printed {
        let modified = |text: String| {
            let kind = context.raw["toolResult"]["resultType"].as_str().unwrap_or("success");
            said(json!({"modifiedResult": {"resultType": kind, "textResultForLlm": text}}))
        };
        match reply {
            Reply::Allow => nothing(),
            Reply::Deny { text } if context.moment == Moment::Prompt => {
                said(json!({"decision": "block", "reason": text}))
            }
            Reply::Deny { text } => {
                refused(json!({"permissionDecision": "deny", "permissionDecisionReason": text}), text)
            }
            Reply::Rewrite { arguments } => said(json!({"modifiedArgs": arguments})),
            Reply::AskPerson { text, .. } => {
                said(json!({"permissionDecision": "ask", "permissionDecisionReason": text}))
            }
            Reply::Replace { result } => modified(as_text(result)),
            Reply::Withhold { text } => modified(text.clone()),
            Reply::Hold { text } => said(json!({"decision": "block", "reason": text})),
        }
    }
}

fn call(fields: Fields<'_>) -> Result<Call, Fault> {
    let tool = fields.name("toolName")?;
    let aliases = splits(tool, "-");
    Ok(Call { id: None, tool: tool.to_owned(), aliases, arguments: fields.arguments("toolArgs")? })
}
