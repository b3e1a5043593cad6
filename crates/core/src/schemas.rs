//! All published JSON Schemas, as they stand in `schemas/`.
//!
//! Invariant: what the code sends or records is valid against them; what it reads is refused where they refuse it. Tests hold both.
//! Invariant: events and answers may have further keys: keys may be added, never renamed (SPEC §3, §4).

use crate::event::Moment;
use crate::history::Record;
use serde_json::{Map, Value, json};

/// Where schemas are published.
const BASE: &str = "https://raw.githubusercontent.com/hookwright/hookwright/main/schemas/";
/// The dialect of events, answers and records. Manifests and configurations have draft 7, which all editors know.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// File names in `schemas/` with their contents.
pub fn all() -> Vec<(&'static str, Value)> {
    let mut all = vec![
        ("plugin.schema.json", crate::manifest::schema::schema()),
        ("config.schema.json", crate::config::schema::schema()),
        ("answer.schema.json", answer()),
        ("record.schema.json", record()),
    ];
    all.extend(Moment::ALL.map(|moment| (file_of(moment), event(moment))));
    all
}

/// A schema as the text of its file: indented, with a last newline.
pub fn text(schema: &Value) -> String {
    // `Value`'s alternate form is pretty-printed JSON.
    format!("{schema:#}\n")
}

/// The file of an event's schema.
fn file_of(moment: Moment) -> &'static str {
    match moment {
        Moment::JobStart => "event.job_start.schema.json",
        Moment::PreToolCall => "event.pre_tool_call.schema.json",
        Moment::PostToolCall => "event.post_tool_call.schema.json",
        Moment::JobEnd => "event.job_end.schema.json",
    }
}

fn string(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

/// What may stand under a moment's key.
fn value_of(moment: Moment) -> Value {
    match moment {
        Moment::JobStart => {
            json!({"description": "The job's input: text, or any JSON where the agent declares an input_schema."})
        }
        Moment::PreToolCall => json!({"type": "object", "description": "The arguments of the call."}),
        Moment::PostToolCall => json!({
            "description": "The whole result: text where it is one text block, else the list of MCP content blocks.",
            "anyOf": [
                {"type": "string"},
                {
                    "type": "array",
                    "items": {"type": "object", "required": ["type"], "properties": {"type": {"type": "string"}}},
                },
            ],
        }),
        Moment::JobEnd => {
            json!({"description": "The final output: text, or any JSON where the agent declares an output_schema."})
        }
    }
}

/// An event as a hook gets it, under `event` of its arguments (SPEC §3).
fn event(moment: Moment) -> Value {
    let asked = match moment {
        Moment::JobStart => "Asked when a node took the job, before the first model turn.",
        Moment::PreToolCall => "Asked before each call.",
        Moment::PostToolCall => "Asked after each call that was made, successful or not.",
        Moment::JobEnd => "Asked when the final output stands, before it is given.",
    };
    let mut required = vec!["event", "job", "agent"];
    let mut properties = Map::new();
    let mut add = |key: &str, schema: Value| properties.insert(key.to_owned(), schema);
    add("event", json!({"const": moment.name()}));
    add("job", string("The job's id."));
    add("agent", string("The agent's id."));
    add("tenant", string("The tenant's id."));
    add("node", string("The id of the node that runs the job."));
    add("parent_job", string("The job that started this one, for a subagent's job."));
    if moment.is_call() {
        add("call", string("The call's id within the job."));
        add("tool", string("The function's full name, tool.function, e.g. github.merge."));
        add("alias", string("Another name of the function, server.function, where a harness has one."));
        required.push("tool");
    }
    if moment == Moment::PostToolCall {
        add("arguments", json!({"type": "object", "description": "The arguments as the call was made."}));
        required.push("arguments");
    }
    add(moment.key(), value_of(moment));
    required.push(moment.key());
    if moment == Moment::PostToolCall {
        add(
            "structured",
            json!({"description": "The result's structuredContent, where it has one and no hook changed the result."}),
        );
        add("error", json!({"type": "boolean", "description": "Whether the call failed."}));
        required.push("error");
    }
    json!({
        "$schema": DIALECT,
        "$id": format!("{BASE}{}", file_of(moment)),
        "title": format!("Hookwright event {}", moment.name()),
        "description": format!("{asked} Keys may be added in later versions, never renamed: ignore those you don't know."),
        "type": "object",
        "required": required,
        "properties": properties,
    })
}

/// What a hook answers (SPEC §4). Which key a `modify` needs depends on the event; this schema takes any of the four.
fn answer() -> Value {
    let keys = Moment::ALL.map(|moment| json!({"required": [moment.key()]}));
    let values: Map<String, Value> =
        Moment::ALL.map(|moment| (moment.key().to_owned(), value_of(moment))).into_iter().collect();
    json!({
        "$schema": DIALECT,
        "$id": format!("{BASE}answer.schema.json"),
        "title": "Hookwright answer of a hook",
        "description": "What a hook answers to an event. Anything else is not a valid decision: the hook's on_timeout applies. Further keys are recorded and ignored.",
        "type": "object",
        "required": ["decision"],
        "properties": {
            "decision": {
                "enum": ["allow", "modify", "deny", "escalate"],
                "description": "allow: go ahead. modify: go ahead with the value under the event's key. deny: do not. escalate: a person decides.",
            },
            "reason": {
                "description": "Why, as a string, for the model or the person who reads it. Cut at 2,000 characters. Of another type, it is recorded and not shown.",
            },
        },
        "if": {"required": ["decision"], "properties": {"decision": {"const": "modify"}}},
        "then": {"anyOf": keys, "properties": values},
    })
}

/// One record of a job's history (SPEC §8).
fn record() -> Value {
    let generator = schemars::generate::SchemaSettings::draft2020_12().into_generator();
    let generated = generator.into_root_schema_for::<Record>().to_value();
    let mut schema = json!({
        "$schema": DIALECT,
        "$id": format!("{BASE}record.schema.json"),
        "title": "Hookwright record",
        "description": "One record of a job's history, chained by hash to the one before. docs/history.md describes it.",
    });
    if let (Value::Object(schema), Value::Object(generated)) = (&mut schema, generated) {
        for (key, value) in generated {
            schema.entry(key).or_insert(value);
        }
    }
    schema
}

#[cfg(test)]
mod tests;
