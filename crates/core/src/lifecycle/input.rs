//! What a lifecycle hook gets.

use super::Context;
use crate::job::JobSpec;
use serde_json::{Map, Value};

/// A hook's arguments: nothing, but for those context properties that its own input schema declares (SPEC §9).
///
/// `prompt` is the value of [`Context::prompt`]; an input that is no text is given as it is. Servers that know of no context get
/// exactly `{}`: many refuse arguments that they did not declare.
pub fn input(schema: &Value, context: &Context, prompt: Option<&Value>, spec: &JobSpec) -> Map<String, Value> {
    let Some(declared) = schema["properties"].as_object() else { return Map::new() };
    let text = |text: &str| Some(Value::from(text));
    let known: [(&str, Option<Value>); 7] = [
        ("prompt", prompt.cloned()),
        ("attempt", context.attempt.map(Value::from)),
        ("rejections_left", context.rejections_left.map(Value::from)),
        ("stop_reason", context.stop_reason.and_then(|reason| serde_json::to_value(reason).ok())),
        ("agent", text(&spec.agent.id)),
        ("job", text(&spec.job)),
        ("session", text(&spec.session)),
    ];
    known
        .into_iter()
        .filter(|(name, _)| declared.contains_key(*name))
        .filter_map(|(name, value)| value.map(|value| (name.to_owned(), value)))
        .collect()
}
