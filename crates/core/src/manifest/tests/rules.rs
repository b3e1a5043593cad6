//! One test for each rule of SPEC §2, with the texts that keep and break it.

use super::*;

/// A hook with some lines of its own.
fn hook(lines: &str) -> String {
    format!("hooks:\n  - on: pre_tool_call\n    call: a.b\n    {lines}\n")
}

fn tool(lines: &str) -> String {
    format!("tools:\n  - id: a\n    mcp: [b]\n    {lines}\n")
}

fn http(lines: &str) -> String {
    format!("tools:\n  - id: a\n    mcp: https://example.com/mcp\n    {lines}\n")
}

fn agent(lines: &str) -> String {
    format!("agents:\n  - id: a\n    model: p/m\n    {lines}\n")
}

/// Each text gives exactly the codes.
fn table(cases: &[(String, &[&str])]) {
    for (text, expected) in cases {
        assert_eq!(codes(text), *expected, "{text}\n{}", rendered(text));
        let is_error = read(text).is_err();
        let warnings_only = expected.iter().all(|code| {
            [
                "maybe-secret",
                "no-interpolation",
                "plain-http",
                "pattern-fits-nothing",
                "duplicate-entry",
                "nothing-declared",
            ]
            .contains(code)
        });
        assert_eq!(is_error, !warnings_only, "{text}");
    }
}

fn hint_of(text: &str) -> String {
    read(text).unwrap_err()[0].hint.clone().unwrap_or_default()
}

#[test]
fn an_unknown_key_is_an_error_with_the_nearest_one() {
    for (text, hint) in [
        ("tool: []".to_owned(), "did you mean `tools`?"),
        (hook("timout: 2s"), "did you mean `timeout`?"),
        (hook("on-timeout: deny"), "did you mean `on_timeout`?"),
        (hook("Timeout: 2s"), "did you mean `timeout`?"),
        (hook("match: { tool: [a.b] }"), "did you mean `tools`?"),
        (tool("startTimeout: 2s"), "did you mean `start_timeout`?"),
        (tool("env: { A: { form: B } }"), "did you mean `from`?"),
        (agent("max_token: 2"), "did you mean `max_tokens`?"),
        (agent("sub_agents: []"), "did you mean `subagents`?"),
    ] {
        assert_eq!(codes(&text)[0], "unknown-key", "{text}");
        assert_eq!(hint_of(&text), hint, "{text}");
    }
    assert_eq!(hint_of("zzzzzz: 1"), "the keys of the manifest are id, tools, hooks, agents");
}

#[test]
fn a_missing_key_is_an_error_that_names_it() {
    table(&[
        ("tools: [{ id: a }]".into(), &["missing-key"]),
        ("tools: [{ mcp: [a] }]".into(), &["missing-key"]),
        ("tools: [{}]".into(), &["missing-key", "missing-key"]),
        ("hooks: [{ on: job_end }]".into(), &["missing-key"]),
        ("hooks: [{ call: a.b }]".into(), &["missing-key"]),
        ("agents: [{ model: p/m }]".into(), &["missing-key"]),
        ("agents: [{ id: a }]".into(), &["missing-key"]),
        (tool("env: { A: {} }"), &["missing-key"]),
    ]);
}

#[test]
fn a_value_of_another_type_is_an_error() {
    table(&[
        ("[]".into(), &["wrong-type"]),
        ("text".into(), &["wrong-type"]),
        ("tools: {}".into(), &["wrong-type"]),
        ("tools:".into(), &["wrong-type"]),
        ("hooks: [a]".into(), &["wrong-type"]),
        ("id: 7".into(), &["wrong-type"]),
        ("tools: [{ id: a, mcp: 7 }]".into(), &["wrong-type"]),
        ("tools: [{ id: a, mcp: [a, 7] }]".into(), &["wrong-type"]),
        (tool("env: []"), &["wrong-type"]),
        (tool("env: { A: 1 }"), &["wrong-type"]),
        (tool("env: { A: true }"), &["wrong-type"]),
        (tool("env: { A: null }"), &["wrong-type"]),
        (tool("trust_annotations: yes"), &["wrong-type"]),
        (tool("idempotent: list"), &["wrong-type"]),
        (hook("match: [a.b]"), &["wrong-type"]),
        (hook("match: { tools: a.b }"), &["wrong-type"]),
        (hook("match: { agents: [7] }"), &["wrong-type"]),
        ("hooks: [{ on: [job_end], call: a.b }]".into(), &["wrong-type"]),
        (agent("max_turns: \"7\""), &["wrong-type"]),
        (agent("input_schema: true"), &["wrong-type"]),
    ]);
}

