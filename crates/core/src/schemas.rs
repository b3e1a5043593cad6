//! All published JSON Schemas, as they stand in `schemas/`.

use crate::event::Moment;
use serde_json::{Value, json};

/// File names in `schemas/` with their contents.
pub fn all() -> Vec<(&'static str, Value)> {
    vec![
        ("plugin.schema.json", crate::manifest::schema::schema()),
        ("config.schema.json", crate::config::schema::schema()),
        ("event.job_start.schema.json", event(Moment::JobStart)),
        ("event.pre_tool_call.schema.json", event(Moment::PreToolCall)),
        ("event.post_tool_call.schema.json", event(Moment::PostToolCall)),
        ("event.job_end.schema.json", event(Moment::JobEnd)),
    ]
}

/// The schema of an event: what hooks get under `event` (SPEC §3). Open, since keys may be added.
fn event(moment: Moment) -> Value {
    let text = |what: &str| json!({"type": "string", "description": what});
    let mut properties = json!({
        "event": {"const": moment.name(), "description": "The moment."},
        "job": text("The job's id."),
        "agent": text("The agent's id."),
        "tenant": text("The tenant's id."),
        "node": text("The home node's id."),
        "parent_job": text("The job that started this one, for a subagent's job."),
    });
    let mut required = vec!["event", "job", "agent", "tenant", "node"];
    let arguments = json!({"type": "object", "description": "The call's arguments."});
    let of_moment = match moment {
        Moment::JobStart => {
            json!({"input": {"description": "A string, or any JSON where the agent declares a schema."}})
        }
        Moment::PreToolCall => json!({"arguments": arguments}),
        Moment::PostToolCall => json!({
            "arguments": arguments,
            "result": {
                "type": ["string", "array"],
                "items": {"type": "object", "required": ["type"], "properties": {"type": {"type": "string"}}},
                "description": "A string where it is one text block, else the list of MCP content blocks.",
            },
            "structured": {"description": "The result's structuredContent, if it has any and no hook changed the result."},
            "error": {"type": "boolean", "description": "Whether the call failed."},
        }),
        Moment::JobEnd => {
            json!({"output": {"description": "A string, or any JSON where the agent declares a schema."}})
        }
    };
    required.extend(match moment {
        Moment::JobStart => &["input"][..],
        Moment::PreToolCall => &["call", "tool", "arguments"],
        Moment::PostToolCall => &["call", "tool", "arguments", "result", "error"],
        Moment::JobEnd => &["output"],
    });
    if let Value::Object(map) = &mut properties {
        if moment.is_call() {
            map.insert("call".into(), text("The call's id within the job."));
            map.insert("tool".into(), text("The function's full name, e.g. github.merge."));
            map.insert("alias".into(), text("Another name of the function (server.function), where it has one."));
        }
        map.extend(of_moment.as_object().cloned().unwrap_or_default());
    }
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": format!("https://raw.githubusercontent.com/hookwright/hookwright/main/schemas/event.{}.schema.json", moment.name()),
        "title": format!("Hookwright event {}", moment.name()),
        "description": format!("What a hook gets under `event`; `modify` replaces `{}`. Keys may be added, never renamed.", moment.key()),
        "type": "object",
        "required": required,
        "properties": properties,
    })
}

/// A schema as the text of its file: indented, with a last newline.
pub fn text(schema: &Value) -> String {
    // `Value`'s alternate form is pretty-printed JSON.
    format!("{schema:#}\n")
}

#[cfg(test)]
mod tests;
