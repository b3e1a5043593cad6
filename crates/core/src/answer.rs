//! What a hook said: the raw result of its `tools/call`, read by the rules of SPEC §4.
//!
//! Invariant: what is not a valid decision is an `Err`, never an allow.

use crate::event::{Moment, check_value};
use crate::json::parse_strict;
use crate::text;
use serde_json::{Map, Value};

/// A valid decision.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The decision.
    pub decision: Decision,
    /// The reason as it was given: untrusted; [`text::reason`] makes it fit to show.
    pub reason: Option<String>,
    /// Further keys: recorded and ignored.
    pub other: Option<Value>,
}

/// The four decisions.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// Go ahead.
    Allow,
    /// Go ahead with another value.
    Modify(Value),
    /// Do not.
    Deny,
    /// A person decides.
    Escalate,
}

/// Reads a hook's raw result. `schema` is the input schema of the function that is to be called, or the agent's declared one.
///
/// The error says in a few words why it is not a valid decision.
pub fn read(raw: &Value, moment: Moment, schema: Option<&Value>) -> Result<Answer, String> {
    let answer = parse(raw, moment)?;
    check(&answer, moment, schema)?;
    Ok(answer)
}

/// Checks the new value of an answer. A schema may be a server's own and hostile: this can take for ever, where [`parse`] can't.
pub fn check(answer: &Answer, moment: Moment, schema: Option<&Value>) -> Result<(), String> {
    match &answer.decision {
        Decision::Modify(value) => check_value(moment, value, schema).map_err(|e| format!("`modify`: {e}")),
        Decision::Allow | Decision::Deny | Decision::Escalate => Ok(()),
    }
}

/// Reads a hook's raw result, but for whether a new value is a fit one: [`check`] must follow.
pub fn parse(raw: &Value, moment: Moment) -> Result<Answer, String> {
    let raw = raw.as_object().ok_or("the result is not an object")?;
    let blocks = raw.get("content").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let texts: Vec<&str> = blocks
        .iter()
        .filter(|b| b.get("type").and_then(Value::as_str) == Some("text"))
        .map(|b| b.get("text").and_then(Value::as_str).unwrap_or(""))
        .collect();
    match raw.get("isError") {
        None | Some(Value::Bool(false)) => {}
        Some(_) => {
            let said = texts.first().map_or(String::new(), |t| format!(": {}", text::reason(Some(t), 300)));
            return Err(format!("the hook answered with an error{said}"));
        }
    }
    if let Some(structured) = raw.get("structuredContent").filter(|v| !v.is_null()) {
        return decision(unwrap(structured)?, moment);
    }
    if texts.len() > 1 {
        return Err(format!("{} text blocks where one is expected", texts.len()));
    }
    if let Some(text) = texts.first() {
        match parse_strict(text) {
            Ok(Value::Object(map)) => return decision(map, moment),
            Err(e) if e.is_duplicate_key() => return Err(text::reason(Some(&e.to_string()), 200)),
            Ok(_) | Err(_) if raw.contains_key("decision") => {}
            Ok(other) => return Err(format!("the text is {}, not a JSON object", kind(&other))),
            Err(_) => return Err(format!("the text is not a JSON object: {}", text::reason(Some(text), 80))),
        }
    }
    if raw.contains_key("decision") {
        let mut map = raw.clone();
        for key in ["content", "isError", "structuredContent", "_meta", "resultType"] {
            map.shift_remove(key);
        }
        return decision(map, moment);
    }
    Err("the answer is empty".into())
}

/// The object inside `structuredContent`: as it is, or under a lone key `result` (an object, or a string of JSON), as SDKs wrap it.
fn unwrap(structured: &Value) -> Result<Map<String, Value>, String> {
    let map =
        structured.as_object().ok_or_else(|| format!("structuredContent is {}, not an object", kind(structured)))?;
    if map.len() != 1 {
        return Ok(map.clone());
    }
    match map.get("result") {
        None => Ok(map.clone()),
        Some(Value::Object(inner)) => Ok(inner.clone()),
        Some(Value::String(json)) => match parse_strict(json) {
            Ok(Value::Object(inner)) => Ok(inner),
            Err(e) if e.is_duplicate_key() => Err(text::reason(Some(&e.to_string()), 200)),
            _ => Err(format!("`result` is not a JSON object: {}", text::reason(Some(json), 80))),
        },
        Some(other) => Err(format!("`result` is {}, not an object", kind(other))),
    }
}

fn decision(mut map: Map<String, Value>, moment: Moment) -> Result<Answer, String> {
    let word = match map.shift_remove("decision") {
        Some(Value::String(word)) => word,
        Some(other) => return Err(format!("`decision` is {}, not a string", kind(&other))),
        None => return Err("no `decision`".into()),
    };
    let reason = match map.shift_remove("reason") {
        None | Some(Value::Null) => None,
        Some(Value::String(reason)) => Some(reason),
        // What it decided is clear; a deny must not turn into its `on_timeout` over the form of its reason.
        Some(other) => {
            map.insert("reason".into(), other);
            None
        }
    };
    let decision = match word.as_str() {
        "allow" => Decision::Allow,
        "deny" => Decision::Deny,
        "escalate" => Decision::Escalate,
        "modify" => {
            let key = moment.key();
            let value = map.shift_remove(key).ok_or_else(|| format!("`modify` without `{key}`"))?;
            Decision::Modify(value)
        }
        other => {
            let lower = other.to_lowercase();
            let hint = if matches!(lower.as_str(), "allow" | "deny" | "modify" | "escalate") && lower != other {
                format!(" (lower case: {lower})")
            } else {
                String::new()
            };
            return Err(format!("unknown decision {:?}{hint}", text::reason(Some(other), 60)));
        }
    };
    Ok(Answer { decision, reason, other: (!map.is_empty()).then_some(Value::Object(map)) })
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests;
