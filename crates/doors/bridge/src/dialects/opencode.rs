//! OpenCode, through the plugin that `install` writes: the payload is the plugin's own, and so is the answer.
//!
//! Facts: an exception from `tool.execute.before` is a deny; nothing else is. So the plugin throws on all but a clear answer. A plugin that
//! can't be loaded is left out silently.

use super::{Context, Dialect, said};
use crate::ask::{Agent, Ask, Call, Reply, What};
use crate::door::Printed;
use crate::fields::{Fault, Fields, as_text, result};
use crate::harness::{Harness, Moment};
use serde_json::{Value, json};

pub(super) struct OpenCode;

impl Dialect for OpenCode {
    fn events(&self) -> &'static [(&'static str, Moment)] {
        &[
            ("session.created", Moment::Start),
            ("chat.message", Moment::Prompt),
            ("tool.execute.before", Moment::Before),
            ("tool.execute.after", Moment::After),
            ("session.idle", Moment::Stop),
            ("session.deleted", Moment::End),
        ]
    }

    fn event<'a>(&self, raw: &'a Value) -> Option<&'a str> {
        raw["event"].as_str()
    }

    fn read(&self, harness: Harness, moment: Moment, raw: &Value) -> Result<Ask, Fault> {
        let fields = Fields::of(raw)?;
        let what = match moment {
            Moment::Start => What::Started { source: None },
            Moment::Prompt => What::Prompt { text: fields.text("prompt")?.to_owned() },
            Moment::Before => What::Before { call: call(fields)? },
            Moment::After | Moment::Failed => {
                let (result, structured) = result(fields.value("result")?);
                What::After { call: call(fields)?, result, structured, is_error: false }
            }
            Moment::Stop | Moment::SubagentStop => {
                What::Stop { output: fields.owned("output")?, already_held: true, transcript: None }
            }
            Moment::SubagentStart => What::SubagentStart,
            Moment::End => What::Ended { reason: None },
        };
        let session = fields.name("session")?.to_owned();
        let parent = fields.owned("parent")?;
        let agent = parent.map(|parent| Agent { id: session.clone(), kind: None, parent: Some(parent) });
        Ok(Ask { harness, session, turn: None, cwd: fields.owned("cwd")?, agent, what })
    }

    fn print(&self, _context: Context<'_>, reply: &Reply) -> Printed {
        said(match reply {
            Reply::Allow => json!({"decision": "allow"}),
            Reply::Deny { text } | Reply::AskPerson { text, .. } | Reply::Hold { text } => {
                json!({"decision": "deny", "text": text})
            }
            Reply::Rewrite { arguments } => json!({"decision": "rewrite", "arguments": arguments}),
            Reply::Replace { result } => json!({"decision": "replace", "text": as_text(result)}),
            Reply::Withhold { text } => json!({"decision": "replace", "text": text}),
        })
    }
}

fn call(fields: Fields<'_>) -> Result<Call, Fault> {
    let tool = fields.name("tool")?;
    let servers = fields.value("servers")?.as_array().ok_or("`servers` is no list")?;
    let plain = |name: &str| -> String {
        name.chars().map(|c| if c.is_ascii_alphanumeric() || "_-".contains(c) { c } else { '_' }).collect()
    };
    let alias = |server: &str| {
        let function = tool.strip_prefix(&plain(server))?.strip_prefix('_')?;
        Some(format!("{server}.{function}"))
    };
    let aliases = servers.iter().filter_map(Value::as_str).filter_map(alias).collect();
    Ok(Call { id: fields.owned("call")?, tool: tool.to_owned(), aliases, arguments: fields.arguments("arguments")? })
}