#[test]
fn the_id_defaults_to_the_folders_name() {
    assert_eq!(read("tools: []").unwrap().manifest.id, "demo");
    assert_eq!(read("id: other").unwrap().manifest.id, "other");
    let odd = Source { file: "plugin.yaml", folder_name: "my plugin" };
    assert_eq!(parse("tools: []", odd).unwrap_err()[0].code, Code::InvalidId);
    assert!(parse("id: x", odd).is_ok());
    table(&[
        ("id: ''".into(), &["invalid-id"]),
        ("id: a.b".into(), &["invalid-id"]),
        ("id: -a".into(), &["invalid-id"]),
        (format!("id: {}", "x".repeat(65)), &["invalid-id"]),
        (format!("id: {}", "x".repeat(64)), &["nothing-declared"]),
    ]);
}

#[test]
fn a_timeout_over_30s_or_zero_is_an_error_never_clamped() {
    let ms = |text: &str| read(&hook(&format!("timeout: {text}"))).unwrap().manifest.hooks[0].timeout_ms;
    for (text, expected) in
        [("1ms", 1), ("500ms", 500), ("2s", 2_000), ("1.5s", 1_500), ("30s", 30_000), ("0.5m", 30_000), ("0.1ms", 1)]
    {
        assert_eq!(ms(text), expected, "{text}");
    }
    for (text, code) in [
        ("31s", "duration-range"),
        ("30.001s", "duration-range"),
        ("1m", "duration-range"),
        ("0s", "duration-range"),
        ("0ms", "duration-range"),
        ("999999999999d", "duration-range"),
        ("2", "missing-unit"),
        ("\"2\"", "missing-unit"),
        ("0", "missing-unit"),
        ("2.5", "missing-unit"),
        ("2 s", "invalid-duration"),
        ("2S", "invalid-duration"),
        ("-2s", "invalid-duration"),
        ("2sec", "invalid-duration"),
        ("s", "invalid-duration"),
        ("\"\"", "invalid-duration"),
        ("1m30s", "invalid-duration"),
        ("2.s", "invalid-duration"),
        ("never", "invalid-duration"),
        ("[2s]", "wrong-type"),
        ("", "wrong-type"),
    ] {
        assert_eq!(codes(&hook(&format!("timeout: {text}"))), [code], "{text}");
    }
    assert_eq!(hint_of(&hook("timeout: 2")), "write 2s for seconds or 2ms for milliseconds");
    assert_eq!(hint_of(&hook("timeout: 2 S")), "write 2s");
    assert_eq!(read(&hook("expires: 1h")).unwrap().manifest.hooks[0].timeout_ms, 2_000);
}

#[test]
fn on_timeout_is_deny_unless_it_says_otherwise() {
    let of = |text: &str| read(&hook(text)).unwrap().manifest.hooks[0].on_timeout;
    assert_eq!(of("timeout: 1s"), OnTimeout::Deny);
    assert_eq!(of("on_timeout: deny"), OnTimeout::Deny);
    assert_eq!(of("on_timeout: allow"), OnTimeout::Allow);
    assert_eq!(of("on_timeout: escalate"), OnTimeout::Escalate);
    table(&[
        (hook("on_timeout: Allow"), &["unknown-value"]),
        (hook("on_timeout: ask"), &["unknown-value"]),
        (hook("on_timeout: true"), &["wrong-type"]),
        (hook("on_timeout:"), &["wrong-type"]),
    ]);
}

