//! A request's headers.

use super::{Inner, lock};
use base64::Engine;
use hookwright_runtime::ports::tools::ListedFunction;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value};
use std::collections::HashMap;

/// Headers that the protocol or HTTP itself sets.
const RESERVED: [&str; 10] = [
    "accept",
    "connection",
    "content-length",
    "content-type",
    "host",
    "last-event-id",
    "mcp-method",
    "mcp-protocol-version",
    "mcp-session-id",
    "transfer-encoding",
];

/// Checks a manifest's headers. An error never shows a value.
pub(super) fn of_manifest(pairs: &[(String, String)]) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        let parsed = HeaderName::from_bytes(name.as_bytes()).map_err(|_| format!("{name:?} is not a header's name"))?;
        if RESERVED.contains(&parsed.as_str()) {
            return Err(format!("the header {name} is set by the protocol and can't be given"));
        }
        let mut value = HeaderValue::from_str(value.trim())
            .map_err(|_| format!("the value of header {name} holds characters that no header can"))?;
        value.set_sensitive(true);
        headers.insert(parsed, value);
    }
    Ok(headers)
}

impl Inner {
    /// All headers of a request.
    pub(super) fn request_headers(
        &self,
        method: &str,
        name: Option<&str>,
        arguments: Option<&Map<String, Value>>,
    ) -> HeaderMap {
        let mut headers = self.headers.clone();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(session) = &*lock(&self.session) {
            headers.insert("mcp-session-id", session.clone());
        }
        if let Some(Ok(revision)) = lock(&self.revision).as_deref().map(HeaderValue::from_str) {
            headers.insert("mcp-protocol-version", revision);
        }
        if !self.is_modern() || method.is_empty() {
            return headers;
        }
        let mut add = |name: HeaderName, value: &str| {
            if let Ok(value) = HeaderValue::from_str(&encoded(value)) {
                headers.insert(name, value);
            }
        };
        add(HeaderName::from_static("mcp-method"), method);
        if let Some(name) = name {
            add(HeaderName::from_static("mcp-name"), name);
            for (header, value) in lock(&self.params).values(name, arguments) {
                add(header, &value);
            }
        }
        headers
    }
}

/// A value as revision 2026-07-28 writes it in a header: in base64 where it could not stand there as it is.
fn encoded(value: &str) -> String {
    let blank = |c: char| c == ' ' || c == '\t';
    let plain = value.chars().all(|c| matches!(c, ' '..='~')) && !value.starts_with(blank) && !value.ends_with(blank);
    if plain && !(value.starts_with("=?base64?") && value.ends_with("?=")) {
        return value.to_owned();
    }
    format!("=?base64?{}?=", base64::prelude::BASE64_STANDARD.encode(value))
}

/// Which arguments a server wants repeated as `Mcp-Param-*` headers, by function (`x-mcp-header` in its schema, revision 2026-07-28).
#[derive(Debug, Default)]
pub(super) struct ParamHeaders(HashMap<String, Vec<(Vec<String>, HeaderName)>>);

impl ParamHeaders {
    pub(super) fn of(functions: &[ListedFunction]) -> Self {
        let mut all = HashMap::new();
        for function in functions {
            let mut found = Vec::new();
            collect(&function.input_schema, &mut Vec::new(), &mut found);
            if !found.is_empty() {
                all.insert(function.name.clone(), found);
            }
        }
        Self(all)
    }

    fn values(&self, function: &str, arguments: Option<&Map<String, Value>>) -> Vec<(HeaderName, String)> {
        let (Some(wanted), Some(arguments)) = (self.0.get(function), arguments) else { return Vec::new() };
        let value_at = |path: &[String]| {
            let (first, rest) = path.split_first()?;
            rest.iter().try_fold(arguments.get(first)?, |value, key| value.get(key))
        };
        let text = |value: &Value| match value {
            Value::String(text) => Some(text.clone()),
            Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        };
        wanted.iter().filter_map(|(path, header)| Some((header.clone(), text(value_at(path)?)?))).collect()
    }
}

fn collect(schema: &Value, path: &mut Vec<String>, found: &mut Vec<(Vec<String>, HeaderName)>) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_that_no_header_can_hold_are_in_base64() {
        assert_eq!(encoded("check"), "check");
        assert_eq!(encoded(""), "");
        assert_eq!(encoded("ä"), "=?base64?w6Q=?=");
        assert_eq!(encoded(" x"), "=?base64?IHg=?=");
        assert_eq!(
            encoded("=?base64?x?="),
            format!("=?base64?{}?=", base64::prelude::BASE64_STANDARD.encode("=?base64?x?="))
        );
    }

    #[test]
    fn annotated_arguments_become_headers() {
        let schema = json!({"type": "object", "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "deep": {"type": "object", "properties": {"n": {"type": "integer", "x-mcp-header": "N"}}},
            "odd": {"x-mcp-header": "no header\n"}, "other": {"type": "string"}}});
        let function = ListedFunction {
            name: "f".into(),
            description: None,
            input_schema: schema,
            read_only_hint: false,
            idempotent_hint: false,
            definition: std::sync::Arc::default(),
        };
        let arguments = json!({"region": "eu", "deep": {"n": 7}, "odd": 1, "other": "x"});
        let found = ParamHeaders::of(&[function]).values("f", arguments.as_object());
        let found: Vec<(&str, &str)> = found.iter().map(|(h, v)| (h.as_str(), v.as_str())).collect();
        assert_eq!(found, [("mcp-param-region", "eu"), ("mcp-param-n", "7")]);
    }

    #[test]
    fn a_wrong_header_is_told_without_its_value() {
        for (name, value) in [("a b", "s3cret"), ("Mcp-Session-Id", "s3cret"), ("X", "s3cret\n x")] {
            let why = of_manifest(&[(name.to_owned(), value.to_owned())]).unwrap_err();
            assert!(!why.contains("s3cret") && why.contains(name), "{why}");
        }
        assert!(!format!("{:?}", of_manifest(&[("X".to_owned(), "s3cret".to_owned())])).contains("s3cret"));
    }
}
