//! Every example: `ask` prints for `events/NAME.json` what `events/NAME.expected.json` says.
//! Those of lifecycle hooks run their agents.
//!
//! Those in Python and JavaScript need what `cargo xtask test` sets up, and run where `HOOKWRIGHT_TEST_TOOLS` says that it did.

use crate::support::{Finished, Running, World, repository};
use hookwright_testkit::bins;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

#[allow(clippy::disallowed_methods, reason = "says whether the tools of the tests are there")]
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// Puts all events of a plugin to it; how many there were.
fn asks_all(world: &World, plugin: &Path, settle: impl Fn(&mut std::process::Command)) -> usize {
    let mut events: Vec<PathBuf> =
        std::fs::read_dir(plugin.join("events")).unwrap().map(|e| e.unwrap().path()).collect();
    events.retain(|path| !path.to_string_lossy().ends_with(".expected.json"));
    events.sort();
    for event in &events {
        let args = [
            "ask".as_ref(),
            "--plugin".as_ref(),
            plugin,
            "--output".as_ref(),
            "json".as_ref(),
            "--event".as_ref(),
            event,
            "--expect".as_ref(),
            &event.with_extension("expected.json"),
        ];
        let mut command = world.hookwright(&args);
        settle(&mut command);
        Running::start(command).finish().code(0);
    }
    events.len()
}

#[test]
fn the_demos_events() {
    let world = World::new();
    std::fs::create_dir_all(world.path("demo/events")).unwrap();
    let example = repository("examples/demo");
    for file in ["plugin.yaml", "demo.yaml"] {
        std::fs::copy(example.join(file), world.path("demo").join(file)).unwrap();
    }
    for event in std::fs::read_dir(example.join("events")).unwrap() {
        let event = event.unwrap();
        std::fs::copy(event.path(), world.path("demo/events").join(event.file_name())).unwrap();
    }
    // `hookwright-demo` is the same servers as a program of its own.
    let hookwright = env!("CARGO_BIN_EXE_hookwright");
    let program = world.write("bin/hookwright-demo", format!("#!/bin/sh\nexec '{hookwright}' demo-server \"$@\"\n"));
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    world.call(&["demo", "--approve", "yes", "--dir", "demo/.demo"]).code(0);
    let mut folders = vec![world.path("bin")];
    folders.extend(std::env::split_paths(&variable("PATH").unwrap()));
    let path = std::env::join_paths(folders).unwrap();
    assert_eq!(
        asks_all(&world, &world.path("demo"), |command| {
            command.env("PATH", &path);
        }),
        5
    );
}

/// Puts all events of an example in Python, JavaScript or Rust to it, where the tools of the tests are there.
fn asks_example(name: &str, at_least: usize) {
    let Some(tools) = variable("HOOKWRIGHT_TEST_TOOLS") else { return };
    let world = World::new();
    let mut folders = vec![PathBuf::from(tools).join("venv/bin")];
    folders.extend(Path::new(env!("CARGO_BIN_EXE_hookwright")).parent().map(Path::to_owned));
    folders.extend(std::env::split_paths(&variable("PATH").unwrap()));
    let path = std::env::join_paths(folders).unwrap();
    if name == "signature" {
        let mut keygen = std::process::Command::new("hookwright-signer");
        keygen.args(["keygen", "--secret", "signer.key", "--public", "signer.pub"]);
        world.settle(&mut keygen);
        assert!(keygen.env("PATH", &path).status().unwrap().success());
    }
    let count = asks_all(&world, &repository(&format!("examples/{name}")), |command| {
        command.env("PATH", &path).env("SIGNER_KEY_FILE", world.path("signer.key"));
    });
    assert!(count >= at_least, "{count} events");
}

#[test]
fn the_events_of_policy() {
    asks_example("policy", 6);
}

#[test]
fn the_events_of_policy_fastmcp() {
    asks_example("policy-fastmcp", 3);
}

#[test]
fn the_events_of_policy_typescript() {
    asks_example("policy-typescript", 3);
}

#[test]
fn the_events_of_rules() {
    asks_example("rules", 9);
}

#[test]
fn the_events_of_risk_score() {
    asks_example("risk-score", 3);
}

#[test]
fn the_events_of_signature() {
    asks_example("signature", 2);
}

/// A job of an example's agent, with the program of another example on the PATH.
fn job(world: &World, program: &Path, settle: impl FnOnce(&mut std::process::Command), more: &[&str]) -> Finished {
    let mut folders = vec![world.path("bin"), program.parent().unwrap().to_owned()];
    folders.extend(std::env::split_paths(&variable("PATH").unwrap()));
    let mut command = world.job(more);
    settle(command.env("PATH", std::env::join_paths(folders).unwrap()).env("HOOKWRIGHT_HOOK_TIMEOUT_MS", "30000"));
    Running::start(command).finish()
}

fn to_do(agent: &str, servers: Option<&str>, more: &[&str]) -> (World, Finished) {
    let (world, program, plugin) = (World::new(), bins::example("todo"), repository("examples/todo"));
    let args = [&["--plugin", plugin.to_str().unwrap(), "--agent", agent], more].concat();
    let done = job(
        &world,
        &program,
        |command| {
            if let Some(servers) = servers {
                command.env("MCP_HOOK_SERVERS", servers);
            }
        },
        &args,
    );
    (world, done)
}