#[test]
fn expires_is_up_to_30_days_and_by_default_24_hours() {
    let of = |text: &str| read(&hook(text)).unwrap().manifest.hooks[0].expires_ms;
    assert_eq!(of("timeout: 1s"), 86_400_000);
    assert_eq!(of("expires: 30d"), MAX_EXPIRES_MS);
    assert_eq!(of("expires: 1s"), 1_000);
    table(&[(hook("expires: 31d"), &["duration-range"]), (hook("expires: 0s"), &["duration-range"])]);
    assert!(rendered(&hook("expires: 31d")).contains("expected at most 30d"));
}

#[test]
fn start_timeout_is_up_to_10_minutes_and_by_default_30_seconds() {
    let of = |text: &str| read(&tool(text)).unwrap().manifest.tools[0].start_timeout_ms;
    assert_eq!(of("scope: node"), 30_000);
    assert_eq!(of("start_timeout: 10m"), 600_000);
    table(&[(tool("start_timeout: 11m"), &["duration-range"]), (tool("start_timeout: 0s"), &["duration-range"])]);
}

#[test]
fn an_empty_match_is_an_error() {
    table(&[
        (hook("match: {}"), &["empty-list"]),
        (hook("match:"), &["wrong-type"]),
        (hook("match: { tools: [] }"), &["empty-list"]),
        (hook("match: { agents: [] }"), &["empty-list"]),
        (hook("match: { tools: [], agents: [] }"), &["empty-list", "empty-list"]),
        (hook("match: { tools: [''] }"), &["empty-text"]),
        (hook("match: { tools: [' '] }"), &["empty-text"]),
        (hook("match: { tools: [\"a.b\\n\"] }"), &["invalid-text"]),
    ]);
    assert_eq!(read(&hook("timeout: 1s")).unwrap().manifest.hooks[0].matches, Match::default());
}

#[test]
fn tools_on_a_job_event_are_an_error() {
    for on in ["job_start", "job_end"] {
        let text = format!("hooks: [{{ on: {on}, call: a.b, match: {{ tools: [\"*\"], agents: [a] }} }}]");
        assert_eq!(codes(&text), ["tools-on-job-event"]);
    }
    for on in ["pre_tool_call", "post_tool_call"] {
        let text = format!("hooks: [{{ on: {on}, call: a.b, match: {{ tools: [\"*\"], agents: [a] }} }}]");
        assert!(codes(&text).is_empty());
    }
}

#[test]
fn a_pattern_that_can_fit_no_function_is_a_warning() {
    table(&[
        (hook("match: { tools: [github] }"), &["pattern-fits-nothing"]),
        (hook("match: { tools: [github.*] }"), &[]),
        (hook("match: { tools: [git*] }"), &[]),
        (hook("match: { tools: [a.b, a.b] }"), &["duplicate-entry"]),
    ]);
}

#[test]
fn call_is_one_policy_function_by_its_full_name() {
    let case = |call: &str| format!("hooks: [{{ on: job_end, call: {call} }}]");
    table(&[
        (case("policy"), &["invalid-call"]),
        (case("policy."), &["invalid-call"]),
        (case(".check"), &["invalid-call"]),
        (case("\"a b.check\""), &["invalid-call"]),
        (case("policy.*"), &["invalid-call"]),
        (case("''"), &["empty-text"]),
        (case("todo._Stop"), &["lifecycle-call"]),
        (case("todo._check"), &["lifecycle-call"]),
        (case("claude-code.Bash"), &["reserved-id"]),
        (case("hookwright.x"), &["reserved-id"]),
        (case("agent.x"), &["reserved-id"]),
        (case("policy.check.deep"), &[]),
        (case("policy.übung"), &[]),
    ]);
}

#[test]
fn tool_ids_are_ids_unique_and_not_reserved() {
    let case = |id: &str| format!("tools: [{{ id: {id}, mcp: [a] }}]");
    for id in reserved::HARNESSES.into_iter().chain(reserved::BUILT_IN) {
        assert_eq!(codes(&case(id)), ["reserved-id"], "{id}");
    }
    table(&[
        (case("a.b"), &["invalid-id"]),
        (case("\"a b\""), &["invalid-id"]),
        (case("_a"), &["invalid-id"]),
        (case("Codex"), &[]),
        ("tools: [{ id: a, mcp: [a] }, { id: a, mcp: [b] }]".into(), &["duplicate-id"]),
        // Also beside other faults.
        ("tools: [{ id: a, mcp: [] }, { id: a, mcp: [b] }]".into(), &["empty-list", "duplicate-id"]),
        ("agents: [{ id: a, model: p/m }, { id: a, model: p/m }]".into(), &["duplicate-id"]),
    ]);
}

