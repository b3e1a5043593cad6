use super::*;
use crate::Limits;
use crate::diagnostic::{Palette, render_all};
use crate::manifest::{Parsed, Source};
use serde_json::{Value, json};

const FULL: &str = "
tenants:
  - id: team
    plugins: [plugins/release, ./plugins/todo, /opt/x]
    lifecycle: { servers: [todo, memory], timeout: 3s, max_rejections: 0 }
    secrets: [GITHUB_TOKEN, GITHUB_AUTHORIZATION]
    groups: { release: [alice, bob@example.com] }
    limits:
      calls_per_turn: 32
      parallel_calls: 4
      result_bytes: 64KiB
      tool_timeout: 5m
      reason_chars: 500
      event_bytes: 2097152
      lifecycle_bytes: 1.5KiB
      message_bytes: 32MiB
      subagent_depth: 0
      max_turns: 50
      calls_per_job: 200
      tokens_per_job: 500000
      jobs_at_once: 10
    run_as: team-a
store: data/hookwright.db
engine: embedded
socket: run/hookwright.sock
log: { filter: 'warn,hookwright_mcp=debug', format: json, file: node.log }
";

fn codes(text: &str) -> Vec<&'static str> {
    let found = match parse(text, "hookwright.yaml") {
        Ok(parsed) => parsed.warnings,
        Err(found) => found,
    };
    found.iter().map(|d| d.code.text()).collect()
}

fn tenant(lines: &str) -> String {
    format!("tenants:\n  - id: a\n    plugins: []\n    {lines}\n")
}

#[test]
fn all_keys_are_read() {
    let parsed = parse(FULL, "hookwright.yaml").unwrap_or_else(|f| panic!("{}", render_all(&f, &Palette::PLAIN)));
    assert!(parsed.warnings.is_empty());
    assert_eq!(parsed.sha256, crate::json::sha256_hex(FULL.as_bytes()));
    insta::assert_json_snapshot!("full", parsed.config);
}

#[test]
fn without_a_file_there_is_one_tenant_default() {
    let config = Config::default();
    assert_eq!(config.tenants.len(), 1);
    assert_eq!(config.tenants[0].id, "default");
    assert_eq!(config.tenants[0].secrets, Secrets::Any);
    assert_eq!(config.tenants[0].limits, Limits::default());
    // A file that declares no tenants changes nothing of that.
    assert_eq!(parse("log: info", "x").unwrap().config.tenants, config.tenants);
}

#[test]
fn the_smallest_tenant_has_the_documented_defaults() {
    let config = parse("tenants: [{ id: a, plugins: [] }]", "x").unwrap().config;
    assert_eq!(config.tenants[0].secrets, Secrets::Named(vec![]));
    assert_eq!(
        config.tenants[0].lifecycle,
        LifecycleConfig { servers: Servers::None, timeout_ms: 2_500, max_rejections: 3 }
    );
    assert_eq!(config.tenants[0].limits, Limits::default());
    assert_eq!((config.engine, config.store, config.socket), (Engine::Embedded, None, None));
}

