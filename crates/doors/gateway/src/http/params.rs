//! Arguments that a server wants repeated as `Mcp-Param-*` headers (`x-mcp-header` in a function's schema, revision 2026-07-28): whoever
//! routes by them must not be misled.

use super::modern::decoded;
use crate::session::{Session, lock};
use crate::wire::{self, Fault, Request};
use axum::http::{HeaderMap, HeaderName};
use hookwright_core::FunctionName;
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;

/// How long it is known what a server wants.
const KNOWN: Duration = Duration::from_secs(30);

/// An argument, by its way into the object, and its header.
type Wanted = Vec<(Vec<String>, HeaderName)>;
type ByFunction = Arc<HashMap<String, Wanted>>;

/// What the servers of a session want, by tool.
#[derive(Default)]
pub(crate) struct Repeated(Mutex<HashMap<String, (Instant, ByFunction)>>);

impl Session {
    async fn wants(&self, tool: &str) -> ByFunction {
        let known = lock(&self.repeated.0).get(tool).filter(|(since, _)| since.elapsed() < KNOWN).cloned();
        if let Some((_, known)) = known {
            return known;
        }
        let listed = self.tools.functions(tool).await.unwrap_or_default();
        let wanted = listed.into_iter().map(|function| (function.name, wanted(&function.input_schema)));
        let wanted: ByFunction = Arc::new(wanted.filter(|(_, wanted)| !wanted.is_empty()).collect());
        lock(&self.repeated.0).insert(tool.to_owned(), (Instant::now(), wanted.clone()));
        wanted
    }

    /// Whether a call's headers repeat what its arguments say.
    pub(super) async fn check_params(&self, headers: &HeaderMap, request: &Request) -> Result<(), Fault> {
        if request.method != "tools/call" {
            return Ok(());
        }
        let params = request.values()?;
        let name = params.get("name").and_then(Value::as_str).unwrap_or_default();
        let full = self.full_name(name).await;
        let Ok(full) = FunctionName::parse(&full) else { return Ok(()) };
        let wants = self.wants(full.tool()).await;
        let Some(wanted) = wants.get(full.function()) else { return Ok(()) };
        let none = Map::new();
        check(headers, wanted, params.get("arguments").and_then(Value::as_object).unwrap_or(&none))
    }
}

fn wanted(schema: &Value) -> Wanted {
    let mut found = vec![];
    collect(schema, &mut vec![], &mut found);
    found
}

fn collect(schema: &Value, path: &mut Vec<String>, found: &mut Wanted) {
    let Some(properties) = schema["properties"].as_object() else { return };
    for (name, property) in properties {
        path.push(name.clone());
        if let Some(header) = property["x-mcp-header"].as_str().filter(|header| !header.is_empty())
            && let Ok(header) = HeaderName::from_bytes(format!("mcp-param-{header}").as_bytes())
        {
            found.push((path.clone(), header));
        }
        collect(property, path, found);
        path.pop();
    }
}

fn check(headers: &HeaderMap, wanted: &Wanted, arguments: &Map<String, Value>) -> Result<(), Fault> {
    for (path, header) in wanted {
        let value = path
            .split_first()
            .and_then(|(first, rest)| rest.iter().try_fold(arguments.get(first)?, |value, key| value.get(key)));
        let said = match value {
            Some(Value::String(text)) => Some(text.clone()),
            Some(value @ (Value::Bool(_) | Value::Number(_))) => Some(value.to_string()),
            Some(Value::Null | Value::Array(_) | Value::Object(_)) | None => None,
        };
        let mut all = headers.get_all(header).iter();
        let first = all.next().map(|value| value.to_str().ok().and_then(decoded));
        let fits = all.next().is_none()
            && match (said, first) {
                (Some(said), Some(Some(header))) => said == *header,
                (None, None) => true,
                (Some(_), Some(None) | None) | (None, Some(_)) => false,
            };
        if !fits {
            let what = format!("the header {header} is missing, or is not the body's argument {}", path.join("."));
            return Err(Fault::new(wire::HEADER_MISMATCH, hookwright_core::text::shown(&what, 500)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn headers_repeat_the_arguments_that_a_server_wants_repeated() {
        let wanted = wanted(&json!({"type": "object", "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "deep": {"type": "object", "properties": {"n": {"type": "integer", "x-mcp-header": "N"}}},
            "odd": {"x-mcp-header": "no header\n"}, "other": {"type": "string"}}}));
        assert_eq!(wanted.len(), 2);
        for (arguments, headers, fits) in [
            (json!({}), &[][..], true),
            (json!({"other": "x"}), &[("mcp-param-other", "y")], true),
            (json!({"region": "eu"}), &[("mcp-param-region", "eu")], true),
            (json!({"region": "ü"}), &[("mcp-param-region", "=?base64?w7w=?=")], true),
            (json!({"region": "eu", "deep": {"n": 7}}), &[("mcp-param-region", "eu"), ("mcp-param-n", "7")], true),
            (json!({"region": null}), &[], true),
            (json!({"region": "eu"}), &[], false),
            (json!({"region": "eu"}), &[("mcp-param-region", "us")], false),
            (json!({"region": "eu"}), &[("mcp-param-region", "eu"), ("mcp-param-region", "us")], false),
            (json!({"region": "eu"}), &[("mcp-param-region", "=?base64?!?=")], false),
            (json!({}), &[("mcp-param-region", "eu")], false),
            (json!({"deep": {"n": 7}}), &[("mcp-param-n", "8")], false),
        ] {
            let mut map = HeaderMap::new();
            for (name, value) in headers {
                map.append(HeaderName::from_static(name), value.parse().unwrap());
            }
            let checked = check(&map, &wanted, arguments.as_object().unwrap());
            assert_eq!(checked.is_ok(), fits, "{arguments} {headers:?}: {checked:?}");
            assert!(checked.is_ok() || checked.unwrap_err().code == wire::HEADER_MISMATCH);
        }
    }
}
