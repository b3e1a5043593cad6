//! Subagents: the built-in function by which an agent starts another agent of its tenant as a child job.
//!
//! Invariant: the child's id follows from the parent's job and the call alone, so that a second attempt finds the same job.
//! Invariant: what may be started stands in the job's first record; a later change of a manifest does not touch it.

use crate::job::{JobError, JobSpec, Outcome};
use crate::json;
use crate::message::FunctionSpec;
use crate::name::FunctionName;
use crate::stored::Stored;
use crate::text;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// The owner of the function, as it stands before the dot of its full name. No plugin may take it.
pub const TOOL: &str = "agent";

/// The function's full name.
pub const FUNCTION: &str = "agent.start";

/// Bytes of an agent's description that a model is told.
const DESCRIPTION_BYTES: u64 = 2_000;

/// Bytes of an agent's input schema that a model is told.
const SCHEMA_BYTES: u64 = 4_000;

/// Characters of a child's error that its parent's model reads.
const ERROR_CHARS: u32 = 4_000;

/// An agent that a job's agent may start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SubagentSpec {
    /// Its id.
    pub id: String,
    /// What it is for, as its manifest says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// JSON Schema of its input; absent: text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<Stored>,
}

/// Whether a function is the one that starts a subagent.
pub fn is_start(name: &FunctionName) -> bool {
    name.tool() == TOOL && name.function() == "start"
}

/// Whether the job's agent may start others: it names some, and the job is not nested too deep.
pub fn may_start(spec: &JobSpec) -> bool {
    !spec.agent.subagents.is_empty() && !is_deepest(spec)
}

fn is_deepest(spec: &JobSpec) -> bool {
    spec.parent_jobs.len() >= spec.limits.subagent_depth as usize
}

/// Why a job may start no subagent, where its agent names some.
pub fn too_deep(spec: &JobSpec) -> Option<String> {
    let why = match spec.limits.subagent_depth {
        0 => "this tenant's jobs start no subagents (subagent_depth is 0)".to_owned(),
        depth => format!("subagents nest at most {depth} deep"),
    };
    (!spec.agent.subagents.is_empty() && is_deepest(spec)).then_some(why)
}

/// The id of the job that a call starts: `job_` and 16 hex digits, derived from the parent's job and the call.
pub fn child_job(parent_job: &str, call: &str) -> String {
    format!("job_{}", &json::sha256_hex(format!("{parent_job}\n{call}").as_bytes())[..16])
}

/// The id of the job of a subagent that the parent's agent runs itself, by the agent's own id of it. One that goes on after its end has a
/// further job: rounds count from 0.
pub fn own_child_job(parent_job: &str, id: &str, round: u32) -> String {
    if round == 0 { child_job(parent_job, id) } else { child_job(parent_job, &format!("{id}\n{}", round + 1)) }
}

/// The function as a model is told of it; none where the job may start nobody. `schemas` are the agents' input schemas, in their order; one
/// that is not at hand is not told.
pub fn function(spec: &JobSpec, schemas: &[Option<Value>]) -> Option<FunctionSpec> {
    if !may_start(spec) {
        return None;
    }
    let agents = &spec.agent.subagents;
    let ids: Vec<&str> = agents.iter().map(|a| a.id.as_str()).collect();
    let who: Vec<String> = agents
        .iter()
        .map(|a| match a.description.as_deref().map(str::trim).filter(|d| !d.is_empty()) {
            Some(description) => format!("- {}: {}", a.id, text::elide_middle(description, DESCRIPTION_BYTES)),
            None => format!("- {}", a.id),
        })
        .collect();
    let mut input = Map::new();
    let mut told = "What the agent is to do, with everything that it needs to know.".to_owned();
    if agents.iter().any(|a| a.input_schema.is_some()) {
        for (i, agent) in agents.iter().enumerate() {
            let takes = match (&agent.input_schema, schemas.get(i).and_then(Option::as_ref)) {
                (None, _) => "takes text".to_owned(),
                (Some(_), None) => "takes JSON".to_owned(),
                (Some(_), Some(schema)) => {
                    format!("takes JSON that fits {}", text::elide_middle(&json::canonical(schema), SCHEMA_BYTES))
                }
            };
            told = format!("{told}\n- {} {takes}", agent.id);
        }
        if let Some(types) = types(agents, schemas) {
            input.insert("type".into(), types);
        }
    } else {
        input.insert("type".into(), "string".into());
    }
    input.insert("description".into(), told.into());
    Some(FunctionSpec {
        name: FUNCTION.into(),
        description: Some(
            "Starts another agent on a task of its own, waits until it is done, and returns its output. It does not see this \
             conversation. Several can be started at once, each with a call of its own."
                .into(),
        ),
        input_schema: json!({
            "type": "object",
            "properties": {
                "agent": {"type": "string", "enum": ids, "description": format!("Which agent:\n{}", who.join("\n"))},
                "input": input,
            },
            "required": ["agent", "input"],
            "additionalProperties": false,
        }),
    })
}