#[test]
fn mcp_is_a_command_or_an_http_address() {
    let case = |mcp: &str| format!("tools: [{{ id: a, mcp: {mcp} }}]");
    table(&[
        (case("[]"), &["empty-list"]),
        (case("['']"), &["empty-text"]),
        (case("[a, '']"), &[]),
        (case("[\"a\\0b\"]"), &["invalid-text"]),
        (case("[a, \"a\\0b\"]"), &["invalid-text"]),
        (case("python -m x"), &["invalid-url"]),
        (case("''"), &["invalid-url"]),
        (case("ftp://example.com"), &["invalid-url"]),
        (case("HTTPS://example.com"), &["invalid-url"]),
        (case("https://"), &["invalid-url"]),
        (case("https:///mcp"), &["invalid-url"]),
        (case("https://exa mple.com"), &["invalid-url"]),
        (case("https://example.com:0/mcp"), &["invalid-url"]),
        (case("https://example.com:99999/mcp"), &["invalid-url"]),
        (case("\"https://example.com/mcp#x\""), &["invalid-url"]),
        (case("https://user@example.com/mcp"), &["invalid-url"]),
        (case("https://user:pw@example.com/mcp"), &["secret-in-manifest"]),
        (case("https://example.com/mcp?key=sk-abcdefghijkl"), &["secret-in-manifest"]),
        (case("https://example.com"), &[]),
        (case("\"http://[::1]:8080/mcp?x=1\""), &[]),
        (case("\"http://[::zz]/mcp\""), &["invalid-url"]),
        (case("https://bücher.example/mcp"), &[]),
    ]);
    assert_eq!(hint_of(&case("python -m x")), "write a command as a list: [\"python\", \"-m\", \"x\"]");
}

#[test]
fn env_is_for_commands_and_headers_are_for_http() {
    table(&[
        (tool("headers: {}"), &["key-conflict"]),
        (http("env: {}"), &["key-conflict"]),
        (http("env: { A: ghp_abcdef123456 }"), &["key-conflict", "secret-in-manifest"]),
        (tool("env: {}"), &[]),
        (http("headers: {}"), &[]),
    ]);
}

#[test]
fn names_and_values_of_env_and_headers_are_checked() {
    table(&[
        (tool("env: { 1A: x }"), &["invalid-name"]),
        (tool("env: { A-B: x }"), &["invalid-name"]),
        (tool("env: { \"\": x }"), &["invalid-name"]),
        (tool("env: { \"A=B\": x }"), &["invalid-name"]),
        (tool("env: { A: \"x\\0\" }"), &["invalid-text"]),
        (tool("env: { A: \"x\\n\" }"), &[]),
        (tool("env: { A: { from: A-B } }"), &["invalid-name"]),
        (tool("env: { A: { from: $B } }"), &["invalid-name"]),
        (tool("env: { A: { from: [B] } }"), &["wrong-type"]),
        (http("headers: { \"X Y\": x }"), &["invalid-name"]),
        (http("headers: { \"X:\": x }"), &["invalid-name"]),
        (http("headers: { X: \"a\\r\\nSet-Cookie: b\" }"), &["invalid-text"]),
        (http("headers: { X: \"a\\nb\" }"), &["invalid-text"]),
        (http("headers: { X: \"a\\0b\" }"), &["invalid-text"]),
        (http("headers: { X: a, x: b }"), &["duplicate-key"]),
        (http("headers: { Host: a }"), &["reserved-header"]),
        (http("headers: { mcp-session-id: a }"), &["reserved-header"]),
        (http("headers: { Content-Length: \"1\" }"), &["reserved-header"]),
    ]);
}