#[test]
fn the_rules_of_the_file() {
    let cases: &[(String, &[&str])] = &[
        (String::new(), &["empty"]),
        ("tenants: []".into(), &["empty-list"]),
        ("tenants: {}".into(), &["wrong-type"]),
        ("tenats: []".into(), &["unknown-key"]),
        ("tenants: [{ id: a }]".into(), &["missing-key"]),
        ("tenants: [{ plugins: [] }]".into(), &["missing-key"]),
        ("tenants: [{ id: a, plugins: [] }, { id: a, plugins: [] }]".into(), &["duplicate-id"]),
        ("tenants: [{ id: a b, plugins: [] }]".into(), &["invalid-id"]),
        ("tenants: [{ id: a, plugins: [x, ./x/] }]".into(), &["duplicate-id"]),
        ("tenants: [{ id: a, plugins: [x, /x] }]".into(), &[]),
        ("tenants: [{ id: a, plugins: [~/x] }]".into(), &["invalid-path"]),
        ("tenants: [{ id: a, plugins: [''] }]".into(), &["empty-text"]),
        ("tenants: [{ id: a, plugins: x }]".into(), &["wrong-type"]),
        ("engine: temporal".into(), &["wrong-type"]),
        ("engine: { temporal: {} }".into(), &["missing-key"]),
        ("engine: { temporal: { address: 'localhost:7233' } }".into(), &[]),
        ("engine: { temporal: { address: 'https://localhost:7233' } }".into(), &["unknown-value"]),
        ("engine: { temporal: { address: localhost } }".into(), &["unknown-value"]),
        ("engine: { temporal: { address: 'a:1', api_key: { from: KEY }, tls: { ca: ca.pem } } }".into(), &[]),
        ("engine: { temporal: { address: 'a:1', api_key: abcdefgh } }".into(), &["secret-in-manifest"]),
        ("engine: { temporal: { address: 'a:1', api_key: { from: 'a b' } } }".into(), &["invalid-name"]),
        ("engine: { temporal: { address: 'a:1', tls: { cert: c.pem } } }".into(), &["missing-key"]),
        ("engine: { temporal: { address: 'a:1', node: a/b } }".into(), &["invalid-name"]),
        ("engine: { temporal: { adress: 'a:1' } }".into(), &["unknown-key"]),
        ("engine: embeded".into(), &["unknown-value"]),
        ("store: ~/x".into(), &["invalid-path"]),
        ("store:".into(), &["wrong-type"]),
        ("socket: ''".into(), &["empty-text"]),
        ("log: infos".into(), &["unknown-value"]),
        ("log: 'a b=info'".into(), &["unknown-value"]),
        ("log: []".into(), &["wrong-type"]),
        ("log: { level: info }".into(), &["unknown-key"]),
        ("log: { format: xml }".into(), &["unknown-value"]),
        ("log: {}".into(), &[]),
        (tenant("secrets: [A, A]"), &["duplicate-entry"]),
        (tenant("secrets: ['*']"), &["invalid-name"]),
        (tenant("secrets: [ghp_abcdef-123456]"), &["secret-in-manifest"]),
        (tenant("groups: { a: [] }"), &["empty-list"]),
        (tenant("groups: { 'a b': [x] }"), &["invalid-name"]),
        (tenant("groups: { a: x }"), &["wrong-type"]),
        (tenant("groups: [a]"), &["wrong-type"]),
        (tenant("lifecycle: { servers: '*' }"), &[]),
        (tenant("lifecycle: { servers: '*, todo' }"), &["invalid-servers"]),
        (tenant("lifecycle: { servers: ['*', todo] }"), &["invalid-servers"]),
        (tenant("lifecycle: { servers: 7 }"), &["wrong-type"]),
        (tenant("lifecycle: { timeout: 0s }"), &["duration-range"]),
        (tenant("lifecycle: { timeout: 2500 }"), &["missing-unit"]),
        (tenant("lifecycle: { max_rejections: -1 }"), &["out-of-range"]),
        (tenant("limits: { tool_timeout_ms: 1000 }"), &["unknown-key"]),
        (tenant("limits: { tool_timeout: 25h }"), &["duration-range"]),
        (tenant("limits: { result_bytes: 50 KB }"), &["invalid-size"]),
        (tenant("limits: { result_bytes: 1.5 }"), &["invalid-size"]),
        (tenant("limits: { result_bytes: 1GiB }"), &["size-range"]),
        (tenant("limits: { event_bytes: 32MiB }"), &["size-range"]),
        (tenant("limits: { message_bytes: 512KiB }"), &["size-range"]),
        (tenant("limits: { calls_per_turn: 0 }"), &["out-of-range"]),
        (tenant("limits: { max_turns: many }"), &["wrong-type"]),
        (tenant("limits: { calls_per_job: 0 }"), &["out-of-range"]),
        (tenant("limits: { tokens_per_job: 1.5 }"), &["out-of-range"]),
        (tenant("limits: { jobs_at_once: 0 }"), &["out-of-range"]),
        (tenant("run_as: -x"), &["invalid-name"]),
        (tenant("run_as: \"1001:x\""), &["invalid-name"]),
        (tenant("run_as: a b"), &["invalid-name"]),
    ];
    for (text, expected) in cases {
        assert_eq!(codes(text), *expected, "{text}");
    }
    let found = parse(&tenant("limits: { tool_timeout_ms: 1000 }"), "x").unwrap_err();
    assert_eq!(found[0].hint.as_deref(), Some("did you mean `tool_timeout`?"));
}

