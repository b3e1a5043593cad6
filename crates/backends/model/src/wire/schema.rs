//! JSON Schemas as providers take them: of functions' arguments, and of the final output.
//!
//! Invariant: a function's schema as the model is shown it may be looser than the server's, never tighter: calls are checked
//! with the original. An output's may be tighter in one way: objects that leave it open are closed.

use serde_json::{Map, Value, json};

/// A function's input schema: an object schema without the keys that providers refuse at its top (`oneOf`, `$schema`, …).
pub(super) fn function(schema: &Value) -> Value {
    let mut out = schema.as_object().cloned().unwrap_or_default();
    out.retain(|key, _| !["$schema", "$id", "oneOf", "anyOf", "allOf", "not", "enum", "const"].contains(&key.as_str()));
    out.insert("type".into(), json!("object"));
    if !out.get("properties").is_some_and(Value::is_object) {
        out.insert("properties".into(), json!({}));
    }
    Value::Object(out)
}

/// Whether a schema is in OpenAI's strict subset: every object closed, every property required.
pub(super) fn is_strict(schema: &Value) -> bool {
    match schema {
        Value::Array(items) => items.iter().all(is_strict),
        Value::Object(map) => {
            let is_object = map.get("type").and_then(Value::as_str) == Some("object") || map.contains_key("properties");
            let closed = || {
                let required: Vec<&str> = map
                    .get("required")
                    .and_then(Value::as_array)
                    .into_iter()
                    .flatten()
                    .filter_map(Value::as_str)
                    .collect();
                map.get("additionalProperties") == Some(&Value::Bool(false))
                    && map
                        .get("properties")
                        .and_then(Value::as_object)
                        .is_none_or(|p| p.keys().all(|k| required.contains(&k.as_str())))
            };
            let unknown = ["oneOf", "allOf", "not", "if", "patternProperties", "dependentRequired"];
            (!is_object || closed()) && !unknown.iter().any(|k| map.contains_key(*k)) && map.values().all(is_strict)
        }
        _ => true,
    }
}

/// Whether a schema is of the object kind at its top, as OpenAI demands of an output.
pub(super) fn is_object(schema: &Value) -> bool {
    schema.get("type").and_then(Value::as_str) == Some("object")
}

/// An output schema in Anthropic's subset, as its SDKs make it: objects closed, keywords that it does not know moved to the
/// description. `None` where that would tighten the schema (an open object, `not`, …).
pub(super) fn anthropic_output(schema: &Value) -> Option<Value> {
    const KEPT: [&str; 6] = ["$ref", "enum", "const", "title", "required", "default"];
    let Value::Object(map) = schema else { return None };
    let mut out = Map::new();
    let mut aside = Vec::new();
    for (key, value) in map {
        let kept = match key.as_str() {
            "$schema" | "$id" => continue,
            "$defs" | "definitions" | "properties" => {
                let inner = value.as_object()?.iter().map(|(k, v)| Some((k.clone(), anthropic_output(v)?)));
                Some(Value::Object(inner.collect::<Option<Map<_, _>>>()?))
            }
            "items" => Some(anthropic_output(value)?),
            "anyOf" | "allOf" | "oneOf" => {
                let key = if key == "oneOf" { "anyOf" } else { key };
                let inner = value.as_array()?.iter().map(anthropic_output).collect::<Option<Vec<_>>>()?;
                out.insert(key.to_owned(), Value::Array(inner));
                continue;
            }
            "additionalProperties" if value == &Value::Bool(false) => continue,
            "additionalProperties" | "patternProperties" | "not" | "if" | "then" | "else" | "prefixItems" => {
                return None;
            }
            "type" | "description" => Some(value.clone()),
            key if KEPT.contains(&key) => Some(value.clone()),
            _ => None,
        };
        match kept {
            Some(value) => {
                out.insert(key.clone(), value);
            }
            None => aside.push(format!("{key}: {value}")),
        }
    }
    if out.get("type").and_then(Value::as_str) == Some("object") || out.contains_key("properties") {
        // Absent means open; closing it is what every provider's strict mode does, and an agent's output is its own to shape.
        out.insert("additionalProperties".into(), json!(false));
    }
    if !aside.is_empty() {
        let before = out.get("description").and_then(Value::as_str).map_or_else(String::new, |d| format!("{d}\n\n"));
        out.insert("description".into(), json!(format!("{before}{{{}}}", aside.join(", "))));
    }
    Some(Value::Object(out))
}

/// The wish for JSON in words, for models that take no schema.
pub(super) fn in_words(schema: &Value) -> String {
    format!(
        "Give your final answer as one JSON value that fits the following JSON Schema, without any other text and without a code fence.\n{schema}"
    )
}
