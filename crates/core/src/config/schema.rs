//! The JSON Schema of `hookwright.yaml`, for completion and checks in editors.
//!
//! Invariant: it accepts every configuration that [`super::parse`] accepts, and refuses what is wrong in shape.

use super::limits::bounds;
use crate::Limits;
use crate::manifest::schema::{VARIABLE_PATTERN, duration, id, texts};
use crate::text;
use crate::yaml::{ID_PATTERN, size_pattern};
use serde_json::{Value, json};
use std::ops::RangeInclusive;

const LEVEL: &str = "\\s*([A-Za-z0-9_:]+=)?(off|error|warn|info|debug|trace)\\s*";

/// The schema (draft 7, which all editors know).
pub fn schema() -> Value {
    let levels = json!({
        "type": "string",
        "pattern": format!("^{LEVEL}(,{LEVEL})*$"),
        "description": "Levels, perhaps by target.",
        "examples": ["info", "warn,hookwright_mcp=debug"],
    });
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": "https://raw.githubusercontent.com/hookwright/hookwright/main/schemas/config.schema.json",
        "title": "Hookwright node configuration (hookwright.yaml)",
        "description": "Tenants with their plugins, and where a node keeps what. Paths are relative to this file's folder.",
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "tenants": {
                "type": "array",
                "minItems": 1,
                "items": tenant(),
                "description": "Units of isolation. Default: one tenant `default`.",
            },
            "store": path("The SQLite file that holds jobs and their histories."),
            "engine": engine(),
            "socket": path("The node's Unix socket."),
            "log": {
                "description": "What is logged: levels, or a mapping.",
                "anyOf": [levels, {
                    "type": "object",
                    "additionalProperties": false,
                    "properties": {
                        "filter": levels,
                        "format": {"enum": ["text", "json"], "default": "text", "description": "The form of its lines."},
                        "file": path("The file that it goes to. Default: standard error."),
                    },
                }],
            },
        },
    })
}

fn path(description: &str) -> Value {
    json!({"type": "string", "pattern": "^\\s*[^~\\s]|^\\s+~", "description": description})
}

fn engine() -> Value {
    let name = |description: &str, default: Option<&str>| {
        let mut name = json!({"type": "string", "pattern": "^[A-Za-z0-9_.-]{1,100}$", "description": description});
        if let Some(default) = default {
            name["default"] = default.into();
        }
        name
    };
    json!({
        "description": "What runs jobs durably.",
        "default": "embedded",
        "anyOf": [{"enum": ["embedded"]}, {
            "type": "object",
            "additionalProperties": false,
            "required": ["temporal"],
            "properties": {"temporal": {
                "type": "object",
                "additionalProperties": false,
                "required": ["address"],
                "description": "A Temporal cluster.",
                "properties": {
                    "address": {"type": "string", "pattern": "^[^/ @?#]+:0*[1-9][0-9]{0,4}$", "description": "host:port of its frontend."},
                    "namespace": name("The namespace.", Some("default")),
                    "queue": name("The task queue of the workflows, which all nodes share.", Some("hookwright")),
                    "node": name("This node's id. Default: made of the machine's name and the store's path.", None),
                    "api_key": {
                        "type": "object",
                        "additionalProperties": false,
                        "required": ["from"],
                        "properties": {"from": {"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$", "description": "The variable of the node's environment that holds the key."}},
                        "description": "The API key, by reference.",
                    },
                    "tls": {
                        "type": "object",
                        "additionalProperties": false,
                        "description": "TLS. Default: none, or with the system's certificates where there is an API key.",
                        "dependencies": {"cert": ["key"], "key": ["cert"]},
                        "properties": {
                            "ca": path("Who signs the server's certificate."),
                            "cert": path("The client's certificate."),
                            "key": path("Its private key."),
                            "domain": name("The name in the server's certificate.", None),
                        },
                    },
                },
            }},
        }],
    })
}