#[test]
fn every_limit_can_be_set() {
    let all = Limits { calls_per_job: Some(1), tokens_per_job: Some(1), ..Limits::default() };
    let keys = serde_json::to_value(all).unwrap();
    let known = keys.as_object().unwrap().keys().map(|key| key.replace("_ms", ""));
    let known: Vec<String> = known.chain(["jobs_at_once".to_owned()]).collect();
    assert_eq!(known, limits::LIMIT_KEYS);
    // A job without them has the same first record as before there were any.
    let keys = serde_json::to_value(Limits::default()).unwrap();
    assert!(["calls_per_job", "tokens_per_job"].iter().all(|key| keys.get(key).is_none()));
}

#[test]
fn the_servers_of_lifecycle_hooks_read_as_the_variable_does() {
    for (text, expected) in [
        ("", Servers::None),
        (" , ", Servers::None),
        ("*", Servers::All),
        (" * ", Servers::All),
        ("todo", Servers::Named(vec!["todo".into()])),
        (" b , a,b", Servers::Named(vec!["b".into(), "a".into()])),
    ] {
        assert_eq!(Servers::parse(text), Ok(expected), "{text:?}");
    }
    assert_eq!(Servers::parse("*,todo"), Err(ServersError));
    assert!(Servers::Named(vec!["a".into()]).allows("a") && !Servers::Named(vec!["a".into()]).allows("A"));
    assert!(Servers::All.allows("x") && !Servers::None.allows("x"));
}

fn plugin(text: &str) -> Parsed {
    crate::manifest::parse(text, Source { file: "plugin.yaml", folder_name: "p" }).unwrap()
}

#[test]
fn from_may_name_what_the_tenant_lists_and_nothing_else() {
    let p = plugin(
        "tools:\n  - id: a\n    mcp: [x]\n    env: { T: { from: A }, U: { from: B } }\n  - id: b\n    mcp: https://x.org\n    headers: { Authorization: { from: C } }",
    );
    let with = |secrets: Secrets| TenantConfig { secrets, ..TenantConfig::default() };
    assert!(check_secrets(&[&p], &with(Secrets::Any)).is_empty());
    let found = check_secrets(&[&p], &with(Secrets::Named(vec!["A".into()])));
    let places: Vec<_> = found.iter().map(|d| (d.code, d.line, d.column)).collect();
    assert_eq!(places, [(Code::SecretNotAllowed, 4, 31), (Code::SecretNotAllowed, 7, 31)]);
    assert_eq!(check_secrets(&[&p], &with(Secrets::Named(vec![]))).len(), 3);
}

#[test]
fn an_approver_that_is_nearly_a_group_is_a_warning() {
    let p = plugin("hooks: [{ on: job_end, call: a.b, approvers: [release, relase, alice, alise, carol] }]");
    let tenant =
        TenantConfig { groups: [("release".to_owned(), vec!["alice".to_owned()])].into(), ..TenantConfig::default() };
    let hints: Vec<_> = check_approvers(&[&p], &tenant).into_iter().map(|d| d.hint.unwrap()).collect();
    assert_eq!(hints, ["did you mean `release`?", "did you mean `alice`?"]);
}

#[test]
fn the_examples_of_the_guide_are_valid() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let guide = std::fs::read_to_string(root.join("configuration.md")).unwrap();
    let mut seen = 0;
    for block in guide.split("```yaml\n").skip(1) {
        let text = block.split("```").next().unwrap();
        seen += 1;
        assert_eq!(codes(text), Vec::<&str>::new(), "{text}");
    }
    assert!(seen >= 2);
}