/// The types that the agents' inputs can have, where all of their schemas say so.
fn types(agents: &[SubagentSpec], schemas: &[Option<Value>]) -> Option<Value> {
    let mut types = BTreeSet::new();
    for (i, agent) in agents.iter().enumerate() {
        if agent.input_schema.is_none() {
            types.insert("string".to_owned());
            continue;
        }
        match schemas.get(i)?.as_ref()?.get("type")? {
            Value::String(one) => drop(types.insert(one.clone())),
            Value::Array(several) => types.extend(several.iter().filter_map(|t| t.as_str().map(str::to_owned))),
            _ => return None,
        }
    }
    match types.len() {
        0 => None,
        1 => types.pop_first().map(Value::from),
        _ => Some(types.into_iter().collect()),
    }
}

/// Reads a call's arguments: which agent, and its input. `Err` says what is wrong, for the model. Whether the input fits the agent's schema is
/// checked where the agent is made ready.
pub fn read<'a>(spec: &JobSpec, arguments: &'a Value) -> Result<(&'a str, &'a Value), String> {
    let Value::Object(map) = arguments else { return Err("its arguments are not a JSON object".into()) };
    if let Some(key) = map.keys().find(|key| !matches!(key.as_str(), "agent" | "input")) {
        return Err(format!("it takes `agent` and `input`, and no `{}`", text::shown(key, 100)));
    }
    let agents = &spec.agent.subagents;
    let ids = || agents.iter().map(|a| a.id.as_str()).collect::<Vec<_>>().join(", ");
    let Some(agent) = map.get("agent") else { return Err(format!("`agent` is missing; it is one of: {}", ids())) };
    let Some(id) = agent.as_str() else { return Err(format!("`agent` is not a text; it is one of: {}", ids())) };
    let Some(known) = agents.iter().find(|a| a.id == id) else {
        return Err(format!("it can't start an agent `{}`; it can start: {}", text::shown(id, 100), ids()));
    };
    let Some(input) = map.get("input") else { return Err("`input` is missing: what the agent is to do".into()) };
    match (&known.input_schema, input) {
        (None, Value::String(said)) if said.trim().is_empty() => {
            Err("`input` is empty: say what the agent is to do".into())
        }
        (None, Value::String(_)) | (Some(_), _) => Ok((id, input)),
        (None, _) => Err(format!("`input` is not a text, and the agent `{id}` takes text")),
    }
}

/// What the parent's model reads of a child that is over, and whether it is an error. `output` is the outcome's, loaded.
pub fn said(agent: &str, job: &str, outcome: &Outcome, output: Option<&Value>) -> (String, bool) {
    match (outcome, output) {
        (Outcome::Completed { .. }, Some(Value::String(output))) => (output.clone(), false),
        (Outcome::Completed { .. }, Some(output)) => (output.to_string(), false),
        (Outcome::Completed { .. }, None) => {
            (format!("The agent {agent} is done; its output was deleted (job {job})."), true)
        }
        (Outcome::Failed { error: JobError { kind, message, .. } }, _) => {
            let why = text::reason(Some(message), ERROR_CHARS);
            (format!("The agent {agent} failed: {kind}: {why} (job {job})."), true)
        }
        (Outcome::Cancelled { by }, _) => (format!("The agent {agent} was cancelled by {by} (job {job})."), true),
    }
}

/// What of a child's end stands beside the words: `{"agent","job","status"}`.
pub fn structured(agent: &str, job: &str, outcome: &Outcome) -> Value {
    let status = match outcome {
        Outcome::Completed { .. } => "completed",
        Outcome::Failed { .. } => "failed",
        Outcome::Cancelled { .. } => "cancelled",
    };
    json!({"agent": agent, "job": job, "status": status})
}

#[cfg(test)]
mod tests;
