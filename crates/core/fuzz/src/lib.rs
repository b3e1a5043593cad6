//! What must hold for any input of the parsers. Each function panics where it does not.
#![forbid(unsafe_code)]

use hookwright_core::answer::{self, Decision};
use hookwright_core::diagnostic::{Diagnostic, Palette};
use hookwright_core::event::{Moment, check_value};
use hookwright_core::json::parse_strict;
use hookwright_core::{config, manifest};
use serde_json::{Value, json};

pub mod driver;
pub mod seeds;

/// Reads bytes as a manifest and as a configuration.
pub fn manifest(data: &[u8]) {
    match manifest::parse_bytes(data, manifest::Source { file: "plugin.yaml", folder_name: "fuzz" }) {
        Ok(parsed) => {
            shown_safely(&parsed.warnings);
            assert!(parsed.warnings.iter().all(|d| !d.is_error()), "an accepted manifest has no error");
            assert!(parsed.manifest.hooks.iter().all(|h| (1..=manifest::MAX_TIMEOUT_MS).contains(&h.timeout_ms)));
            let found = manifest::tenant::check(&[&parsed]);
            assert!(found.len() <= 101, "problems are bounded");
            shown_safely(&found);
        }
        Err(found) => refused(&found),
    }
    match config::parse_bytes(data, "hookwright.yaml") {
        Ok(parsed) => {
            shown_safely(&parsed.warnings);
            assert!(!parsed.config.tenants.is_empty());
        }
        Err(found) => refused(&found),
    }
}

fn refused(found: &[Diagnostic]) {
    assert!(found.iter().any(Diagnostic::is_error), "what is refused has an error");
    assert!(found.len() <= 101, "problems are bounded");
    shown_safely(found);
}

fn shown_safely(found: &[Diagnostic]) {
    for d in found {
        let text = d.render(&Palette::PLAIN);
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "a control character is shown: {text:?}");
        assert!(text.len() < 20_000, "a diagnostic is long");
    }
}

/// Reads bytes as a raw result, as its structured content and as its only text block, at each moment.
pub fn answer(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let schema = json!({"type": "object", "required": ["branch"], "properties": {"branch": {"type": "string"}}});
    for moment in Moment::ALL {
        let schema = (moment == Moment::PreToolCall).then_some(&schema);
        let block = json!({"content": [{"type": "text", "text": text}]});
        if let Ok(found) = answer::read(&block, moment, schema) {
            // Only an object with an exact decision, without duplicated keys, is one.
            let object = parse_strict(&text).unwrap_or_else(|_| panic!("no JSON, yet an answer: {text:?}"));
            exact(&object, &found.decision, moment, schema);
        }
        if let Ok(value) = serde_json::from_str::<Value>(&text) {
            let _ = answer::read(&value, moment, schema);
            let structured = json!({"content": [], "structuredContent": value});
            if let Ok(found) = answer::read(&structured, moment, schema) {
                let inner = match value.as_object() {
                    Some(map) if map.len() == 1 && map.contains_key("result") => match &map["result"] {
                        Value::String(text) => parse_strict(text).unwrap_or_default(),
                        other => other.clone(),
                    },
                    _ => value.clone(),
                };
                exact(&inner, &found.decision, moment, schema);
            }
            let failed = json!({"content": [], "structuredContent": value, "isError": true});
            assert!(answer::read(&failed, moment, schema).is_err(), "a failure is never an answer");
        }
    }
}

/// The object says in so many words what was understood.
fn exact(object: &Value, decision: &Decision, moment: Moment, schema: Option<&Value>) {
    let word = object.get("decision").and_then(Value::as_str);
    match decision {
        Decision::Allow => assert_eq!(word, Some("allow")),
        Decision::Deny => assert_eq!(word, Some("deny")),
        Decision::Escalate => assert_eq!(word, Some("escalate")),
        Decision::Modify(value) => {
            assert_eq!(word, Some("modify"));
            assert_eq!(object.get(moment.key()), Some(value));
            assert!(check_value(moment, value, schema).is_ok(), "a modified value fits");
        }
    }
}