fn tenant() -> Value {
    json!({
        "type": "object",
        "required": ["id", "plugins"],
        "additionalProperties": false,
        "properties": {
            "id": id("The tenant's id."),
            "plugins": {
                "type": "array",
                "items": path("A folder with a plugin.yaml."),
                "description": "Folders of its plugins. The order counts: it is the order in which hooks are asked.",
            },
            "lifecycle": {
                "type": "object",
                "additionalProperties": false,
                "description": "Lifecycle hooks: functions whose names begin with `_`. Variables of the environment win.",
                "properties": {
                    "servers": {
                        "description": "Tools whose lifecycle hooks are asked: ids, or \"*\" for all. Default: none.",
                        "anyOf": [{"type": "string", "examples": ["*"]}, texts("Tool ids.", 0)],
                    },
                    "timeout": duration("How long one may take, up to 1m.", "2500ms"),
                    "max_rejections": whole("Objections of a session that are heeded; 0 disables _Stop.", &bounds::MAX_REJECTIONS, 3),
                },
            },
            "secrets": {
                "type": "array",
                "items": {"type": "string", "pattern": VARIABLE_PATTERN},
                "description": "Variables of the node's environment that `from:` may name in the plugins' manifests. Default: none.",
            },
            "groups": {
                "type": "object",
                "propertyNames": {"pattern": ID_PATTERN},
                "additionalProperties": texts("The people of the group.", 1),
                "description": "People by group, for `approvers`.",
            },
            "limits": limits(),
            "run_as": {
                "type": "string",
                "pattern": "^\\s*([A-Za-z0-9_][A-Za-z0-9_.-]*|[0-9]+:[0-9]+)\\s*$",
                "description": "The OS user that its plugins' servers run as: a name, or uid:gid. Needs root. Default: the node's own.",
            },
        },
    })
}

fn whole(description: &str, range: &RangeInclusive<u64>, default: u32) -> Value {
    json!({"type": "integer", "minimum": range.start(), "maximum": range.end(), "default": default, "description": description})
}

/// A whole number without a default.
fn bound(description: &str, range: &RangeInclusive<u64>) -> Value {
    json!({"type": "integer", "minimum": range.start(), "maximum": range.end(), "description": description})
}

fn size(description: &str, default: u64) -> Value {
    json!({
        "anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": size_pattern()}],
        "default": default,
        "description": description,
    })
}

fn limits() -> Value {
    let d = Limits::default();
    json!({
        "type": "object",
        "additionalProperties": false,
        "description": "Bounds of its jobs. Sizes are bytes, or text with a unit: 50KiB, 1MiB.",
        "properties": {
            "calls_per_turn": whole("Calls of one model turn.", &bounds::CALLS_PER_TURN, d.calls_per_turn),
            "parallel_calls": whole("Calls of one turn that run at the same time.", &bounds::PARALLEL_CALLS, d.parallel_calls),
            "result_bytes": size("A tool's text result, as the model gets it.", d.result_bytes),
            "tool_timeout": duration("How long a call may take, up to 24h.", &text::duration(d.tool_timeout_ms)),
            "reason_chars": whole("Characters of a hook's reason.", &bounds::REASON_CHARS, d.reason_chars),
            "event_bytes": size("An event; a larger one is not sent and its hook counts as failed.", d.event_bytes),
            "lifecycle_bytes": size("A lifecycle hook's text.", d.lifecycle_bytes),
            "message_bytes": size("One MCP message.", d.message_bytes),
            "subagent_depth": whole("How deep subagents may nest.", &bounds::SUBAGENT_DEPTH, d.subagent_depth),
            "max_turns": whole("Model turns of a job, where the agent sets none.", &bounds::MAX_TURNS, d.max_turns),
            "calls_per_job": bound("Calls that a job's agent may ask for in all; with a further one the job fails.", &bounds::CALLS_PER_JOB),
            "tokens_per_job": bound("Tokens of a job's model turns in all; what comes after them is not begun, and the job fails.", &bounds::TOKENS_PER_JOB),
            "jobs_at_once": bound("Jobs of the tenant that run at once, without those of subagents.", &bounds::JOBS_AT_ONCE),
        },
    })
}