#[test]
fn bytes_that_are_no_text_are_refused() {
    assert_eq!(parse_bytes(b"store: \xff", "x").unwrap_err()[0].code, Code::NotUtf8);
    assert!(parse_bytes(b"store: x", "x").is_ok());
}

fn compare(validator: &jsonschema::Validator, document: &Value) {
    let text = document.to_string();
    let parsed = parse(&text, "x");
    let valid = validator.is_valid(document);
    let structural =
        parsed.as_ref().err().is_some_and(|found| found.iter().any(|d| d.is_error() && d.code.is_structural()));
    assert!(valid || parsed.is_err(), "the parser accepts what the schema refuses: {text}");
    assert!(!(valid && structural), "the schema accepts a wrong shape: {text} {:?}", codes(&text));
}

#[test]
fn the_schema_and_the_parser_agree_wherever_one_value_is_another() {
    let validator = jsonschema::options().build(&schema::schema()).unwrap();
    let full = json!({
        "tenants": [{
            "id": "a", "plugins": ["x"], "lifecycle": {"servers": ["s"], "timeout": "1s", "max_rejections": 1}, "secrets": ["A"], "groups": {"g": ["p"]},
            "limits": {"calls_per_turn": 1, "parallel_calls": 1, "result_bytes": 1000, "tool_timeout": "1s", "reason_chars": 1, "event_bytes": "1MiB",
                "lifecycle_bytes": 1000, "message_bytes": "2MiB", "subagent_depth": 0, "max_turns": 1, "calls_per_job": 1, "tokens_per_job": 1, "jobs_at_once": 1},
            "run_as": "team-a",
        }],
        "store": "x", "socket": "y",
        "engine": {"temporal": {"address": "h:1", "namespace": "n", "queue": "q", "node": "i", "api_key": {"from": "K"},
            "tls": {"ca": "a", "cert": "b", "key": "c", "domain": "d"}}}, "log": {"filter": "info", "format": "text", "file": "z"},
    });
    assert!(validator.is_valid(&full) && parse(&full.to_string(), "x").is_ok());
    let strange = [
        json!(null),
        json!(true),
        json!(0),
        json!(-1),
        json!(1.5),
        json!(1.0),
        json!(1e15),
        json!([]),
        json!({}),
        json!([1]),
        json!([""]),
        json!(["a"]),
        json!(["*"]),
        json!({"a": ["b"]}),
        json!({"a b": ["c"]}),
        json!(""),
        json!(" "),
        json!("a"),
        json!("a b"),
        json!("*"),
        json!("~"),
        json!(" ~"),
        json!("~/x"),
        json!("1s"),
        json!("1"),
        json!("0s"),
        json!("1KiB"),
        json!("1 KiB"),
        json!("1kb"),
        json!("info"),
        json!("info, a::b=debug"),
        json!("a=b"),
        json!("json"),
        json!("temporal"),
        json!("embedded"),
        json!("A"),
        json!("ü"),
    ];
    let mut pointers = Vec::new();
    collect(&full, "", &mut pointers);
    for pointer in &pointers {
        for value in &strange {
            let mut document = full.clone();
            *document.pointer_mut(pointer).unwrap() = value.clone();
            compare(&validator, &document);
        }
        if let Some(map) = full.pointer(pointer).and_then(Value::as_object) {
            for key in map.keys() {
                let mut document = full.clone();
                document.pointer_mut(pointer).and_then(Value::as_object_mut).unwrap().shift_remove(key);
                compare(&validator, &document);
            }
            let mut document = full.clone();
            document.pointer_mut(pointer).and_then(Value::as_object_mut).unwrap().insert("more".into(), json!(["x"]));
            compare(&validator, &document);
        }
    }
}

fn collect(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(i, item)| collect(item, &format!("{at}/{i}"), found));
        }
        Value::Object(map) => map.iter().for_each(|(key, item)| collect(item, &format!("{at}/{key}"), found)),
        _ => {}
    }
}

use crate::diagnostic::Code;
