//! Inputs from which the driver begins.

/// Manifests and configurations.
pub const MANIFESTS: &[&[u8]] = &[
    include_bytes!("../../src/manifest/tests/spec.yaml"),
    include_bytes!("../../src/manifest/tests/bad.yaml"),
    b"hooks:\n  - &a { on: job_end, call: a.b, timeout: 3s }\n  - { <<: *a, call: a.c }\n  - <<: [{ on: job_start }, *a]\n",
    b"agents:\n  - id: a\n    model: p/m\n    instructions: |\n      two\n      lines\n    input_schema: { type: object, properties: { n: { type: integer } } }\n",
    b"tenants:\n  - id: team\n    plugins: [a, b]\n    lifecycle: { servers: '*', timeout: 3s }\n    secrets: [A]\n    groups: { g: [x] }\n    limits: { result_bytes: 50KiB, tool_timeout: 5m }\nlog: { filter: 'a=info', format: json }\n",
    b"{\"id\": \"x\", \"tools\": [{\"id\": \"a\", \"mcp\": [\"b\"], \"env\": {\"A\": \"${B}\", \"T\": \"Bearer abc\"}}]}",
    b"a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b, *c]\n? [k]\n: !!str 7\n",
];

/// What hooks answer.
pub const ANSWERS: &[&[u8]] = &[
    br#"{"decision":"allow"}"#,
    br#"{"decision":"deny","reason":"no \u001b[31m"}"#,
    br#"{"decision":"modify","arguments":{"branch":"dev"}}"#,
    br#"{"decision":"modify","output":"x","input":"y","result":[{"type":"text","text":"z"}]}"#,
    br#"{"decision":"escalate","reason":"a push to main"}"#,
    br#"{"result":{"decision":"allow"}}"#,
    br#"{"result":"{\"decision\":\"allow\"}"}"#,
    br#"{"decision":"allow","decision":"deny"}"#,
    br#"{"decision":"ALLOW"}"#,
    br#"{"content":[{"type":"text","text":"{\"decision\":\"allow\"}"}],"isError":false}"#,
    br#"{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"decision":"allow"}"#,
    br#"[null,true,1e400,"allow"]"#,
];