/// What lifecycle hooks said in a job, in order: the bodies as the model reads them.
fn bodies(done: &Finished) -> Vec<Value> {
    let answers = done
        .records("lifecycle_answered")
        .into_iter()
        .flat_map(|r| r["answers"].as_array().cloned().unwrap_or_default());
    let texts = answers.filter_map(|a| a["outcome"]["body"]["value"].as_str().map(str::to_owned));
    texts.map(|text| serde_json::from_str(&text).unwrap()).collect()
}

#[test]
fn the_to_do_lists_planner_is_reminded_by_stop_and_ends_when_nothing_is_open() {
    let (_world, done) = to_do("planner", Some("todo"), &[]);
    let done = done.code(0);
    assert_eq!(done.json()["output"], "The fault is mended and has a test. Everything on the list is done.");
    let text = "2 of 3 to-do items are open:\n2. mend the fault\n3. write a test\nDo them and `tick` them, or `drop` those that are \
                not needed and say why.";
    assert_eq!(bodies(&done), [json!({"hook": "_Stop", "server": "todo", "text": text})]);
    let last = done.records("lifecycle_answered").pop().unwrap();
    assert_eq!(last["answers"][0]["outcome"]["outcome"], "nothing", "it is asked again, and has nothing to say");
}

#[test]
fn without_the_variable_the_planner_ends_with_its_list_half_done() {
    let (_world, done) = to_do("planner", None, &[]);
    assert_eq!(done.code(0).json()["output"], "All done!");
}

#[test]
fn the_to_do_lists_keeper_gets_its_list_back_after_a_compaction_and_is_reminded_by_stop() {
    let (_world, done) = to_do("keeper", Some("todo"), &[]);
    let done = done.code(0);
    assert!(done.json()["output"].as_str().unwrap().ends_with("Everything on the list is done."));
    assert!(!done.records("compacted").is_empty());
    let said = bodies(&done);
    let hooks: Vec<&str> = said.iter().map(|body| body["hook"].as_str().unwrap()).collect();
    assert!(hooks.contains(&"_PostCompact") && hooks.contains(&"_Stop"), "{hooks:?}");
    let list = said[0]["text"].as_str().unwrap();
    assert!(
        list.starts_with("The to-do list, 2 of 5 done:\n1. [x] read the parser")
            && list.contains("5. [ ] run all tests"),
        "{list}"
    );
    let (_world, told) = to_do("keeper", Some("todo"), &["--output", "text"]);
    told.code(0).tells(&["compacted: ", "todo._PostCompact         says", "todo._Stop                objects"]);
}

#[test]
fn the_test_runner_objects_with_the_summary_until_the_tests_pass() {
    let (world, program, plugin) = (World::new(), bins::example("test-runner"), repository("examples/test-runner"));
    // The manifest's command is `cargo test`: here a suite in shell, which is red until the greeting is mended.
    let suite = "#!/bin/sh\nset -e\n[ \"$1\" = test ]\necho run >> runs\nif grep -q Hello greeting; then echo '1 passed'; \
                 else echo 'test greets ... FAILED'; echo '0 passed; 1 failed'; exit 101; fi\n";
    let cargo = world.write("bin/cargo", suite);
    std::fs::set_permissions(&cargo, std::fs::Permissions::from_mode(0o755)).unwrap();
    let greeting = world.write("project/greeting", "Helo\n");
    let mend = json!({"name": "mend", "inputSchema": {"type": "object"},
        "behaviour": [{"append": {"file": greeting, "line": "Hello"}}, {"text": "written"}]});
    let objection = "(?s)^\\{\"hook\":\"_Stop\",\"server\":\"tests\",\"text\":\"The tests failed with exit code 101.*0 passed; 1 failed.*run_tests`\\.\"\\}$";
    crate::support::Plugin::new("mender")
        .server("files", json!([mend]))
        .agent(json!({"tools": ["files", "tests"]}))
        .turns(json!([
            {"call": {"tool": "tests.run_tests"}},
            {"expect": "0 passed; 1 failed", "say": "That is good enough."},
            {"expect": {"matches": objection}, "say": "I mend it.", "call": {"tool": "files.mend"}},
            {"expect": "written", "say": "Mended, I am sure."},
            {"expect": {"matches": objection}, "say": "I run the tests.", "call": {"tool": "tests.run_tests"}},
            {"expect": "The tests passed. The end of their output:\n1 passed", "say": "The tests pass."},
        ]))
        .save(&world);
    let done = job(
        &world,
        &program,
        |command| {
            command.env("MCP_HOOK_SERVERS", "tests").env("PROJECT_FOLDER", world.path("project"));
        },
        &["--plugin", plugin.to_str().unwrap(), "--agent", "worker"],
    )
    .code(0);
    assert_eq!(done.json()["output"], "The tests pass.");
    assert_eq!(bodies(&done).len(), 2, "it objects until the tests were run again, and passed");
    assert_eq!(
        std::fs::read_to_string(world.path("project/runs")).unwrap().lines().count(),
        2,
        "the hook runs nothing itself"
    );
}
