use super::*;
use crate::diagnostic::{Palette, render_all};
use std::fmt::Write as _;

mod agreement;
mod hostile;
mod rules;

/// The example of SPEC §2, verbatim.
const SPEC: &str = include_str!("tests/spec.yaml");

fn source() -> Source<'static> {
    Source { file: "plugin.yaml", folder_name: "demo" }
}

fn read(text: &str) -> Result<Parsed, Vec<Diagnostic>> {
    parse(text, source())
}

/// The codes that a text gives, errors and warnings, in the order of the file.
fn codes(text: &str) -> Vec<&'static str> {
    let found = match read(text) {
        Ok(parsed) => parsed.warnings,
        Err(found) => found,
    };
    found.iter().map(|d| d.code.text()).collect()
}

fn rendered(text: &str) -> String {
    match read(text) {
        Ok(parsed) => render_all(&parsed.warnings, &Palette::PLAIN),
        Err(found) => render_all(&found, &Palette::PLAIN),
    }
}

#[test]
fn the_example_of_the_spec_is_read_as_it_says() {
    let parsed = read(SPEC).unwrap();
    assert!(parsed.warnings.is_empty());
    insta::assert_json_snapshot!("spec", parsed.manifest);
}

#[test]
fn the_digest_is_over_the_text_as_it_was_read() {
    let a = read("id: x\ntools: []\n").unwrap().manifest;
    let b = read("id: x\ntools: [] # same meaning\n").unwrap().manifest;
    assert_eq!(a.sha256, crate::json::sha256_hex(b"id: x\ntools: []\n"));
    assert_ne!(a.sha256, b.sha256);
}

#[test]
fn all_keys_are_read() {
    let text = r#"
tools:
  - id: todo
    mcp: [./server, --stdio, ""]
    env: { EMPTY: "", LOG: info }
    scope: session
    idempotent: [list, list.all]
    trust_annotations: true
    start_timeout: 1.5m
  - { id: local, mcp: "http://127.0.0.1:8080/mcp", headers: { X-Team: a b } }
hooks:
  - on: job_start
    call: todo.judge
    match: { agents: ["*"] }
    timeout: 30s
    on_timeout: allow
    expires: 30d
    approvers: [alice, release-team]
agents:
  - id: writer
    description: Writes.
    harness: claude-agent-sdk
    command: ["claude", "--debug"]
    env: { KEY: { from: KEY }, MODE: quiet }
    tools: []
    input_schema: { type: object, properties: { n: { type: integer } } }
    output_schema: { type: string }
    max_turns: 7
    max_tokens: 4096
    context_window: 200000
    subagents: [writer]
"#;
    let parsed = read(text).unwrap();
    assert!(parsed.warnings.is_empty(), "{}", rendered(text));
    insta::assert_json_snapshot!("all_keys", parsed.manifest);
}

#[test]
fn all_errors_of_a_file_are_said_at_once() {
    insta::assert_snapshot!("all_errors", rendered(include_str!("tests/bad.yaml")));
}

#[test]
fn json_is_yaml_too() {
    let parsed = read(r#"{"id": "x", "tools": [{"id": "a", "mcp": ["b"]}]}"#).unwrap();
    assert_eq!(parsed.manifest.tools[0].id, "a");
}

#[test]
fn diagnostics_serialize_as_check_prints_them() {
    let found = read("tool: []\n").unwrap_err();
    insta::assert_json_snapshot!("diagnostic", found);
}

#[test]
fn places_lead_to_the_nearest_known_part() {
    let parsed = read(SPEC).unwrap();
    assert_eq!(parsed.places.get("hooks/0/call").line, 11);
    assert_eq!(parsed.places.get("hooks/0/match/tools/1").line, 12);
    assert_eq!(parsed.places.get("tools/0/env/TOKEN").line, 5);
    assert_eq!(parsed.places.get("hooks/1/approvers/0").line, 15);
    assert_eq!(parsed.places.get("nothing/0"), Place::START);
}

#[test]
fn the_guide_names_every_code() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let text =
        ["manifest.md", "configuration.md"].map(|name| std::fs::read_to_string(root.join(name)).unwrap()).concat();
    let mut missing = String::new();
    for code in Code::ALL.iter().filter(|code| !text.contains(&format!("`{code}`"))) {
        let _ = write!(missing, "{code} ");
    }
    assert_eq!(missing, "", "codes that docs/manifest.md and docs/configuration.md don't explain");
}

#[test]
fn the_examples_of_the_guide_are_valid() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let guide = std::fs::read_to_string(root.join("manifest.md")).unwrap();
    let mut seen = 0;
    for block in guide.split("```yaml\n").skip(1) {
        let text = block.split("```").next().unwrap();
        seen += 1;
        assert!(read(text).is_ok_and(|p| p.warnings.is_empty()), "{text}\n{}", rendered(text));
    }
    assert!(seen >= 3);
}
