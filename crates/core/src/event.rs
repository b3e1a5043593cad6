//! The events of SPEC §3, as the JSON objects that hooks get.
//!
//! Invariant: keys may be added, never renamed.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A moment at which hooks are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    /// A node took the job; before the first model turn.
    JobStart,
    /// Before each call.
    PreToolCall,
    /// After each call that was made, successful or not.
    PostToolCall,
    /// The final output stands, before it is given.
    JobEnd,
}

impl Moment {
    /// All moments, in a job's order.
    pub const ALL: [Self; 4] = [Self::JobStart, Self::PreToolCall, Self::PostToolCall, Self::JobEnd];

    /// Its name in manifests and events.
    pub fn name(self) -> &'static str {
        match self {
            Self::JobStart => "job_start",
            Self::PreToolCall => "pre_tool_call",
            Self::PostToolCall => "post_tool_call",
            Self::JobEnd => "job_end",
        }
    }

    /// The moment of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|m| m.name() == name)
    }

    /// The key whose value a `modify` replaces.
    pub fn key(self) -> &'static str {
        match self {
            Self::JobStart => "input",
            Self::PreToolCall => "arguments",
            Self::PostToolCall => "result",
            Self::JobEnd => "output",
        }
    }

    /// Whether it belongs to a call.
    pub fn is_call(self) -> bool {
        matches!(self, Self::PreToolCall | Self::PostToolCall)
    }
}

/// Everything of an event but the value under its key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct EventHead {
    /// The moment.
    pub event: Moment,
    /// The job's id.
    pub job: String,
    /// The agent's id.
    pub agent: String,
    /// The tenant's id.
    pub tenant: String,
    /// The home node's id.
    pub node: String,
    /// The job that started this one, for a subagent's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_job: Option<String>,
    /// The call's id within the job, for events of a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// The function's full name, for events of a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The harness's or client's other name of the function (`server.function`), where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
}

/// The values of an event.
#[derive(Debug, Clone, PartialEq)]
pub enum EventBody {
    /// `input`.
    JobStart(Value),
    /// `arguments`.
    PreToolCall(Value),
    /// `arguments`, `result`, `structured`, `error`.
    PostToolCall {
        /// As the call was made.
        arguments: Value,
        /// A string, or a list of content blocks.
        result: Value,
        /// The result's `structuredContent`, if it has any.
        structured: Option<Value>,
        /// Whether the call failed.
        error: bool,
    },
    /// `output`.
    JobEnd(Value),
}

/// The event's JSON object.
pub fn build(head: &EventHead, body: EventBody) -> Value {
    let mut map = Map::new();
    map.insert("event".into(), head.event.name().into());
    map.insert("job".into(), head.job.clone().into());
    map.insert("agent".into(), head.agent.clone().into());
    map.insert("tenant".into(), head.tenant.clone().into());
    map.insert("node".into(), head.node.clone().into());
    for (key, value) in
        [("parent_job", &head.parent_job), ("call", &head.call), ("tool", &head.tool), ("alias", &head.alias)]
    {
        if let Some(value) = value {
            map.insert(key.into(), value.clone().into());
        }
    }
    match body {
        EventBody::JobStart(input) => {
            map.insert("input".into(), input);
        }
        EventBody::PreToolCall(arguments) => {
            map.insert("arguments".into(), arguments);
        }
        EventBody::PostToolCall { arguments, result, structured, error } => {
            map.insert("arguments".into(), arguments);
            map.insert("result".into(), result);
            if let Some(structured) = structured {
                map.insert("structured".into(), structured);
            }
            map.insert("error".into(), error.into());
        }
        EventBody::JobEnd(output) => {
            map.insert("output".into(), output);
        }
    }
    Value::Object(map)
}

/// Why a value may not stand under an event's key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// `arguments` is no object.
    #[error("`arguments` is not an object")]
    ArgumentsNotObject,
    /// The value breaks the function's input schema.
    #[error("`arguments` break the input schema of the function: {0}")]
    AgainstSchema(String),
    /// A result is a string or a list of content blocks.
    #[error("`result` is neither a string nor a list of content blocks")]
    ResultShape,
    /// Where no schema is declared, text.
    #[error("`{0}` is not a string, and the agent declares no schema for it")]
    NotText(&'static str),
    /// The value breaks the schema that the agent declares.
    #[error("`{0}` breaks the schema that the agent declares: {1}")]
    AgainstAgentSchema(&'static str, String),
}

/// Checks the type of a value for a moment's key; `schema` is the function's input schema or the agent's declared one (SPEC §3, §4).
pub fn check_value(moment: Moment, value: &Value, schema: Option<&Value>) -> Result<(), ValueError> {
    match moment {
        Moment::PreToolCall => {
            if !value.is_object() {
                return Err(ValueError::ArgumentsNotObject);
            }
            match schema {
                Some(schema) => against(schema, value).map_err(ValueError::AgainstSchema),
                None => Ok(()),
            }
        }
        Moment::PostToolCall => match value {
            Value::String(_) => Ok(()),
            Value::Array(blocks) if blocks.iter().all(|b| b.get("type").is_some_and(Value::is_string)) => Ok(()),
            _ => Err(ValueError::ResultShape),
        },
        Moment::JobStart | Moment::JobEnd => match schema {
            Some(schema) => against(schema, value).map_err(|e| ValueError::AgainstAgentSchema(moment.key(), e)),
            None if value.is_string() => Ok(()),
            None => Err(ValueError::NotText(moment.key())),
        },
    }
}

/// Validates a value. A schema that can't be used is an error: nothing is let through unchecked.
pub fn against(schema: &Value, value: &Value) -> Result<(), String> {
    let validator = jsonschema::options().build(schema).map_err(|e| format!("the schema itself is invalid: {e}"))?;
    match validator.iter_errors(value).next() {
        None => Ok(()),
        Some(error) => {
            let path = error.instance_path().to_string();
            let at = if path.is_empty() { String::new() } else { format!(" at {path}") };
            Err(crate::text::reason(Some(&format!("{error}{at}")), 500))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_schema_that_refers_to_itself_is_no_end_of_the_process() {
        for schema in [
            json!({"$ref": "#"}),
            json!({"type": "object", "allOf": [{"$ref": "#"}]}),
            json!({"anyOf": [{"$ref": "#"}, {"not": {"$ref": "#"}}]}),
            json!({"$dynamicRef": "#"}),
            json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}),
            json!({"if": {"$ref": "#"}}),
        ] {
            assert_eq!(against(&schema, &json!({"a": 1})), Ok(()), "{schema}");
        }
    }
}
