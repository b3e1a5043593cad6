//! The JSON Schema of `plugin.yaml`, for completion and checks in editors.
//!
//! Invariant: it accepts every manifest that [`super::parse`] accepts, and refuses what is wrong in shape
//! ([`crate::diagnostic::Code::is_structural`]); what needs more than shape (durations' bounds, unique ids, secrets) only the parser finds.

use super::Pass;
use super::reserved::{BUILT_IN, HARNESSES};
use crate::event::Moment;
use crate::yaml::{ID_PATTERN, duration_pattern};
use serde_json::{Value, json};

/// The regular expression of a variable's name.
pub(crate) const VARIABLE_PATTERN: &str = "^[A-Za-z_][A-Za-z0-9_]{0,255}$";

/// The schema (draft 7, which all editors know).
pub fn schema() -> Value {
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": "https://raw.githubusercontent.com/hookwright/hookwright/main/schemas/plugin.schema.json",
        "title": "Hookwright plugin manifest (plugin.yaml)",
        "description": "What a plugin brings: tools (MCP servers), hooks that are asked about an agent's calls, and agents.",
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "id": id("The plugin's id. Default: the name of its folder."),
            "tools": {
                "type": "array",
                "description": "MCP servers.",
                "items": tool(),
            },
            "hooks": {
                "type": "array",
                "description": "Who is asked when. The order counts: the first deny ends a chain, each modify feeds the next hook.",
                "items": hook(),
            },
            "agents": {
                "type": "array",
                "description": "Named configurations of a model or a harness.",
                "items": agent(),
            },
        },
    })
}

/// An id.
pub(crate) fn id(description: &str) -> Value {
    json!({"type": "string", "pattern": ID_PATTERN, "description": description})
}

/// A text with at least one visible character.
pub(crate) fn filled(description: &str) -> Value {
    json!({"type": "string", "pattern": "\\S", "description": description})
}

/// A list of such texts.
pub(crate) fn texts(description: &str, least: u32) -> Value {
    json!({"type": "array", "minItems": least, "items": {"type": "string", "pattern": "\\S"}, "description": description})
}

/// A duration with its unit.
pub(crate) fn duration(description: &str, default: &str) -> Value {
    json!({"type": "string", "pattern": duration_pattern(), "description": description, "default": default})
}

fn value() -> Value {
    json!({
        "oneOf": [
            {"type": "string"},
            {
                "type": "object",
                "required": ["from"],
                "additionalProperties": false,
                "properties": {"from": {
                    "type": "string",
                    "pattern": VARIABLE_PATTERN,
                    "description": "A variable of the node's environment that holds the value.",
                }},
            },
        ],
    })
}

fn tool() -> Value {
    let reserved: Vec<&str> = HARNESSES.into_iter().chain(BUILT_IN).collect();
    json!({
        "type": "object",
        "required": ["id", "mcp"],
        "additionalProperties": false,
        "properties": {
            "id": {
                "type": "string",
                "pattern": ID_PATTERN,
                "not": {"enum": reserved},
                "description": "The tool's id, unique within a tenant: the first part of its functions' full names, tool.function.",
            },
            "mcp": {
                "description": "How the server is reached: a program with its arguments, started in the plugin's folder; or the address of a Streamable HTTP server.",
                "oneOf": [
                    {
                        "type": "array",
                        "minItems": 1,
                        "items": [{"type": "string", "pattern": "\\S"}],
                        "additionalItems": {"type": "string"},
                        "examples": [["python", "-m", "policy.server"]],
                    },
                    {"type": "string", "examples": ["https://mcp.example.com/mcp"]},
                ],
            },
            "env": {
                "type": "object",
                "description": "Variables for a server that is started as a command, besides PATH, HOME, LANG and TMPDIR.",
                "propertyNames": {"pattern": VARIABLE_PATTERN},
                "additionalProperties": value(),
            },
            "headers": {
                "type": "object",
                "description": "Headers for a server that is reached over HTTP.",
                "propertyNames": {"pattern": "^[A-Za-z0-9!#$%&'*+.^_`|~-]+$"},
                "additionalProperties": value(),
            },
            "scope": {
                "enum": ["node", "session"],
                "description": "One server for the node, or one for each session. Default: node; session for servers on the lifecycle allowlist and those with `passes`.",
            },
            "idempotent": texts("Bare names of functions that may be called again where it is not known whether a call was made.", 0),
            "trust_annotations": {
                "type": "boolean",
                "default": false,
                "description": "Whether the server's own readOnly and idempotent hints are believed.",
            },
            "start_timeout": duration("How long the server may take to start, up to 10m.", "30s"),
            "passes": {
                "type": "array",
                "minItems": 1,
                "items": {"enum": Pass::NAMED.map(|(name, _)| name)},
                "description": "What goes to and fro between the server and a client of the gateway without any hook being asked.",
            },
        },
        "allOf": [
            {
                "if": {"required": ["scope", "passes"], "properties": {"scope": {"const": "node"}}},
                "then": {"properties": {"passes": {"items": {"enum": Pass::NAMED.iter().filter(|(_, pass)| !pass.is_of_server()).map(|(name, _)| *name).collect::<Vec<_>>()}}}},
            },
            {"if": {"required": ["mcp"], "properties": {"mcp": {"type": "array"}}}, "then": {"not": {"required": ["headers"]}}},
            {"if": {"required": ["mcp"], "properties": {"mcp": {"type": "string"}}}, "then": {"not": {"required": ["env"]}}},
        ],
    })
}