#[test]
fn a_secret_never_stands_in_a_manifest() {
    for secret in [
        "sk-abcdef123456",
        "sk-ant-api03-abc_def",
        "ghp_abcdef123456",
        "github_pat_11ABC_def",
        "AKIAIOSFODNN7EXAMPLE",
        "Bearer abc",
        "Bearer ${TOKEN}",
        "xoxb-1234567890-abc",
        "\"-----BEGIN RSA PRIVATE KEY-----\\nMIIE\"",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abcdefghijk",
        "postgres://user:hunter2@db/x",
    ] {
        // `Bearer` needs what could be a token after it.
        let expected: &[&str] = if secret.contains('$') { &["no-interpolation"] } else { &["secret-in-manifest"] };
        let text = tool(&format!(
            "env: {{ A: {} }}",
            if secret.starts_with('"') { secret.into() } else { format!("'{secret}'") }
        ));
        assert_eq!(codes(&text), expected, "{secret}");
    }
    table(&[
        (http("headers: { Authorization: Basic abc }"), &["secret-in-manifest"]),
        (http("headers: { authorization: x }"), &["secret-in-manifest"]),
        (http("headers: { Cookie: a=b }"), &["secret-in-manifest"]),
        (http("headers: { X-Api-Key: x }"), &["secret-in-manifest"]),
        (http("headers: { Authorization: { from: A } }"), &[]),
        (tool("env: { A: { from: ghp_abcdef123456 } }"), &[]),
        ("tools: [{ id: a, mcp: [b, --token, ghp_abcdef123456] }]".into(), &["secret-in-manifest"]),
        (tool("env: { LANG: sk-SK, A: ask-me-anything, B: task-0123456789, C: Bearer }"), &[]),
        (tool("env: { GITHUB_TOKEN: x }"), &["maybe-secret"]),
        (tool("env: { TOKENS: x, GITHUB_TOKEN: '' }"), &[]),
        (tool("env: { A: \"${HOME}/x\" }"), &["no-interpolation"]),
        ("tools: [{ id: a, mcp: \"http://example.com/mcp\", headers: { X: { from: A } } }]".into(), &["plain-http"]),
        ("tools: [{ id: a, mcp: \"http://localhost:80/mcp\", headers: { X: { from: A } } }]".into(), &[]),
    ]);
}

#[test]
fn a_secret_is_never_repeated_in_what_is_said_of_it() {
    for text in [
        tool("env: { A: ghp_abcdef123456, 1B: x }"),
        tool("env: { GITHUB_TOKEN: abcdef123456 }"),
        http("headers: { Authorization: abcdef123456 }"),
        "tools: [{ id: a, mcp: https://u:abcdef123456@example.com }]".into(),
        "tools: [{ id: ghp_abcdef123456.x, mcp: [a] }]".into(),
        "ghp_abcdef123456: 1".into(),
        hook("timeout: sk-abcdef123456"),
        tool("env: { A: \"-----BEGIN PRIVATE KEY-----\\nabcdef123456\" }"),
    ] {
        let shown = rendered(&text);
        assert!(!shown.is_empty() && !shown.contains("abcdef123456"), "{shown}");
    }
}

#[test]
fn an_agent_has_exactly_one_of_model_and_harness() {
    table(&[
        ("agents: [{ id: a, model: p/m, harness: codex }]".into(), &["key-conflict"]),
        ("agents: [{ id: a, harness: codecs }]".into(), &["unknown-value"]),
        ("agents: [{ id: a, harness: codex }]".into(), &[]),
        ("agents: [{ id: a, model: gpt }]".into(), &["invalid-model"]),
        ("agents: [{ id: a, model: /gpt }]".into(), &["invalid-model"]),
        ("agents: [{ id: a, model: openai/ }]".into(), &["invalid-model"]),
        ("agents: [{ id: a, model: 'my script/x' }]".into(), &["invalid-model"]),
        ("agents: [{ id: a, model: openrouter/meta/llama }]".into(), &[]),
        ("agents: [{ id: a, model: script/my demo.yaml }]".into(), &[]),
    ]);
}