fn hook() -> Value {
    let moments = Moment::ALL.map(Moment::name);
    let of_jobs: Vec<&str> = Moment::ALL.into_iter().filter(|m| !m.is_call()).map(Moment::name).collect();
    let reserved = HARNESSES.into_iter().chain(BUILT_IN).collect::<Vec<_>>().join("|");
    json!({
        "type": "object",
        "required": ["on", "call"],
        "additionalProperties": false,
        "properties": {
            "on": {"enum": moments, "description": "The moment at which it is asked."},
            "call": {
                "type": "string",
                "pattern": "^[A-Za-z0-9][A-Za-z0-9_-]{0,63}\\.[^*_][^*]*$",
                "not": {"pattern": format!("^({reserved})\\.")},
                "description": "The function that is asked, tool.function.",
                "examples": ["policy.check"],
            },
            "match": {
                "type": "object",
                "minProperties": 1,
                "additionalProperties": false,
                "description": "What it watches: both lists must fit, one entry of a list suffices. Without it: everything.",
                "properties": {
                    "tools": texts("Patterns over full function names; * stands for any run of characters.", 1),
                    "agents": texts("Patterns over agents' ids; * stands for any run of characters.", 1),
                },
            },
            "timeout": duration("How long it may take to answer, up to 30s.", "2s"),
            "on_timeout": {
                "enum": ["deny", "allow", "escalate"],
                "default": "deny",
                "description": "What counts where it does not answer, fails, or answers no valid decision.",
            },
            "expires": duration("When an approval that it asks for counts as a no, up to 30d.", "24h"),
            "approvers": texts("Who may decide on its approvals: names of people or groups. Without it: anybody.", 1),
        },
        "allOf": [{
            "if": {"required": ["on"], "properties": {"on": {"enum": of_jobs}}},
            "then": {"properties": {"match": {"not": {"required": ["tools"]}}}},
        }],
    })
}

fn agent() -> Value {
    let schema =
        |of: &str| json!({"type": "object", "description": format!("JSON Schema of its {of}. Without it: text.")});
    json!({
        "type": "object",
        "required": ["id"],
        "additionalProperties": false,
        "properties": {
            "id": id("The agent's id, unique within a tenant."),
            "description": filled("For people, and for agents that start it."),
            "model": {
                "type": "string",
                "pattern": "^[^/\\s]+/\\S",
                "description": "provider/model: Hookwright's own loop over a model.",
                "examples": ["anthropic/claude-sonnet-4-5", "script/demo.yaml"],
            },
            "harness": {"enum": HARNESSES, "description": "Somebody else's runtime, instead of `model`."},
            "command": {"type": "array", "items": {"type": "string"}, "minItems": 1, "description": "With `harness`: its program and first arguments. Default: its usual program, as PATH finds it."},
            "env": {
                "type": "object",
                "description": "With `harness`: variables beside PATH, HOME, LANG and TMPDIR.",
                "propertyNames": {"pattern": VARIABLE_PATTERN},
                "additionalProperties": value(),
            },
            "instructions": filled("The system prompt."),
            "tools": texts("What it sees: tool ids, or full function names with *. Default: all functions of its own plugin.", 0),
            "input_schema": schema("input"),
            "output_schema": schema("output"),
            "max_turns": {"type": "integer", "minimum": 1, "maximum": 10_000, "description": "Model turns of a job."},
            "max_tokens": {"type": "integer", "minimum": 1, "maximum": 10_000_000, "description": "Output tokens of a model turn."},
            "context_window": {"type": "integer", "minimum": 1, "maximum": 100_000_000, "description": "Tokens of the model's window, by which a long conversation is compacted. Default: what the provider tells."},
            "subagents": {
                "type": "array",
                "items": {"type": "string", "pattern": ID_PATTERN},
                "description": "Ids of agents of the tenant that it may start.",
            },
        },
        "oneOf": [
            {"required": ["model"], "not": {"anyOf": [{"required": ["command"]}, {"required": ["env"]}]}},
            {"required": ["harness"]},
        ],
    })
}