#[test]
fn declared_schemas_are_json_schemas_that_can_be_used() {
    table(&[
        (agent("input_schema: { type: objekt }"), &["invalid-schema"]),
        (agent("input_schema: { minimum: .inf }"), &["invalid-schema"]),
        (agent("output_schema: { pattern: '(' }"), &["invalid-schema"]),
        (agent("output_schema: { $ref: 'https://example.com/x.json' }"), &["invalid-schema"]),
        (agent("output_schema: { $ref: '#/$defs/a', $defs: { a: { type: string } } }"), &[]),
        (agent("output_schema: {}"), &[]),
    ]);
    let large = format!("output_schema: {{ enum: [{}] }}", "1,".repeat(6_000));
    assert_eq!(codes(&agent(&large)), ["invalid-schema"]);
    let found = read(&agent("input_schema:\n      properties:\n        n:\n          minLength: -1")).unwrap_err();
    assert_eq!((found[0].line, found[0].column), (7, 22));
}

#[test]
fn a_harness_has_a_command_and_variables_and_a_model_has_none() {
    let harness = |keys: &str| format!("agents:\n  - id: a\n    harness: claude-agent-sdk\n    {keys}");
    table(&[
        (harness("command: [claude]"), &[]),
        (harness("env: { KEY: { from: KEY } }"), &[]),
        (harness("command: claude"), &["wrong-type"]),
        (harness("command: []"), &["empty-list"]),
        (harness("command: ['']"), &["empty-text"]),
        (harness("env: [KEY]"), &["wrong-type"]),
        (harness("command: [claude, sk-ant-api03-0123456789abcdefghijklmnop]"), &["secret-in-manifest"]),
        (agent("command: [claude]"), &["key-conflict"]),
        (agent("env: {}"), &["key-conflict"]),
    ]);
}

#[test]
fn numbers_are_whole_and_more_than_zero() {
    table(&[
        (agent("max_turns: 0"), &["out-of-range"]),
        (agent("max_turns: -1"), &["out-of-range"]),
        (agent("max_turns: 1.5"), &["out-of-range"]),
        (agent("max_turns: 99999999999999999999"), &["out-of-range"]),
        (agent("max_tokens: 0"), &["out-of-range"]),
        (agent("context_window: 0"), &["out-of-range"]),
        (agent("context_window: 100000001"), &["out-of-range"]),
        (agent("context_window: 8k"), &["wrong-type"]),
        (agent("max_tokens: .nan"), &["wrong-type"]),
        (agent("max_turns: 1"), &[]),
        (agent("max_turns: 0x10"), &[]),
    ]);
}

#[test]
fn lists_of_an_agent_and_a_tool_are_checked() {
    table(&[
        (agent("tools: []"), &[]),
        (agent("tools: [github, 'github.*']"), &[]),
        (agent("tools: ['']"), &["empty-text"]),
        (agent("tools: github"), &["wrong-type"]),
        (agent("subagents: ['*']"), &["invalid-id"]),
        (agent("instructions: ' '"), &["empty-text"]),
        (agent("instructions: |\n      two\n      lines"), &[]),
        (agent("description: \"a\\u001b\""), &["invalid-text"]),
        (tool("idempotent: []"), &[]),
        (tool("idempotent: [a, a]"), &["duplicate-entry"]),
        (tool("scope: nodes"), &["unknown-value"]),
        (tool("passes: [resources, prompts, completions, logging, sampling, elicitation, roots]"), &[]),
        (tool("passes: []"), &["empty-list"]),
        (tool("passes: [tools]"), &["unknown-value"]),
        (tool("passes: [roots, roots]"), &["duplicate-entry"]),
        (tool("passes: [resources, prompts]\n    scope: node"), &[]),
        (tool("passes: [resources, roots]\n    scope: node"), &["key-conflict"]),
        (tool("passes: [roots]\n    scope: session"), &[]),
        (hook("approvers: []"), &["empty-list"]),
        (hook("approvers: ['']"), &["empty-text"]),
    ]);
}

#[test]
fn a_manifest_that_declares_nothing_is_a_warning() {
    table(&[("id: x".into(), &["nothing-declared"]), ("{}".into(), &["nothing-declared"])]);
}
